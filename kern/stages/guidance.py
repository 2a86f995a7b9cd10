"""A project's own advice to agents: CLAUDE.md and what it imports, or AGENTS.md."""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kern.git.repository import Repo
from kern.obeyed import COMMON, MAIN
from kern.plain import decode, encode

BUDGET = 40_000  # characters of all of it
_CODE = r"(?s)```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`"
_REMARK = r"(?s)<!--.*?-->"
_IMPORT = r"(?<!\S)@([^\s`]*[^\s`.,;:!?)\"'])"
_BLOB = rb"(?:[0-9a-f]+ (blob)|[0-9a-f]+ \w+|symlink|dangling|loop|notdir) (\d+)"

Read = Callable[[Sequence[str]], Mapping[str, str]]  # those of the paths that are files


class Guidance(NamedTuple):
    text: str = ""
    notices: tuple[str, ...] = ()  # what a person should know was left out, and why


def gathered(read: Read, folders: Iterable[str] = (), *, by_itself: bool = False) -> Guidance:
    """Of the top level, then of the folders and those above them. `by_itself`: the agent's CLI
    reads CLAUDE.md without kern.
    """
    every = _with_parents(folders)
    files = read([posixpath.join(one, name) for one in every for name in (*MAIN, COMMON)])
    texts: dict[str, str] = {}
    for folder in every:
        common, *main = (posixpath.join(folder, name) for name in (COMMON, *MAIN))
        main = [name for name in main if name in files]
        texts |= {name: files[name] for name in main if not by_itself}
        texts |= {} if main or common not in files else {common: files[common]}
    texts = {**read([one for name in texts for one in _imports(name, texts[name])]), **texts}
    plain = {name: re.sub(_REMARK, "", texts[name]).strip() for name in sorted(texts, key=_depth)}
    text = "\n\n".join(f"From {name}:\n\n{one}" for name, one in plain.items() if one)
    if len(text) <= BUDGET:
        return Guidance(text)
    notice = f"the project's guidance is cut to {BUDGET:,} of {len(text):,} characters"
    return Guidance(f"{text[:BUDGET]}\n[cut here for length]", (notice,))


def _depth(name: str) -> tuple[bool, int, str]:
    """What others import comes last; of the others the outer ones come first."""
    return posixpath.basename(name) not in (*MAIN, COMMON), name.count("/"), name


def _with_parents(folders: Iterable[str]) -> set[str]:
    every = {""}
    for folder in folders:
        while folder not in every and folder not in ("/", "."):
            every.add(folder)
            folder = posixpath.dirname(folder)
    return every


def _imports(name: str, text: str) -> Iterator[str]:
    """Within the repository, and no `.env`."""
    for path in re.findall(_IMPORT, re.sub(_CODE, " ", text)):
        place = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if not place.startswith(("/", "~", "..", ".git/")) and "/." not in f"/{path}":
            yield place


def folders(findings: Iterable[tuple[str, str]]) -> list[str]:
    """Of the files that research names: `src/a.py:1-9, tests/`."""
    texts = [text for label, text in findings if label in ("Files", "Pattern")]
    words = (word.strip("`*()").partition(":")[0] for word in re.split(r"[,;\s]+", " ".join(texts)))
    paths = (posixpath.dirname(posixpath.normpath(word)) for word in words)
    return sorted({path for path in paths if path and not path.startswith(("/", ".."))})


def on_disk(root: Path, beneath: Iterable[str] = (), *, by_itself: bool = False) -> Guidance:
    def read(names: Sequence[str]) -> dict[str, str]:
        texts = {name: _text(root, name) for name in names}
        return {name: text for name, text in texts.items() if text is not None}

    found = gathered(read, beneath, by_itself=by_itself)
    away = [name for name in (*MAIN, COMMON) if _leads_out(root, name)]
    notices = (f"{name} is a link out of the repository: not handed on" for name in away)
    return found._replace(notices=(*found.notices, *notices))


def _leads_out(root: Path, name: str) -> bool:
    """To a file; where nothing is, there is nothing to tell."""
    place = Path(os.path.realpath(root / name))
    return place.is_file() and not place.is_relative_to(root)


def _text(root: Path, name: str) -> str | None:
    """None where there is none, or it lies outside."""
    try:
        place = Path(os.path.realpath(root / name))
        if not place.is_file() or not place.is_relative_to(root) or root / ".git" in place.parents:
            return None
        with place.open("rb") as file:
            return decode(file.read(4 * BUDGET))
    except (OSError, ValueError):  # no name that a file can have
        return None


def in_tree(repo: Repo, tree: str, changed: Iterable[str]) -> Guidance:
    """As a tree holds it, for those that look at a change: the change's own words on how to look at
    it do not count.
    """

    def read(names: Sequence[str]) -> dict[str, str]:
        texts: dict[str, str] = {}
        names = [name for name in names if "\n" not in name]
        asked = encode("".join(f"{tree}:{name}\n" for name in names))
        rest = repo.git("cat-file", "--batch", "--follow-symlinks", given=asked) if names else b""
        for name in names:
            head, _, rest = rest.partition(b"\n")
            if match := re.fullmatch(_BLOB, head):
                size = int(match[2])
                texts |= {name: decode(rest[:size])} if match[1] else {}
                rest = rest[size + 1 :]
        return texts

    return gathered(read, map(posixpath.dirname, changed))
