"""The cases as one table: a row for each boundary, a column for each story, a letter for each thing
that happened there.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.matrix.cases import BAD, OUTCOMES, WHAT, Case

Row = tuple[str, str]


def lines(cases: Sequence[Case]) -> Iterable[str]:
    stories = list(dict.fromkeys(case.story for case in cases))
    rows = _rows(cases, stories)
    cells: dict[tuple[Row, str], dict[str, str]] = {}
    for case in cases:
        cell = cells.setdefault((_row(case), case.story), {})
        cell[case.what] = max(case.outcome, cell.get(case.what, " "), key=_weight)
    widths = [max(len(WHAT), *map(len, story.split())) for story in stories]
    left = max(len(_label(row)) for row in rows)
    for part in (0, 1):
        words = [[*story.split(), ""][part] for story in stories]
        yield _line("", left, words, widths)
    for row in rows:
        shown = [
            "".join(cells.get((row, story), {}).get(what, " ") for what in WHAT)
            for story in stories
        ]
        yield _line(_label(row), left, shown, widths)
    yield ""
    yield "a cell's letters stand for: " + ", ".join(WHAT)
    yield from (f"  {letter}  {meaning}" for letter, meaning in OUTCOMES.items())


def totals(cases: Sequence[Case]) -> Iterable[str]:
    yield f"{'':18}" + "".join(f"{letter:>7}" for letter in OUTCOMES) + "    all"
    for what in WHAT:
        count = Counter(case.outcome for case in cases if case.what == what)
        yield f"{what:18}" + "".join(f"{count[o]:7}" for o in OUTCOMES) + f"{count.total():7}"
    count = Counter(case.outcome for case in cases)
    yield f"{'all':18}" + "".join(f"{count[o]:7}" for o in OUTCOMES) + f"{count.total():7}"


def faults(cases: Iterable[Case]) -> Iterable[str]:
    for case in cases:
        if case.outcome == BAD:
            yield f"{case.story}: {case.what} at {_label((case.step, case.name))}"
            yield from (f"    {line}" for text in case.problems for line in text.splitlines())


def _rows(cases: Sequence[Case], stories: Sequence[str]) -> list[Row]:
    """In the order of a walk: what only a later story has stands behind what it has before it."""
    rows: list[Row] = []
    for story in stories:
        at = 0
        for row in dict.fromkeys(_row(case) for case in cases if case.story == story):
            if row not in rows:
                rows.insert(at, row)
            at = rows.index(row) + 1
    return rows


def _row(case: Case) -> Row:
    return case.step, re.sub(r"attempt\d", "attemptN", case.name)


def _label(row: Row) -> str:
    return f"{row[0].lower().replace('_', ' ')}: {row[1]}"


def _weight(letter: str) -> int:
    return " -.a!".index(letter)


def _line(label: str, left: int, cells: Iterable[str], widths: Iterable[int]) -> str:
    shown = " ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{label:{left}}  {shown}".rstrip()
