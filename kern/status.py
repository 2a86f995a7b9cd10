"""What `kern status` shows: a snapshot of SPEC.md, the stage files and the lock as plain data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kern import choice, journal, lock, plain, repo, request, steering, workspace
from kern.documents import Documents
from kern.errors import KernError
from kern.observe import Observer
from kern.pipeline import ATTEMPTS, resume, tier
from kern.repo import Repo
from kern.snapshot import Snapshots
from kern.spec import Kind, Marker, Spec, Task


def snapshot(folder: Path) -> dict[str, Any]:
    """Reads only. Keys are stable: they are what `--json` prints."""
    found = repo.open_at(folder)
    head = found.head()
    papers = Documents(found.root)
    _, parsed = papers.spec()
    scope = workspace.scope(found.root, head.name, create=False)
    next_task = choice.select(parsed)
    blocker = choice.blockers(parsed)
    at = Observer(found, scope, papers, Snapshots(found)).look(reading=True)
    holder = lock.holder(scope)
    recent = [r for r in journal.load(journal.place(found)) if r["branch"] == head.name]
    counts = {marker.name.lower(): 0 for marker in Marker}
    for task in parsed.tasks:
        counts[task.marker.name.lower()] += 1
    return {
        "root": str(found.root),
        "branch": head.name,
        "folder": str(scope.folder),
        "holder": {"pid": holder[0], "host": holder[1], "alive": lock.alive(*holder)}
        if holder
        else None,
        "asked": _asked(found),
        "counts": counts,
        "next": next_task.text if next_task else None,
        "last": request.at_work(recent),
        "resume": str(resume(at.facts)) if at.facts.active else None,
        "tasks": [
            _task(parsed, number, task, blocker) for number, task in enumerate(parsed.tasks, 1)
        ],
        "diagnostics": [
            {"line": fault.line, "message": fault.message} for fault in parsed.diagnostics
        ],
    }


def _asked(found: Repo) -> dict[str, Any] | None:
    """What `kern stop` or `kern pause` asked of the run that is on."""
    try:
        holder = lock.noted(found.git_dir)
    except KernError:  # another user's
        holder = None
    if holder is None or (asked := steering.asked(found.git_dir, holder.run)) is None:
        return None
    paused = request.is_paused(journal.of_run(found, holder.run), asked)
    return {"request": str(asked), "paused": paused}


def _task(parsed: Spec, number: int, task: Task, blocker: Callable[[Task], str]) -> dict[str, Any]:
    waiting = task.marker is Marker.PENDING
    return {
        "number": number,
        "line": task.line,
        "depth": _depth(parsed, task),
        "marker": str(task.marker),
        "text": task.text,
        "attempts": task.attempts,
        "skipped": len(task.of(Kind.SKIPPED)),
        "tier": str(tier(task.spent(ATTEMPTS), subtask=task.parent is not None)),
        "blocker": (blocker(task) or None) if waiting else None,
    }


def _depth(parsed: Spec, task: Task) -> int:
    depth, parent = 0, task.parent
    while parent is not None:
        depth, parent = depth + 1, parsed.tasks[parent].parent
    return depth


def _doing(last: dict[str, Any] | None) -> str:
    """What the journal's last record says of it."""
    if last is None or last["kind"] not in ("stage", "limit"):
        return ""
    if last["kind"] == "limit":
        return f", waiting for a usage limit: {plain.line(last['text'], 120)}"
    return f", {last['stage']} of {plain.line(last['task'], 60)} since {last['time'][11:16]} UTC"


def text(found: dict[str, Any]) -> str:
    counts = found["counts"]
    lines = [
        f"{found['root']}, branch {found['branch']}",
        f"{counts['done']} done, {counts['active']} in progress, {counts['pending']} pending",
    ]
    if found["holder"]:
        pid, alive = found["holder"]["pid"], found["holder"]["alive"]
        now = f"a run is on{_doing(found['last'])}"
        held = now if alive else "a killed run left its lock, the next kern takes it over"
        lines.append(f"{held}: pid {pid}")
        if alive and found["asked"]:
            lines.append(request.standing(**found["asked"]))
    if found["resume"] and not (found["holder"] and found["holder"]["alive"]):
        lines.append(f"resumes at: {found['resume'].partition(': ')[2]}")
    lines.append("")
    for task in found["tasks"]:
        notes = []
        if task["attempts"]:
            notes.append(f"{task['attempts']} attempt(s)")
        if task["blocker"] and task["blocker"] != choice.OPEN_SUBTASKS:
            notes.append(plain.line(task["blocker"], 120))
        tail = f"  ({'; '.join(notes)})" if notes else ""
        margin = "  " * task["depth"]
        lines.append(
            f"{task['number']:4}  {margin}[{task['marker']}] {plain.line(task['text'], 140)}{tail}"
        )
    lines += [
        f"line {fault['line']}: {plain.line(fault['message'])}" for fault in found["diagnostics"]
    ]
    lines += ["", f"stage files: {found['folder']}"]
    return plain.block("\n".join(lines))
