"""`kern add`, `answer`, `edit`, `retry`, `undo`: SPEC.md by commands. Beside a run too, which reads
SPEC.md afresh before it writes.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kern import plain
from kern.cli import asking
from kern.cli.asking import difference
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import SPEC
from kern.pipeline import facts, landing
from kern.spec import commands, imports, notes, order
from kern.spec import edit as editing
from kern.spec.commands import Edited
from kern.spec.file import Documents
from kern.spec.parse import Spec, Task, parse
from kern.stages import prompts
from kern.system import lock, workspace

_MOST_BYTES = 1 << 20  # of a notice
_COPY = "kern/SPEC.edited.md"  # in the git folder; it stays where the text could not be taken


def _opened(folder: Path) -> tuple[Repo, Documents]:
    repo = repository.open_at(folder)
    return repo, facts.documents(repo)


def add(
    folder: Path, title: str, after: Sequence[str], gates: Sequence[str], judges: Sequence[str]
) -> None:
    documents = _opened(folder)[1]

    def added(text: str, _: object = None) -> Edited:
        base = _base(text)
        return commands.add(base, parse(base), title, after=after, gates=gates, judges=judges)

    _begin(documents, added)
    print(plain.line(documents.update(added), 1000))


def add_list(folder: Path, *, yes: bool) -> None:
    """Of standard input, shown as a change of SPEC.md and taken after a yes."""
    documents = _opened(folder)[1]
    if not yes:
        asking.check_terminal()
    items = imports.read(sys.stdin.buffer.read(imports.MOST_BYTES + 1))

    def added(text: str) -> imports.Added:
        return imports.added(_base(text), items)

    old = "" if documents.read(SPEC) is None else documents.spec_text()
    plan = added(old)
    if plan.left_out:
        print(f"left out, done or in {SPEC} already: {plan.left_out}", file=sys.stderr)
    print(difference(SPEC, old, plan.text), flush=True)
    tasks = plain.count(len(plan.new), "task")
    if plan.new and (yes or asking.yes(f"Add {tasks} to {SPEC}? [y/N]")):
        _begin(documents, added)
        documents.edit(lambda text, _: added(text).text)
        print(f"added {tasks} to {SPEC}; next: kern -n")
    else:
        print(f"{SPEC} is unchanged")


def _base(text: str) -> str:
    """What tasks are added to: where there is nothing, or only the example, a new list."""
    base = editing.NO_TASKS if not text or prompts.is_example(text) else text
    if unclosed := parse(base).unclosed:
        hint = "close it: what is added below it would be hidden as well"
        raise UsageError(unclosed.said, hint=hint)
    return base


def _begin(documents: Documents, change: Callable[[str], object]) -> None:
    """SPEC.md, where there is none; what is refused is so before there is one."""
    if documents.read(SPEC) is None:
        change("")
        documents.write(SPEC, editing.NO_TASKS)


def retry(folder: Path, words: str) -> None:
    repo, documents = _opened(folder)
    with lock.hold(repo.git_dir):  # a run would write its own lines again
        done = documents.update(lambda text, parsed: commands.retry(text, parsed, words))
    print(plain.line(done, 1000))


def undo(folder: Path, words: str) -> None:
    repo, documents = _opened(folder)
    with lock.hold(repo.git_dir):  # a run would write its own lines again
        print(plain.line(landing.undo(repo, documents, words), 1000))
    print("next: kern edit, to say below it what to do otherwise; then: kern")


def answer(folder: Path, words: str, text: str) -> None:
    """Below the open question of a task."""
    documents = _to_answer(folder)
    _, parsed = documents.spec()
    index = order.named(words, [task.text for task in parsed.tasks])
    _take(documents, index + 1, parsed.tasks[index], text)


def _to_answer(folder: Path) -> Documents:
    if os.environ.get("KERN_ROOT"):
        raise KernError("an agent cannot answer: a person decides", hint="kern in a terminal")
    return _opened(folder)[1]


def _take(documents: Documents, number: int, task: Task, text: str) -> None:
    typed = plain.line(text, len(text) + 1)
    if len(typed) > editing.NOTE_LIMIT:
        what = f"an answer has at most {editing.NOTE_LIMIT} characters, not {len(typed)}"
        raise UsageError(what, hint="kern edit: the rest below the task, indented")

    def apply(fresh: str, _: Spec, now: Task) -> str:
        if (noted := notes.pending(now)) is None:
            what = f"no question is open under: {plain.line(task.text)}"
            raise UsageError(what, hint="kern status shows the open questions")
        if not typed:
            what = f"what is the answer? {notes.without_ref(noted.text)}"
            raise UsageError(what, hint=f'kern answer {number} "…"')
        return notes.answered(fresh, noted, typed)

    documents.edit_task(task.key, apply)
    print(f"answered: {plain.line(task.text, 160)}", file=sys.stderr)
    print("next: kern (a run in progress picks it up by itself)", file=sys.stderr)


def take_notice(folder: Path) -> None:
    """The JSON that `notify` was given, from standard input: each answer in it, where its question
    is still the open one.
    """
    documents, late = _to_answer(folder), list[str]()
    for name, question, text in _answers(sys.stdin.buffer.read(_MOST_BYTES + 1)):
        for number, task in enumerate(documents.spec()[1].tasks, 1):
            noted = notes.pending(task)
            if task.text == name and noted and notes.same(question, noted):
                _take(documents, number, task, text)
                break
        else:
            late.append(plain.line(question or name, 160))
    if late:
        hint = "kern status shows those that are"
        raise KernError(f"the question is not open any more: {'; '.join(late)}", hint=hint)


def _answers(data: bytes) -> list[tuple[str, str, str]]:
    """Task, question and answer: of the notice about one question, or of those at a run's end."""
    try:
        notice = json.loads(data) if len(data) <= _MOST_BYTES else {}
        rows = [one for one in (notice, *notice.get("questions", ())) if "answer" in one]
        answers = [(one["task"], one.get("text", one.get("why")), one["answer"]) for one in rows]
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
        answers = []
    if not answers or not all(isinstance(text, str) for one in answers for text in one):
        what = "that is no JSON object, of at most 1 MiB, with a task, its question and an answer"
        hint = 'what notify was given, with "answer": "…" beside "why": kern help settings'
        raise UsageError(what, hint=hint)
    return answers


def edit(folder: Path) -> None:
    """In the person's editor, on a copy; what they changed is applied under the lock."""
    repo, documents = _opened(folder)
    base, copy = documents.spec_text(), repo.git_dir / _COPY
    copy.parent.mkdir(exist_ok=True)
    workspace.replace(copy, plain.encode(base))
    if why := asking.edit(copy):
        hint = f"EDITOR=nano kern edit begins anew; what was saved there is in {copy}"
        raise UsageError(f"{why}: {SPEC} is unchanged", hint=hint)
    text = plain.decode(workspace.read(copy) or b"")
    parsed = parse(text)
    if "\0" in text or parsed.unclosed or (parse(base).tasks and not parsed.tasks):
        why = parsed.unclosed.said if parsed.unclosed else "it is no text, or no task is left in it"
        what = f"what the editor left is not taken: {why}"
        raise UsageError(what, hint=f"{SPEC} is unchanged; your text is in {copy}")

    def change(now: str, _: Spec) -> tuple[str, str]:
        new = _merged(repo, copy, base, now)
        return new, difference(SPEC, now, new)

    print(documents.update(change) or f"{SPEC} is unchanged")
    copy.unlink()
    for fault in parsed.diagnostics:
        print(f"note: {plain.line(fault.said)}", file=sys.stderr)


def _merged(repo: Repo, copy: Path, base: str, now: str) -> str:
    """The person's lines in the text as it is now: a run may have written there meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        before, there = Path(folder, "before"), Path(folder, "now")
        before.write_bytes(plain.encode(base))
        there.write_bytes(plain.encode(now))
        code, out, _ = repo.run("merge-file", "-p", str(there), str(before), str(copy))
    if code:
        what = f"{SPEC} has changed meanwhile in the same lines, and is left as it is now"
        raise KernError(what, hint=f"kern edit once more; your text is in {copy}")
    return plain.decode(out)
