"""A change as agents are shown it: every file with its size, then as much of each patch as there is
room for; and which tests that were there it takes lines from.
"""

import re
from collections.abc import Iterator, Sequence

from kern import plain
from kern.checks.measures import TEST
from kern.git.repository import Repo

MOST = 24  # patches that are read at all: with more of them each would be cut to a few lines
LEAST = 300  # characters; a patch that is cut to less says nothing
HUGE = 4_000_000  # bytes; of a file that is larger no patch is made
LISTED = 3000  # characters of the list
LONGEST = 300  # characters of a line: a minified one would take all the room
_SPARE = 600  # for what is not shown
_CUT = "\n[cut here for length: read the file for the rest]"
# What a program writes, or someone else wrote: shown once what the task wrote is shown.
_GENERATED = (
    r"(?i)(?:^|/)(?:dist|vendor|third_party|node_modules|__snapshots__)/"
    r"|(?:^|/)(?:npm-shrinkwrap\.json|go\.sum)$"
    r"|\.lock(?:b|file|\.\w+)?$|-lock\.(?:json|ya?ml)$"
    r"|\.min\.\w+$|\.(?:js|mjs|css)\.map$|\.snap$|\.pb\.\w+$|_pb2\w*\.pyi?$"
    r"|(?:^|[/.])generated\.\w+$"
)
# Nothing of a person's configuration changes what a judge sees.
_NUMBERS = (
    *("-O/dev/null", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"),
    *("--submodule=short", "--ignore-submodules=none"),
)
_PATCH = (*_NUMBERS, "--text", "-U3")  # nor what .gitattributes say


def generated(path: str) -> bool:
    return re.search(_GENERATED, path) is not None


def shown(repo: Repo, old: str, new: str, room: int) -> str:
    """The files, sources and small changes first, and of their patches what there is room for
    (characters): the same for each, and what one does not need is the next ones'.
    """
    files = _files(repo, old, new)
    if not files:
        return ""
    parts, paths = [_listed(files)], [path for _, path in files]
    room -= _SPARE + len(parts[0])
    most = min(MOST, max(0, room) // LEAST)
    sources = sum(not generated(path) for path in paths[:most])
    hidden = paths[most:]
    for at, (path, patch) in enumerate(_patches(repo, paths[:most], old, new)):
        share = room // max(1, sources - at)
        if patch and share >= LEAST:
            parts.append(_cut(patch, share - 2))
            room -= len(parts[-1]) + 2
        else:
            hidden.append(path)
    parts += [f"[not shown, read them: {plain.some(hidden)}]"] if hidden else []
    return "\n\n".join(parts)


def _files(repo: Repo, old: str, new: str) -> list[tuple[str, str]]:
    """Each with its size before it: `+2 -1`, or `binary`."""
    numbers = plain.decode(repo.git("diff", *_NUMBERS, "--numstat", "-z", old, new))
    rows = [row.split("\t", 2) for row in numbers.split("\0")[:-1]]
    rows.sort(key=lambda row: (generated(row[2]), sum(int(n) for n in row[:2] if n != "-")))
    sizes = ("binary" if added == "-" else f"+{added} -{removed}" for added, removed, _ in rows)
    return [(size, row[2]) for size, row in zip(sizes, rows, strict=True)]


def _listed(files: Sequence[tuple[str, str]]) -> str:
    rows = [f"{plain.count(len(files), 'changed file')}, with the lines added and removed:"]
    for size, path in files:
        rows.append(f"{size} {plain.line(path, LONGEST)}{' (generated)' * generated(path)}")
    text = "\n".join(rows)
    return text if len(text) <= LISTED else text[:LISTED].rpartition("\n")[0] + "\nand more"


def _cut(patch: str, most: int) -> str:
    """Within so many characters, and its lines within a line's."""
    if "\0" in patch:
        return f"{plain.line(patch.partition(chr(10))[0], LONGEST)}\n[binary]"
    lines = patch.rstrip("\n").split("\n")
    text = "\n".join(one if len(one) <= LONGEST else f"{one[: LONGEST - 1]}…" for one in lines)
    if len(text) <= most:
        return text
    return f"{text[: max(0, most - len(_CUT))].rpartition(chr(10))[0]}{_CUT}"


def _patches(repo: Repo, paths: Sequence[str], old: str, new: str) -> Iterator[tuple[str, str]]:
    """Of files by their names, one at a time; empty for one that is huge."""
    entries = repo.changed(old, new)
    for path in paths:
        huge = any(one and repo.store.size(one.blob) > HUGE for one in entries[path])
        argv = ("--literal-pathspecs", "diff", *_PATCH, old, new, "--", path)
        yield path, "" if huge else plain.decode(repo.git(*argv))


def weakened(repo: Repo, old: str, new: str) -> list[str]:
    """Tests that were there and of which lines are gone, each with its size."""
    there = {path for path, (entry, _) in repo.changed(old, new).items() if entry}
    tests = [one for one in _files(repo, old, new) if one[1] in there and re.search(TEST, one[1])]
    return [f"{plain.line(path, 80)} ({size})" for size, path in tests if not size.endswith("-0")]
