"""What leads from a folder back to the tree in which it was made: an editable install, a link to a
workspace, a configured build. Used by another tree, it has that tree's gates judge this one.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SCAN_S = 10.0  # some 500,000 entries; what lies deepest is looked at last
_LARGEST = 1 << 20  # bytes of a file that is read
_LIBRARIES = ("site-packages", "dist-packages")  # Python reads what lies at their top alone
_ABOUT = (".dist-info", ".egg-info")
_IMPORTED = re.compile(rb"^import\s+(\w+)", re.M)


@dataclass(frozen=True, slots=True)
class Origin:
    """The tree. Both with no link in them; `free`: what a task's work never is."""

    root: Path
    free: tuple[Path, ...] = ()
    spelled: tuple[str, ...] = ()  # the root, as files may name it

    def traced(self, folder: Path, *, linked: bool) -> str:
        """The first file or link below the folder that leads back, by its path there; empty where
        none does. `linked`: what is relative there is seen from where it lies, not from a copy.
        """
        if folder.is_symlink() and self._by_link(folder, linked=linked):
            return os.readlink(folder)
        top = os.path.realpath(folder)
        for entry in _entries(top):
            if entry.is_symlink():
                back = self._by_link(entry, linked=linked)
            else:
                reads = _READERS.get(entry.name) or _READERS.get(os.path.splitext(entry.name)[1])
                back = reads is not None and any(map(self._holds, reads(Path(entry.path), self)))
            if back:
                return os.path.relpath(entry.path, top)
        return ""

    def named(self, data: bytes) -> list[str]:
        """The paths of the tree that a text holds."""
        found = []
        for root in self.spelled:
            whole = re.escape(os.fsencode(root)) + rb"(?![\w.-])[^\s'\";:,\0]*"
            found += [os.fsdecode(match) for match in re.findall(whole, data)]
        return found

    def _by_link(self, link: "Path | os.DirEntry[str]", *, linked: bool) -> bool:
        return (linked or os.path.isabs(os.readlink(link))) and self._holds(os.fspath(link))

    def _holds(self, path: str) -> bool:
        place = Path(os.path.realpath(path))
        return place.is_relative_to(self.root) and not any(map(place.is_relative_to, self.free))


def of(root: Path, free: Iterable[Path]) -> Origin:
    """`free`: folders of the tree; one that is a link frees nothing."""
    real = os.path.realpath(root)
    folders = tuple(Path(os.path.realpath(one)) for one in free if not one.is_symlink())
    return Origin(Path(real), folders, tuple({str(root), real}))


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


# ---------------------------------------------------------------- files that name a tree


def _path_file(file: Path, origin: Origin) -> Iterable[str]:
    """Of Python: a path in each line, or an import, of a module beside it as a rule."""
    data = _read(file)
    yield from origin.named(data)
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip() and not line.startswith(("#", "import", "/")):
            yield str(file.parent / line.strip())
    for name in _IMPORTED.findall(data):
        yield from origin.named(_read(file.parent / f"{name.decode()}.py"))


def _installed_from(file: Path, origin: Origin) -> Iterable[str]:
    """Of pip: a folder that was installed from, whatever was copied of it."""
    try:
        found = json.loads(_read(file))
        url = urlsplit(found["url"])
        return [unquote(url.path)] if "dir_info" in found and url.scheme == "file" else []
    except (ValueError, TypeError, KeyError):
        return []


def _build(file: Path, origin: Origin) -> Iterable[str]:
    return origin.named(_read(file))


_READERS = {
    ".pth": _path_file,
    ".egg-link": _path_file,
    "direct_url.json": _installed_from,
    "CMakeCache.txt": _build,
}


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST)
    except OSError:
        return b""
