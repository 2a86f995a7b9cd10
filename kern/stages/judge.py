"""What a judge is shown of a change: every file first, then how much of each patch. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kern import plain
from kern.checks.result import TELLING
from kern.frozen import frozen
from kern.model import Aide, Result
from kern.stages import answer
from kern.stages.answer import Code

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
        added, removed, path = field.split("\t", 2)
        old = "" if path else next(fields)
        path = path or next(fields)
        made = is_generated(path, attributes.get(path, ""))
        found.append(File(path, _count(added), _count(removed), old, made))
    return sorted(found, key=lambda file: file.generated)


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None


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
    for done, index in enumerate(smallest_first):
        given[index] = min(sizes[index], room // (len(sizes) - done))
        room -= given[index]
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
    if not names:
        return []
    few = ", ".join(plain.line(name, 60) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"[not shown, read them: {few}{more}]"]


def judged(criterion: str, said: str) -> Result:
    """What one judge says; exit code 1 for FAIL, 2 for what is neither PASS nor FAIL."""
    found = answer.parse(Aide.JUDGE, said)
    name = f"judge of {plain.line(criterion, 60)!r}"
    if found.code is Code.UNCLEAR:
        told = plain.line(said, 120) or "nothing"
        return Result(name, 2, f"the answer is neither PASS nor FAIL: {told}", strict=True)
    output = plain.line(f"{found.reason} {found.body}", 1000)
    return Result(name, 0 if found.code is Code.PASS else 1, output, strict=True)


def agreed(judges: Sequence[Result]) -> Result | None:
    """What judges of one criterion come to, each asked afresh; None: another is to be asked. One
    that is content is enough, and a change is refused only by two that say the same.
    """
    for code in (0, 1, 2):
        alike = [judge for judge in judges if judge.code == code]
        if len(alike) == (1 if code == 0 else 2):
            outputs = dict.fromkeys(judge.output for judge in alike)
            return replace(alike[0], output="\n".join(outputs))
    return None


def disagreement(judges: Sequence[Result]) -> str:
    """What a person is to know of judges that let a change pass; empty where all are content."""
    against = [judge for judge in judges if judge.code == 1]
    if not against or judges[-1].red:
        return ""
    no, yes = (plain.line(judge.output, TELLING) for judge in (against[0], judges[-1]))
    return (
        f"{against[0].name}: the judges disagree, so the change passes: one said FAIL: {no}; "
        f"another said PASS{f': {yes}' if yes else ''}"
    )
