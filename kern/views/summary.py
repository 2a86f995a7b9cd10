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
from kern.journal.totals import NOWHERE, Standing
from kern.model import UNVERIFIED, Need, unverified
from kern.views.log import local

# Read on a dark and on a light background alike; whatever they say stands in words as well. Not
# yellow, which vanishes on white, nor blue, which does on black, nor dim.
GOOD, BAD, NOTICE = "green", "red", "magenta"
HEAD = "bold"
MOST = 20  # rows of a section
Row = tuple[str, str]  # lines, and the style of the first


def lines(ended: RunEnded) -> Iterator[Row]:
    found = fold(ended.night)
    now = Standing(needs=ended.needs, held=ended.held)
    worst = ended.needs or ended.interrupted or _unproven(totals.done(found, now))
    yield "", ""
    yield headline(ended, found), f"{HEAD} {NOTICE}" if worst else HEAD
    if len(found.runs) > 1:
        runs = [*found.runs.values()]
        since = local(runs[0].records[0]["time"], "%a %H:%M")
        took = plain.span(sum(run.ended - run.began for run in runs))
        counts = f"{len(found.done)} done in {len(runs)} runs; {found.spent.cost}, {took}"
        counts += _waits(found)
        yield f"in all since {since}, as below: {counts}", HEAD
    yield from body(found, now, ended.stuck)
    if last := following(ended):
        yield "", ""
        yield last, NOTICE if ended.needs else ""


def headline(ended: RunEnded, found: History) -> str:
    """Of this run, which is the last of the night."""
    run = [*found.runs.values()][-1] if found.runs else Run()
    bare = sum(unverified(proved) for _, _, proved in ended.done)
    still = "SPEC.md unreadable" if ended.open_tasks is None else f"{ended.open_tasks} open"
    counts = _counts(len(ended.done), run.ends["concluded"], bare, ended.needs, ended.held)
    paid = "" if ended.cost.known is None else " (API-equivalent)"
    used = f", {sentences.short(ended.tokens)} tokens" if ended.tokens else ""
    took = f"{plain.span(ended.seconds)}{_waits(run)}"
    return f"{counts}, {still}; {ended.cost}{paid}{used}, {took}"


def _waits(of: Story) -> str:
    return f", {waited}" if (waited := totals.waited(of)) else ""


def _counts(done: int, tried: int, bare: int, needs: Sequence[Need], held: Sequence[Need]) -> str:
    counts = {
        f"{plain.count(tried, 'experiment')} did not work": tried,
        f"{len(needs)} need you": needs,
        f"{len(held)} held": held,
        f"{bare} {UNVERIFIED}": bare,
    }
    return ", ".join([f"{done} done", *(text for text, count in counts.items() if count)])


def report(found: History, now: Standing, *, markdown: bool = False) -> str:
    """All of it, for a terminal or as the text of a pull request."""
    if not found.runs:
        return "nothing in the journal yet: it begins with the first run"
    done, tried = totals.done(found, now), len(found.ended("concluded"))
    counts = _counts(len(done), tried, _unproven(done), totals.needs(found, now), now.held)
    where = f"in {plain.count(len(found.runs), 'run')}"
    head = f"{counts} {where}; {found.spent.in_words(len(done))} (costs are API-equivalent)"
    rows = (text for text, _ in body(found, now, full=True))
    texts = [head, *filter(None, [totals.waited(found)]), *"\n".join(rows).split("\n")]
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
    """`stuck`: open tasks, each with what it waits for. A section that is empty is left out; of a
    long one the rest is counted.
    """
    needs, done = totals.needs(found, now), totals.done(found, now)
    needy = {need.task for need in (*needs, *now.held)}
    waiting = (f"{_name(task)}: {plain.line(why)}" for task, why in stuck if task not in needy)
    sections: dict[str, Iterable[Row]] = {
        "Look at this": _looks(found, now, done),
        "Needs you": map(_need, needs),
        "Held": map(_need, now.held),
        "Open tasks that only wait": _rows(waiting),
        "Done": _done(done),
        "Tried, did not work": _rows(map(_with_commit, found.ended("concluded"))),
        "Split into subtasks": _rows(map(_with_commit, found.ended("decomposed"))),
        "Failed attempts, with the work of each": _tried(found),
        "Runs that ended early": _errors(found, full=full),
    }
    if full:
        left = (task for task in found.ended(*totals.OPEN) if task.task not in needy)
        by = totals.agents(found)
        costs = (
            f"{plain.line(name, 60)}: {plain.count(count, 'task')} done, {spent.in_words(count)}"
            for name, (count, spent) in by.items()
        )
        sections |= {
            "Open": _rows(f"{_name(task.task)}: {totals.state(task, now)}" for task in left),
            "Refused to agents": _rows(dict.fromkeys(found.denied)),
            "Learned": _rows(dict.fromkeys(found.texts("learning"))),
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
    if mended := [len(tried) for task in done if (tried := task.of("attempt"))]:
        tasks = plain.count(len(mended), "task")
        yield "", ""
        yield f"{plain.count(sum(mended), 'failed attempt')} of {tasks} came right later", ""


def following(ended: RunEnded) -> str:
    """The last line: what to type next; empty where an error says it."""
    if ended.stopped:
        why = "the time of --until has come" if ended.until else "stopped, as asked"
        return f"{why}; the next {ended.called} goes on with: {ended.stopped}"
    if ended.interrupted:
        return ""
    free = (ended.open_tasks or 0) - len(ended.needs) - len(ended.held)
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


def _unproven(done: Sequence[Task]) -> int:
    return sum(unverified(task.proved) for task in done)


def _name(task: str) -> str:
    return plain.line(task, 100)


def _with_commit(task: Task) -> str:
    return f"{_name(task.task)}  ({task.commit[:7]})" if task.commit else _name(task.task)


def _rows(texts: Iterable[str]) -> Iterator[Row]:
    return ((f"  {plain.line(text, 600)}", "") for text in texts)


def _looks(found: History, now: Standing, done: Sequence[Task]) -> Iterator[Row]:
    """The same once, with how often."""
    met: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in totals.review(found, now):
        text = one["text"].partition(":")[0] if one["what"] == "flaky" else one["text"]
        met.setdefault((one["what"], text), []).append(one)
    for (what, _), same in met.items():
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


def _tried(found: History) -> Iterator[Row]:
    """Of tasks that are not done."""
    for task in found.tasks.values():
        if task.outcome != "done" and (tried := task.of("attempt")):
            rows = [f"  {_name(task.task)}"]
            for one in tried:
                rows.append(f"      {one.get('attempt')}: {plain.line(str(one.get('reason')))}")
                rows += [f"         git show {plain.line(one['ref'])}"] * bool(one.get("ref"))
            yield "\n".join(rows), ""


def _errors(found: History, *, full: bool) -> Iterator[Row]:
    """The same once, with how often. At a run's end its own is said after all."""
    last = "" if full else next(reversed(found.runs), "")
    errors = [error for error in totals.errors(found) if error["run"] != last]
    often = Counter(str(error["text"]) for error in errors)
    return _rows(
        f"{local(error['time'])}  {text}{f' ({often[text]} times)' if often[text] > 1 else ''}"
        for text, error in {str(error["text"]): error for error in errors}.items()
    )
