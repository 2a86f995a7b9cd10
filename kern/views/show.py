"""`kern show`: the receipt of one task, from the journal, SPEC.md, the run files and git."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError
from kern.git import history, repository
from kern.git.repository import Change, Repo
from kern.journal import store, totals, words
from kern.journal.history import Record, Spent, Task, fold
from kern.model import SAID, Stage
from kern.spec import order
from kern.spec.file import Documents
from kern.spec.parse import Kind
from kern.spec.parse import Task as Listed
from kern.stages import answer, record
from kern.stages.record import StageRecord, history_name
from kern.system import workspace
from kern.system.workspace import Scope
from kern.views.log import local, warn

_SHOWN = 12  # lines of an answer or of a gate's output


def shown(folder: Path, wanted: str, *, as_json: bool) -> str:
    """What `kern show` prints."""
    found = snapshot(folder, wanted)
    return plain.data(found) if as_json else text(found)


def snapshot(folder: Path, wanted: str) -> dict[str, Any]:
    """The receipt of one task. Keys are stable: they are what `--json` prints."""
    found = repository.open_at(folder, reading=True)
    past = fold(store.load(store.place(found.common_dir), warn))
    parsed = Documents(found.root).spec()[1]
    texts = [task.text for task in parsed.tasks]
    gone = [text for text in past.tasks if text not in {*texts}]
    index = order.named(wanted, texts, gone)
    task = parsed.tasks[index] if index < len(texts) else None
    name = task.text if task else gone[index - len(texts)]
    own = past.tasks.get(name, Task(task=name))
    branch = str(own.records[-1].get("branch") or "") if own.records else ""
    scope = workspace.scope(found.root, branch or found.head().name, create=False)
    walks = _walks(scope, name)
    answers = {str(stage): one.said for walk in walks for stage, one in _stages(walk, name).items()}
    told = totals.of_task(own)
    for attempt in told["attempts"]:
        changed = _files(found, f"refs/{attempt['ref']}")
        attempt["files"], attempt["kept"] = list(changed or ()), changed is not None
    times = [one["time"] for one in own.records]
    calls = [one for one in own.of("stage") if one.get("did") != "start"]
    return {
        "number": index + 1 if task else None,
        "line": task.line if task else None,
        "marker": str(task.marker) if task else None,
        **told,
        "began": min(times, default=None),
        "ended": max(times, default=None),
        "runs": list(dict.fromkeys(one["run"] for one in own.records)),
        "by_stage": {stage: asdict(spent) for stage, spent in _by_stage(calls).items()},
        "calls": calls,
        "gates": own.of("gate"),
        "retried": own.of("retry"),
        "memory": [row for one in own.of("recall") + own.of("vote") for row in words.said(one)],
        "research": _research(task, answers),
        "answers": answers,
        "files": _files(found, own.commit) if own.commit else {},
        "folders": [str(walk.folder) for walk in walks],
    }


def _by_stage(calls: Iterable[Record]) -> dict[str, Spent]:
    sums: dict[str, Spent] = {}
    for call in calls:
        sums.setdefault(str(call.get("stage")), Spent()).pay(call)
    return sums


def _research(task: Listed | None, answers: Mapping[str, str]) -> list[str]:
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


# ---------------------------------------------------------------- in words


def text(found: Mapping[str, Any]) -> str:
    number = f"{found['number']}  " if found["number"] else ""
    marker = f"[{found['marker']}] " if found["marker"] else ""
    place = f"SPEC.md line {found['line']}" if found["line"] else "no longer in SPEC.md"
    proved = f"; {plain.line(found['proved'])}" if found["proved"] else ""
    detail = f": {plain.line(found['detail'])}" if found["detail"] else ""
    lines = [f"{number}{marker}{plain.line(found['task'], 400)}"]
    lines += [f"{SAID.get(found['outcome'], found['outcome'])}{detail}{proved}", place]
    if found["began"]:
        when = f"{local(found['began'])} to {local(found['ended'])}"
        lines.append(f"{when}; {_spent(found).in_words()}")
    for stage, whole in found["by_stage"].items():
        calls = plain.count(whole["stages"], "call")
        lines.append(f"  {stage:10} {calls}, {_spent(whole).in_words()}")
    said = {f"Answer of {stage}": _end(one) for stage, one in found["answers"].items()}
    if found["research"]:
        said.pop("Answer of research", None)
    there = found["commit"] and found["files"] is not None
    commit = [f"git show {found['commit']}"] if there else []
    for title, rows in {
        "Research": found["research"],
        **said,
        "Attempts": [row for attempt in found["attempts"] for row in _tried(attempt)],
        "Gates": [row for gate in found["gates"] for row in _gate(gate)],
        "Files": _changes(found["files"]),
        "Refused": found["denied"],
        "Tried again": [f"{one.get('stage')}: {one.get('reason')}" for one in found["retried"]],
        "Learnings": found["memory"],
        "Learned": found["learned"],
        "Look": [*commit, *found["folders"]],
    }.items():
        lines += ["", f"{title}:", *map(_indented, rows)] if rows else []
    return plain.block("\n".join(lines))


def _spent(found: Mapping[str, Any]) -> Spent:
    return Spent(**{name: found[name] for name in Spent.__dataclass_fields__})


def _indented(row: str) -> str:
    return f"  {' ' * (len(row) - len(row.lstrip()))}{plain.line(row, 400)}"


def _end(said: str) -> list[str]:
    return [line for line in plain.block(said).splitlines() if line.strip()][-_SHOWN:]


def _tried(attempt: Mapping[str, Any]) -> Iterator[str]:
    yield f"{attempt['attempt']}: {attempt['reason']}"
    if attempt["kept"]:
        yield f"   git show {attempt['ref']}"
    if attempt["files"]:
        yield f"   changed {', '.join(attempt['files'])}"


def _gate(gate: Mapping[str, Any]) -> list[str]:
    output = _end(str(gate.get("output") or "")) if gate.get("red") else []
    return [words.said(gate)[0].strip(), *(f"   {line}" for line in output)]


def _changes(files: Mapping[str, str] | None) -> list[str]:
    if files is None:
        return ["unknown: git does not have the commit any more"]
    return [f"{how:8} {path}" for path, how in files.items()]
