"""What a history adds up to: the data of a report, what to look at, and a forecast. Pure."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import mean
from typing import Any

from kern import plain
from kern.journal.history import FINISHED, History, Run, Story, Task
from kern.model import SAID, UNVERIFIED, Need, unverified

FROM, LEAST = 20, 3  # finished tasks, the newest, that a forecast is made from
NEEDY = ("skipped", "blocked", "asked")  # outcomes that call for a person
OPEN = (*NEEDY, FINISHED, "open")


@dataclass(frozen=True, slots=True)
class SpecState:
    """How things stand now by SPEC.md, whatever the journal tells of what happened."""

    needs: tuple[Need, ...] | None = None  # None: it was not looked at, or cannot be read
    held: tuple[Need, ...] = ()  # by a person
    marks: Mapping[str, str] = field(default_factory=dict)  # by a task: done, answered or open


NOT_READ = SpecState()


def summary(history: History, now: SpecState = NOT_READ) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. Costs include retries and failed attempts;
    null where no stage named one, and where some did not, `unpriced` counts them.
    """
    ready = done(history, now)
    return {
        "runs": [of_run(run) for run in history.runs.values()],
        "tasks": [of_task(task, now) for task in history.tasks.values()],
        "done": len(ready),
        "needs": [need._asdict() for need in needs(history, now)],
        "held": [need._asdict() for need in now.held],
        **asdict(history.spent),
        "cost_per_done_usd": history.spent.each(len(ready)),
        "errors": errors(history),
        "outages": dict(zip(("count", "seconds"), outages(history), strict=True)),
        "review": review(history, now),
    }


def done(history: History, now: SpecState) -> list[Task]:
    """But for those that were opened again, by kern undo or by hand."""
    opened = ("open", "answered")
    return [task for task in history.ended("done") if now.marks.get(task.task) not in opened]


def of_run(run: Run) -> dict[str, Any]:
    times = {"began": run.records[0]["time"], "ended": run.records[-1]["time"]}
    end = {"exit": run.exit, "seconds": round(run.ended - run.began, 3)}
    return {
        "run": run.run,
        "branch": run.fact("branch"),
        "payer": run.fact("payer"),
        **times,
        **end,
    }


def of_task(task: Task, now: SpecState = NOT_READ) -> dict[str, Any]:
    names = ("task", "outcome", "detail", "proved", "commit")
    fields = ("attempt", "reason", "ref", "cause")
    red = (str(gate.get("gate")) for gate in task.of("gate") if gate.get("red"))
    return {
        **{name: getattr(task, name) for name in names},
        "state": state(task, now),
        "attempts": [{name: one.get(name) for name in fields} for one in task.of("attempt")],
        "retries": len(task.of("retry")),
        "denied": task.denied,
        "learned": task.texts("learning"),
        "warnings": task.texts("warning"),
        "red_gates": list(dict.fromkeys(red)),
        **asdict(task.spent),
    }


def state(task: Task, now: SpecState = NOT_READ) -> str:
    """A task's outcome, in a word or two, with what a person has done since."""
    mark = now.marks.get(task.task)
    if task.outcome == "done":
        again, bare = mark in ("open", "answered"), unverified(task.proved)
        return "opened again" if again else f"done, {UNVERIFIED}" if bare else "done"
    if task.outcome in OPEN and mark == "done":
        return "done by you"
    if task.outcome == "asked" and mark == "answered":
        return "answered"
    return SAID.get(task.outcome, task.outcome)


def needs(history: History, now: SpecState) -> tuple[Need, ...]:
    """Each task that needs a person, once: as SPEC.md has them; else as the journal left them."""
    tasks = history.ended(*NEEDY)
    rows = (Need(0, 0, task.task, task.detail, "kern status") for task in tasks)
    return tuple(rows) if now.needs is None else now.needs


def errors(history: History) -> list[dict[str, Any]]:
    """That ended runs early. What ends all of many at once the run itself says."""
    names = ("time", "run", "branch", "text")
    own = (one for one in history.of("error") if "worker" not in one)
    return [{name: one.get(name) for name in names} for one in own]


# What may be wrong with a change, by words of it, the worst first; then all else.
_RISKS = (
    "green only with its own",
    "^UNVERIFIED: ",
    "^tests: ",
    "named by a gate$",
    "^settings of its gates: ",
    "it runs unasked",
    "^dependencies: ",
    "^many files: ",
    "the judges disagree",
)


def review(history: History, now: SpecState = NOT_READ) -> list[dict[str, Any]]:
    """What a person should look at on the branch before all else, each with where it is, ranked by
    risk; of two alike that of a task which no gate of its own and no judge has seen comes first.
    """
    looks: list[tuple[Task, str]] = []
    for task in done(history, now):
        why = task.proved.removeprefix(UNVERIFIED).strip(" :,;") or "no gate passed for this commit"
        doubts = task.proved.split("; ")[1:]
        bare = unverified(task.proved)
        looks += ((task, doubt) for doubt in ([f"UNVERIFIED: {why}"] if bare else doubts))
    for record in history.records:
        task = history.tasks.get(str(record.get("task")), Task())
        if record["kind"] == "warning":
            looks.append((task, str(record.get("text"))))
        elif record.get("flaky"):
            how = f"flaky {record.get('gate')}: {record['flaky']}; green on the same files"
            looks.append((task, how))
    return [
        {
            "task": task.task,
            "text": text,
            "where": f"git show {task.commit[:10]}" if task.commit else "",
        }
        for task, text in sorted(looks, key=lambda one: risk(one[1], one[0].proved))
    ]


def risk(text: str, proved: str = "") -> tuple[int, bool]:
    ranks = (rank for rank, words in enumerate(_RISKS) if re.search(words, text))
    return next(ranks, len(_RISKS)), "gate `" in proved or "judge of" in proved


def outages(of: Story) -> tuple[int, float]:
    """How many, and for how many seconds, by what the run itself says of its workers' too."""
    said = [one for one in of.of("outage") if "seconds" in one and "worker" not in one]
    spans = {one["since"]: one["until"] - one["seconds"] for one in said}  # the last word of each
    return len(spans), round(sum(max(end - since, 0.0) for since, end in spans.items()), 3)


def forecast(history: History, tasks: int) -> str:
    """What so many tasks may cost and take by the last finished ones; empty where they are few."""
    last = [task.spent for task in history.ended("done")][-FROM:]
    if len(last) < LEAST or tasks < 1:
        return ""
    costs = [spent.cost_usd for spent in last if spent.cost_usd is not None and not spent.unpriced]
    money = f"${tasks * mean(costs):.2f}, " if len(costs) >= LEAST else ""
    took = plain.span(tasks * mean(spent.seconds for spent in last))
    basis = f"an estimate from your last {len(last)} finished tasks"
    return f"{plain.count(tasks, 'task')}, about {money}{took} of agents ({basis})"
