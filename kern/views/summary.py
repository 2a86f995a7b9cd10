"""What was done and what needs you, in the order in which a tired person reads it in the morning:
how it went, what may be wrong on the branch, what needs you, what was done, what failed, what to
type next. A run says it at its end, of the whole night; `kern report` of any time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kern import plain
from kern.events import RunEnded
from kern.journal import sentences, totals
from kern.journal.history import History, Run, Story, Task, fold
from kern.journal.totals import NOWHERE, Agent, Standing
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
    worst = bool(ended.needs or ended.interrupted or _unproven(found, now))
    yield "", ""
    yield headline(ended, found), HEAD if not worst else f"{HEAD} {NOTICE}"
    if len(found.runs) > 1:
        yield _night(found), HEAD
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
    times = ", ".join(filter(None, (plain.span(ended.seconds), _waited(run))))
    return f"{', '.join((*counts, still))}; {ended.cost}{paid}{used}, {times}"


def _night(found: History) -> str:
    runs = [*found.runs.values()]
    since = local(runs[0].records[0]["time"], "%a %H:%M")
    took = plain.span(sum(run.ended - run.began for run in runs))
    counts = f"{len(found.ended('done'))} done in {len(runs)} runs"
    times = ", ".join(filter(None, (took, _waited(found))))
    return f"in all since {since}, as below: {counts}; {found.spent.cost}, {times}"


def _waited(found: Story) -> str:
    return totals.waited(*totals.outages(found.of("outage")))


def _counts(
    done: int, tried: int, bare: int, needs: Sequence[Need], held: Sequence[Need]
) -> Iterator[str]:
    yield f"{done} done"
    if tried:
        yield f"{plain.count(tried, 'experiment')} did not work"
    for number, what in ((len(needs), "need you"), (len(held), "held"), (bare, UNVERIFIED)):
        if number:
            yield f"{number} {what}"


def report(found: History, now: Standing, *, markdown: bool = False) -> str:
    """All of it, for a terminal or as the text of a pull request."""
    if not found.runs:
        return "nothing in the journal yet: it begins with the first run"
    done, tried = len(totals.done(found, now)), len(found.ended("concluded"))
    needs = totals.needs(found, now)
    counts = ", ".join(_counts(done, tried, _unproven(found, now), needs, now.held))
    where = f"in {plain.count(len(found.runs), 'run')}"
    head = f"{counts} {where}; {found.spent.in_words(done)} (costs are API-equivalent)"
    rows = (text for text, _ in body(found, now, full=True))
    texts = [head, *filter(None, [_waited(found)]), *rows]
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
    for title, rows, where in (
        ("Look at this", _looks(found, now), "kern report"),
        ("Needs you", map(_need, needs), "kern status"),
        ("Held", map(_need, now.held), "kern status"),
        ("Open tasks that only wait", _rows(late), "kern status"),
        ("Done", _done(totals.done(found, now)), "git log"),
        ("Tried, did not work", _of(found, "concluded"), "git log"),
        ("Split into subtasks", _of(found, "decomposed"), "kern status"),
        ("Failed attempts, with the work of each", _tried(found), "kern report"),
        ("Runs that ended early", _errors(found, full=full), "kern log"),
    ):
        yield from _section(title, rows, where, most)
    if mended := [len(tried) for task in totals.done(found, now) if (tried := task.of("attempt"))]:
        tasks = plain.count(len(mended), "task")
        yield "", ""
        yield f"{plain.count(sum(mended), 'failed attempt')} of {tasks} came right later", ""
    if full:
        left = [task for task in found.ended(*totals.OPEN) if task.task not in needy]
        opened = [f"{plain.line(task.task, 100)}: {totals.state(task, now)}" for task in left]
        yield from _section("Open", _rows(opened), "", most)
        refused = [tool for step in found.steps for tool in step.record.get("denied") or ()]
        yield from _section("Refused to agents", _rows(dict.fromkeys(refused)), "", most)
        learned = dict.fromkeys(str(one["text"]) for one in found.of("learning"))
        yield from _section("Learned", _rows(learned), "", most)
        agents = [_agent(agent) for agent in totals.agents(found)]
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


def _unproven(found: History, now: Standing) -> int:
    return sum(unverified(task.proved) for task in totals.done(found, now))


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
    if bare := [task.proved for task in totals.done(found, now) if unverified(task.proved)]:
        red = "fix the gates that are red, or " if any(bare) else ""
        do = f"To verify such commits, {red}name your checks under [gates] in kern.toml."
        yield [(f"  {do}", NOTICE)]


def _need(need: Need) -> list[Row]:
    number = f"{need.number:4}" if need.number else "    "
    return [
        (f"{number}  {plain.line(need.task, 100)}", NOTICE),
        (f"      {plain.line(need.why)}", ""),
        (f"      {need.do}", HEAD),
    ]


def _done(done: Sequence[Task]) -> Iterator[list[Row]]:
    """A line each, and once what stands behind most of them."""
    proofs = Counter(_proof(task) for task in done if not unverified(task.proved))
    usual = proofs.most_common(1)[0][0] if proofs else ""
    for task in done:
        bare, proof = unverified(task.proved), _proof(task)
        how = f", {UNVERIFIED.upper()}" if bare else "" if proof == usual else f", {proof}"
        text = f"{plain.line(task.task, 100)}  ({plain.line(task.detail, 100)}){how}"
        yield [(f"  {text}", NOTICE if bare else GOOD)]
    if usual:
        alike = "all " if proofs.total() == len(done) == proofs[usual] else "the others "
        yield [(f"  {alike * (len(done) > 1)}{plain.line(usual)}", "")]


def _proof(task: Task) -> str:
    """`verified by test, lint`."""
    proof = task.proved.partition(";")[0].replace(" (flaky)", "")
    return re.sub(r"(by |, )gate ", r"\1", proof)


def _of(found: History, outcome: str) -> Iterator[list[Row]]:
    return _rows(
        f"{plain.line(task.task, 100)}{f'  ({task.commit[:7]})' if task.commit else ''}"
        for task in found.ended(outcome)
    )


def _tried(found: History) -> Iterator[list[Row]]:
    """Of tasks that are not done."""
    for task in found.tasks.values():
        if task.outcome != "done" and (tried := task.of("attempt")):
            rows = [(f"  {plain.line(task.task, 100)}", "")]
            for one in tried:
                why = plain.line(str(one.get("reason")))
                rows.append((f"      {one.get('attempt')}: {why}", ""))
                if ref := one.get("ref"):
                    rows.append((f"         git show {plain.line(ref)}", ""))
            yield rows


def _errors(found: History, *, full: bool) -> Iterator[list[Row]]:
    """The same once, with how often. At a run's end its own is said after all."""
    last = "" if full else next(reversed(found.runs), "")
    errors = [error for error in totals.errors(found) if error["run"] != last]
    often = Counter(str(error["text"]) for error in errors)
    return _rows(
        f"{local(error['time'])}  {text}{f' ({often[text]} times)' if often[text] > 1 else ''}"
        for text, error in {str(error["text"]): error for error in errors}.items()
    )


def _agent(agent: Agent) -> str:
    done = f"{plain.count(agent.done, 'task')} done, " if agent.done else ""
    stages = plain.count(agent.spent.stages, "stage")
    return f"{plain.line(agent.name, 60)}: {done}{stages}, {agent.spent.in_words(agent.done)}"
