"""What a run says at its end, in the order in which a person reads it in the morning: how it went,
what needs you, what was done, what failed, what to type next. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence

from kern import plain
from kern.events import AttemptNoted, RunEnded
from kern.journal import words
from kern.model import UNVERIFIED, Need, unverified

# Read on a dark and on a light background alike; whatever they say stands in words as well. Not
# yellow, which vanishes on white, nor blue, which does on black, nor dim.
GOOD, BAD, NOTICE = "green", "red", "magenta"
HEAD = "bold"
MOST = 20  # rows of a section
_Row = tuple[str, str]  # a line and its style


def lines(
    ended: RunEnded,
    attempts: Sequence[AttemptNoted],
    flaky: Sequence[tuple[str, str]] = (),
    warnings: Sequence[str] = (),
    waited: str = "",
) -> Iterator[_Row]:
    """`attempts`: those of this run that failed. `flaky`: gates, each time with how it was red.
    `warnings`: those to be read again. `waited`: for an API that was away, in words.
    """
    worst = bool(ended.needs or ended.interrupted or _unproven(ended))
    yield "", ""
    said = ", ".join(filter(None, (headline(ended), waited)))
    yield said, HEAD if not worst else f"{HEAD} {NOTICE}"
    yield from _section("Needs you", _needs(ended.needs), "kern status")
    yield from _section("Held", _needs(ended.held), "kern status")
    needy = {need.task for need in (*ended.needs, *ended.held)}
    late = [one for one in ended.stuck if one[0] not in needy]
    rows = [[(f"  {plain.line(task, 100)}: {plain.line(why)}", "")] for task, why in late]
    yield from _section("Open tasks that only wait", rows, "kern status")
    yield from _section("Done", _done(ended), "git log")
    tried = [[(f"  {plain.line(task, 100)}  ({commit})", "")] for task, commit in ended.concluded]
    yield from _section("Did not work, as an experiment may", tried, "git log")
    split = [[(f"  {plain.line(task, 100)}", "")] for task, done in ended.decomposed if not done]
    yield from _section("Split into subtasks", split, "kern status")
    yield from _section("Failed attempts, with the work of each", _tried(attempts), "kern report")
    unsure = [[(f"  {row}", "")] for row in words.flaky(flaky)]
    yield from _section("Flaky: red, and green on the same files", unsure, "kern report")
    told = [[(f"  {plain.line(text, 600)}", "")] for text in warnings]
    yield from _section("Look at this", told, "kern report")
    if last := following(ended):
        yield "", ""
        yield last, NOTICE if ended.needs else ""


def headline(ended: RunEnded) -> str:
    """Done, what needs you, what is unverified, what is left; money and time."""
    of = [f"{len(ended.done)} done"]
    of += [f"{plain.count(len(ended.concluded), 'experiment')} did not work"] * bool(
        ended.concluded
    )
    of += [f"{len(ended.needs)} need you"] * bool(ended.needs)
    of += [f"{len(ended.held)} held"] * bool(ended.held)
    of += [f"{count} {UNVERIFIED}" for count in [_unproven(ended)] if count]
    of += ["SPEC.md unreadable" if ended.open_tasks is None else f"{ended.open_tasks} open"]
    paid = "" if ended.cost.known is None else " (API-equivalent)"
    used = f", {words.short(ended.tokens)} tokens" if ended.tokens else ""
    return f"{', '.join(of)}; {ended.cost}{paid}{used}, {plain.span(ended.seconds)}"


def following(ended: RunEnded) -> str:
    """The last line: what to type next; empty where an error says it."""
    if ended.stopped:
        why = "the time of --until has come" if ended.until else "stopped, as asked"
        return f"{why}; the next {ended.called} goes on with: {ended.stopped}"
    if ended.interrupted:
        return ""
    left = ended.open_tasks or 0
    free = left - len(ended.needs) - len(ended.held)
    if free > 0 and not ended.stuck:
        tasks = "task" if free == 1 else "tasks"
        return f"next: {ended.called} {free} takes the other open {tasks}"
    if len(ended.needs) == 1:
        return f"next: {ended.needs[0].do.partition(';')[0]}, then: {ended.called}"
    if ended.needs:
        rest = len(ended.needs) - 1
        other = "other task that needs" if rest == 1 else f"other {rest} tasks that need"
        first = ended.needs[0].do.partition(",")[0]
        return f"next: {first}, then the {other} you, then: {ended.called}"
    if ended.held:
        return f"next: {ended.held[0].do} lets a held task be taken, then: {ended.called}"
    if ended.stuck:
        return "next: kern status shows what the open tasks wait for"
    return "all tasks are done: git log shows them"


def _unproven(ended: RunEnded) -> int:
    return sum(unverified(proved) for _, _, proved in ended.done)


def _section(title: str, rows: Iterable[list[_Row]], where: str) -> Iterator[_Row]:
    """An empty one is left out; of a long one the rest is counted."""
    every = list(rows)
    if not every:
        return
    yield "", ""
    yield f"{title}:", HEAD
    for row in every[:MOST]:
        yield from row
    if (more := len(every) - MOST) > 0:
        yield f"  and {more} more: {where}", ""


def _needs(needs: Sequence[Need]) -> Iterator[list[_Row]]:
    for need in needs:
        number = f"{need.number:4}" if need.number else "    "
        yield [
            (f"{number}  {plain.line(need.task, 100)}", NOTICE),
            (f"      {plain.line(need.why)}", ""),
            (f"      {need.do}", HEAD),
        ]


def _done(ended: RunEnded) -> Iterator[list[_Row]]:
    red = False
    for task, commit, proved in ended.done:
        bad = unverified(proved)
        red = red or (bad and bool(proved))
        yield [
            (f"  {plain.line(task, 100)}  ({plain.line(commit, 100)})", NOTICE if bad else GOOD),
            (f"      {_how(proved)}", NOTICE if bad else ""),
        ]
    for task, done in ended.decomposed:
        if done:
            yield [(f"  {plain.line(task, 100)}  (a parent, by its subtasks)", "")]
    if _unproven(ended):
        do = f"{'fix the gates that are red, or ' if red else ''}name your checks"
        yield [(f"  To verify such commits, {do} under [gates] in kern.toml.", NOTICE)]


def _how(proved: str) -> str:
    """What stands behind a commit."""
    if not unverified(proved):
        return plain.line(proved)
    why = proved.removeprefix(UNVERIFIED).strip(" :,;")
    return f"UNVERIFIED: {plain.line(why) or 'no gate passed for this commit'}"


def _tried(attempts: Sequence[AttemptNoted]) -> Iterator[list[_Row]]:
    by_task: dict[str, list[AttemptNoted]] = {}
    for one in attempts:  # of many at once they come in between each other
        by_task.setdefault(one.task, []).append(one)
    for task, own in by_task.items():
        yield [
            (f"  {plain.line(task, 100)}", ""),
            *(
                row
                for one in own
                for row in (
                    (f"      {one.number}: {plain.line(one.reason)}", ""),
                    (f"         git show {one.ref}", ""),
                )
            ),
        ]
