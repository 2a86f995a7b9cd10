"""What a history adds up to: the data of a report, what to look at, and a forecast. Pure."""

import re
from statistics import mean
from typing import Any

from kern import plain
from kern.journal.history import History, Record, Run, Story, Task
from kern.model import UNVERIFIED

FROM, LEAST = 20, 3  # finished tasks, the newest, that a forecast is made from
_ENDED = ("task", "outcome", "detail", "proved", "commit", "state")
_TRIED = ("attempt", "reason", "ref", "cause")
_SPAN = {"since", "until", "seconds"}


def summary(history: History) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. Costs include retries and failed attempts."""
    return {
        "runs": [of_run(run) for run in history.runs.values()],
        "tasks": [of_task(task) for task in history.tasks.values()],
        "done": len(history.done),
        "needs": [need._asdict() for need in history.needs],
        **history.figures,
        "review": [*review(history)],
    }


def of_run(run: Run) -> dict[str, Any]:
    times = {"began": run.records[0]["time"], "ended": run.records[-1]["time"]}
    ends = {"exit": run.exit, "seconds": round(run.ended - run.began, 3), "done": run.ends["done"]}
    return {"run": run.run, "branch": run.branch, **times, **run.figures, **ends}


def of_task(task: Task) -> dict[str, Any]:
    attempts = [{name: one.get(name) for name in _TRIED} for one in task.of("attempt")]
    return {**{name: getattr(task, name) for name in _ENDED}, "attempts": attempts, **task.figures}


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


def review(history: History) -> list[dict[str, str]]:
    """What a person should look at on the branch before all else, each with where it is, ranked by
    risk; of two alike that of a task which no gate of its own and no judge has seen comes first.
    """
    looks = [(task, doubt) for task in history.done for doubt in _doubts(task)]
    warnings = ((record.get("task"), _warning(record)) for record in history.records)
    looks += [(history.tasks.get(task or "", Task()), text) for task, text in warnings if text]
    looks.sort(key=lambda one: risk(one[1], one[0].proved))
    return [
        {
            "task": task.task,
            "text": text,
            "where": f"git show {task.commit[:10]}" if task.commit else "",
        }
        for task, text in looks
    ]


def _doubts(task: Task) -> list[str]:
    if not task.bare:
        return task.proved.split("; ")[1:]
    why = task.proved.removeprefix(UNVERIFIED).strip(" :,;") or "no gate passed for this commit"
    return [f"UNVERIFIED: {why}"]


def _warning(record: Record) -> str:
    if record["kind"] == "warning":
        return str(record.get("text"))
    flaky = record.get("flaky")
    return f"flaky {record.get('gate')}: {flaky}; green on the same files" if flaky else ""


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
    last = history.ended("done")[-FROM:]
    if len(last) < LEAST or tasks < 1:
        return ""
    costs = [one.cost.usd for one in last if one.stages and not one.cost.unpriced]
    money = f"${tasks * mean(costs):.2f}, " if len(costs) >= LEAST else ""
    took = plain.span(tasks * mean(one.seconds for one in last))
    what = f"{plain.count(tasks, 'task')}, about {money}{took} of agents"
    return f"{what} (an estimate from your last {len(last)} finished tasks)"
