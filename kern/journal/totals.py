"""What a history adds up to: the data of a report, what to look at, and a forecast. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kern import plain
from kern.journal.history import GATE, History, Record, Run, Spent, Task, number
from kern.model import SAID, UNVERIFIED, Need, Stage, unverified

FROM, LEAST = 20, 3  # finished tasks, the newest, that a forecast is made from
SPAN = ("since", "until", "seconds")  # of an outage; the last: of the wait that begins
NOTHING = ("skipped", "blocked", "asked")  # outcomes that call for a person
OPEN = (*NOTHING, "open")


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand now, beside what the journal tells of what happened: as SPEC.md has its
    tasks, by their texts, and which refs git still has.
    """

    needs: tuple[Need, ...] | None = None  # None: SPEC.md was not looked at, or cannot be read
    held: tuple[Need, ...] = ()  # by a person
    done: frozenset[str] = frozenset()  # that are ticked
    answered: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()  # that are not ticked, say after kern undo
    refs: frozenset[str] | None = None  # of saved attempts, as the journal names them


NOWHERE = Standing()


def summary(found: History, now: Standing = NOWHERE) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. Costs include retries and failed attempts;
    null where no stage named one, and where some did not, `unpriced` counts them.
    """
    return {
        "runs": [of_run(run) for run in found.runs.values()],
        "tasks": [of_task(task, now) for task in found.tasks.values()],
        "done": found.done,
        "needs": [need._asdict() for need in needs(found, now)],
        "held": [need._asdict() for need in now.held],
        **asdict(found.spent),
        "cost_per_done_usd": found.spent.each(found.done),
        "agents": by_agent(found),
        "errors": [
            {name: error.get(name) for name in ("time", "run", "branch", "text")}
            for error in found.errors
        ],
        "outages": dict(zip(("count", "seconds"), outages(found.outages), strict=True)),
        "review": review(found, now),
    }


def of_run(run: Run) -> dict[str, Any]:
    head = {"run": run.run, "branch": run.branch, "began": run.first, "ended": run.last}
    seconds = round(run.ended - run.began, 3)
    return {**head, "payer": run.payer, "exit": run.exit, "seconds": seconds}


def of_task(task: Task, now: Standing = NOWHERE) -> dict[str, Any]:
    names = ("task", "outcome", "detail", "proved", "commit", "denied", "learned", "warnings")
    red = (str(gate.get("gate")) for gate in task.gates if gate.get("red"))
    return {
        **{name: getattr(task, name) for name in names},
        "state": state(task, now),
        "attempts": [{**one, "ref": saved(one, now)} for one in task.attempts],
        "retries": len(task.retried),
        "red_gates": list(dict.fromkeys(red)),
        **asdict(task.spent),
    }


def saved(attempt: Mapping[str, Any], now: Standing) -> str:
    """Where git has its work; it may be gone."""
    ref = str(attempt.get("ref") or "")
    return ref if now.refs is None or ref in now.refs else ""


def state(task: Task, now: Standing = NOWHERE) -> str:
    """A task's outcome, in a word or two, with what a person has done since."""
    if task.outcome == "done" and task.task in now.again:
        return "done, and open again"
    if task.outcome == "done" and unverified(task.proved):
        return f"done, {UNVERIFIED}"
    if task.outcome in OPEN and task.task in now.done:
        return "done by you"
    if task.outcome == "asked" and task.task in now.answered:
        return "answered"
    return SAID.get(task.outcome, task.outcome)


def needs(found: History, now: Standing) -> tuple[Need, ...]:
    """Each task that needs a person, once: as SPEC.md has them; else as the journal left them."""
    left = [task for task in found.tasks.values() if task.outcome in NOTHING]
    rows = (Need(0, 0, task.task, task.detail, "kern status") for task in left)
    return tuple(rows) if now.needs is None else now.needs


# ---------------------------------------------------------------- is anything wrong?


def review(found: History, now: Standing = NOWHERE) -> list[dict[str, Any]]:
    """What a person should look at on the branch before all else, each with where it is."""
    rows = []

    def look(task: Task | None, what: str, text: str) -> None:
        done = f"git show {task.commit[:10]}" if task and task.commit else ""
        row = {"task": task.task if task else "", "what": what, "text": text, "where": done}
        rows.append(row)

    for task in found.tasks.values():
        _, *doubts = task.proved.split("; ") if task.outcome == "done" else [""]
        if task.outcome == "done" and unverified(task.proved):
            look(task, UNVERIFIED, "no gate passed for this commit")
        for doubt in doubts:
            look(task, "doubt", doubt)
        for text in task.warnings:
            if _still(text, now.refs):
                look(task, "warning", text)
    for text in found.warnings:
        look(None, "warning", text)
    for gate in found.flaky:
        how = f"{gate.get('gate')}: {gate.get('flaky')}; green on the same files"
        look(found.tasks.get(str(gate.get("task"))), "flaky", how)
    return rows


def _still(text: str, refs: frozenset[str] | None) -> bool:
    """Whether git has the saved work that a warning names."""
    named = re.findall(r"kern/attempts/[^\s;]+", text)
    return refs is None or all(ref in refs for ref in named)


def outages(found: Iterable[Record]) -> tuple[int, float]:
    """How many, and for how many seconds; those that several workers met at once are one."""
    met = [[number(one.get(name)) for name in SPAN] for one in found]
    count, total, end = 0, 0.0, 0.0
    for since, until, still in sorted(met):
        count += since > end
        total += max(until - still - max(since, end), 0.0)
        end = max(end, until - still)
    return count, round(total, 3)


def waited(count: int, seconds: float) -> str:
    return f"waited {plain.span(seconds)} in {plain.count(count, 'outage')}" if count else ""


# ---------------------------------------------------------------- who finishes tasks for least


@dataclass(slots=True)
class _Agent:
    done: int = 0
    attempts: int = 0  # that failed
    spent: Spent = field(default_factory=Spent)


def by_agent(found: History) -> list[dict[str, Any]]:
    """What each agent and model cost, and what came of it, most stages first. What came of a task
    counts for whoever did its last implement stage; an older kern noted no agent.
    """
    rows: dict[tuple[str, str], _Agent] = {}
    last: dict[str, _Agent] = {}
    for step in found.steps:
        if step.kind != GATE and step.record.get("did") != "start":
            who = str(step.record.get("agent") or ""), str(step.record.get("model") or "")
            row = rows.setdefault(who, _Agent())
            row.spent.pay(step.record)
            if step.kind == Stage.IMPLEMENT:
                row.attempts += bool(step.failed) and step.record.get("did") == "end"
                last[str(step.record.get("task"))] = row
    for task in found.tasks.values():
        if task.outcome == "done" and task.task in last:
            last[task.task].done += 1
    told = [
        {"agent": agent, "model": model, "done": row.done, "attempts": row.attempts}
        | {**asdict(row.spent), "cost_per_done_usd": row.spent.each(row.done)}
        for (agent, model), row in rows.items()
    ]
    return sorted(told, key=lambda row: -row["stages"])


# ---------------------------------------------------------------- the forecast


def forecast(found: History, tasks: int) -> tuple[str, float]:
    """What so many tasks may cost and take, in words, with retries and failed attempts, and the
    seconds; empty and 0 where too few are finished. Of a task whose beginning is not in the records
    nothing is counted.
    """
    last = [task for task in found.finished if task.whole][-FROM:]
    if len(last) < LEAST or tasks < 1:
        return "", 0.0
    known = [task.spent for task in last if not task.spent.unpriced]
    costs = [spent.cost_usd for spent in known if spent.cost_usd is not None]
    money, each = "", ""
    if len(costs) >= LEAST:
        each_usd, cheap, dear = typical(costs)
        money = f"${tasks * each_usd:.2f}, "
        each = f": ${cheap:.2f}–{dear:.2f} a task"  # noqa: RUF001
    took = [sum(step.ended - step.began for step in task.steps) for task in last]
    seconds = tasks * typical(took)[0]
    rough = plain.span(60 * round(seconds / 60) if seconds >= 90 else seconds)
    made = f"an estimate from your last {len(last)} finished tasks{each}"
    return f"{plain.count(tasks, 'task')}, about {money}{rough} ({made})", seconds


def typical(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of the middle half, its least and its greatest: one task that ran away is not in it.
    A median would forget the expensive third, and a forecast is of a sum.
    """
    cut = len(values) // 4
    middle = sorted(values)[cut : len(values) - cut]
    return sum(middle) / len(middle), middle[0], middle[-1]
