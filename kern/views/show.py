"""`kern show`: the receipt of one task, from the journal, SPEC.md, the run files and git."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.git import history, repository
from kern.git.repository import Change, Repo
from kern.journal import store
from kern.journal import task as receipt
from kern.model import Stage
from kern.spec import order
from kern.spec.file import Documents
from kern.spec.parse import Kind, Task
from kern.stages import answer, record
from kern.stages.record import StageRecord, history_name
from kern.system import workspace
from kern.system.workspace import Scope
from kern.views.log import local, warn


def shown(folder: Path, wanted: str, *, as_json: bool) -> str:
    """What `kern show` prints."""
    found = snapshot(folder, wanted)
    return plain.data(found) if as_json else receipt.text(found, local)


def snapshot(folder: Path, wanted: str) -> dict[str, Any]:
    """The receipt of one task. Keys are stable: they are what `--json` prints."""
    found = repository.open_at(folder, reading=True)
    records = store.load(store.place(found.common_dir), warn)
    parsed = Documents(found.root).spec()[1]
    texts = [task.text for task in parsed.tasks]
    there = set(texts)
    ran = dict.fromkeys(record.get("task") or "" for record in records)
    gone = [text for text in ran if text and text not in there]
    index = order.named(wanted, texts, gone)
    task = parsed.tasks[index] if index < len(texts) else None
    text = task.text if task else gone[index - len(texts)]
    told = receipt.of(records, text)
    branch = next((r["branch"] for r in reversed(records) if r.get("task") == text), "")
    scope = workspace.scope(found.root, branch or found.head().name, create=False)
    walks = _walks(scope, text)
    answers = {str(stage): one.said for walk in walks for stage, one in _stages(walk, text).items()}
    for attempt in told["attempts"]:
        changed = _files(found, f"refs/{attempt['ref']}")
        attempt["files"], attempt["kept"] = list(changed or ()), changed is not None
    return {
        "number": index + 1 if task else None,
        "line": task.line if task else None,
        "marker": str(task.marker) if task else None,
        **told,
        "research": _research(task, answers),
        "answers": answers,
        "files": _files(found, told["commit"]) if told["commit"] else {},
        "folders": [str(walk.folder) for walk in walks],
    }


def _research(task: Task | None, answers: Mapping[str, str]) -> list[str]:
    """As SPEC.md has it under the task, else as the agent said it."""
    notes = task.of(Kind.RESEARCH) if task else ()
    if notes:
        return [row.strip().removeprefix("- ") for note in notes for row in note.text.splitlines()]
    parsed = answer.parse(Stage.RESEARCH, answers.get("research", ""))
    return [f"{label}: {text}" for label, text in parsed.findings]


def _walks(scope: Scope, text: str) -> list[Scope]:
    """Where run files of the task lie, the newest last: those of finished tasks, whose folders
    are laid out as the scope's own, and of the one under way.
    """
    ended = sorted((scope.folder / "history").glob(f"*{history_name('', text)}"))
    places = [replace(scope, branch=f"{scope.branch}/history/{one.name}") for one in ended]
    return [place for place in (*places, scope) if _stages(place, text)]


def _stages(scope: Scope, text: str) -> dict[Stage, StageRecord]:
    loaded = {stage: record.read(scope, stage) for stage in Stage}
    return {stage: one for stage, one in loaded.items() if one and one.key.text == text}


def _files(found: Repo, commit: str) -> dict[str, str] | None:
    """What the commit changed, path by path; None where git does not have it any more."""
    if commit.startswith("-"):
        return None
    try:
        changed = history.changed_by(found, history.commit(found, commit))
    except (KernError, IndexError):
        return None
    return {path: _how(change) for path, change in changed.items()}


def _how(change: Change) -> str:
    old, new = change
    return "added" if old is None else "deleted" if new is None else "changed"
