"""What the rows say, as one page of Markdown for somebody who knows nothing of this folder. It
calls nothing better before it can know. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median

from kern.plain import count
from tests.eval import dry, figures
from tests.eval.arms import OWN
from tests.eval.rows import Row

By = Mapping[str, Sequence[Row]]
_SUITES = {
    "micro": "tasks of kern's own, over two small repositories",
    "aider": "aider's polyglot benchmark: exercises whose tests nobody sees",
}
_WHAT = """\
kern is a pipeline around the command-line program of a coding agent. This page compares it with the
same agent alone, on the same tasks: how many were finished, and how many were called done and were
not, by tests that no agent saw. At the end it says how, and what each word means.
"""
_HOW = """\
Each task is given, in a fresh git repository, to each arm. *kern*: one agent process looks around,
one does the work, the repository's own checks run on exactly what is to be committed, and one words
the commit; what fails is undone and tried again. *bare agent*: one process of the same agent for
each task, told the task, the checks and to commit. A folder's name: kern with other prompts. All
have the same model for the work, the same checks and the same budget.

Then hidden tests, which no agent has seen, run on what was committed: they decide, whatever the arm
says. Where a task need not change a test that was there, kern is told to be strict: what passes
only with changed tests is no success (`strict_tests`)."""
_WORDS = {
    "arm": "what is compared",
    "cell": "one task, given to one arm, once; a pair: the same, given to two",
    "finished": "the hidden tests pass, and the arm ended as is right for this task",
    "false done": "the arm calls the task done, and the hidden tests fail",
    "false, of its done": "how many of those that it called done: a person would merge these",
    "$ per finished task": "all that was spent, on failures too, by the tasks that were finished",
    "wasted correct": "an attempt that passes the hidden tests, and that kern threw away",
    "failed attempts": "those that kern noted, by what they failed over (own word: it gave up)",
    "requests": "answers of the model, in all stages",
    "lines / reference": "lines changed, as a share of the reference solution's: the median",
    "blocked, skipped, asked": "it says that it is not done, and a person is needed",
    "budget": "the money for this task was used up",
}


def lines(rows: Sequence[Row], base: str = "") -> Iterator[str]:
    """`base`: the arm that the others are compared with; kern's own prompts unless it is named."""
    arms = _by(rows, "arm")
    base = base or (OWN if OWN in arms else next(iter(arms)))
    arms = {base: arms[base], **arms}
    yield from (
        "# kern, and the agent alone",
        "",
        _WHAT,
        *_played(rows),
        "",
        "## What came of it",
        "",
    )
    yield from _arms(arms)
    if all(row.cli == "dry" for row in rows):
        yield from ("", *_cheated(arms))
    for other in arms:
        if other != base:
            yield ""
            yield from compared(base, arms[base], other, arms[other])
    yield from ("", "## By task", "")
    yield from _tasks(rows, list(arms))
    yield from ("", "## How", "", _HOW)
    yield from ("", "## The words", "", *(f"- *{word}*: {what}" for word, what in _WORDS.items()))


def _played(rows: Sequence[Row]) -> Iterator[str]:
    sizes = f"{count(len({row.task for row in rows}), 'task')}, {count(len(rows), 'cell')}"
    suites = (f"{name} ({_SUITES.get(name, '')})" for name in sorted({row.suite for row in rows}))
    agent = f"claude {_values(rows, 'cli') or 'of an unknown version'}"
    scripted = any(row.cli == "dry" for row in rows)
    agent = "a script in place of an agent: no figure says anything of a model" * scripted or agent
    work = {row.models.get("implement") or row.models.get("agent") or "" for row in rows} - {""}
    most = ", ".join(f"${row:.2f}" if row else "no bound" for row in {row.budget for row in rows})
    yield f"Played: {', '.join(suites)}. {sizes}; by {agent}."
    yield f"The work's model: {', '.join(sorted(work))}; budget of a cell: {most}."
    yield f"kern: {_values(rows, 'kern')}."
    if len({row.kern for row in rows}) + len({row.cli for row in rows}) > 2:
        yield "The cells are of several versions: what differs may be theirs."


def _cheated(arms: By) -> Iterator[str]:
    """What the script claims against its better knowledge; see dry.py."""
    for name, rows in arms.items():
        cheats = [row for row in rows if row.reference_lines and dry.cheats(row.task, row.seed)]
        false = sum(row.false_done for row in cheats)
        share = f": {false / len(cheats):.0%}" if cheats else ""
        told = f"{false} of {len(cheats)} cheats are called done"
        yield f"- the scripted cheater's false-done rate, {name}: {told}{share}"


def _arms(arms: By) -> Iterator[str]:
    """The two figures that matter side by side, then the rest."""
    yield "| arm | finished | false done | false, of its done | $ per finished task |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, rows in arms.items():
        finished, false = sum(row.finished for row in rows), sum(row.false_done for row in rows)
        said = sum(row.end in ("done", "concluded") for row in rows)
        shares = (f"{n} of {len(rows)} ({n / len(rows):.0%})" for n in (finished, false))
        of_done = f"{false} of {said} ({false / said:.0%})" if said else "-"
        yield f"| {' | '.join((name, *shares, of_done, _price(rows, finished)))} |"
    yield from (
        "",
        "What it took:",
        "",
        "| arm | wasted correct | failed attempts | requests | lines / reference |",
    )
    yield "| --- | ---: | --- | ---: | ---: |"
    for name, rows in arms.items():
        wasted = sum(row.wasted_correct for row in rows)
        asked = sum(sum(row.requests.values()) for row in rows)
        size = _size([row for row in rows if row.finished])
        yield f"| {name} | {wasted} | {_classes(rows)} | {asked} | {size} |"


def _price(rows: Sequence[Row], finished: int) -> str:
    """All that was spent, on failures too, by finished task."""
    unknown = " + unknown" if any(row.unpriced for row in rows) else ""
    return f"{sum(row.cost_usd for row in rows) / finished:.3f}{unknown}" if finished else "-"


def _classes(rows: Iterable[Row]) -> str:
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row.attempts)
    return ", ".join(f"{number} {name}" for name, number in sorted(found.items())) or "0"


def _size(rows: Sequence[Row]) -> str:
    """The median: one lock file would outweigh all else."""
    shares = [row.lines / row.reference_lines for row in rows if row.reference_lines]
    return f"{median(shares):.2f}" if shares else "-"


def compared(base: str, ours: Sequence[Row], name: str, theirs: Sequence[Row]) -> Iterator[str]:
    """The other arm against the base, on the cells that both have."""
    known = {(row.task, row.seed): row for row in ours}
    pairs = [(known[key], row) for row in theirs if (key := (row.task, row.seed)) in known]
    if not pairs:
        yield f"{name} and {base} have no cell in common."
        return
    points = _differences(pairs, "finished", 100)
    only = sum(b.finished and not a.finished for a, b in pairs)
    lost = sum(a.finished and not b.finished for a, b in pairs)
    p = figures.mcnemar(only, lost)
    head = f"{name} against {base}, {count(len(pairs), 'pair')} of {count(len(points), 'task')}."
    yield from (f"{head} {verdict(len(pairs), only, lost, p, figures.interval(points))}", "")
    yield f"- finished: {_spread(points, 1)} points; {only} of it alone, {lost} of {base} alone"
    yield f"- McNemar, exact: p = {p:.3f}"
    yield f"- $ per task: {_spread(_differences(pairs, 'cost_usd', 1), 3)}"
    for what in ("false_done", "wasted_correct"):
        yield f"- {what.replace('_', ' ')}: {_spread(_differences(pairs, what, 100), 1)} points"


def verdict(pairs: int, only: int, lost: int, p: float, at: tuple[float, float]) -> str:
    """Below the planned power no word on which of two arms is to be preferred."""
    share = (only + lost) / pairs
    needed = max(figures.PLANNED_PAIRS, figures.pairs_needed(share))
    if pairs < needed:
        return f"No verdict: {pairs} of the {needed} pairs that ten points of difference need."
    if p >= 0.05 or at[0] <= 0 <= at[1]:
        return f"No difference shown, by {pairs} pairs."
    return f"{'Better' if only > lost else 'Worse'}, by {pairs} pairs."


def _differences(pairs: Iterable[tuple[Row, Row]], key: str, times: float) -> list[list[float]]:
    """Other minus base, by task."""
    found: dict[str, list[float]] = {}
    for ours, theirs in pairs:
        difference = float(getattr(theirs, key)) - float(getattr(ours, key))
        found.setdefault(ours.task, []).append(times * difference)
    return list(found.values())


def _spread(by_task: Sequence[Sequence[float]], digits: int) -> str:
    """The mean of the tasks' means, with its interval."""
    low, high = figures.interval(by_task)
    middle = fmean(map(fmean, by_task))
    return f"{middle:+.{digits}f} (95 %: {low:+.{digits}f} to {high:+.{digits}f})"


def _tasks(rows: Sequence[Row], arms: Sequence[str]) -> Iterator[str]:
    yield f"| finished, and how the others ended | {' | '.join(arms)} |"
    yield f"| --- |{' --- |' * len(arms)}"
    for task, found in _by(rows, "task").items():
        yield f"| {task} | {' | '.join(_task(_by(found, 'arm').get(arm, [])) for arm in arms)} |"


def _task(rows: Sequence[Row]) -> str:
    missed = ", ".join(
        "false done" if row.false_done else row.end for row in rows if not row.finished
    )
    finished = f"{sum(row.finished for row in rows)} of {len(rows)}"
    return f"{finished} ({missed})" if missed else finished


def _by(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(getattr(row, key), []).append(row)
    return found


def _values(rows: Iterable[Row], key: str) -> str:
    return ", ".join(sorted({getattr(row, key) for row in rows} - {""}))
