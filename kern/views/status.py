"""`kern status`: SPEC.md, the journal, the run files and the lock, read without writing a byte."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.git import landing, refs, repository
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.journal.history import FINISHED, History, Run, Task, fold, moment
from kern.model import SPEC, Cost, Marker
from kern.pipeline import facts, place, table
from kern.pipeline.facts import Situation
from kern.spec import notes, order
from kern.spec import parse as spec
from kern.spec.file import Documents
from kern.spec.parse import Spec
from kern.system import control, lock, workspace
from kern.system.lock import Holder
from kern.system.workspace import Scope
from kern.views.log import local, warn

_FIRST = 'kern add "what is to be done"'
_WAITS = "commit, stash or move what you have changed of the same files, then: kern"
_LEFT = "in a worktree: the next kern -j goes on with it"
_SHOWN = 40  # tasks; of a longer SPEC.md those that are open


@dataclass(frozen=True, slots=True)
class Project:
    """In which a view is called."""

    repo: Repo
    documents: Documents
    scope: Scope
    at: Situation
    parsed: Spec


def look(repo: Repo) -> Project:
    documents = place.documents(repo)
    scope = workspace.scope(repo.root, repo.head().name, create=False)
    at = facts.look(place.Place(repo, scope, documents))
    return Project(repo, documents, scope, at, documents.spec()[1])


def tier(task: spec.Task) -> Any:
    """What the task's next attempt would be."""
    alone, experiment = task.parent is None, spec.is_experiment(task.text)
    return table.tier(task.spent(table.ATTEMPTS), subtask=not alone, experiment=experiment)


def shown(folder: Path, *, everything: bool, as_json: bool) -> str:
    """What `kern status` prints."""
    state = snapshot(folder)
    return plain.data(state) if as_json else plain.block("\n".join(_lines(state, everything)))


def snapshot(folder: Path) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints."""
    project = look(repository.open_at(folder, reading=True))
    repo, parsed, branch = project.repo, project.parsed, project.repo.head().name
    holder, next_task = _holder(repo), order.select(parsed)
    alive = holder is not None and holder.lives(repo.git_dir)
    past = fold(store.load(store.place(repo.common_dir), warn, size=store.NIGHT))
    own = [run for run in past.runs.values() if run.fact("branch") == branch and run.of("run")]
    run = own[-1] if own else None  # no plan
    on = bool(alive and holder and run and run.run == holder.run)
    blocker = order.blockers(parsed)
    return {
        "root": str(repo.root),
        "branch": branch,
        "folder": str(project.scope.folder),
        "holder": holder and {"pid": holder.pid, "host": holder.host, "alive": alive},
        "asked": "stop" if holder and control.asked(repo.git_dir, holder.run) else None,
        "waiting": landing.count_waiting(repo),
        "to_do": order.counts(parsed),
        "next": next_task.text if next_task else None,
        "workers": [*_workers(project, past, run, on=on)] if run else [],
        "run": _run(run, on=on) if run else None,
        "resume": str(table.resume(project.at.facts)) if parsed.active else None,
        "help": [need._asdict() for need in order.needs(parsed)],
        "held": [need._asdict() for need in order.holds(parsed)],
        "tasks": [
            _task(parsed, number, task, blocker(task), past)
            for number, task in enumerate(parsed.tasks, 1)
        ],
        "diagnostics": [
            {"line": fault.line, "message": fault.message}
            for fault in (*parsed.diagnostics, *order.faults(parsed))
        ],
    }


def _holder(repo: Repo) -> Holder | None:
    """Who holds the working tree; None where that is another user's to know."""
    try:
        return lock.holder(repo.git_dir)
    except KernError:
        return None


def _task(parsed: Spec, number: int, task: spec.Task, why: str, past: History) -> dict[str, Any]:
    spent = past.tasks.get(task.text, Task()).spent
    return {
        "number": number,
        "line": task.line,
        "depth": len([*parsed.above(task)]),
        "marker": str(task.marker),
        "text": task.text,
        "attempts": task.attempts,
        "question": notes.words(question) if (question := notes.pending(task)) else None,
        "blocker": (why or None) if task.marker is Marker.PENDING else None,
        "cost_usd": spent.cost_usd,
        "unpriced": spent.unpriced,
    }


def _run(run: Run, *, on: bool) -> dict[str, Any]:
    """The branch's run that is under way, else its last: what it came to so far."""
    on = on and run.exit is None
    seconds = round(max((time.time() if on else run.ended) - run.began, 0.0), 3)
    sums = {name: getattr(run.spent, name) for name in ("cost_usd", "unpriced", "tokens")}
    so_far = {"seconds": seconds, "under_way": on, "done": run.ends["done"]}
    return {**totals.of_run(run), **so_far, **sums}


def _workers(project: Project, past: History, run: Run, *, on: bool) -> Iterator[dict[str, Any]]:
    """What each does since when, the run itself as number 0; then, in no worker's hands, the
    finished tasks that wait to land, or what a run that has ended left in worktrees.
    """
    for number, one in sorted(run.workers.items()) if on else ():
        if one.doing:
            yield {"worker": number, "task": one.task, "doing": one.doing, "since": one.since}
    rows = [(task, FINISHED) for task in past.finished] if on else []
    if not on and refs.are_below(project.repo, "refs/heads/kern/work"):
        from kern.fleet import work

        onto, objects = project.repo.head().branch, project.repo.store
        tasks = project.parsed.tasks
        at = {one.text: f"refs/heads/{work.branch(onto, one.key)}" for one in tasks}
        rows = [(task, _LEFT) for task, ref in at.items() if objects.id(ref)]
    for task, doing in rows:
        yield {"worker": None, "task": task, "doing": doing, "since": None}


# ---------------------------------------------------------------- in words


def _lines(state: Mapping[str, Any], everything: bool) -> Iterator[str]:
    yield f"{state['root']}, branch {state['branch']}"
    yield _counted(state)
    yield from _under_way(state)
    if state["run"]:
        yield _spent(state["run"])
    if state["waiting"]:
        yield f"{plain.count(state['waiting'], 'finished commit')} to land: {_WAITS}"
    if state["resume"] and not (state["holder"] and state["holder"]["alive"]):
        yield f"next: {state['resume']}"
    yield ""
    at_work = {one["task"]: one for one in state["workers"] if one["worker"] != 0}
    tasks = state["tasks"]
    if len(tasks) > _SHOWN and not everything:
        tasks = [task for task in tasks if task["marker"] != Marker.DONE][:_SHOWN]
    for task in tasks:
        yield _line(task, at_work.get(task["text"], {}))
    if rest := len(state["tasks"]) - len(tasks):
        yield f"and {rest} more, finished or further down: kern status --all"
    if not state["tasks"] and not state["diagnostics"]:
        yield f"no task in {SPEC} yet: {_FIRST}"
    for title, key in (("needs you:", "help"), ("held:", "held")):
        rows = state[key]
        yield from ("", title) if rows else ()
        for one in rows[:_SHOWN]:
            yield f"{one['number']:4}  {plain.line(one['why'], 400)}"
            yield f"      {one['do']}"
        if (more := len(rows) - _SHOWN) > 0:
            yield f"and {more} more: kern status --json | jq .{key}"
    for fault in state["diagnostics"]:
        yield f"line {fault['line']}: {plain.line(fault['message'])}"
    yield from ("", f"run files: {state['folder']}")


def _counted(state: Mapping[str, Any]) -> str:
    """Of the tasks that kern carries out; a parent is ticked with its last subtask."""
    counts = state["to_do"]
    busy = sum(one["worker"] != 0 for one in state["workers"])
    active, pending = counts["active"] + busy, max(counts["pending"] - busy, 0)
    more = {
        f", {len(state['help'])} need you": state["help"],
        f", {len(state['held'])} held": state["held"],
    }
    rest = "".join(text for text, count in more.items() if count)
    return f"{counts['done']} done, {active} in progress, {pending} pending{rest}"


def _under_way(state: Mapping[str, Any]) -> Iterator[str]:
    holder, run = state["holder"], state["run"]
    if not holder:
        return
    if not holder["alive"]:
        yield f"a killed run left its lock; the next kern takes it over: pid {holder['pid']}"
        return
    busy = sum(bool(one["worker"]) for one in state["workers"])
    doing = f", {plain.count(busy, 'worker')} busy" if busy else ""
    for one in (one for one in state["workers"] if one["worker"] == 0 and not busy):
        task = f" of {plain.line(one['task'], 60)}" if one["task"] else ""
        since = f"{local(one['since'])} ({_took(one['since'])})"
        doing = f", {plain.line(one['doing'], 180)}{task} since {since}"
    on = run and run["under_way"]
    how = f"run in progress{doing}" if on else "kern is busy, but no run is in progress"
    yield f"{how}: pid {holder['pid']}"
    if state["asked"]:
        yield f"stops after {'the stages in progress' if busy else 'this stage'}"


def _took(since: str) -> str:
    return plain.span(max(time.time() - moment(since), 0))


def _spent(run: Mapping[str, Any]) -> str:
    priced = run["cost_usd"] is not None or run["unpriced"]  # nothing before a stage has ended
    which = "this run" if run["under_way"] else f"the last run, {local(run['began'])}"
    code = "" if run["exit"] in (None, 0) else f", exit {run['exit']}"
    cost = f"{Cost(run['cost_usd'], run['unpriced'])}, " if priced else ""
    return f"{which}: {run['done']} done, {cost}{plain.span(run['seconds'])}{code}"


def _line(task: Mapping[str, Any], at_work: Mapping[str, Any]) -> str:
    """`at_work`: what a worker does of it, which SPEC.md does not tell."""
    cost, why = Cost(task["cost_usd"], task["unpriced"]), plain.line(task["blocker"] or "", 120)
    details = {
        _at_work(at_work): at_work,
        plain.count(task["attempts"], "attempt"): task["attempts"],
        str(cost): cost != Cost(),
        why: why and why != order.OPEN_SUBTASKS,
    }
    parts = "; ".join(text for text, is_shown in details.items() if is_shown)
    marker = Marker.ACTIVE if at_work else task["marker"]
    margin, tail = "  " * task["depth"], f"  ({parts})" if parts else ""
    return f"{task['number']:4}  {margin}[{marker}] {plain.line(task['text'], 140)}{tail}"


def _at_work(one: Mapping[str, Any]) -> str:
    if not one or one["worker"] is None:
        return str(one.get("doing", ""))
    return f"worker {one['worker']}: {plain.line(one['doing'], 60)}, {_took(one['since'])}"
