"""What a worktree is lent of the person's tree: the documents, and copies of what git ignores."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from kern import plain
from kern.config import FILE, Worktree
from kern.errors import KernError, UsageError
from kern.git.repository import Repo
from kern.git.shadow import PROMPTS
from kern.model import LEARNINGS, SPEC
from kern.pipeline.site import Site
from kern.spec.file import Documents
from kern.system import process

_INCLUDE = ".worktreeinclude"
_COPY = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")
_COPY_S = 600.0
# Where Python and builds keep paths of what was installed or configured.
_NAMING = ("*.pth", "*.egg-link", "__editable__*", "CMakeCache.txt")


def documents(site: Site, spec: str) -> tuple[tuple[str, str], ...]:
    """What a worktree has as the person's tree has it now."""
    prompts = sorted((site.repo.root / PROMPTS).glob("*"))
    paths = [LEARNINGS, FILE, *(f"{PROMPTS}/{one.name}" for one in prompts)]
    texts = ((path, site.documents.read(path)) for path in paths)
    # SPEC.md last: where it has the task in progress, all is there.
    return (*((path, text) for path, text in texts if text is not None), (SPEC, spec))


def equip(tree: Repo, texts: Iterable[tuple[str, str]]) -> None:
    for name, text in texts:
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        Documents(tree.root).write(name, text)


def copied(home: Repo, settings: Worktree) -> tuple[str, ...]:
    """Paths in the person's tree that git ignores, whole folders by their names. Raises UsageError
    for what is not there, and where what is copied, or what Python and node find, would have gates
    judge that tree.
    """
    paths = list[str]()
    for path in settings.copy:
        if not (names := _ignored(home, f"--exclude=/{path}")):
            what = f"worktree.copy in kern.toml names {path}: git ignores nothing there"
            raise UsageError(what, hint="take it out; what is committed each worktree has")
        paths += names
    if (home.root / _INCLUDE).is_file():
        paths += _ignored(home, f"--exclude-from={_INCLUDE}")
    for lead in _back(home.root, [home.root / path for path in paths]):
        raise UsageError(
            f"{lead} leads back to your tree: a worker would test your code",
            hint="have [worktree] setup make it, and neither copy it nor have it on PATH: "
            'setup = "python3 -m venv .venv && .venv/bin/pip install -e ."',
        )
    return tuple(dict.fromkeys(paths))


def _ignored(home: Repo, named: str) -> list[str]:
    listing = ("ls-files", "-z", "--others", "--ignored", "--directory", named)
    chosen = home.git(*listing)
    ignored = home.run("check-ignore", "-z", "--stdin", stdin=chosen)[1] if chosen else b""
    return [path.rstrip("/") for path in os.fsdecode(ignored).split("\0")[:-1]]


def _back(root: Path, copies: Iterable[Path]) -> Iterator[str]:
    """Variables, links, editable installs and configured builds that lead to the tree."""
    for name in ("PYTHONPATH", "NODE_PATH"):
        places = map(Path, os.environ.get(name, "").split(os.pathsep))
        yield from (name for place in places if place.is_relative_to(root))
    above = (Path(one).parent for one in os.environ.get("PATH", "").split(os.pathsep))
    pythons = [*above, Path.home() / ".local"]
    sites = (site for one in pythons for site in one.glob("lib/python3*/site-packages"))
    names = [f"--include={name}" for name in _NAMING]
    for place in map(str, (*copies, *sites)):
        leads = ("(", "-lname", str(root), "-o", "-lname", f"{root}/*", ")")
        links = ("find", place, *leads, "!", "-lname", f"{place}/*")
        for argv in (links, ("grep", "-rlwF", *names, "-e", str(root), "--", place)):
            yield from os.fsdecode(process.heard(argv, _COPY_S)[1]).splitlines()


def bring(root: Path, paths: Iterable[str], to: Path, scratch: Path) -> None:
    """As the person's are by now, each whole or not at all. Raises KernError."""
    for path in paths:
        source, target = root / path, to / path
        if target.parent != target.parent.resolve():
            continue  # it leads out
        with TemporaryDirectory(dir=scratch) as folder:
            part = os.path.join(folder, "part")
            code, output = process.capture([*_COPY, str(source), part], _COPY_S)
            if code:
                raise KernError(f"cannot copy {source}: {plain.last(output)}")
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(target):
                os.rename(target, os.path.join(folder, "old"))
            os.rename(part, target)
