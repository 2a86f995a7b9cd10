"""What a history adds up to: the data of a report, what to look at, and a forecast. Pure."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import mean
from typing import Any

from kern import plain
from kern.journal.history import History, Record, Run, Spent, Task
from kern.model import SAID, UNVERIFIED, Need, Stage, unverified

FROM, LEAST = 20, 3  # finished tasks, the newest, that a forecast is made from
SPAN = ("since", "until", "seconds")  # of an outage; the last: of the wait that begins
NEEDY = ("skipped", "blocked", "asked")  # outcomes that call for a person
OPEN = (*NEEDY, "open")


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand now by SPEC.md, whatever the journal tells of what happened."""

    needs: tuple[Need, ...] | None = None  # None: it was not looked at, or cannot be read
    held: tuple[Need, ...] = ()  # by a person
    done: frozenset[str] = frozenset()  # the texts of tasks that are ticked
    answered: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()  # of tasks that are not, or not any more


NOWHERE = Standing()


def summary(found: History, now: Standing = NOWHERE) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. Costs include retries and failed attempts;
    null where no stage named one, and where some did not, `unpriced` counts them.
    """
    return {
        "runs": [of_run(run) for run in found.runs.values()],
        "tasks": [of_task(task, now) for task in found.tasks.values()],
        "done": len(done(found, now)),
        "needs": [need._asdict() for need in needs(found, now)],
        "held": [need._asdict() for need in now.held],
        **asdict(found.spent),
        "cost_per_done_usd": found.spent.each(len(done(found, now))),
        "agents": [
            {"agent": one.name, "done": one.done, **asdict(one.spent)} for one in agents(found)
        ],
        "errors": errors(found),
        "outages": dict(zip(("count", "seconds"), outages(found.of("outage")), strict=True)),
        "review": review(found, now),
    }


def done(found: History, now: Standing) -> list[Task]:
    """But for those that were opened again, by kern undo or by hand."""
    return [task for task in found.done if task.task not in now.opened]


def of_run(run: Run) -> dict[str, Any]:
    times = {"began": run.records[0]["time"], "ended": run.records[-1]["time"]}
    end = {"exit": run.exit, "seconds": round(run.ended - run.began, 3)}
    return {"run": run.run, "branch": run.branch, "payer": run.payer, **times, **end}


def of_task(task: Task, now: Standing = NOWHERE) -> dict[str, Any]:
    names = ("task", "outcome", "detail", "proved", "commit")
    tried = ("attempt", "reason", "ref", "cause")
    red = (str(gate.get("gate")) for gate in task.of("gate") if gate.get("red"))
    return {
        **{name: getattr(task, name) for name in names},
        "state": state(task, now),
        "attempts": [{name: one.get(name) for name in tried} for one in task.of("attempt")],
        "retries": len(task.of("retry")),
        "denied": [tool for step in task.steps for tool in step.record.get("denied") or ()],
        "learned": [one["text"] for one in task.of("learning")],
        "warnings": [one["text"] for one in task.of("warning")],
        "red_gates": list(dict.fromkeys(red)),
        **asdict(task.spent),
    }


def state(task: Task, now: Standing = NOWHERE) -> str:
    """A task's outcome, in a word or two, with what a person has done since."""
    if task.outcome == "done" and task.task in now.opened:
        return "opened again"
    if task.outcome == "done" and unverified(task.proved):
        return f"done, {UNVERIFIED}"
    if task.outcome in OPEN and task.task in now.done:
        return "done by you"
    if task.outcome == "asked" and task.task in now.answered:
        return "answered"
    return SAID.get(task.outcome, task.outcome)


def needs(found: History, now: Standing) -> tuple[Need, ...]:
    """Each task that needs a person, once: as SPEC.md has them; else as the journal left them."""
    left = found.ended(*NEEDY)
    rows = (Need(0, 0, task.task, task.detail, "kern status") for task in left)
    return tuple(rows) if now.needs is None else now.needs


def errors(found: History) -> list[dict[str, Any]]:
    """That ended runs early. What ends all of many at once the run itself says."""
    names = ("time", "run", "branch", "text")
    own = (one for one in found.of("error") if "worker" not in one)
    return [{name: one.get(name) for name in names} for one in own]


def review(found: History, now: Standing = NOWHERE) -> list[dict[str, Any]]:
    """What a person should look at on the branch before all else, each with where it is."""
    rows = []

    def look(task: Task | None, what: str, text: str) -> None:
        where = f"git show {task.commit[:10]}" if task and task.commit else ""
        row = {"task": task.task if task else "", "what": what, "text": text, "where": where}
        rows.append(row)

    for task in done(found, now):
        if unverified(task.proved):
            why = task.proved.removeprefix(UNVERIFIED).strip(" :,;")
            look(task, UNVERIFIED, why or "no gate passed for this commit")
            continue
        for doubt in task.proved.split("; ")[1:]:
            look(task, "doubt", doubt)
    for record in found.records:
        of = found.tasks.get(str(record.get("task")))
        if record["kind"] == "warning":
            look(of, "warning", record["text"])
        elif record.get("flaky"):
            how = f"{record.get('gate')}: {record['flaky']}; green on the same files"
            look(of, "flaky", how)
    return rows


def outages(found: Iterable[Record]) -> tuple[int, float]:
    """How many, and for how many seconds; those that several workers met at once are one."""
    met = [[one.get(name) or 0.0 for name in SPAN] for one in found]
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
class Agent:
    name: str
    done: int = 0  # tasks whose last implement stage was its
    spent: Spent = field(default_factory=Spent)


def agents(found: History) -> list[Agent]:
    """Each agent with its model, most stages first; an older kern noted no agent."""
    rows: dict[str, Agent] = {}
    last: dict[str, Agent] = {}
    for record in found.of("stage"):
        if record.get("did") != "start":
            who = (str(record.get(name) or "") for name in ("agent", "model"))
            name = " ".join(filter(None, who)) or "unknown"
            row = rows.setdefault(name, Agent(name))
            row.spent.pay(record)
            if record.get("stage") == Stage.IMPLEMENT:
                last[str(record.get("task"))] = row
    for task in found.done:
        if task.task in last:
            last[task.task].done += 1
    return sorted(rows.values(), key=lambda row: -row.spent.stages)


def forecast(found: History, tasks: int) -> str:
    """What so many tasks may cost and take by the last finished ones; empty where they are few."""
    last = [task.spent for task in found.done][-FROM:]
    if len(last) < LEAST or tasks < 1:
        return ""
    costs = [spent.cost_usd for spent in last if spent.cost_usd is not None and not spent.unpriced]
    money = f"${tasks * mean(costs):.2f}, " if len(costs) >= LEAST else ""
    took = plain.span(tasks * mean(spent.seconds for spent in last))
    made = f"an estimate from your last {len(last)} finished tasks"
    return f"{plain.count(tasks, 'task')}, about {money}{took} of agents ({made})"
