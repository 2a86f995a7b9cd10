"""What `kern status` shows: a snapshot of SPEC.md, the journal, the run files and the lock as
plain data.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.git import landing, refs
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.journal.history import Run, Worker, fold, moment
from kern.model import SPEC, Cost, Marker, Tier
from kern.pipeline.table import resume
from kern.spec import notes, order
from kern.spec.parse import Kind, Spec, Task
from kern.stages import prompts
from kern.system import control, lock
from kern.system.lock import Holder
from kern.views import project
from kern.views.log import local, warn

_FIRST = 'kern add "what is to be done"'
_WAITS = "commit, stash or move what you have changed of the same files, then: kern"
_LANDS = "finished, waits to land"
_LEFT = "in a worktree: the next kern -j goes on with it"
_SHOWN = 40  # tasks; of a longer SPEC.md those that are open


def shown(folder: Path, *, everything: bool, as_json: bool) -> str:
    """What `kern status` prints."""
    found = snapshot(folder, everything=everything or as_json)
    return plain.data(found) if as_json else text(found)


def snapshot(folder: Path, *, everything: bool = True) -> dict[str, Any]:
    """Reads only. Keys are stable: they are what `--json` prints. Unless `everything` is wanted,
    `tasks` holds of a long SPEC.md the first that are open, and `hidden` counts the others.
    """
    seen = project.look(folder)
    found, scope, parsed = seen.repo, seen.scope, seen.parsed
    head = found.head()
    next_task = order.select(parsed)
    blocker = order.blockers(parsed)
    holder = _holder(found)
    alive = holder is not None and holder.lives(found.git_dir)
    by = holder if alive else None
    run, last, costs = _recent(store.place(found.common_dir), head.name)
    on = bool(by and run and run.run == by.run)  # and no plan, say
    counts = {marker.name.lower(): 0 for marker in Marker}
    for task in parsed.tasks:
        counts[task.marker.name.lower()] += 1
    still = [(n, task) for n, task in enumerate(parsed.tasks, 1) if task.marker is not Marker.DONE]
    workers = _workers(seen, run, on=on)
    whole = everything or len(parsed.tasks) <= _SHOWN
    shown = list(enumerate(parsed.tasks, 1)) if whole else still[:_SHOWN]
    hidden = {"done": counts["done"], "open": len(still) - len(shown)}
    return {
        "root": str(found.root),
        "branch": head.name,
        "folder": str(scope.folder),
        "holder": holder and {"pid": holder.pid, "host": holder.host, "alive": alive},
        "asked": _asked(found),
        "waiting": landing.count_waiting(found),
        "counts": counts,
        "to_do": order.counts(parsed)._asdict(),
        "next": next_task.text if next_task else None,
        "last": last,
        "stage": _stage(run) if run and on else None,
        "workers": workers,
        "run": _run(run, on=on) if run else None,
        "resume": str(resume(seen.at.facts)) if parsed.active else None,
        "help": [need._asdict() for need in order.needs(parsed)],
        "held": [need._asdict() for need in order.holds(parsed)],
        "tasks": [
            _task(parsed, number, task, blocker(task), costs.get(task.text, Cost()))
            for number, task in shown
        ],
        "hidden": {"done": 0, "open": 0} if whole else hidden,
        "example": prompts.is_example(seen.papers.read(SPEC) or ""),
        "diagnostics": [
            {"line": fault.line, "message": fault.message}
            for fault in (*parsed.diagnostics, *order.faults(parsed))
        ],
    }


def _asked(found: Repo) -> str | None:
    """What was asked of the run that is on."""
    holder = _holder(found)
    return "stop" if holder and control.asked(found.git_dir, holder.run) else None


def _holder(found: Repo) -> Holder | None:
    """Who holds the working tree; None where that is another user's to know."""
    try:
        return lock.holder(found.git_dir)
    except KernError:
        return None


def _task(parsed: Spec, number: int, task: Task, why: str, cost: Cost) -> dict[str, Any]:
    noted = bool(task.notes)  # most have none, and there are thousands
    return {
        "number": number,
        "line": task.line,
        "depth": len([*parsed.above(task)]),
        "marker": str(task.marker),
        "text": task.text,
        "attempts": task.attempts if noted else 0,
        "skipped": len(task.of(Kind.SKIPPED)) if noted else 0,
        "question": notes.words(asked) if noted and (asked := notes.pending(task)) else None,
        "tier": str(project.tier(task) if noted else Tier.IMPLEMENT),
        "blocker": (why or None) if task.marker is Marker.PENDING else None,
        "cost_usd": cost.usd,
        "unpriced": cost.unpriced,
    }


def _recent(
    place: Path, branch: str
) -> tuple[Run | None, dict[str, Any] | None, Mapping[str, Cost]]:
    """The branch's run that began last, its last record, and what every task cost. No more of a
    long journal is parsed than these need.
    """
    name = store.last_run(place, branch)
    having = [store.COST, *([json.dumps(name).encode()] if name else [])]
    found = store.every(place, warn, having)
    own = [one for one in found if name and name in (one["run"], one.get("fleet"))]
    own = store.ordered(own)
    last = next((one for one in reversed(own) if one["kind"] != "request"), None)
    return fold(own).runs.get(name), last, store.paid(found)


def _run(run: Run, *, on: bool) -> dict[str, Any]:
    """The branch's run that is under way, else its last: what it came to so far."""
    on = on and run.exit is None
    end = time.time() if on else run.ended
    seconds = {"seconds": round(max(end - run.began, 0.0), 3)}
    spent = asdict(run.spent)
    sums = {name: spent[name] for name in ("cost_usd", "unpriced", "tokens")}
    return {**totals.of_run(run), **seconds, "under_way": on, "done": run.ends["done"], **sums}


def _stage(run: Run) -> dict[str, Any] | None:
    """What the run is at since when, as far as the journal tells."""
    one = run.workers.get(0)
    if not one or not one.doing:
        return None
    return {"stage": one.doing, "task": one.task, "since": one.since}


def _workers(seen: project.Project, run: Run | None, *, on: bool) -> list[dict[str, Any]]:
    """Of many at once: what each does since when; then, in no worker's hands, the finished tasks
    that wait to land, or what a run that has ended left in worktrees. Nothing where one task is
    carried out after the other.
    """
    if not run or not any(run.workers):
        return []
    if on:
        busy = [run.workers[n] for n in sorted(run.workers) if n and run.workers[n].task]
        return [*map(_worker, busy), *(_nobodys(task, _LANDS) for task in run.queue)]
    if not refs.are_below(seen.repo, "refs/heads/kern/work"):
        return []
    from kern.fleet import work, worktree

    there = worktree.branches(seen.repo)
    onto = seen.repo.head().branch
    left = [one for one in seen.parsed.tasks if there and work.branch(onto, one.key) in there]
    return [_nobodys(one.text, _LEFT) for one in left]


def _worker(one: Worker) -> dict[str, Any]:
    doing = f"{one.doing}{f' on {one.where}' if one.where else ''}"
    return {"worker": one.number, "task": one.task, "doing": doing, "since": one.since}


def _nobodys(task: str, doing: str) -> dict[str, Any]:
    return {"worker": None, "task": task, "doing": doing, "since": None}


# ---------------------------------------------------------------- in words


def text(found: Mapping[str, Any]) -> str:
    lines = [f"{found['root']}, branch {found['branch']}", _counted(found)]
    holder = found["holder"]
    if holder:
        held = "a killed run left its lock; the next kern takes it over"
        if holder["alive"]:
            under_way = found["run"] and found["run"]["under_way"]
            busy = "kern is busy, but no run is in progress"
            doing = _crew(found["workers"]) or _doing(found["stage"])
            held = f"run in progress{doing}" if under_way else busy
        lines.append(f"{held}: pid {holder['pid']}")
        if holder["alive"] and found["asked"]:
            what = "the stages in progress" if found["workers"] else "this stage"
            lines.append(f"stops after {what}")
    if found["run"]:
        lines.append(_spent(found["run"]))
    if found["waiting"]:
        lines.append(f"{plain.count(found['waiting'], 'finished commit')} to land: {_WAITS}")
    if found["resume"] and not (holder and holder["alive"]):
        lines.append(f"next: {found['resume'].partition(': ')[2]}")
    at_work = {one["task"]: one for one in found["workers"]}
    lines += ["", *(_line(task, at_work) for task in found["tasks"]), *_hidden(found["hidden"])]
    if found["example"]:
        lines.append(f"{SPEC} is still the example: {_FIRST} takes its place")
    elif not sum(found["counts"].values()) and not found["diagnostics"]:
        lines.append(f"no task in {SPEC} yet: {_FIRST}")
    for key, title in (("help", "needs you:"), ("held", "held:")):
        if rows := found[key]:
            lines += ["", title]
        for one in rows[:_SHOWN]:
            lines.append(f"{one['number']:4}  {plain.line(one['why'], 400)}")
            lines.append(f"      {one['do']}")
        if (more := len(rows) - _SHOWN) > 0:
            lines.append(f"and {more} more: kern status --json | jq .{key}")
    lines += [
        f"line {fault['line']}: {plain.line(fault['message'])}" for fault in found["diagnostics"]
    ]
    lines += ["", f"run files: {found['folder']}"]
    return plain.block("\n".join(lines))


def _counted(found: Mapping[str, Any]) -> str:
    """Of the tasks that kern carries out; a parent is ticked with its last subtask."""
    counts, under_way = found["to_do"], len(found["workers"])
    active, pending = counts["active"] + under_way, max(counts["pending"] - under_way, 0)
    said = f"{counts['done']} done, {active} in progress, {pending} pending"
    needy = f", {len(found['help'])} need you" if found["help"] else ""
    needy += f", {len(found['held'])} held" if found["held"] else ""
    parents = plain.count(counts["parents"], "parent")
    above = f"; {parents} of subtasks, {counts['parents_done']} done" if counts["parents"] else ""
    return f"{said}{needy}{above}"


def _doing(stage: Mapping[str, Any] | None) -> str:
    if stage is None:
        return ""
    task = f" of {plain.line(stage['task'], 60)}" if stage["task"] else ""
    took = plain.span(time.time() - moment(stage["since"]))
    return f", {plain.line(stage['stage'], 180)}{task} since {local(stage['since'])} ({took})"


def _crew(workers: Sequence[Mapping[str, Any]]) -> str:
    busy = sum(one["worker"] is not None for one in workers)
    return f", {plain.count(busy, 'worker')} busy" if workers else ""


def _spent(run: Mapping[str, Any]) -> str:
    priced = run["cost_usd"] is not None or run["unpriced"]  # nothing before a stage has ended
    which = "this run" if run["under_way"] else f"the last run, {local(run['began'])}"
    code = "" if run["exit"] in (None, 0) else f", exit {run['exit']}"
    counted = sum(run["tokens"].values())
    tokens = f", {counted:,} tokens" if counted else ""
    done, took = f"{run['done']} done", plain.span(run["seconds"])
    cost = f"{Cost(run['cost_usd'], run['unpriced'])}{tokens}, " if priced else ""
    return f"{which}: {done}, {cost}{took}{code}"


def _hidden(counts: Mapping[str, int]) -> list[str]:
    done, still = counts["done"], counts["open"]
    told = [f"{done} finished"] * (done > 0) + [f"{still} more open"] * (still > 0)
    return [f"and {', '.join(told)}: kern status --all"] if told else []


def _line(task: Mapping[str, Any], at_work: dict[str, Mapping[str, Any]]) -> str:
    """`at_work`: by their texts those that SPEC.md does not tell of; each is told once."""
    notes = [plain.count(task["attempts"], "attempt")] if task["attempts"] else []
    if task["cost_usd"] is not None or task["unpriced"]:
        notes.append(str(Cost(task["cost_usd"], task["unpriced"])))
    if task["blocker"] and task["blocker"] != order.OPEN_SUBTASKS:
        notes.append(plain.line(task["blocker"], 120))
    marker = task["marker"]
    if marker == Marker.PENDING and (one := at_work.pop(task["text"], None)):
        marker = str(Marker.ACTIVE)
        notes.insert(0, _by(one))
    tail = f"  ({'; '.join(notes)})" if notes else ""
    margin = "  " * task["depth"]
    return f"{task['number']:4}  {margin}[{marker}] {plain.line(task['text'], 140)}{tail}"


def _by(one: Mapping[str, Any]) -> str:
    if one["worker"] is None:
        return str(one["doing"])
    took = plain.span(max(time.time() - moment(one["since"]), 0))
    return f"worker {one['worker']}: {plain.line(one['doing'], 60)}, {took}"
