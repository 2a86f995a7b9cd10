"""A project's own advice to agents: CLAUDE.md with what it imports, its rules, AGENTS.md."""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kern.frozen import frozen
from kern.git.repository import LINK, SUBMODULE, Repo
from kern.obeyed import COMMON, MAIN, OWN, RULES
from kern.plain import decode

BUDGET = 40_000  # characters of all of it
_DEEPEST = 5  # files, each imported by the one before
_LINKS = 5  # of a chain
_CODE = r"(?s)```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`"
_REMARK = r"(?s)<!--.*?-->"
_IMPORT = r"(?<!\S)@([^\s`]+)"
_FRONT = r"(?sm)---[ \t]*\n(.*?)^---[ \t]*$\n?"
_SCOPED = r"(?m)^paths\s*:"

Read = Callable[[str], str | None]  # the text of a path from the top level; None: there is none


class Outside(Exception):
    """A link leads out of the repository."""


@frozen
class Guidance:
    text: str = ""
    notices: tuple[str, ...] = ()  # what a person should know was left out, and why


@dataclass(slots=True)
class _Gathering:
    read: Read
    found: dict[str, str] = field(default_factory=dict)
    notices: dict[str, None] = field(default_factory=dict)

    def take(self, name: str, above: tuple[str, ...] = ()) -> bool:
        """One file and what it imports. Whether it is there."""
        if name in above:
            self.notices[f"{above[-1]} imports {name} in a circle: taken in once"] = None
            return True
        if name in self.found:
            return True
        try:
            text = self.read(name)
        except Outside:
            self.notices[f"{name} is a link out of the repository: agents go without"] = None
            return False
        if text is None:
            return False
        if above and len(above) >= _DEEPEST:
            self.notices[f"{name} is imported too deep, by {above[-1]}: left out"] = None
            return True
        text, front = _without_front(text)
        if name.startswith(f"{RULES}/") and re.search(_SCOPED, front):
            return True  # for some files alone: it is there to be read with them
        if len(text) > BUDGET:
            self.notices[f"{name} is too large to hand to agents whole: cut"] = None
            text = text[:BUDGET]
        text = re.sub(_REMARK, "", text).strip()
        self.found[name] = text
        for path in _imports(text):
            self._import(path, name, (*above, name))
        return True

    def _import(self, path: str, by: str, above: tuple[str, ...]) -> None:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(by), path))
        first = place.split("/", 1)[0]
        if path.startswith("~") or place.startswith("/") or first == "..":
            self.notices[f"{by} imports {path}, which is outside the repository: left out"] = None
        elif first != ".git" and not posixpath.basename(place).startswith("."):  # `.env` is no text
            self.take(place, above)


def gathered(
    read: Read, rules: Iterable[str] = (), folders: Iterable[str] = (), *, by_itself: bool = False
) -> Guidance:
    """Of the top level, then of the folders and those above them. `by_itself`: the agent's CLI
    reads all but AGENTS.md without kern.
    """
    own, skipped = _Gathering(read), _Gathering(read)
    usual = skipped if by_itself else own
    for folder in _with_parents(folders):
        names = [posixpath.join(folder, name) for name in (MAIN if not folder else MAIN[:1])]
        if not any([usual.take(name) for name in names]):
            own.take(posixpath.join(folder, COMMON))
        if not folder:
            for name in (*sorted(rules), OWN):
                usual.take(name)
    text = "\n\n".join(f"From {name}:\n\n{text}" for name, text in own.found.items() if text)
    if len(text) > BUDGET:
        own.notices[f"the project's guidance is cut to {BUDGET:,} of {len(text):,} characters"] = (
            None
        )
        text = f"{text[:BUDGET]}\n[cut here for length]"
    return Guidance(text, tuple(own.notices))


def _with_parents(folders: Iterable[str]) -> list[str]:
    """Outer ones first; the top level is the empty one."""
    found = {""}
    for folder in folders:
        while folder not in found and folder not in ("/", "."):
            found.add(folder)
            folder = posixpath.dirname(folder)
    return sorted(found, key=lambda one: (one.count("/") + bool(one), one))


def _without_front(text: str) -> tuple[str, str]:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    front = re.match(_FRONT, text)
    return (text[front.end() :], front[1]) if front else (text, "")


def _imports(text: str) -> Iterator[str]:
    for match in re.finditer(_IMPORT, re.sub(_CODE, " ", text)):
        yield match[1].rstrip(".,;:!?)\"'")


def folders(findings: Iterable[tuple[str, str]]) -> list[str]:
    """Of the files that research names: `src/a.py:1-9, tests/`."""
    named = (
        re.split(r"[,;\s]+", text) for label, text in findings if label in ("Files", "Pattern")
    )
    paths = (
        posixpath.normpath(word.strip("`*()").partition(":")[0]) for one in named for word in one
    )
    inner = (posixpath.dirname(path) for path in paths if not path.startswith(("/", "..")))
    return sorted({folder for folder in inner if folder})


# ---------------------------------------------------------------- where it is read


def on_disk(root: Path, beneath: Sequence[str] = (), *, by_itself: bool = False) -> Guidance:
    def read(name: str) -> str | None:
        try:
            place = Path(os.path.realpath(root / name))
            if not place.is_file():
                return None
        except (OSError, ValueError):  # no name that a file can have
            return None
        if not place.is_relative_to(root) or place.is_relative_to(root / ".git"):
            raise Outside
        with place.open("rb") as file:
            return decode(file.read(4 * BUDGET))

    rules = [str(path.relative_to(root)) for path in root.glob(f"{RULES}/**/*.md")]
    return gathered(read, rules, beneath, by_itself=by_itself)


def in_tree(repo: Repo, tree: str, changed: Iterable[str]) -> Guidance:
    """As a tree holds it, for those that look at a change: the change's own words on how to look at
    it do not count.
    """

    def read(name: str) -> str | None:
        for _ in range(_LINKS):
            entry = repo.entry(tree, name)
            if entry is None or entry.mode == SUBMODULE:
                return None
            if entry.mode != LINK:
                return decode(repo.data(entry.blob))
            target = os.fsdecode(repo.data(entry.blob))
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            if name.startswith(("/", "..")):
                raise Outside
        return None

    asked = ("ls-tree", "-r", "-z", "--name-only", tree, "--", f"{RULES}/")
    rules = repo.git(*asked) if repo.has_folder(tree, RULES) else b""
    named = [name for name in os.fsdecode(rules).split("\0") if name.endswith(".md")]
    return gathered(read, named, (posixpath.dirname(path) for path in changed))
