"""The suites by name, and which of their tasks are played."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.eval import aider
from tests.eval.micro import notes, slugs
from tests.eval.task import Task

MICRO: tuple[Task, ...] = (*slugs.TASKS, *notes.TASKS)
COPIES: dict[str, Callable[[Path], Sequence[Task]]] = {"aider": aider.tasks}


def tasks(suite: str, only: Sequence[str] = ()) -> list[Task]:
    """`only`: parts of names."""
    found = [task for task in _all(suite) if not only or any(part in task.name for part in only)]
    if not found:
        raise ValueError(f"{suite} has no such task")
    return found


def _all(suite: str) -> Sequence[Task]:
    name, given, folder = suite.partition("=")
    if suite == "micro":
        return MICRO
    if name not in COPIES or not given:
        names = ", ".join(f"{name}=FOLDER" for name in COPIES)
        raise ValueError(f"no such suite: {suite}; there are micro, {names}")
    return COPIES[name](Path(folder))
