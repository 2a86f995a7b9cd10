"""The one task that a person wants carried out: can it be, and what to type where not. Pure."""

from kern import plain
from kern.errors import UsageError
from kern.model import Key, Marker
from kern.spec import dependencies, questions
from kern.spec.checklist import Kind, Spec


def task(spec: Spec, words: str, in_progress: Key | None = None) -> Key:
    """`words` name it as everywhere. `in_progress`: what an earlier run left unfinished. Raises
    UsageError where a run could not take it next.
    """
    index = dependencies.named(words, [one.text for one in spec.tasks])
    found, number = spec.tasks[index], index + 1
    then = f"kern --task {number}"
    if found.key == in_progress:
        return found.key
    if found.marker is Marker.DONE:
        raise _refused("it is done", spec, number, f"kern reopen {number}, then: {then}")
    if in_progress is not None:
        other = spec.find(in_progress)
        at = 1 + spec.tasks.index(other) if other else 0
        back = f", or kern reopen {at} gives it back; then: {then}" if at else ""
        raise UsageError(
            f"another task is in progress: {_shown(in_progress.text)}",
            hint=f"kern 1 goes on with that one{back}",
        )
    if held := dependencies.held(spec, found):
        hint = f"{_unhold(spec, number)}, then: {then}"
        raise _refused(plain.line(held), spec, number, hint)
    parts = [
        str(n) for n, one in enumerate(spec.tasks, 1) if one.parent == index and _open(spec, n)
    ]
    if parts:
        hint = f"its open subtasks are {', '.join(parts)}; say: kern --task {parts[0]}"
        raise _refused("it is done with its last subtask", spec, number, hint)
    if found.of(Kind.BLOCKED):
        hint = f"kern show {number}, edit the task, kern unblock {number}, then: {then}"
        raise _refused("it needs you first", spec, number, hint)
    if questions.pending(found):
        hint = f'kern answer {number} "…", then: {then}'
        raise _refused("it waits for your answer", spec, number, hint)
    if why := dependencies.blockers(spec)(found):
        first = dependencies.first_before(spec, index)
        hint = "kern status tells more"
        if first is not None:
            hint = f"kern --task {first + 1}, then: {then}"
            if dependencies.held(spec, spec.tasks[first]):
                hint = f"{_unhold(spec, first + 1)}, then: {hint}"
        raise _refused(plain.line(why), spec, number, hint)
    return found.key


def _unhold(spec: Spec, number: int) -> str:
    """The command that ends the hold of it, or of what it belongs to."""
    while not spec.tasks[number - 1].of(Kind.HELD):
        number = 1 + (spec.tasks[number - 1].parent or 0)
    return f"kern unhold {number}"


def _open(spec: Spec, number: int) -> bool:
    return spec.tasks[number - 1].marker is not Marker.DONE


def _refused(why: str, spec: Spec, number: int, hint: str) -> UsageError:
    return UsageError(f"{why}: {number}: {_shown(spec.tasks[number - 1].text)}", hint=hint)


def _shown(text: str) -> str:
    return plain.line(text, 200)
