"""`kern status`: SPEC.md, the journal, the run files and the lock, read without writing a byte."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.fleet import work
from kern.git import landing, repository
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.journal.history import Doing, History, Run, Task, fold
from kern.journal.sentences import format_doing
from kern.model import SPEC, Cost, Marker
from kern.pipeline import facts, place, table
from kern.pipeline.facts import Situation
from kern.pipeline.place import Place
from kern.spec import order
from kern.spec.parse import Spec
from kern.system import control, lock, workspace
from kern.system.lock import Holder
from kern.views.log import local, warn

_FIRST = 'kern add "what is to be done"'
_WAITS = "commit, stash or move what you have changed of the same files, then: kern"
_LONG = 40  # tasks; of a longer SPEC.md those that are open


def look(repo: Repo) -> tuple[Place, Situation, Spec]:
    """The place in which a view is called, and how it stands there."""
    documents = place.documents(repo)
    here = Place(repo, workspace.scope(repo.root, repo.head().name, create=False), documents)
    return here, facts.look(here), documents.spec()[1]


def shown(folder: Path, *, everything: bool, as_json: bool) -> str:
    """What `kern status` prints."""
    state = snapshot(folder)
    return plain.data(state) if as_json else plain.block("\n".join(_lines(state, everything)))


def snapshot(folder: Path) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints."""
    repo = repository.open_at(folder, reading=True)
    here, at, parsed = look(repo)
    branch = repo.head().name
    holder, next_task = _holder(repo), order.select(parsed)
    alive = holder is not None and holder.lives(repo.git_dir)
    past, run = _last(repo, branch, store.NIGHT)
    if holder and not (run and run.run == holder.run):  # of a long night the beginning lies before
        past, run = _last(repo, branch, 8 * store.NIGHT)
    on = bool(alive and holder and run and run.run == holder.run and run.exit is None)
    return {
        "root": str(repo.root),
        "branch": branch,
        "folder": str(here.scope.folder),
        "holder": holder and {"pid": holder.pid, "host": holder.host, "alive": alive},
        "asked": "stop" if holder and control.asked(repo.git_dir, holder.run) else None,
        "waiting": landing.count_waiting(repo),
        "to_do": order.counts(parsed),
        "next": next_task.text if next_task else None,
        "workers": [
            {"worker": abs(number), **one._asdict()}
            for number, one in (sorted(run.workers.items()) if run and on else ())
        ],
        "left": [] if on else _left(repo, parsed),
        "run": run and _run(run, on=on),
        "resume": str(table.resume(at.facts)) if parsed.active else None,
        "help": [need._asdict() for need in order.needs(parsed)],
        "held": [need._asdict() for need in order.holds(parsed)],
        "tasks": [*_tasks(parsed, past)],
        "diagnostics": [asdict(one) for one in (*parsed.diagnostics, *order.faults(parsed))],
    }


def _last(repo: Repo, branch: str, size: int) -> tuple[History, Run | None]:
    """What the journal's end holds, and the branch's last run; no plan."""
    past = fold(store.load(store.place(repo.common_dir), warn, size=size))
    own = [run for run in past.runs.values() if run.fact("branch") == branch and run.of("run")]
    return past, own[-1] if own else None


def _holder(repo: Repo) -> Holder | None:
    """Who holds the working tree; None where that is another user's to know."""
    with contextlib.suppress(KernError):
        return lock.holder(repo.git_dir)
    return None


def _left(repo: Repo, parsed: Spec) -> list[str]:
    """Tasks that a killed run of many at once has in worktrees."""
    at = ("--format=%(refname:lstrip=2)", "refs/heads/kern/work")
    branches, onto = repo.text("for-each-ref", *at).split(), repo.head().name
    return [task.text for task in parsed.tasks if work.branch(onto, task.key) in branches]


def _run(run: Run, *, on: bool) -> dict[str, Any]:
    """The branch's run that is under way, else its last: what it came to so far."""
    seconds = round(max((time.time() if on else run.ended) - run.began, 0.0), 3)
    most = next(iter(run.of("run"))).get("max_cost")
    return {**totals.of_run(run), "seconds": seconds, "under_way": on, "max_cost": most}


def _tasks(parsed: Spec, past: History) -> Iterator[dict[str, Any]]:
    blocker = order.blockers(parsed)
    for number, task in enumerate(parsed.tasks, 1):
        spent = past.tasks.get(task.text, Task()).spent
        yield {
            "number": number,
            "line": task.line,
            "depth": len([*parsed.above(task)]),
            "marker": str(task.marker),
            "text": task.text,
            "attempts": task.attempts,
            "blocker": (blocker(task) or None) if task.marker is Marker.PENDING else None,
            "cost_usd": spent.cost_usd,
            "unpriced": spent.unpriced,
        }


# ---------------------------------------------------------------- in words


def _lines(state: Mapping[str, Any], everything: bool) -> Iterator[str]:
    counts, tasks = state["to_do"], state["tasks"]
    more = {"need you": len(state["help"]), "held": len(state["held"])}
    rest = "".join(f", {count} {what}" for what, count in more.items() if count)
    yield f"{state['root']}, branch {state['branch']}"
    # SPEC.md does not tell of them.
    apart = len(state["left"]) + sum(bool(one["worker"]) for one in state["workers"])
    busy = f"{counts['active'] + apart} in progress, {max(counts['pending'] - apart, 0)} pending"
    yield f"{counts['done']} done, {busy}{rest}"
    yield from _under_way(state)
    for task in state["left"]:
        yield f"in a worktree: {plain.line(task, 140)}; the next kern -j goes on with it"
    if state["run"]:
        yield _spent(state["run"])
    if state["waiting"]:
        yield f"{plain.count(state['waiting'], 'finished commit')} to land: {_WAITS}"
    if state["resume"] and not (state["holder"] and state["holder"]["alive"]):
        yield f"next: {state['resume']}"
    yield ""
    if len(tasks) > _LONG and not everything:
        tasks = [task for task in tasks if task["marker"] != Marker.DONE]
    yield from map(_line, tasks)
    if hidden := len(state["tasks"]) - len(tasks):
        yield f"and {hidden} that are done: kern status --all"
    if not state["tasks"] and not state["diagnostics"]:
        yield f"no task in {SPEC} yet: {_FIRST}"
    for title, key in (("needs you:", "help"), ("held:", "held")):
        yield from ("", title) if state[key] else ()
        for one in state[key]:
            yield f"{one['number']:4}  {plain.line(one['why'], 400)}"
            yield f"      {one['do']}"
    for fault in state["diagnostics"]:
        yield f"line {fault['line']}: {plain.line(fault['message'])}"
    yield from ("", f"run files: {state['folder']}")


def _under_way(state: Mapping[str, Any]) -> Iterator[str]:
    """Who is at work, and what each worker does since when."""
    holder, run = state["holder"], state["run"]
    if not holder:
        return
    if not holder["alive"]:
        yield f"a killed run left its lock; the next kern takes it over: pid {holder['pid']}"
        return
    on = run and run["under_way"]
    how = "run in progress" if on else "kern is busy, but no run is in progress"
    asked = "; stops after the stages in progress" if state["asked"] else ""
    yield f"{how}: pid {holder['pid']}{asked}"
    for one in state["workers"]:
        doing = Doing(*(one[name] for name in Doing._fields))
        since = f"{local(doing.since)} ({doing.lasts(time.time())})"
        task = f" of {plain.line(doing.task, 100)}" if doing.task else ""
        yield f"  {format_doing(one['worker'], doing)}{task} since {since}"


def _spent(run: Mapping[str, Any]) -> str:
    which = "this run" if run["under_way"] else f"the last run, {local(run['began'])}"
    code = "" if run["exit"] in (None, 0) else f", exit {run['exit']}"
    cost = f"{Cost(run['cost_usd'], run['unpriced'])}, " if run["stages"] else ""
    return f"{which}: {run['done']} done, {cost}{plain.span(run['seconds'])}{code}"


def _line(task: Mapping[str, Any]) -> str:
    cost, why = Cost(task["cost_usd"], task["unpriced"]), plain.line(task["blocker"] or "", 120)
    details = {
        plain.count(task["attempts"], "attempt"): task["attempts"],
        str(cost): cost != Cost(),
        why: why and why != order.OPEN_SUBTASKS,
    }
    parts = "; ".join(text for text, is_shown in details.items() if is_shown)
    margin, tail = "  " * task["depth"], f"  ({parts})" if parts else ""
    return f"{task['number']:4}  {margin}[{task['marker']}] {plain.line(task['text'], 140)}{tail}"
