"""What a history adds up to: the data of a report, what to look at, and a forecast. Pure."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import mean
from typing import Any

from kern import plain
from kern.journal.history import History, Run, Story, Task
from kern.model import SAID, UNVERIFIED, Need, unverified

FROM, LEAST = 20, 3  # finished tasks, the newest, that a forecast is made from
_OPEN = ("open", "answered")
NEEDY = ("skipped", "blocked", "asked")  # outcomes that call for a person


@dataclass(frozen=True, slots=True)
class SpecState:
    """How things stand now by SPEC.md, whatever the journal tells of what happened."""

    needs: tuple[Need, ...] = ()
    held: tuple[Need, ...] = ()  # by a person
    marks: Mapping[str, str] = field(default_factory=dict)  # by a task: done, answered or open


UNREAD = SpecState()
_TRIED = ("attempt", "reason", "ref", "cause")
_SPAN = {"since", "until", "seconds"}


def summary(history: History, now: SpecState = UNREAD) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. Costs include retries and failed attempts;
    null where no stage named one, and where some did not, `unpriced` counts them.
    """
    ready, usd = len(done(history, now)), history.spent.cost_usd
    return {
        "runs": [of_run(run) for run in history.runs.values()],
        "tasks": [of_task(task, now) for task in history.tasks.values()],
        "done": ready,
        "needs": [need._asdict() for need in now.needs],
        "held": [need._asdict() for need in now.held],
        **asdict(history.spent),
        "cost_per_done_usd": round(usd / ready, 6) if ready and usd is not None else None,
        "review": review(history, now),
    }


def done(history: History, now: SpecState) -> list[Task]:
    """But for those that were opened again, by kern undo or by hand."""
    return [task for task in history.ended("done") if now.marks.get(task.task) not in _OPEN]


def of_run(run: Run) -> dict[str, Any]:
    times = {"began": run.records[0]["time"], "ended": run.records[-1]["time"]}
    ends = {"exit": run.exit, "seconds": round(run.ended - run.began, 3), "done": run.ends["done"]}
    return {"run": run.run, "branch": run.fact("branch"), **times, **asdict(run.spent), **ends}


def of_task(task: Task, now: SpecState = UNREAD) -> dict[str, Any]:
    names = ("task", "outcome", "detail", "proved", "commit")
    return {
        **{name: getattr(task, name) for name in names},
        "state": state(task, now),
        "attempts": [{name: one.get(name) for name in _TRIED} for one in task.of("attempt")],
        **asdict(task.spent),
    }


def state(task: Task, now: SpecState = UNREAD) -> str:
    """A task's outcome, in a word or two, with what a person has done since."""
    mark = now.marks.get(task.task)
    if task.outcome == "done" and mark in _OPEN:
        return "opened again"
    if task.outcome in (*NEEDY, "open") and mark == "done":
        return "done by you"
    if task.outcome == "asked" and mark == "answered":
        return "answered"
    bare = task.outcome == "done" and unverified(task.proved)
    return f"done, {UNVERIFIED}" if bare else SAID.get(task.outcome, task.outcome)


def left(history: History, now: SpecState) -> list[Task]:
    """What is open, and needs nobody."""
    needy = {need.task for need in (*now.needs, *now.held)}
    still = (task for task in history.tasks.values() if now.marks.get(task.task) in _OPEN)
    return [task for task in still if task.task not in needy]


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


def review(history: History, now: SpecState = UNREAD) -> list[dict[str, str]]:
    """What a person should look at on the branch before all else, each with where it is, ranked by
    risk; of two alike that of a task which no gate of its own and no judge has seen comes first.
    """
    looks = [(task, doubt) for task in done(history, now) for doubt in _doubts(task)]
    for record in history.records:
        task = history.tasks.get(str(record.get("task")), Task())
        if record["kind"] == "warning":
            looks.append((task, str(record.get("text"))))
        elif record.get("flaky"):
            how = f"flaky {record.get('gate')}: {record['flaky']}; green on the same files"
            looks.append((task, how))
    looks.sort(key=lambda one: risk(one[1], one[0].proved))
    where = {task.task: f"git show {task.commit[:10]}" for task, _ in looks if task.commit}
    return [
        {"task": task.task, "text": text, "where": where.get(task.task, "")} for task, text in looks
    ]


def _doubts(task: Task) -> list[str]:
    if not unverified(task.proved):
        return task.proved.split("; ")[1:]
    why = task.proved.removeprefix(UNVERIFIED).strip(" :,;") or "no gate passed for this commit"
    return [f"UNVERIFIED: {why}"]


def risk(text: str, proved: str = "") -> tuple[int, bool]:
    ranks = (rank for rank, words in enumerate(_RISKS) if re.search(words, text))
    return next(ranks, len(_RISKS)), "gate `" in proved or "judge of" in proved


def outages(of: Story) -> tuple[int, float]:
    """How many, and for how many seconds, by what the run itself says of its workers' too."""
    said = [one for one in of.of("outage") if one.keys() >= _SPAN and "fleet" not in one]
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
    what = f"{plain.count(tasks, 'task')}, about {money}{took} of agents"
    return f"{what} (an estimate from your last {len(last)} finished tasks)"
