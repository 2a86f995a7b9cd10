"""What was done and what needs you, in the order in which a tired person reads it in the morning:
how it went, what may be wrong on the branch, what needs you, what was done, what failed, what to
type next. A run says it at its end, of the whole night; `kern report` of any time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kern import plain
from kern.events import RunEnded
from kern.journal import sentences, totals
from kern.journal.history import History, Task, fold
from kern.journal.totals import SpecState
from kern.model import UNVERIFIED, Cost, Need, unverified
from kern.views.log import local

# Read on a dark and on a light background alike; whatever they say stands in words as well. Not
# yellow, which vanishes on white, nor blue, which does on black, nor dim.
GOOD, BAD, NOTICE = "green", "red", "magenta"
HEAD = "bold"
MOST = 20  # rows of a section
Row = tuple[str, str]  # lines, and the style of the first


def lines(end: RunEnded) -> Iterator[Row]:
    history, now = fold(end.night), SpecState(needs=end.needs, held=end.held)
    worst = end.needs or end.interrupted or _unproven(totals.done(history, now))
    yield "", ""
    runs = [*history.runs.values()]
    own = fold(runs[-1].records) if runs else history
    yield _headline(own, now, end), f"{HEAD} {NOTICE}" if worst else HEAD
    if len(runs) > 1:
        since = local(runs[0].records[0]["time"], "%a %H:%M")
        yield f"in all since {since}, as below: {_headline(history, now)}", HEAD
    yield from _body(history, now)
    if last := following(end):
        yield "", ""
        yield last, NOTICE if end.needs else ""


def _headline(history: History, now: SpecState, end: RunEnded | None = None) -> str:
    """`end`: a run's own word of what it came to, which no line of the journal changes."""
    done, spent, runs = totals.done(history, now), history.spent, history.runs.values()
    tried, bare = len(history.ended("concluded")), _unproven(done)
    cost, tokens = spent.cost if spent.stages else Cost(0.0), spent.sums[1]
    ready, seconds = len(done), sum(run.ended - run.began for run in runs)
    if end:
        ready, cost, tokens, seconds = len(end.done), end.cost, end.tokens, end.seconds
    counts = {
        f"{plain.count(tried, 'experiment')} did not work": tried,
        f"{len(now.needs)} need you": now.needs,
        f"{len(now.held)} held": now.held,
        f"{bare} {UNVERIFIED}": bare,
    }
    rows = [f"{ready} done", *(text for text, count in counts.items() if count)]
    if end:
        rows.append("SPEC.md unreadable" if end.open_tasks is None else f"{end.open_tasks} open")
    paid = [f"{cost} (API-equivalent)" if cost.known is not None else str(cost)]
    paid += [f"{sentences.short(tokens)} tokens"] if tokens else []
    paid.append(plain.span(seconds))
    count, waited = totals.outages(history)
    paid += [f"waited {plain.span(waited)} in {plain.count(count, 'outage')}"] if count else []
    return f"{', '.join(rows)}; {', '.join(paid)}"


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
    rows = (text for text, _ in _body(history, now, full=True))
    texts = "\n".join([_headline(history, now), *rows])
    return plain.block("\n".join(map(_markdown, texts.split("\n"))) if markdown else texts)


def _markdown(text: str) -> str:
    depth = len(text) - len(text.lstrip())
    if not depth and text.endswith(":"):
        return f"## {text[:-1]}\n"
    return f"{'  - ' if depth > 5 else '- '}{plain.escaped(text.strip())}" if depth else text


def _body(history: History, now: SpecState, *, full: bool = False) -> Iterator[Row]:
    """A section that is empty is left out; of a long one the rest is counted."""
    done = totals.done(history, now)
    sections: dict[str, Iterable[Row]] = {
        "Look at this": _looks(history, now, done),
        "Needs you": map(_need, now.needs),
        "Held": map(_need, now.held),
        "Done": _done(done),
        "Tried, did not work": _rows(_name(task.task) for task in history.ended("concluded")),
        "Split into subtasks": _rows(_name(task.task) for task in history.ended("decomposed")),
        "Failed attempts, with the work of each": _tried(history),
        "Runs that ended early": _errors(history, full=full),
    }
    if full:
        rest, calls = totals.left(history, now), history.of("stage")
        denied = [str(tool) for one in calls for tool in one.get("denied") or ()]
        sections |= {
            "Open": _rows(f"{_name(task.task)}: {totals.state(task, now)}" for task in rest),
            "Refused to agents": _rows(denied),
            "Learned": _rows(history.texts("learning")),
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


def _rows(texts: Iterable[str], style: str = "") -> Iterator[Row]:
    """The same once, with how often."""
    for text, times in Counter(texts).items():
        yield f"  {plain.line(text, 700)}{_times(times)}", style


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _looks(history: History, now: SpecState, done: Sequence[Task]) -> Iterator[Row]:
    """The same once, with how often, and the task where it is of one alone."""
    same: dict[str, list[dict[str, str]]] = {}
    for one in totals.review(history, now):
        same.setdefault(re.sub("^(flaky .*?):.*", r"\1", one["text"]), []).append(one)
    for looks in same.values():
        last, often = looks[-1], _times(len(looks))
        task = f"{plain.line(last['task'], 60)}: " if last["task"] and not often else ""
        where = f"; {last['where']}" if last["where"] else ""
        yield f"  {task}{plain.line(last['text'], 600)}{often}{where}", NOTICE
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
            yield f"  {_name(task.task)}", ""
            for one in attempts:
                first, *more = sentences.format_record(one)
                yield "\n".join(f"      {text}" for text in (first, *more)), ""


def _errors(history: History, *, full: bool) -> Iterator[Row]:
    """At a run's end its own is said after all; what ends all of many the run itself says."""
    last = "" if full else next(reversed(history.runs), "")
    errors = [one for one in history.of("error") if "fleet" not in one and one["run"] != last]
    texts = [plain.line(str(one.get("text") or ""), 700) for one in errors]
    latest = dict(zip(texts, (local(one["time"]) for one in errors), strict=True))
    return ((f"  {latest[text]}  {text}{_times(n)}", "") for text, n in Counter(texts).items())
