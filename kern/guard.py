"""What an agent with full access could do to git itself: plant configuration and hooks (kept as a
tree, put back), and push (refused).
"""

import os
import stat
from pathlib import Path

from kern import index
from kern.repo import Entry, Repo


def take(repo: Repo) -> str:
    """git's own configuration, exclude and attribute files and hooks as a tree."""
    return index.tree_with(repo, _empty(repo), dict(_read(repo)))


def put_back(repo: Repo, guard: str) -> list[str]:
    """Make those files what the tree says; the names of those that had changed."""
    wanted = repo.entries(guard)
    now = _read(repo)
    changed = sorted(
        {name for name in wanted.keys() | now.keys() if wanted.get(name) != now.get(name)}
    )
    for name in changed:
        place = _places(repo).get(name) or _hooks(repo) / name.removeprefix("hooks/")
        entry = wanted.get(name)
        if entry is None:
            place.unlink(missing_ok=True)
            continue
        if place.is_symlink():
            place.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        data = repo.git("cat-file", "blob", entry.blob)
        if entry.mode == "120000":
            place.unlink(missing_ok=True)
            place.symlink_to(os.fsdecode(data))
        else:
            place.write_bytes(data)
            place.chmod(0o755 if entry.mode == "100755" else 0o644)
    return changed


def _empty(repo: Repo) -> str:
    return repo.text("mktree")


def _places(repo: Repo) -> dict[str, Path]:
    return {
        "config": repo.common_dir / "config",
        "config.worktree": repo.git_dir / "config.worktree",
        "exclude": repo.common_dir / "info" / "exclude",
        "attributes": repo.common_dir / "info" / "attributes",
    }


def _hooks(repo: Repo) -> Path:
    """The default folder: one that `core.hooksPath` names lies in the tree, or is not the
    repository's.
    """
    return repo.common_dir / "hooks"


def _read(repo: Repo) -> dict[str, Entry]:
    places = _places(repo)
    hooks = _hooks(repo)
    if hooks.is_dir():
        for entry in os.scandir(hooks):
            if not entry.name.endswith(".sample"):
                places[f"hooks/{entry.name}"] = Path(entry.path)
    found: dict[str, Entry] = {}
    for name, place in places.items():
        try:
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[name] = Entry("120000", repo.blob(os.fsencode(os.readlink(place))))
            elif stat.S_ISREG(mode):
                bits = "100755" if mode & stat.S_IXUSR else "100644"
                found[name] = Entry(bits, repo.blob(place.read_bytes()))
        except FileNotFoundError:
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
