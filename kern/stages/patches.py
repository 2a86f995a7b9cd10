"""A change as agents are shown it: every file first, then as much of each patch as there is room
for; and what it does to tests that were there.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from kern import plain
from kern.frozen import frozen
from kern.git import index
from kern.git.repository import Repo

MOST = 24  # patches that are read at all: with more of them each would be cut to a few lines
LEAST = 300  # characters; a patch that is cut to less says nothing
HUGE = 4_000_000  # bytes; of a file that is larger no patch is made
LISTED = 3000  # characters of the list
LONGEST = 300  # characters of a line: a minified one would take all the room
_SPARE = 2 * LONGEST + 600  # for a fence longer than what any line holds, and what is not shown
# What a program writes, or someone else wrote: shown once what the task wrote is shown.
_MADE = (
    r"(?i)(?:^|/)(?:dist|vendor|third_party|node_modules|__snapshots__)/"
    r"|(?:^|/)(?:npm-shrinkwrap\.json|go\.sum)$"
    r"|\.lock(?:b|file|\.\w+)?$|-lock\.(?:json|ya?ml)$"
    r"|\.min\.\w+$|\.(?:js|mjs|css)\.map$|\.snap$|\.pb\.\w+$|_pb2\w*\.pyi?$"
    r"|(?:^|[/.])generated\.\w+$"
)
_MOST_KEPT = 4096  # characters of what the next attempt is shown
# What a person's configuration would change in what a judge sees.
_DIFF = (
    *("-O/dev/null", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
    *("--submodule=short", "--ignore-submodules=none"),
)
_ATTRIBUTES = ("linguist-vendored", "linguist-generated")


@frozen
class File:
    path: str
    added: int | None  # lines; None for what git takes as binary
    removed: int | None
    old: str = ""  # where it was renamed from
    generated: bool = False

    @property
    def size(self) -> str:
        if self.added is None:
            return "binary"
        return f"+{self.added} -{self.removed}"

    @property
    def name(self) -> str:
        """The path as it can be read back, however odd it is."""
        return self.path if self.path == plain.line(self.path) else ascii(self.path)


def is_generated(path: str, attribute: str) -> bool:
    """`attribute`: what .gitattributes say of linguist-generated or linguist-vendored."""
    if attribute in ("set", "true"):
        return True
    return attribute not in ("unset", "false") and re.search(_MADE, path) is not None


def files(numstat: bytes, attributes: Mapping[str, str]) -> list[File]:
    """`git diff --numstat -z`, what the task wrote before what programs wrote."""
    fields = iter(numstat.decode("utf-8", "surrogateescape").removesuffix("\0").split("\0"))
    found: list[File] = []
    for field in filter(None, fields):
        *counts, path = field.split("\t", 2)
        added, removed = (int(count) if count.isdigit() else None for count in counts)
        old = "" if path else next(fields)
        path = path or next(fields)
        made = is_generated(path, attributes.get(path, ""))
        found.append(File(path, added, removed, old, made))
    return sorted(found, key=lambda file: file.generated)


def told(changed: Sequence[File], patches: Sequence[str], room: int) -> str:
    """The list of all files, and of the first ones' patches as much as `room` has place for; an
    empty patch is not shown. What one file does not need is the others'; what programs wrote has
    what is left.
    """
    parts = [_listed(changed)]
    pairs = [(file, _narrow(patch)) for file, patch in zip(changed, patches, strict=False) if patch]
    shown: set[str] = set()
    for made in (False, True):
        left = room - _SPARE - len("\n\n".join(parts))
        group = [pair for pair in pairs if pair[0].generated is made][: max(0, left) // LEAST]
        given = shares([len(patch) + 2 for _, patch in group], left)
        parts += [_cut(*pair, most - 2) for pair, most in zip(group, given, strict=True)]
        shown.update(file.path for file, _ in group)
    hidden = [file.name for file in changed if file.path not in shown]
    return "\n\n".join([*parts, *_missing(hidden)])


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much each is given: the same for all, but what one leaves is shared among the others."""
    given = [0] * len(sizes)
    smallest_first = sorted(range(len(sizes)), key=sizes.__getitem__)
    for done, at in enumerate(smallest_first):
        given[at] = min(sizes[at], room // (len(sizes) - done))
        room -= given[at]
    return given


def _listed(changed: Sequence[File]) -> str:
    rows = [f"{plain.count(len(changed), 'changed file')}, with the lines added and removed:"]
    room = LISTED - len(rows[0])
    for number, file in enumerate(changed):
        was = f" (was {plain.line(file.old, LONGEST)})" if file.old else ""
        made = " (generated)" if file.generated else ""
        row = f"{file.size} {plain.line(file.name, LONGEST)}{was}{made}"
        room -= len(row) + 1
        if room < 0:
            return "\n".join([*rows, _rest(changed[number:])])
        rows.append(row)
    return "\n".join(rows)


def _rest(files: Sequence[File]) -> str:
    added = sum(file.added or 0 for file in files)
    removed = sum(file.removed or 0 for file in files)
    return f"and {plain.count(len(files), 'more file')}, +{added} -{removed} in all"


def _narrow(patch: str) -> str:
    if "\0" in patch:
        return f"{patch.partition(chr(10))[0]}\n[binary]"
    lines = patch.rstrip("\n").split("\n")
    return "\n".join(line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…" for line in lines)


def _cut(file: File, patch: str, most: int) -> str:
    if len(patch) <= most:
        return patch
    gone = "\ndeleted file mode " in patch[: 3 * LONGEST]
    where = "the file is deleted" if gone else f"read {plain.line(file.name, 200)} for the rest"
    note = f"[cut here for length, {file.size} in all: {where}]"
    kept = patch[: max(0, most - len(note) - 1)].rpartition("\n")[0]
    return f"{kept}\n{note}"


def _missing(names: Sequence[str]) -> list[str]:
    few = ", ".join(plain.line(name, 60) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"[not shown, read them: {few}{more}]"] if names else []


# ---------------------------------------------------------------- what it does to tests

_TEST = (
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|(?:^|/)conftest\.py$"
    r"|(?:_test|_spec|\.test|\.spec|Tests?|Spec)\.\w+$"
)
_SKIPS = (
    r"\b(?:pytest\.(?:mark\.)?(?:skip|xfail)|unittest\.(?:skip|expectedFailure)|skipTest\()"
    r"|\b(?:it|test|describe|context)\.(?:skip|todo|only)\b|\bx(?:it|describe|test)\("
    r"|\bt\.Skip\w*\(|#\[ignore|@(?:Disabled|Ignore)\b|@tag :skip|\bpending\("
)
_ASSERTS = r"\bassert\w*|\bexpect\w*\s*[(.]|\bshould\b|\bt\.(?:Error|Fatal|Fail)|\brequire\.\w+\("


def is_test(path: str) -> bool:
    return re.search(_TEST, path) is not None


def words(path: str, patch: str) -> str:
    """What happened to one test file, by its patch; empty where nothing of it was weakened."""
    if "\ndeleted file mode " in patch:
        return f"{plain.line(path, 80)}: deleted"
    told = "; ".join(_weaker([*_signed(patch, "-")], [*_signed(patch, "+")]))
    return f"{plain.line(path, 80)}: {told}" if told else ""


def _weaker(gone: list[str], new: list[str]) -> Iterator[str]:
    skips, asserts = (_found(one, new) - _found(one, gone) for one in (_SKIPS, _ASSERTS))
    if skips > 0:
        yield plain.count(skips, "new skip mark")
    if asserts < 0:
        yield f"{plain.count(-asserts, 'assertion')} fewer"
    elif changed := _found(_ASSERTS, gone):
        yield f"{plain.count(changed, 'assertion')} changed"


def _found(what: str, lines: list[str]) -> int:
    return sum(len(re.findall(what, line)) for line in lines)


def _signed(patch: str, sign: str) -> Iterator[str]:
    """Those that the patch takes or adds; what stands before its first piece is a heading."""
    _, _, pieces = patch.partition("\n@@")
    return (line[1:] for line in pieces.splitlines() if line.startswith(sign))


# ---------------------------------------------------------------- as git has it


def shown(repo: Repo, old: str, new: str, room: int) -> list[str]:
    """The files, and of their patches what there is room for (characters). One patch at a time is
    in memory.
    """
    changed = _changed_files(repo, old, new)
    sizes = _sizes(repo, changed[:MOST], old, new)
    patches = [
        _patch(repo, file, old, new)[:room] if size <= HUGE else ""
        for file, size in zip(changed, sizes, strict=False)
    ]
    return [told(changed, patches, room)] if changed else []


def weakened(repo: Repo, old: str, new: str) -> list[str]:
    """What the change does to tests that were there, a line for each file."""
    entries = repo.changed(old, new)
    paths = [path for path, (before, _) in sorted(entries.items()) if before and is_test(path)]
    tests = [File(path, 0, 0) for path in paths[:MOST]]
    read = zip(tests, _sizes(repo, tests, old, new), strict=True)
    told = (words(f.path, _patch(repo, f, old, new)) for f, size in read if size <= HUGE)
    return [one for one in told if one]


def _changed_files(repo: Repo, old: str, new: str) -> list[File]:
    numstat = repo.git("diff", *_DIFF, "--numstat", "-z", old, new)
    paths = sorted(repo.changed(old, new))
    given = os.fsencode("\0".join(paths))
    with index.private(repo) as env:  # attributes as they were before the task
        repo.git("read-tree", old, env=env)
        asked = ("check-attr", "--cached", "-z", "--stdin", *_ATTRIBUTES)
        fields = os.fsdecode(repo.git(*asked, given=given, env=env)).split("\0")
    said = zip(fields[::3], fields[2::3], strict=False)
    return files(numstat, {path: value for path, value in said if value != "unspecified"})


def _sizes(repo: Repo, files: Sequence[File], old: str, new: str) -> list[int]:
    """How large each file is, the larger of before and after."""
    entries = repo.changed(old, new)
    both = [(entries[file.old or file.path][0], entries[file.path][1]) for file in files]
    asked = [[entry.blob for entry in pair if entry] for pair in both]
    given = "".join(f"{blob}\n" for blobs in asked for blob in blobs).encode()
    told = repo.git("cat-file", "--batch-check=%(objectname) %(objectsize)", given=given)
    sizes = dict(line.split(" ", 1) for line in told.decode().splitlines())
    known = {blob: int(size) for blob, size in sizes.items() if size.isdigit()}
    return [max((known.get(blob, 0) for blob in blobs), default=0) for blobs in asked]


def _patch(repo: Repo, file: File, old: str, new: str) -> str:
    paths = dict.fromkeys((file.old or file.path, file.path))
    raw = repo.git(
        *("--literal-pathspecs", "diff", *_DIFF, "--text", "-U3", old, new, "--", *paths)
    )
    return raw.decode("utf-8", "surrogateescape")


def kept(repo: Repo, old: str, new: str) -> str:
    """A change as the next attempt is told it: statistics, and the beginning of the patch, tests
    first.
    """
    how = ("-O/dev/null", "--no-ext-diff", "--stat=100", "--stat-count=40")
    files = sorted(_changed_files(repo, old, new), key=lambda file: not is_test(file.path))
    room = _MOST_KEPT
    patches = []
    for file, size in zip(files, _sizes(repo, files, old, new), strict=True):
        if size <= HUGE and room > 0:
            patches.append(_patch(repo, file, old, new)[:room])
            room -= len(patches[-1])
    return "\n".join([repo.text("diff", *how, old, new), *patches])
