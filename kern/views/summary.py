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
from kern.journal import sentences, totals
from kern.journal.history import History, Run, Story, Task, fold
from kern.journal.totals import NOT_READ, SpecState
from kern.model import UNVERIFIED, Need, unverified
from kern.views.log import local

# Read on a dark and on a light background alike; whatever they say stands in words as well. Not
# yellow, which vanishes on white, nor blue, which does on black, nor dim.
GOOD, BAD, NOTICE = "green", "red", "magenta"
HEAD = "bold"
MOST = 20  # rows of a section
Row = tuple[str, str]  # lines, and the style of the first


def lines(end: RunEnded) -> Iterator[Row]:
    history = fold(end.night)
    now = SpecState(needs=end.needs, held=end.held)
    worst = end.needs or end.interrupted or _unproven(totals.done(history, now))
    yield "", ""
    yield headline(end, history), f"{HEAD} {NOTICE}" if worst else HEAD
    if len(history.runs) > 1:
        runs = [*history.runs.values()]
        since = local(runs[0].records[0]["time"], "%a %H:%M")
        took = plain.span(sum(run.ended - run.began for run in runs))
        counts = f"{len(history.done)} done in {len(runs)} runs; {history.spent.cost}, {took}"
        counts += _waits(history)
        yield f"in all since {since}, as below: {counts}", HEAD
    yield from body(history, now, end.stuck)
    if last := following(end):
        yield "", ""
        yield last, NOTICE if end.needs else ""


def headline(end: RunEnded, history: History) -> str:
    """Of this run, which is the last of the night."""
    run = [*history.runs.values()][-1] if history.runs else Run()
    bare = sum(unverified(proved) for _, _, proved in end.done)
    still = "SPEC.md unreadable" if end.open_tasks is None else f"{end.open_tasks} open"
    counts = _counts(len(end.done), run.ends["concluded"], bare, end.needs, end.held)
    paid = "" if end.cost.known is None else " (API-equivalent)"
    used = f", {sentences.short(end.tokens)} tokens" if end.tokens else ""
    took = f"{plain.span(end.seconds)}{_waits(run)}"
    return f"{counts}, {still}; {end.cost}{paid}{used}, {took}"


def _waits(of: Story) -> str:
    return f", {waited}" if (waited := totals.waited(of)) else ""


def _counts(done: int, failed: int, bare: int, needs: Sequence[Need], holds: Sequence[Need]) -> str:
    counts = {
        f"{plain.count(failed, 'experiment')} did not work": failed,
        f"{len(needs)} need you": needs,
        f"{len(holds)} held": holds,
        f"{bare} {UNVERIFIED}": bare,
    }
    return ", ".join([f"{done} done", *(text for text, count in counts.items() if count)])


def report(history: History, now: SpecState, *, markdown: bool = False) -> str:
    """All of it, for a terminal or as the text of a pull request."""
    if not history.runs:
        return "nothing in the journal yet: it begins with the first run"
    done, tried = totals.done(history, now), len(history.ended("concluded"))
    counts = _counts(len(done), tried, _unproven(done), totals.needs(history, now), now.held)
    where = f"in {plain.count(len(history.runs), 'run')}"
    head = f"{counts} {where}; {history.spent.in_words(len(done))} (costs are API-equivalent)"
    rows = (text for text, _ in body(history, now, full=True))
    texts = [head, *filter(None, [totals.waited(history)]), *"\n".join(rows).split("\n")]
    return plain.block("\n".join(map(_markdown, texts) if markdown else texts))


def _markdown(text: str) -> str:
    depth = len(text) - len(text.lstrip())
    if not depth and text.endswith(":"):
        return f"## {text[:-1]}\n"
    return f"{'  - ' if depth > 5 else '- '}{plain.escaped(text.strip())}" if depth else text


def body(
    history: History,
    now: SpecState = NOT_READ,
    stuck: Sequence[tuple[str, str]] = (),
    *,
    full: bool = False,
) -> Iterator[Row]:
    """`stuck`: open tasks, each with what it waits for. A section that is empty is left out; of a
    long one the rest is counted.
    """
    needs, done = totals.needs(history, now), totals.done(history, now)
    needy = {need.task for need in (*needs, *now.held)}
    waiting = (f"{_name(task)}: {plain.line(why)}" for task, why in stuck if task not in needy)
    sections: dict[str, Iterable[Row]] = {
        "Look at this": _looks(history, now, done),
        "Needs you": map(_need, needs),
        "Held": map(_need, now.held),
        "Open tasks that only wait": _rows(waiting),
        "Done": _done(done),
        "Tried, did not work": _rows(map(_with_commit, history.ended("concluded"))),
        "Split into subtasks": _rows(map(_with_commit, history.ended("decomposed"))),
        "Failed attempts, with the work of each": _tried(history),
        "Runs that ended early": _errors(history, full=full),
    }
    if full:
        rest = (task for task in history.ended(*totals.OPEN) if task.task not in needy)
        by = totals.agents(history)
        costs = (
            f"{plain.line(name, 60)}: {plain.count(count, 'task')} done, {spent.in_words(count)}"
            for name, (count, spent) in by.items()
        )
        sections |= {
            "Open": _rows(f"{_name(task.task)}: {totals.state(task, now)}" for task in rest),
            "Refused to agents": _rows(dict.fromkeys(history.denied)),
            "Learned": _rows(dict.fromkeys(history.texts("learning"))),
            "By agent": _rows(costs if len(by) > 1 else ()),
        }
    for title, every in sections.items():
        rows = list(every)
        if rows:
            yield "", ""
            yield f"{title}:", HEAD
            yield from rows if full else rows[:MOST]
        if not full and len(rows) > MOST:
            yield f"  and {len(rows) - MOST} more: kern report", ""
    if mended := [len(attempts) for task in done if (attempts := task.of("attempt"))]:
        tasks = plain.count(len(mended), "task")
        yield "", ""
        yield f"{plain.count(sum(mended), 'failed attempt')} of {tasks} came right later", ""


def following(end: RunEnded) -> str:
    """The last line: what to type next; empty where an error says it."""
    if end.stopped:
        why = "the time of --until has come" if end.until else "stopped, as asked"
        return f"{why}; the next {end.called} goes on with: {end.stopped}"
    if end.interrupted:
        return ""
    free = (end.open_tasks or 0) - len(end.needs) - len(end.held)
    if free > 0 and not end.stuck:
        tasks = "task" if free == 1 else "tasks"
        return f"next: {end.called} {free} takes the other open {tasks}"
    if len(end.needs) == 1:
        return f"next: {end.needs[0].do.partition(';')[0]}, then: {end.called}"
    if end.needs:
        first, rest = end.needs[0].do.partition(",")[0], len(end.needs) - 1
        other = "other task that needs" if rest == 1 else f"other {rest} tasks that need"
        return f"next: {first}, then the {other} you, then: {end.called}"
    if end.held:
        return f"next: {end.held[0].do} lets a held task be taken, then: {end.called}"
    if end.stuck:
        return "next: kern status shows what the open tasks wait for"
    return "all tasks are done: git log shows them"


def _unproven(done: Sequence[Task]) -> int:
    return sum(unverified(task.proved) for task in done)


def _name(task: str) -> str:
    return plain.line(task, 100)


def _with_commit(task: Task) -> str:
    return f"{_name(task.task)}  ({task.commit[:7]})" if task.commit else _name(task.task)


def _rows(texts: Iterable[str]) -> Iterator[Row]:
    return ((f"  {plain.line(text, 600)}", "") for text in texts)


def _looks(history: History, now: SpecState, done: Sequence[Task]) -> Iterator[Row]:
    """The same once, with how often."""
    counts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in totals.review(history, now):
        text = one["text"].partition(":")[0] if one["what"] == "flaky" else one["text"]
        counts.setdefault((one["what"], text), []).append(one)
    for (what, _), same in counts.items():
        last = same[-1]
        task = f"{plain.line(last['task'], 60)}: " if last["task"] and len(same) == 1 else ""
        often = f" ({len(same)} times)" if len(same) > 1 else ""
        label = {"flaky": "flaky ", UNVERIFIED: "UNVERIFIED: "}.get(what, "")
        where = f"; {last['where']}" if last["where"] else ""
        yield f"  {task}{label}{plain.line(last['text'], 600)}{often}{where}", NOTICE
    if bare := [task.proved for task in done if unverified(task.proved)]:
        red = "fix the gates that are red, or " if any(bare) else ""
        yield f"  To verify such commits, {red}name your checks under [gates] in kern.toml.", NOTICE


def _need(need: Need) -> Row:
    number = f"{need.number or '':>4}"
    return f"{number}  {_name(need.task)}\n      {plain.line(need.why)}\n      {need.do}", NOTICE


def _done(done: Sequence[Task]) -> Iterator[Row]:
    """A line each, and once what stands behind most of them."""
    proofs = Counter(_proof(task) for task in done if not unverified(task.proved))
    usual = proofs.most_common(1)[0][0] if proofs else ""
    for task in done:
        bare, proof = unverified(task.proved), _proof(task)
        how = f", {UNVERIFIED.upper()}" if bare else "" if proof == usual else f", {proof}"
        yield f"  {_name(task.task)}  ({_name(task.detail)}){how}", NOTICE if bare else GOOD
    if usual:
        alike = "all " if proofs[usual] == len(done) else "the others "
        yield f"  {alike * (len(done) > 1)}{plain.line(usual)}", ""


def _proof(task: Task) -> str:
    """`verified by test, lint`."""
    proof = task.proved.partition(";")[0].replace(" (flaky)", "")
    return re.sub(r"(by |, )gate ", r"\1", proof)


def _tried(history: History) -> Iterator[Row]:
    """Of tasks that are not done."""
    for task in history.tasks.values():
        if task.outcome != "done" and (attempts := task.of("attempt")):
            rows = [f"  {_name(task.task)}"]
            for one in attempts:
                rows.append(f"      {one.get('attempt')}: {plain.line(str(one.get('reason')))}")
                rows += [f"         git show {plain.line(one['ref'])}"] * bool(one.get("ref"))
            yield "\n".join(rows), ""


def _errors(history: History, *, full: bool) -> Iterator[Row]:
    """The same once, with how often. At a run's end its own is said after all."""
    last = "" if full else next(reversed(history.runs), "")
    errors = [error for error in totals.errors(history) if error["run"] != last]
    often = Counter(str(error["text"]) for error in errors)
    return _rows(
        f"{local(error['time'])}  {text}{f' ({often[text]} times)' if often[text] > 1 else ''}"
        for text, error in {str(error["text"]): error for error in errors}.items()
    )
