"""What an agent with full access could do to git itself: plant configuration and hooks (kept as a
tree, put back), and push (refused).
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from kern import workspace
from kern.repo import Entry, Repo

_HOOK = "hooks:"  # a slash would be a level of its own
_HIDING = "ignore:"


def take(repo: Repo, hiding: Mapping[str, Entry]) -> str:
    """git's own configuration, exclude and attribute files and hooks as a flat tree; and the
    .gitignore files that hide themselves, so that a snapshot can do without them.
    """
    hidden = {_HIDING + quote(os.fsencode(path), safe=""): e for path, e in hiding.items()}
    found = sorted({**_read(repo), **hidden}.items())
    lines = (f"{e.mode} blob {e.blob}\t{name}\0" for name, e in found)
    return repo.text("mktree", "-z", given=os.fsencode("".join(lines)))


def hiding(repo: Repo, guard: str) -> dict[str, Entry]:
    """What `take` was told of .gitignore files."""
    return {
        os.fsdecode(unquote_to_bytes(name.removeprefix(_HIDING))): entry
        for name, entry in repo.entries(guard).items()
        if name.startswith(_HIDING)
    }


def restore_hiding(repo: Repo, guard: str) -> list[str]:
    """Put back the .gitignore files that hide themselves, where their folder still stands: without
    them what they hid would look like work. The paths of those that had changed.
    """
    changed = []
    for path, entry in hiding(repo, guard).items():
        place = repo.root / path
        if not place.parent.is_dir() or place.is_dir() or place.is_symlink():
            continue
        data = repo.git("cat-file", "blob", entry.blob)
        if workspace.read(place) != data:
            workspace.replace(place, data, mode=0o644, scratch=repo.scratch)
            changed.append(path)
    return sorted(changed)


def put_back(repo: Repo, guard: str) -> list[str]:
    """Make those files what the tree says; the names of those that had changed."""
    entries = repo.entries(guard)
    # As an earlier kern, whose start ref may still stand, named them.
    wanted = {
        name.replace("hooks/", _HOOK, 1): entry
        for name, entry in entries.items()
        if not name.startswith(_HIDING)
    }
    changed: list[str] = []
    hooks = _hooks(repo)
    if hooks.is_symlink() and "hooks" not in wanted:
        hooks.unlink()  # before anything is read or written through it
        changed.append("hooks")
    now = _read(repo)
    names = wanted.keys() | now.keys()
    changed += sorted(name for name in names if wanted.get(name) != now.get(name))
    for name in changed:
        place = _places(repo).get(name) or hooks / name.removeprefix(_HOOK)
        entry = wanted.get(name)
        if entry is None or place.is_symlink():
            place.unlink(missing_ok=True)
        if entry is not None:
            _restore(repo, place, entry)
    return changed


def _restore(repo: Repo, place: Path, entry: Entry) -> None:
    if not place.parent.is_dir():
        place.parent.unlink(missing_ok=True)
        place.parent.mkdir()
    data = repo.git("cat-file", "blob", entry.blob)
    if entry.mode == "120000":
        place.unlink(missing_ok=True)
        place.symlink_to(os.fsdecode(data))
        return
    old = stat.S_IMODE(place.lstat().st_mode) if place.exists() else 0o644
    mode = old | 0o111 if entry.mode == "100755" else old & ~0o111
    workspace.replace(place, data, mode=mode)


def _places(repo: Repo) -> dict[str, Path]:
    return {
        "config": repo.common_dir / "config",
        "config.worktree": repo.git_dir / "config.worktree",
        "exclude": repo.common_dir / "info" / "exclude",
        "attributes": repo.common_dir / "info" / "attributes",
        "hooks": repo.common_dir / "hooks",  # where it is a link
    }


def _hooks(repo: Repo) -> Path:
    """The default folder: one that `core.hooksPath` names lies in the tree, or is not the
    repository's.
    """
    return repo.common_dir / "hooks"


def _read(repo: Repo) -> dict[str, Entry]:
    places = _places(repo)
    hooks = _hooks(repo)
    if hooks.is_dir() and not hooks.is_symlink():
        for entry in os.scandir(hooks):
            if not entry.name.endswith(".sample"):
                places[_HOOK + entry.name] = Path(entry.path)
    found: dict[str, Entry] = {}
    for name, place in places.items():
        try:
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[name] = Entry("120000", repo.blob(os.fsencode(os.readlink(place))))
            elif stat.S_ISREG(mode):
                bits = "100755" if mode & stat.S_IXUSR else "100644"
                found[name] = Entry(bits, repo.blob(place.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def refuse_push(repo: Repo) -> list[tuple[str, str]]:
    """Settings under which git cannot push to this repository's remotes, from a script either:
    what is pushed cannot be undone. A remote with a push URL of its own is not covered.
    """
    _, out, _ = repo.run("config", "-z", "--get-regexp", r"^remote\..*\.url$")
    urls = [record.partition(b"\n")[2] for record in out.split(b"\0") if record]
    key = "url.kern-refuses-push://.pushInsteadOf"
    return [(key, os.fsdecode(url)) for url in urls]
