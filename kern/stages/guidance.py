"""A project's own advice to agents: the text of CLAUDE.md and AGENTS.md."""

import os
import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kern.git.repository import LINK, Repo
from kern.obeyed import COMMON, MAIN
from kern.plain import decode

BUDGET = 40_000  # characters of all of it


class Guidance(NamedTuple):
    text: str = ""
    notices: tuple[str, ...] = ()  # what a person should know was left out, and why


def gathered(
    read: Callable[[str], str], paths: Iterable[str] = (), *, by_itself: bool = False
) -> Guidance:
    """Of the top level, then of the folders above the paths; a text that stands in two files once.
    `read`: a file's text, empty where there is none. `by_itself`: the agent's CLI reads CLAUDE.md
    without kern.
    """
    inside = ("", *(path for path in paths if not path.startswith(("/", ".."))))
    folders = {above for path in inside for above in PurePosixPath(f"{path}_").parents}
    names = dict[str, str]()  # by the text
    for folder in sorted(folders, key=lambda one: (len(one.parts), one)):
        there = {name: read(str(folder / name)).strip() for name in (*MAIN, COMMON)}
        if not (by_itself and any(there[name] for name in MAIN)):
            for name, text in there.items():
                names.setdefault(text, str(folder / name))
    names.pop("", None)
    text = "\n\n".join(f"From {name}:\n\n{text}" for text, name in names.items())
    if len(text) <= BUDGET:
        return Guidance(text)
    notice = f"the project's guidance is cut to {BUDGET:,} of {len(text):,} characters"
    return Guidance(f"{text[:BUDGET]}\n[cut here for length]", (notice,))


def paths(findings: Iterable[tuple[str, str]]) -> list[str]:
    """The files that research names: `src/a.py:1-9, tests/`."""
    texts = (text for label, text in findings if label in ("Files", "Pattern"))
    return re.findall(r"[^\s,;:`*()]+", " ".join(texts))


def on_disk(root: Path, beneath: Iterable[str] = (), *, by_itself: bool = False) -> Guidance:
    away = list[str]()

    def read(name: str) -> str:
        try:
            place = Path(os.path.realpath(root / name))
            if not place.is_file():
                return ""
            if not place.is_relative_to(root) or root / ".git" in place.parents:
                away.append(f"{name} is a link out of the repository: not handed on")
                return ""
            with place.open("rb") as file:
                return decode(file.read(4 * BUDGET))
        except (OSError, ValueError):  # no name that a file can have
            return ""

    found = gathered(read, beneath, by_itself=by_itself)
    return found._replace(notices=(*found.notices, *away))


def in_tree(repo: Repo, tree: str, changed: Iterable[str]) -> Guidance:
    """As a tree holds it, for those that look at a change: the change's own words on how to look at
    it do not count.
    """

    def read(name: str) -> str:
        entry = repo.entry(tree, name)
        data = repo.data(entry.blob) if entry else b""
        if entry and entry.mode == LINK:
            leads = posixpath.normpath(posixpath.join(posixpath.dirname(name), decode(data)))
            data = b"" if leads.startswith(("/", "..")) else repo.content(tree, leads) or b""
        return decode(data)

    return gathered(read, changed)
