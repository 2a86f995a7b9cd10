"""What was done and what needs you, in the order in which a tired person reads it in the morning:
how it went, what may be wrong on the branch, what needs you, what was done, what failed, what to
type next. A run says it at its end, of the whole night; `kern report` of any time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kern import plain
from kern.events import RunEnded
from kern.journal import totals, words
from kern.journal.history import History, Spent, Task, fold
from kern.journal.totals import NOWHERE, Standing
from kern.model import UNVERIFIED, Need, unverified
from kern.views.log import local

# Read on a dark and on a light background alike; whatever they say stands in words as well. Not
# yellow, which vanishes on white, nor blue, which does on black, nor dim.
GOOD, BAD, NOTICE = "green", "red", "magenta"
HEAD = "bold"
MOST = 20  # rows of a section
Row = tuple[str, str]  # a line and its style


def lines(ended: RunEnded) -> Iterator[Row]:
    found = fold(ended.night)
    now = Standing(needs=ended.needs, held=ended.held)
    worst = bool(ended.needs or ended.interrupted or _unproven(found))
    yield "", ""
    yield headline(ended, found), HEAD if not worst else f"{HEAD} {NOTICE}"
    yield from body(found, now, ended.stuck)
    if last := following(ended):
        yield "", ""
        yield last, NOTICE if ended.needs else ""


def headline(ended: RunEnded, found: History) -> str:
    """Of the night: its money, tokens and time are those of all its runs."""
    still = f"{ended.open_tasks} open"
    counts = [*_counts(found, ended.needs, ended.held)]
    counts += ["SPEC.md unreadable" if ended.open_tasks is None else still]
    cost, tokens, seconds, where = ended.cost, ended.tokens, ended.seconds, ""
    if len(runs := [*found.runs.values()]) > 1:
        where = f" in {len(runs)} runs since {local(runs[0].first, '%a %H:%M')}"
        cost, tokens = found.spent.cost, sum(found.spent.tokens.values())
        seconds = sum(run.ended - run.began for run in runs)
    paid = "" if cost.known is None else " (API-equivalent)"
    used = f", {words.short(tokens)} tokens" if tokens else ""
    waits = totals.waited(*totals.outages(found.outages))
    times = ", ".join(filter(None, (plain.span(seconds), waits)))
    return f"{', '.join(counts)}{where}; {cost}{paid}{used}, {times}"


def _counts(found: History, needs: Sequence[Need], held: Sequence[Need]) -> Iterator[str]:
    ends = Counter(task.outcome for task in found.tasks.values())
    yield f"{found.done} done"
    if tried := ends["concluded"]:
        yield f"{plain.count(tried, 'experiment')} did not work"
    for number, what in ((len(needs), "need you"), (len(held), "held")):
        if number:
            yield f"{number} {what}"
    if bare := _unproven(found):
        yield f"{bare} {UNVERIFIED}"


def report(found: History, now: Standing, *, markdown: bool = False) -> str:
    """All of it, for a terminal or as the text of a pull request."""
    if not found.runs:
        return "nothing in the journal yet: it begins with the first run"
    counts = ", ".join(_counts(found, totals.needs(found, now), now.held))
    where = f"in {plain.count(len(found.runs), 'run')}"
    head = f"{counts} {where}; {found.spent.in_words(found.done)} (costs are API-equivalent)"
    waits = totals.waited(*totals.outages(found.outages))
    texts = [head, *filter(None, [waits]), *(text for text, _ in body(found, now, full=True))]
    return plain.block("\n".join(map(_markdown, texts) if markdown else texts))


def _markdown(text: str) -> str:
    depth = len(text) - len(text.lstrip())
    if not depth and text.endswith(":"):
        return f"## {text[:-1]}\n"
    return f"{'  - ' if depth > 5 else '- '}{plain.escaped(text.strip())}" if depth else text


def body(
    found: History,
    now: Standing = NOWHERE,
    stuck: Sequence[tuple[str, str]] = (),
    *,
    full: bool = False,
) -> Iterator[Row]:
    """`stuck`: open tasks, each with what it waits for."""
    most = len(found.tasks) + MOST if full else MOST
    needs = totals.needs(found, now)
    needy = {need.task for need in (*needs, *now.held)}
    late = [f"{plain.line(task, 100)}: {plain.line(why)}" for task, why in stuck]
    late = [text for text, (task, _) in zip(late, stuck, strict=True) if task not in needy]
    every = [*found.tasks.values()]
    done = [task for task in every if task.outcome == "done"]
    for title, rows, where in (
        ("Look at this", _looks(found, now), "kern report"),
        ("Needs you", map(_need, needs), "kern status"),
        ("Held", map(_need, now.held), "kern status"),
        ("Open tasks that only wait", _rows(late), "kern status"),
        ("Done", _done(done, now), "git log"),
        ("Tried, did not work", _of(every, "concluded"), "git log"),
        ("Split into subtasks", _of(every, "decomposed"), "kern status"),
        ("Failed attempts, with the work of each", _tried(every, now), "kern report"),
        ("Runs that ended early", _errors(found), "kern log"),
    ):
        yield from _section(title, rows, where, most)
    if mended := sum(len(task.attempts) for task in done):
        yield "", ""
        tasks = plain.count(sum(bool(task.attempts) for task in done), "task")
        yield f"{plain.count(mended, 'failed attempt')} of {tasks} came right later: kern show", ""
    if full:
        left = [task for task in every if task.outcome in totals.OPEN and task.task not in needy]
        opened = [f"{plain.line(task.task, 100)}: {totals.state(task, now)}" for task in left]
        yield from _section("Open", _rows(opened), "", most)
        refused = dict.fromkeys(tool for task in every for tool in task.denied)
        yield from _section("Refused to agents", _rows(refused), "", most)
        learned = dict.fromkeys(text for task in every for text in task.learned)
        yield from _section("Learned", _rows(learned), "", most)
        agents = [_agent(row) for row in totals.by_agent(found)]
        yield from _section("By agent", _rows(agents if len(agents) > 1 else ()), "", most)


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
        first, rest = ended.needs[0].do.partition(",")[0], len(ended.needs) - 1
        other = "other task that needs" if rest == 1 else f"other {rest} tasks that need"
        return f"next: {first}, then the {other} you, then: {ended.called}"
    if ended.held:
        return f"next: {ended.held[0].do} lets a held task be taken, then: {ended.called}"
    if ended.stuck:
        return "next: kern status shows what the open tasks wait for"
    return "all tasks are done: git log shows them"


def _unproven(found: History) -> int:
    return sum(one.outcome == "done" and unverified(one.proved) for one in found.tasks.values())


def _section(title: str, rows: Iterable[list[Row]], where: str, most: int) -> Iterator[Row]:
    """An empty one is left out; of a long one the rest is counted."""
    every = list(rows)
    if not every:
        return
    yield "", ""
    yield f"{title}:", HEAD
    for row in every[:most]:
        yield from row
    if (more := len(every) - most) > 0:
        yield f"  and {more} more: {where}", ""


def _rows(texts: Iterable[str], style: str = "") -> Iterator[list[Row]]:
    return ([(f"  {plain.line(text, 600)}", style)] for text in texts)


def _looks(found: History, now: Standing) -> Iterator[list[Row]]:
    """The same once, with how often."""
    met: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in totals.review(found, now):
        text = one["text"].partition(":")[0] if one["what"] == "flaky" else one["text"]
        met.setdefault((one["what"], text), []).append(one)
    for (what, _), same in met.items():
        last = same[-1]
        task = f"{plain.line(last['task'], 60)}: " if last["task"] and len(same) == 1 else ""
        often = f" ({len(same)} times)" if len(same) > 1 else ""
        label = {"flaky": "flaky ", UNVERIFIED: "UNVERIFIED: "}.get(what, "")
        where = f"; {last['where']}" if last["where"] else ""
        text = f"{task}{label}{plain.line(last['text'], 600)}{often}{where}"
        yield [(f"  {text}", NOTICE)]
        if what == UNVERIFIED:
            yield [("      To verify commits, name your checks under [gates] in kern.toml.", "")]


def _need(need: Need) -> list[Row]:
    number = f"{need.number:4}" if need.number else "    "
    return [
        (f"{number}  {plain.line(need.task, 100)}", NOTICE),
        (f"      {plain.line(need.why)}", ""),
        (f"      {need.do}", HEAD),
    ]


def _done(done: Sequence[Task], now: Standing) -> Iterator[list[Row]]:
    """A line each, and once what stands behind most of them."""
    proofs = Counter(_proof(task) for task in done if not unverified(task.proved))
    usual = proofs.most_common(1)[0][0] if proofs else ""
    for task in done:
        bare, proof = unverified(task.proved), _proof(task)
        how = UNVERIFIED.upper() if bare else "" if proof == usual else proof
        again = "open again" if task.task in now.again else ""
        more = "".join(f", {text}" for text in (how, again) if text)
        text = f"{plain.line(task.task, 100)}  ({plain.line(task.detail, 100)}){more}"
        yield [(f"  {text}", NOTICE if bare else GOOD)]
    if usual:
        alike = "all " if proofs.total() == len(done) == proofs[usual] else "the others "
        yield [(f"  {alike * (len(done) > 1)}{plain.line(usual)}", "")]


def _proof(task: Task) -> str:
    """`verified by test, lint`."""
    return re.sub(r" \(flaky\)|\bgate (?=\S)", "", task.proved.partition(";")[0])


def _of(every: Iterable[Task], outcome: str) -> Iterator[list[Row]]:
    found = (task for task in every if task.outcome == outcome)
    return _rows(
        f"{plain.line(task.task, 100)}{f'  ({task.commit[:7]})' if task.commit else ''}"
        for task in found
    )


def _tried(every: Iterable[Task], now: Standing) -> Iterator[list[Row]]:
    """Of tasks that are not done."""
    for task in every:
        if task.attempts and task.outcome != "done":
            rows = [(f"  {plain.line(task.task, 100)}", "")]
            for one in task.attempts:
                rows.append((f"      {one['attempt']}: {plain.line(str(one['reason']))}", ""))
                if ref := totals.saved(one, now):
                    rows.append((f"         git show {plain.line(ref)}", ""))
            yield rows


def _errors(found: History) -> Iterator[list[Row]]:
    """The same once, with how often."""
    often = Counter(str(error.get("text")) for error in found.errors)
    return _rows(
        f"{local(error['time'])}  {text}{f' ({often[text]} times)' if often[text] > 1 else ''}"
        for text, error in {str(error.get("text")): error for error in found.errors}.items()
    )


def _agent(row: Mapping[str, Any]) -> str:
    name = " ".join(filter(None, (row["agent"], row["model"]))) or "unknown"
    done = f"{plain.count(row['done'], 'task')} done, " if row["done"] else ""
    failed = f"{plain.count(row['attempts'], 'failed attempt')}, " if row["attempts"] else ""
    spent = Spent(**{name: row[name] for name in Spent.__dataclass_fields__})
    stages = plain.count(row["stages"], "stage")
    return f"{plain.line(name, 60)}: {done}{failed}{stages}, {spent.in_words(row['done'])}"
