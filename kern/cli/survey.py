"""Reads what tells of a repository's checks: the top level, and the parts of a monorepo. Bounded in
depth, number, size and time; what git ignores counts only beside what it does not.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from kern.checks.detect import PROJECT, TELLING, Folder, matches
from kern.git.repository import Repo

DEPTH = 3  # folders between the top level and a part
MOST_PARTS = 24
_SECONDS = 10.0
_MOST_TEXT = 1 << 18  # bytes of one file
_MOST_FILES = 400  # of a folder, with patterns as their names
_ELSEWHERE = frozenset(  # what lies there belongs to others, or is material of tests
    (
        *("node_modules", "vendor", "third_party", "venv", ".venv", "site-packages", "target"),
        *("dist", "build", "testdata", "fixtures", "__fixtures__", "examples", "templates"),
    )
)
_EXACT = tuple(name for name in TELLING if "*" not in name)
_PATTERNS = tuple(name for name in TELLING if "*" in name)


def folders(found: Repo) -> tuple[list[Folder], str]:
    """Each with its files; and what was left out, in words."""
    try:
        paths = _visible(found)
        note = ""
    except TimeoutError:
        paths, note = [], f"only the top level was looked at: git took more than {_SECONDS:g} s"
    above = {path.rpartition("/")[0] for path in paths if _makes_a_part(path)}
    parts = sorted(above - {""}, key=_near)
    if len(parts) > MOST_PARTS:
        left = f"{len(parts) - MOST_PARTS} of {len(parts)} parts were left out"
        note = f"{left}, from {parts[MOST_PARTS]} on"
    parts = ["", *parts[:MOST_PARTS]]
    inside: dict[str, list[str]] = {part: [] for part in parts}
    for path in paths:
        part = max((one for one in parts if path.startswith(f"{one}/")), key=len, default="")
        inside[part].append(path[len(part) + 1 :] if part else path)
    read = {part: _files(found.root / part, inside[part]) for part in parts}
    return [Folder(part, read[part], _names_above(part, read)) for part in parts], note


def _visible(found: Repo) -> list[str]:
    """What tells, at any depth, as far as git does not ignore it. Raises TimeoutError."""
    globs = dict.fromkeys(name.removeprefix("**/") for name in TELLING)
    specs = [f":(glob)**/{name}" for name in globs]
    how = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--")
    code, out, _ = found.run(*how, *specs, timeout=_SECONDS)
    told = dict.fromkeys(out.decode("utf-8", "replace").split("\0")) if not code else {}
    ours = (path for path in told if _ELSEWHERE.isdisjoint(path.split("/")[:-1]))
    return [path for path in ours if path and "\ufffd" not in path]


def _makes_a_part(path: str) -> bool:
    name = path.rpartition("/")[2]
    return path.count("/") <= DEPTH and any(matches(name, one) for one in PROJECT)


def _near(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _files(folder: Path, inside: Sequence[str]) -> dict[str, str]:
    """By name, those with a pattern as their name after the others."""
    names = dict.fromkeys(_EXACT)
    starred = [name for name in inside if any(matches(name, one) for one in _PATTERNS)]
    names |= dict.fromkeys(sorted(starred, key=_near)[:_MOST_FILES])
    return {name: text for name in names if (text := _text(folder / name)) is not None}


def _text(place: Path) -> str | None:
    """None where there is no file; of one that cannot be read, or is too large, its name alone
    tells.
    """
    try:
        if not place.is_file():
            return None
        if place.stat().st_size > _MOST_TEXT:
            return ""
        return place.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return "" if os.path.lexists(place) else None


def _names_above(part: str, read: dict[str, dict[str, str]]) -> frozenset[str]:
    around = (one for one in read if part and (not one or part.startswith(f"{one}/")))
    return frozenset(name for one in around if one != part for name in read[one])
