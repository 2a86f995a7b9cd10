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
from kern.journal.totals import SpecState
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
    runs, done = [*history.runs.values()], totals.done(history, now)
    worst = end.needs or end.interrupted or _unproven(done)
    yield "", ""
    yield _headline(end, runs[-1] if runs else Run()), f"{HEAD} {NOTICE}" if worst else HEAD
    if len(runs) > 1:
        since = local(runs[0].records[0]["time"], "%a %H:%M")
        took = plain.span(sum(run.ended - run.began for run in runs))
        counts = f"{len(done)} done in {len(runs)} runs; {history.spent.cost}, {took}"
        yield f"in all since {since}, as below: {counts}{_waits(history)}", HEAD
    yield from _body(history, now)
    if last := following(end):
        yield "", ""
        yield last, NOTICE if end.needs else ""


def _headline(end: RunEnded, run: Run) -> str:
    bare = sum(unverified(proved) for _, _, proved in end.done)
    still = "SPEC.md unreadable" if end.open_tasks is None else f"{end.open_tasks} open"
    counts = _counts(len(end.done), run.ends["concluded"], bare, end.needs, end.held)
    paid = "" if end.cost.known is None else " (API-equivalent)"
    used = f", {sentences.short(end.tokens)} tokens" if end.tokens else ""
    return f"{counts}, {still}; {end.cost}{paid}{used}, {plain.span(end.seconds)}{_waits(run)}"


def _waits(of: Story) -> str:
    count, seconds = totals.outages(of)
    return f", waited {plain.span(seconds)} in {plain.count(count, 'outage')}" if count else ""


def _counts(done: int, failed: int, bare: int, needs: Sequence[Need], holds: Sequence[Need]) -> str:
    counts = {
        f"{plain.count(failed, 'experiment')} did not work": failed,
        f"{len(needs)} need you": needs,
        f"{len(holds)} held": holds,
        f"{bare} {UNVERIFIED}": bare,
    }
    return ", ".join([f"{done} done", *(text for text, count in counts.items() if count)])


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
    if end.needs:
        return f"next: {end.needs[0].do.partition(';')[0]}, then: {end.called}"
    if end.open_tasks:
        return "next: kern status shows what the open tasks wait for"
    return "all tasks are done: git log shows them"


def report(history: History, now: SpecState, *, markdown: bool = False) -> str:
    """All of it, for a terminal or as the text of a pull request."""
    if not history.runs:
        return "nothing in the journal yet: it begins with the first run"
    done, tried = totals.done(history, now), len(history.ended("concluded"))
    counts = _counts(len(done), tried, _unproven(done), totals.needs(history, now), now.held)
    spent = history.spent.in_words(len(done))
    head = f"{counts} in {plain.count(len(history.runs), 'run')}; {spent}{_waits(history)}"
    rows = (text for text, _ in _body(history, now, full=True))
    texts = f"{head} (costs are API-equivalent)\n" + "\n".join(rows)
    return plain.block("\n".join(map(_markdown, texts.split("\n"))) if markdown else texts)


def _markdown(text: str) -> str:
    depth = len(text) - len(text.lstrip())
    if not depth and text.endswith(":"):
        return f"## {text[:-1]}\n"
    return f"{'  - ' if depth > 5 else '- '}{plain.escaped(text.strip())}" if depth else text


def _body(history: History, now: SpecState, *, full: bool = False) -> Iterator[Row]:
    """A section that is empty is left out; of a long one the rest is counted."""
    needs, done = totals.needs(history, now), totals.done(history, now)
    sections: dict[str, Iterable[Row]] = {
        "Look at this": _looks(history, now, done),
        "Needs you": map(_need, needs),
        "Held": map(_need, now.held),
        "Done": _done(done),
        "Tried, did not work": _rows(map(_with_commit, history.ended("concluded"))),
        "Split into subtasks": _rows(map(_with_commit, history.ended("decomposed"))),
        "Failed attempts, with the work of each": _tried(history),
        "Runs that ended early": _errors(history, full=full),
    }
    if full:
        needy = {need.task for need in (*needs, *now.held)}
        rest = (task for task in history.ended(*totals.OPEN) if task.task not in needy)
        sections |= {
            "Open": _rows(f"{_name(task.task)}: {totals.state(task, now)}" for task in rest),
            "Refused to agents": _rows(dict.fromkeys(history.denied)),
            "Learned": _rows(dict.fromkeys(history.texts("learning"))),
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


def _unproven(done: Sequence[Task]) -> int:
    return sum(unverified(task.proved) for task in done)


def _name(task: str) -> str:
    return plain.line(task, 100)


def _with_commit(task: Task) -> str:
    return f"{_name(task.task)}  ({task.commit[:7]})" if task.commit else _name(task.task)


def _rows(texts: Iterable[str]) -> Iterator[Row]:
    return ((f"  {plain.line(text, 600)}", "") for text in texts)


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _looks(history: History, now: SpecState, done: Sequence[Task]) -> Iterator[Row]:
    """The same once, with how often."""
    same: dict[str, list[Mapping[str, Any]]] = {}
    for one in totals.review(history, now):
        flaky = one["text"].startswith("flaky ")
        same.setdefault(one["text"].partition(":")[0] if flaky else one["text"], []).append(one)
    for looks in same.values():
        last = looks[-1]
        task = f"{plain.line(last['task'], 60)}: " if last["task"] and len(looks) == 1 else ""
        where = f"; {last['where']}" if last["where"] else ""
        yield f"  {task}{plain.line(last['text'], 600)}{_times(len(looks))}{where}", NOTICE
    if _unproven(done):
        bare = any(task.proved for task in done if unverified(task.proved))
        red = "fix the gates that are red, or " * bare
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
        how = ", UNVERIFIED" if bare else "" if proof == usual else f", {proof}"
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
    often = Counter(error["text"] for error in errors)
    latest = {error["text"]: local(error["time"]) for error in errors}
    return _rows(f"{when}  {text}{_times(often[text])}" for text, when in latest.items())
