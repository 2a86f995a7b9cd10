"""What leads from a folder back to the tree in which it was made: an editable install, a link to a
workspace, a configured build. Used by another tree, it has that tree's gates judge this one.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

_SCAN_S = 10.0  # some 500,000 entries; what lies deepest is looked at last
_LARGEST = 1 << 20  # bytes of a file that is read
_LIBRARIES = ("site-packages", "dist-packages")  # Python reads what lies at their top alone
_ABOUT = (".dist-info", ".egg-info")
_INSTALLED = "direct_url.json"  # pip's; of what was no folder it holds no `dir_info`
_NAMING = re.compile(rf".+\.(pth|egg-link)|__editable__.+\.py|CMakeCache\.txt|{_INSTALLED}")


@dataclass(frozen=True, slots=True)
class Origin:
    """The tree. Both with no link in them; `free`: what a task's work never is."""

    root: Path
    free: tuple[Path, ...]
    spelled: re.Pattern[bytes]  # a path of the tree, as files may name it

    def traced(self, folder: Path, *, linked: bool) -> str:
        """The first file or link below the folder that leads back, by its path there; empty where
        none does. `linked`: what is relative there is seen from where it lies, not from a copy.
        """
        if folder.is_symlink() and self._links(folder, linked=linked):
            return os.readlink(folder)
        top = os.path.realpath(folder)
        for entry in _entries(top):
            leads = self._links if entry.is_symlink() else self._names
            if leads(entry, linked=linked):
                return os.path.relpath(entry.path, top)
        return ""

    def _links(self, link: "Path | os.DirEntry[str]", *, linked: bool) -> bool:
        return (linked or os.path.isabs(os.readlink(link))) and self._holds(os.fspath(link))

    def _names(self, file: "os.DirEntry[str]", *, linked: bool) -> bool:
        if not _NAMING.fullmatch(file.name):
            return False
        try:
            with open(file.path, "rb") as opened:
                data = unquote_to_bytes(opened.read(_LARGEST))
        except OSError:
            return False
        if file.name == _INSTALLED and b"dir_info" not in data:
            return False
        return any(self._holds(os.fsdecode(path)) for path in self.spelled.findall(data))

    def _holds(self, path: str) -> bool:
        place = Path(os.path.realpath(path))
        return place.is_relative_to(self.root) and not any(map(place.is_relative_to, self.free))


def of(root: Path, free: Iterable[Path]) -> Origin:
    """`free`: folders of the tree; one that is a link frees nothing."""
    real = os.path.realpath(root)
    folders = tuple(Path(os.path.realpath(one)) for one in free if not one.is_symlink())
    roots = b"|".join(re.escape(os.fsencode(one)) for one in {str(root), real})
    return Origin(Path(real), folders, re.compile(rb"(?:%s)(?![\w.-])[^\s'\";:,\0]*" % roots))


def _entries(top: str) -> Iterator["os.DirEntry[str]"]:
    """All that lies below, the upper ones first, as far as there is time; no link is followed."""
    until = time.monotonic() + _SCAN_S
    folders = [top]
    for folder in folders:
        if time.monotonic() > until:
            return
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        yield from entries
        library = os.path.basename(folder) in _LIBRARIES
        folders += [
            entry.path
            for entry in entries
            if entry.is_dir(follow_symlinks=False) and (not library or entry.name.endswith(_ABOUT))
        ]
