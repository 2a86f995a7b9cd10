"""`kern add`, `answer`, `retry`, `undo`: SPEC.md by commands."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kern import plain
from kern.config import Gate
from kern.errors import Held, KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import SPEC, Question
from kern.pipeline import landing, place, trust
from kern.spec import commands, edit, notes, order
from kern.spec.commands import Edited, New
from kern.spec.file import Documents
from kern.spec.parse import Spec, Task, parse
from kern.stages import prompts
from kern.system import lock, workspace
from kern.system.workspace import Scope


def add(
    folder: Path,
    text: str,
    after: Sequence[str] = (),
    gate: Sequence[str] = (),
    judge: Sequence[str] = (),
    under: str = "",
) -> None:
    """Beside a run too, which takes the task up in its turn. Where there is no SPEC.md, or only the
    example, it begins one.
    """
    new = New(text, after, gate, judge, under)
    found, papers = _opened(folder)
    if papers.read(SPEC) is None and papers.form(SPEC) is None:
        commands.add(edit.NO_TASKS, parse(edit.NO_TASKS), new)  # a refusal comes before the file
        papers.write(SPEC, edit.NO_TASKS)

    def change(text: str, parsed: Spec) -> Edited:
        if not prompts.is_example(text):
            return commands.add(text, parsed, new)
        begun = commands.add(edit.NO_TASKS, parse(edit.NO_TASKS), new)
        return begun._replace(said=f"{begun.said}, in place of the example")

    _edit(papers, change)
    if gate and sys.stdin.isatty() and sys.stderr.isatty() and not os.environ.get("KERN_ROOT"):
        with contextlib.suppress(KernError):  # what is wrong here is the next run's to say
            typed = (Gate("", one.strip(), 0) for one in gate)
            trust.agree(found, trust.of_gates(typed))


def retry(folder: Path, wanted: str) -> None:
    found, papers = _opened(folder)
    with _alone(found, f'retry "{wanted}"'):
        _edit(papers, lambda text, parsed: commands.retry(text, parsed, wanted))


def undo(folder: Path, wanted: str) -> None:
    found, papers = _opened(folder)
    with _alone(found, f'undo "{wanted}"'):
        print(plain.line(landing.undo(found, papers, wanted), 1000))
    print("next: kern edit, to say below it what to do otherwise; then: kern")


@contextlib.contextmanager
def _alone(found: Repo, again: str) -> Iterator[Scope]:
    """Not beside a run: kern's own lines are its own, and it writes them again."""
    with contextlib.ExitStack() as held:
        try:
            scope = workspace.scope(found.root, found.head().name)
            held.enter_context(lock.hold(scope, found.git_dir))
        except Held as exc:
            raise KernError(
                f"{exc}, which would undo this",
                hint=f"kern stop, and when it has ended: kern {again}",
            ) from None
        yield scope


def answer(folder: Path, wanted: str, text: str) -> None:
    """A person's answer below the open question of a task; without a task, what is asked. A run
    in progress reads SPEC.md afresh before it writes.
    """
    if os.environ.get("KERN_ROOT"):
        raise KernError(
            "an agent cannot answer: a person decides", hint="kern answer in a terminal"
        )
    found = repository.open_at(folder)
    papers = place.documents(found)
    _, parsed = papers.spec()
    if not wanted:
        asked = notes.waiting(parsed)
        print("\n".join(map(_asked, asked)) if asked else "no task waits for an answer")
        return
    task = parsed.tasks[order.named(wanted, [task.text for task in parsed.tasks])]
    if (noted := notes.pending(task)) is None:
        raise UsageError(
            f"no question is open under: {plain.line(task.text)}",
            hint="kern answer lists the open questions",
        )
    said = plain.line(text, len(text) + 1)
    if not said:
        raise UsageError(
            f"what is the answer? {notes.words(noted)}",
            hint=f'kern answer {parsed.tasks.index(task) + 1} "…"',
        )
    if (over := len(said) - edit.NOTE_LIMIT) > 0:
        raise UsageError(
            f"the answer is {over} characters too long: {edit.NOTE_LIMIT} are a note's limit",
            hint="answer in short, and put the rest below the task in SPEC.md, indented",
        )

    def apply(fresh: str, _: Spec, now: Task) -> str:
        still = notes.pending(now)
        if still is None or still.text != noted.text:
            raise KernError(
                "the question is no longer open", hint="kern answer lists those that are"
            )
        return notes.answered(fresh, still, said)

    papers.edit_task(task.key, apply)
    print(
        f"answered: {plain.line(task.text, 160)}\n  {plain.line(notes.words(noted))}\n"
        "next: kern (a run in progress picks it up by itself)",
        file=sys.stderr,
    )


def _asked(asked: Question) -> str:
    lines = plain.line(asked.task, 160), plain.line(asked.text), f'kern answer {asked.number} "…"'
    return f"{asked.number:4}  " + "\n      ".join(lines)


def _opened(folder: Path) -> tuple[Repo, Documents]:
    found = repository.open_at(folder)
    return found, place.documents(found)


def _edit(papers: Documents, change: Callable[[str, Spec], Edited]) -> None:
    """One line of what was done."""
    said: list[str] = []

    def apply(text: str, parsed: Spec) -> str:
        if parsed.unclosed:
            raise UsageError(
                parsed.unclosed.said,
                hint="close it: what is added below it would be hidden as well",
            )
        edited = change(text, parsed)
        said[:] = [edited.said]
        return edited.text

    papers.edit(apply)
    print(plain.line(said[0], 1000))
