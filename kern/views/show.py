"""`kern show`: the receipt of one task, from the journal, SPEC.md and the run files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kern import plain
from kern.git import repository
from kern.journal import totals
from kern.journal.history import Record, Task
from kern.journal.sentences import format_record
from kern.model import Cost, Stage
from kern.spec import order
from kern.spec.file import Documents
from kern.stages import record
from kern.stages.record import StageRecord, history_name
from kern.system import workspace
from kern.system.workspace import Scope
from kern.views.log import local, recorded

_SHOWN = 12  # lines of an answer or of a gate's output


def snapshot(folder: Path, words: str) -> dict[str, Any]:
    """The receipt of one task. Keys are stable: they are what `--json` prints."""
    repo = repository.open_at(folder)
    past, parsed = recorded(repo), Documents(repo.root).spec()[1]
    texts = [task.text for task in parsed.tasks]
    removed = [text for text in past.tasks if text not in {*texts}]
    index = order.named(words, texts, removed)
    listed = parsed.tasks[index] if index < len(texts) else None
    name = (*texts, *removed)[index]
    own = past.tasks.get(name, Task(task=name))
    branch = str(own.records[-1].get("branch") or "") if own.records else ""
    walks = _walks(workspace.scope(repo.root, branch or repo.head().name, create=False), name)
    return {
        "number": index + 1 if listed else None,
        "line": listed.line if listed else None,
        "marker": str(listed.marker) if listed else None,
        **totals.of_task(own),
        "records": own.records,
        "answers": {
            str(stage): one.said for walk in walks for stage, one in _stages(walk, name).items()
        },
        "folders": [str(walk.folder) for walk in walks],
    }


def _walks(scope: Scope, text: str) -> list[Scope]:
    """Where run files of the task lie, the newest last: those of finished tasks, whose folders
    are laid out as the scope's own, and of the one under way.
    """
    folders = sorted((scope.folder / "history").glob(f"*{history_name('', text)}"))
    places = [replace(scope, branch=f"{scope.branch}/history/{one.name}") for one in folders]
    return [place for place in (*places, scope) if _stages(place, text)]


def _stages(scope: Scope, text: str) -> dict[Stage, StageRecord]:
    loaded = {stage: record.read(scope, stage) for stage in Stage}
    return {stage: one for stage, one in loaded.items() if one and one.key.text == text}


# ---------------------------------------------------------------- in words


def lines(facts: Mapping[str, Any]) -> Iterator[str]:
    number = f"{facts['number']}  [{facts['marker']}] " if facts["number"] else ""
    yield f"{number}{plain.line(facts['task'], 400)}"
    end = ": ".join(filter(None, (facts["state"], facts["detail"])))
    yield plain.line("; ".join(filter(None, (end, facts["proved"]))), 700)
    yield f"SPEC.md line {facts['line']}" if facts["line"] else "no longer in SPEC.md"
    if facts["records"]:
        cost = Cost(facts["cost_usd"] or 0, facts["unpriced"])
        tokens = sum(facts["tokens"].values())
        used = f", {tokens:,} tokens" if tokens else ""
        yield f"{cost}{used}, {plain.span(facts['seconds'])}"
    look = [f"git show {facts['commit']}"] * bool(facts["commit"])
    sections: dict[str, Iterable[str]] = {
        **{f"Answer of {stage}": _end(reply) for stage, reply in facts["answers"].items()},
        "What happened": (row for one in facts["records"] for row in _happened(one)),
        "Look": [*look, *facts["folders"]],
    }
    for title, every in sections.items():
        rows = [f"  {' ' * (len(row) - len(row.lstrip()))}{plain.line(row, 400)}" for row in every]
        yield from ("", f"{title}:", *rows) if rows else ()


def _end(text: str) -> list[str]:
    return [line for line in plain.block(text).splitlines() if line.strip()][-_SHOWN:]


def _happened(one: Record) -> Iterator[str]:
    """As `kern log` has it, with the end of what a red gate printed."""
    first, *more = format_record(one)
    yield f"{local(one['time'], '%d %b %H:%M')}  {first}"
    yield from (f"{'':16}{line}" for line in (*more, *_end(str(one.get("output") or ""))))
