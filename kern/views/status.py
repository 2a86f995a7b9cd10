"""`kern status`: SPEC.md, the journal, the run files and the lock, read without writing a byte."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.fleet import work
from kern.git import landing, repository
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.journal.history import History, Run, Task
from kern.journal.sentences import format_doing
from kern.model import SPEC, Cost, Marker, Need
from kern.pipeline import facts, table
from kern.pipeline.facts import Place, Situation
from kern.spec import order
from kern.spec.parse import Spec
from kern.system import control, lock, workspace
from kern.views import log, summary

_WAITS = "commit, stash or move what you have changed of the same files, then: kern"
_LONG = 40  # tasks; of a longer SPEC.md those that are open


def look(repo: Repo) -> tuple[Place, Situation, Spec]:
    """The place in which a view is called, and how it stands there."""
    documents = facts.documents(repo)
    here = Place(repo, workspace.scope(repo.root, repo.head().name, create=False), documents)
    return here, facts.look(here), documents.spec()[1]


def snapshot(folder: Path) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints."""
    repo = repository.open_at(folder)
    here, at, parsed = look(repo)
    holder, next_task = None, order.select(parsed)
    with contextlib.suppress(KernError):  # another user's to know
        holder = lock.holder(repo.git_dir)
    alive = holder is not None and holder.lives(repo.git_dir)
    past, run = _last(repo, store.NIGHT)
    if holder and not (run and run.run == holder.run):  # of a long night the beginning lies before
        past, run = _last(repo, 8 * store.NIGHT)
    on = bool(alive and holder and run and run.run == holder.run and run.exit is None)
    return {
        "root": str(repo.root),
        "branch": repo.head().name,
        "folder": str(here.scope.folder),
        "holder": holder and {"pid": holder.pid, "host": holder.host, "alive": alive},
        "asked": "stop" if holder and control.asked(repo.git_dir, holder.run) else None,
        "waiting": landing.count_waiting(repo),
        "to_do": order.counts(parsed),
        "next": next_task.text if next_task else None,
        "workers": [*_workers(run)] if run and on else [],
        "left": [] if on else _left(repo, parsed),
        "run": run and _run(run, on=on),
        "resume": str(table.resume(at.facts)) if parsed.active else None,
        "help": [need._asdict() for need in order.needs(parsed)],
        "tasks": [*_tasks(parsed, past)],
        "diagnostics": [{"line": one.line, "message": one.message} for one in parsed.diagnostics],
    }


def _last(repo: Repo, size: int) -> tuple[History, Run | None]:
    """What so many bytes at the journal's end tell, and the branch's own last run in it."""
    past, branch = log.recorded(repo, size=size), repo.head().name
    own = [run for run in past.runs.values() if run.start.get("branch") == branch]
    return past, own[-1] if own else None


def _left(repo: Repo, parsed: Spec) -> list[str]:
    """Tasks that a killed run of many at once has in worktrees."""
    at = ("--format=%(refname:lstrip=2)", "refs/heads/kern/work")
    branches, onto = repo.text("for-each-ref", *at).split(), repo.head().name
    return [task.text for task in parsed.tasks if work.branch(onto, task.key) in branches]


def _workers(run: Run) -> Iterator[dict[str, Any]]:
    for number, one in sorted(run.workers.items()):
        text = format_doing(number, one, time.time())
        yield {"worker": number, **one._asdict(), "text": text}


def _run(run: Run, *, on: bool) -> dict[str, Any]:
    """The branch's run that is under way, else its last: what it came to so far."""
    seconds = round(max((time.time() if on else run.ended) - run.began, 0.0), 3)
    most = run.start.get("max_cost")
    return {**totals.of_run(run), "seconds": seconds, "under_way": on, "max_cost": most}


def _tasks(parsed: Spec, past: History) -> Iterator[dict[str, Any]]:
    blocker = order.blockers(parsed)
    for number, task in enumerate(parsed.tasks, 1):
        yield {
            "number": number,
            "line": task.line,
            "depth": len([*parsed.above(task)]),
            "marker": str(task.marker),
            "text": task.text,
            "attempts": task.attempts,
            "blocker": (blocker(task) or None) if task.marker is Marker.PENDING else None,
            **past.tasks.get(task.text, Task()).figures,
        }


# ---------------------------------------------------------------- in words


def lines(state: Mapping[str, Any], *, everything: bool) -> Iterator[str]:
    tasks, long = state["tasks"], len(state["tasks"]) > _LONG and not everything
    yield f"{state['root']}, branch {state['branch']}"
    yield _counts(state)
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
    yield from (_line(task) for task in tasks if not long or task["marker"] != Marker.DONE)
    if long:
        yield f"and {state['to_do']['done']} that are done: kern status --all"
    if not tasks and not state["diagnostics"]:
        yield f'no task in {SPEC} yet: kern add "what is to be done"'
    needs = (summary.need(Need(**one)) for one in state["help"])
    yield from (text for text, _ in summary.sections({"needs you": needs}))
    for fault in state["diagnostics"]:
        yield f"line {fault['line']}: {plain.line(fault['message'])}"
    yield from ("", f"run files: {state['folder']}")


def _counts(state: Mapping[str, Any]) -> str:
    counts, workers = state["to_do"], sum(bool(one["worker"]) for one in state["workers"])
    apart = len(state["left"]) + workers
    pending = max(counts["pending"] - apart, 0)  # SPEC.md does not tell of workers
    text = f"{counts['done']} done, {counts['active'] + apart} in progress, {pending} pending"
    return text + f", {len(state['help'])} need you" * bool(state["help"])


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
    yield from (f"  {one['text']}" for one in state["workers"])


def _spent(run: Mapping[str, Any]) -> str:
    which = "this run" if run["under_way"] else f"the last run, {log.local(run['began'])}"
    code = "" if run["exit"] in (None, 0) else f", exit {run['exit']}"
    cost = f"{Cost(run['cost_usd'], run['unpriced'])}, " if run["stages"] else ""
    return f"{which}: {run['done']} done, {cost}{plain.span(run['seconds'])}{code}"


def _line(task: Mapping[str, Any]) -> str:
    cost = Cost(task["cost_usd"] or 0, task["unpriced"])
    why = plain.line(task["blocker"] or "", 120)
    parts = [plain.count(task["attempts"], "attempt")] * bool(task["attempts"])
    parts += [str(cost)] * (cost != Cost()) + [why] * (why not in ("", order.OPEN_SUBTASKS))
    margin, tail = "  " * task["depth"], f"  ({'; '.join(parts)})" if parts else ""
    return f"{task['number']:4}  {margin}[{task['marker']}] {plain.line(task['text'], 140)}{tail}"
