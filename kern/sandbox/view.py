"""A worktree seen at the path of the tree that it belongs to: what names that path (an editable
install, a workspace's links, a configured build) then means the worktree.

The worktree's `.git` is a file, and names a folder below the tree's own, which it hides there: git
finds its folder at a path aside.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kern.frozen import frozen
from kern.sandbox import wall
from kern.sandbox.wall import Access, Mount, Tree

_ASIDE = Path("/run/kern/git")
# In the worktree's git folder, where no hook can write.
_VIEW, _GIT = "kern/view", "kern/view.git"


@frozen
class View:
    place: Path  # the path
    aside: Path = _ASIDE  # where git finds the folder that worktrees share
    # Of the tree that lies there, seen read-only where the worktree has nothing of its own:
    linked: tuple[str, ...] = ()  # what the person named
    installed: tuple[str, ...] = ()  # what was found there, and a setup command may make


def of(place: Path, home: Path, linked: Iterable[str], installed: Iterable[str]) -> View:
    """Below the home folder git's settings may depend on where its folder lies (`includeIf`)."""
    inside = place.parent.is_relative_to(home)
    aside = place.with_name(f".{place.name}.git") if inside else _ASIDE
    return View(place, aside, tuple(linked), tuple(installed))


def lay(git_dir: Path, common_dir: Path, view: View | None) -> None:
    """For each sandbox of the worktree. Raises OSError."""
    if view is None:
        (git_dir / _VIEW).unlink(missing_ok=True)
        return
    aside = view.aside / git_dir.relative_to(common_dir)
    (git_dir / _VIEW).parent.mkdir(exist_ok=True)
    (git_dir / _GIT).write_bytes(b"gitdir: " + os.fsencode(aside) + b"\n")
    told = [str(view.place), str(view.aside), view.linked, view.installed]
    (git_dir / _VIEW).write_text(json.dumps(told))


def find(git_dir: Path) -> View | None:
    """What was laid."""
    try:
        place, aside, linked, installed = json.loads((git_dir / _VIEW).read_text())
    except (OSError, ValueError):
        return None
    return View(Path(place), Path(aside), tuple(linked), tuple(installed))


def of_worktree(found: Iterable[Mount], tree: Tree, view: View) -> list[Mount]:
    """With what such a child sees beside, by the worktree's own paths; nothing of what lies at the
    other path but what the view names.
    """
    kept = [*wall.without(found, view.place, (tree.root, tree.common_dir))]
    kept.append(Mount(Access.READ, tree.root / ".git", tree.git_dir / _GIT))
    away = (one for one in wall.linked(view.place) if not one.is_relative_to(view.place))
    kept += [Mount(Access.READ, path, path) for path in away]
    for path in (*view.linked, *view.installed):
        source = Path(os.path.realpath(view.place / path))
        if _point(tree.root, path, source):
            kept.append(Mount(Access.READ, tree.root / path, source))
    return kept


def named(text: str, places: Mapping[Path, Path]) -> str:
    """A command's word, or the value of a variable, by the paths of such a child."""
    for path, seen in places.items():
        parts = re.split(rf"{re.escape(str(path))}(?![\w.-])", text)
        text = str(seen).join(parts)
    return text


def _point(root: Path, path: str, source: Path) -> bool:
    """Whether the worktree has room for it: nothing of its own lies there. What a mount needs to
    stand on is made.
    """
    place = root / path
    real = Path(os.path.realpath(root), path).parent
    if os.path.realpath(real) != str(real) or not real.is_dir() or not source.exists():
        return False
    try:
        if source.is_dir():
            place.mkdir(exist_ok=True)
            return not place.is_symlink() and not os.listdir(place)
        place.touch()
        return not place.is_symlink() and not place.stat().st_size
    except OSError:
        return False
