"""`kern show`: the receipt of one task, from the journal, SPEC.md, the run files and git."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.git import history, repository
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.journal.history import Spent, Task, fold
from kern.journal.sentences import format_record
from kern.model import SAID, Stage
from kern.spec import order
from kern.spec.file import Documents
from kern.stages import record
from kern.stages.record import StageRecord, history_name
from kern.system import workspace
from kern.system.workspace import Scope
from kern.views.log import local, warn

_SHOWN = 12  # lines of an answer or of a gate's output


def shown(folder: Path, words: str, *, as_json: bool) -> str:
    """What `kern show` prints."""
    facts = snapshot(folder, words)
    return plain.data(facts) if as_json else plain.block("\n".join(_lines(facts)))


def snapshot(folder: Path, words: str) -> dict[str, Any]:
    """The receipt of one task. Keys are stable: they are what `--json` prints."""
    repo = repository.open_at(folder, reading=True)
    past = fold(store.load(store.place(repo.common_dir), warn))
    parsed = Documents(repo.root).spec()[1]
    texts = [task.text for task in parsed.tasks]
    removed = [text for text in past.tasks if text not in {*texts}]
    index = order.named(words, texts, removed)
    listed = parsed.tasks[index] if index < len(texts) else None
    name = (*texts, *removed)[index]
    own = past.tasks.get(name, Task(task=name))
    branch = str(own.records[-1].get("branch") or "") if own.records else ""
    walks = _walks(workspace.scope(repo.root, branch or repo.head().name, create=False), name)
    answers = {str(stage): one.said for walk in walks for stage, one in _stages(walk, name).items()}
    sums, by_stage = totals.of_task(own), dict[str, Spent]()
    for attempt in sums["attempts"]:
        changed = _files(repo, f"refs/{attempt['ref']}")
        attempt |= {"files": list(changed or ()), "kept": changed is not None}
    for call in (one for one in own.of("stage") if one.get("did") != "start"):
        by_stage.setdefault(str(call.get("stage")), Spent()).pay(call)
    return {
        "number": index + 1 if listed else None,
        "line": listed.line if listed else None,
        "marker": str(listed.marker) if listed else None,
        **sums,
        "began": own.records[0]["time"] if own.records else None,
        "ended": own.records[-1]["time"] if own.records else None,
        "by_stage": {stage: asdict(spent) for stage, spent in by_stage.items()},
        "gates": own.of("gate"),
        "memory": [row for one in own.of("recall") + own.of("vote") for row in format_record(one)],
        "answers": answers,
        "files": _files(repo, own.commit) if own.commit else {},
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


def _files(repo: Repo, commit: str) -> dict[str, str] | None:
    """What the commit changed, path by path; None where git does not have it any more."""
    if commit.startswith("-"):
        return None
    try:
        changed = history.changed_by(repo, history.commit(repo, commit))
    except (KernError, IndexError):
        return None
    how = {(True, False): "added", (False, True): "deleted"}
    return {path: how.get((not old, not new), "changed") for path, (old, new) in changed.items()}


# ---------------------------------------------------------------- in words


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    number = f"{facts['number']}  [{facts['marker']}] " if facts["number"] else ""
    yield f"{number}{plain.line(facts['task'], 400)}"
    ends = (SAID.get(facts["outcome"], facts["outcome"]), facts["detail"])
    ending = ": ".join(filter(None, ends))
    yield plain.line("; ".join(filter(None, (ending, facts["proved"]))), 700)
    yield f"SPEC.md line {facts['line']}" if facts["line"] else "no longer in SPEC.md"
    if facts["began"]:
        spent = Spent(**{name: facts[name] for name in Spent.__dataclass_fields__})
        yield f"{local(facts['began'])} to {local(facts['ended'])}; {spent.in_words()}"
    for stage, sums in facts["by_stage"].items():
        yield f"  {stage:10} {plain.count(sums['stages'], 'call')}, {Spent(**sums).in_words()}"
    files, commit = facts["files"], facts["commit"]
    unknown = ["unknown: git does not have the commit any more"]
    sections: dict[str, Iterable[str]] = {
        **{f"Answer of {stage}": _end(reply) for stage, reply in facts["answers"].items()},
        "Attempts": (row for attempt in facts["attempts"] for row in _tried(attempt)),
        "Gates": (row for gate in facts["gates"] for row in _gate(gate)),
        "Files": unknown if files is None else (f"{how:8} {path}" for path, how in files.items()),
        "Refused": facts["denied"],
        "Learnings": facts["memory"],
        "Learned": facts["learned"],
        "Look": [*[f"git show {commit}"] * bool(commit and files is not None), *facts["folders"]],
    }
    for title, every in sections.items():
        rows = [f"  {' ' * (len(row) - len(row.lstrip()))}{plain.line(row, 400)}" for row in every]
        yield from ("", f"{title}:", *rows) if rows else ()


def _end(text: str) -> list[str]:
    return [line for line in plain.block(text).splitlines() if line.strip()][-_SHOWN:]


def _tried(attempt: Mapping[str, Any]) -> Iterator[str]:
    yield f"{attempt['attempt']}: {attempt['reason']}"
    yield from [f"   git show {attempt['ref']}"] * attempt["kept"]
    yield from [f"   changed {', '.join(attempt['files'])}"] * bool(attempt["files"])


def _gate(gate: Mapping[str, Any]) -> list[str]:
    output = _end(str(gate.get("output") or "")) if gate.get("red") else []
    return [format_record(gate)[0].strip(), *(f"   {line}" for line in output)]
