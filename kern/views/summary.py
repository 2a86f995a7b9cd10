"""What was done and what needs you, in the order in which a tired person reads it in the morning:
how it went, what may be wrong on the branch, what needs you, what was done, what failed, what to
type next. A run says it at its end, of the whole night; `kern report` of any time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kern import plain
from kern.events import RunEnded
from kern.journal import sentences, totals
from kern.journal.history import History, Task, fold
from kern.model import UNVERIFIED, Need
from kern.views.log import local

# Read on a dark and on a light background alike; whatever they say stands in words as well. Not
# yellow, which vanishes on white, nor blue, which does on black, nor dim.
GOOD, BAD, NOTICE = "green", "red", "magenta"
HEAD = "bold"
Row = tuple[str, str]  # lines, and the style of the first


def lines(end: RunEnded) -> Iterator[Row]:
    night = fold(end.night)
    runs = [*night.runs.values()]
    own = fold(runs[-1].records) if runs else night
    night.needs = own.needs = end.needs
    worst = end.needs or end.interrupted or _unproven(night.done)
    yield "", ""
    yield _headline(own, end), f"{HEAD} {NOTICE}" if worst else HEAD
    if len(runs) > 1:
        since = local(runs[0].records[0]["time"], "%a %H:%M")
        yield f"in all since {since}, as below: {_headline(night)}", HEAD
    yield from _body(night)
    if last := following(end):
        yield "", ""
        yield last, NOTICE if end.needs else ""


def _headline(history: History, end: RunEnded | None = None) -> str:
    """`end`: a run's own word of what it came to, which no line of the journal changes."""
    tried, bare = len(history.ended("concluded")), _unproven(history.done)
    ready, tokens = len(history.done), history.sums[1]
    cost = history.cost
    seconds = sum(run.ended - run.began for run in history.runs.values())
    if end:
        ready, cost, tokens, seconds = len(end.done), end.cost, end.tokens, end.record["seconds"]
    counts = {
        f"{plain.count(tried, 'experiment')} did not work": tried,
        f"{len(history.needs)} need you": history.needs,
        f"{bare} {UNVERIFIED}": bare,
    }
    rows = [f"{ready} done", *(text for text, count in counts.items() if count)]
    if end:
        count = end.record["open"]
        rows.append("SPEC.md unreadable" if count is None else f"{count} open")
    paid = [f"{cost} (API-equivalent)" if cost.known is not None else str(cost)]
    paid += [f"{sentences.short(tokens)} tokens"] if tokens else []
    paid.append(plain.span(seconds))
    count, waited = totals.outages(history)
    paid += [f"waited {plain.span(waited)} in {plain.count(count, 'outage')}"] if count else []
    return f"{', '.join(rows)}; {', '.join(paid)}"


def following(end: RunEnded) -> str:
    """The last line: what to type next; empty where an error says it."""
    if end.stopped or end.interrupted:
        return end.stopped
    if free := end.record["ahead"]:
        tasks = "task" if free == 1 else "tasks"
        return f"next: {end.called} {free} takes the other open {tasks}"
    if end.needs:
        return f"next: {end.needs[0].do.partition(';')[0]}, then: {end.called}"
    if end.record["open"]:
        return "next: kern status shows what the open tasks wait for"
    return "all tasks are done: git log shows them"


def report(history: History, *, markdown: bool = False) -> str:
    """All of it, for a terminal or as the text of a pull request."""
    rows = (text for text, _ in _body(history, full=True))
    texts = "\n".join([_headline(history), *rows])
    return plain.block("\n".join(map(_markdown, texts.split("\n"))) if markdown else texts)


def _markdown(text: str) -> str:
    depth = len(text) - len(text.lstrip())
    if not depth and text.endswith(":"):
        return f"## {text[:-1]}\n"
    return f"{'  - ' if depth > 5 else '- '}{plain.escaped(text.strip())}" if depth else text


def _body(history: History, *, full: bool = False) -> Iterator[Row]:
    done = history.done
    parts: dict[str, Iterable[Row]] = {
        "Look at this": _looks(history),
        "Needs you": map(need, history.needs),
        "Done": _done(done),
        "Tried, did not work": _rows(one.task for one in history.ended("concluded")),
        "Split into subtasks": _rows(one.task for one in history.ended("decomposed")),
        "Failed attempts, with the work of each": _tried(history),
        "Runs that ended early": _errors(history, full=full),
    }
    if full:
        needy = {one.task for one in history.needs}
        left = (one for one in history.tasks.values() if one.open and one.task not in needy)
        parts |= {
            "Open": _rows(f"{one.task}: {one.state}" for one in left),
            "Learned": _rows(str(one.get("text") or "") for one in history.of("learning")),
        }
    yield from sections(parts)
    if mended := [len(attempts) for task in done if (attempts := task.of("attempt"))]:
        tasks = plain.count(len(mended), "task")
        yield "", ""
        yield f"{plain.count(sum(mended), 'failed attempt')} of {tasks} came right later", ""


def sections(parts: Mapping[str, Iterable[Row]]) -> Iterator[Row]:
    """One that is empty is left out."""
    for title, every in parts.items():
        if rows := list(every):
            yield from (("", ""), (f"{title}:", HEAD), *rows)


def _unproven(done: Sequence[Task]) -> int:
    return sum(task.bare for task in done)


def _name(task: str) -> str:
    return plain.line(task, 100)


def _rows(texts: Iterable[str]) -> Iterator[Row]:
    """The same once, with how often."""
    return ((f"  {plain.line(text, 700)}{_times(n)}", "") for text, n in Counter(texts).items())


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _looks(history: History) -> Iterator[Row]:
    """The same once, with how often, and the task where it is of one alone."""
    same: dict[str, list[dict[str, str]]] = {}
    for one in totals.review(history):
        same.setdefault(re.sub("^(flaky .*?):.*", r"\1", one["text"]), []).append(one)
    for looks in same.values():
        last, often = looks[-1], _times(len(looks))
        task = f"{plain.line(last['task'], 60)}: " if last["task"] and not often else ""
        where = f"; {last['where']}" if last["where"] else ""
        yield f"  {task}{plain.line(last['text'], 600)}{often}{where}", NOTICE


def need(one: Need) -> Row:
    number = f"{one.number or '':>4}"
    return f"{number}  {_name(one.task)}\n      {plain.line(one.why)}\n      {one.do}", NOTICE


def _done(done: Sequence[Task]) -> Iterator[Row]:
    """A line each, and once what stands behind most of them."""
    proofs = Counter(_proof(task) for task in done if not task.bare)
    usual = proofs.most_common(1)[0][0] if proofs else ""
    for task in done:
        proof = "UNVERIFIED" if task.bare else _proof(task)
        how = "" if proof == usual else f", {proof}"
        yield f"  {_name(task.task)}  ({_name(task.detail)}){how}", NOTICE if task.bare else GOOD
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
                yield "\n".join(f"      {text}" for text in sentences.format_record(one)), ""


def _errors(history: History, *, full: bool) -> Iterator[Row]:
    """At a run's end its own is said after all; what ends all of many the run itself says."""
    last = "" if full else next(reversed(history.runs), "")
    errors = (one for one in history.of("error") if "fleet" not in one and one["run"] != last)
    return _rows(f"{local(one['time'])}: {one.get('text') or ''}" for one in errors)
