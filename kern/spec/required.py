"""What must hold before a task's commit: gates, then judges. Pure."""

import re
from dataclasses import replace

from kern.config import Gate, Settings
from kern.frozen import frozen
from kern.model import Marker
from kern.spec import edit
from kern.spec.checklist import Kind, Spec, Task

MOST_COMMANDS = 20  # shown at the start of a run


@frozen
class Checks:
    """What must hold before a task's commit, in this order."""

    gates: tuple[Gate, ...] = ()
    criteria: tuple[str, ...] = ()  # for judges
    red: frozenset[Gate] = frozenset()  # of the gates, before the task

    @property
    def shown(self) -> tuple[str, ...]:
        return (
            *(f"{gate.shown}{' (red now)' if gate in self.red else ''}" for gate in self.gates),
            *(f"judge: {criterion}" for criterion in self.criteria),
        )

    def repaired(self) -> "Checks":
        """Where the task is there to repair what is red: only what is known to be red may stay."""
        gates = (replace(gate, strict=not gate.known_red) for gate in self.gates)
        return replace(self, gates=tuple(gates))


def checks(spec: Spec, task: Task, settings: Settings) -> Checks:
    """The task's own gates, those of the parents that are done with it, the project's; judges."""
    done = edit.ticked(spec, task)
    own = [gate for one in done for gate in task_gates(one, settings.timeouts.gate)]
    own = [] if settings.bare else own
    return Checks(
        (*own, *settings.gates), tuple(criterion for one in done for criterion in criteria(one))
    )


def task_gates(task: Task, timeout: float) -> tuple[Gate, ...]:
    """A task's own gates, from its notes. They say what done means: red before is no excuse."""
    commands = [_unquoted(note.text) for note in task.of(Kind.GATE)]
    return tuple(Gate("", command, timeout, strict=True) for command in commands if command)


def criteria(task: Task) -> tuple[str, ...]:
    """What a judge is asked about the task's change."""
    return tuple(note.text.strip() for note in task.of(Kind.JUDGE) if note.text.strip())


def _unquoted(text: str) -> str:
    """The command between backticks at the beginning, or all of it as it stands."""
    match = re.match(r"(`+)(.+?)\1(?!`)", text.strip())
    bare = (match[2] if match else text).replace("\0", "").strip()
    return bare if bare.strip("` ") else ""


def open_gates(parsed: Spec) -> list[Gate]:
    """Those of the tasks that are not done."""
    unfinished = (task for task in parsed.tasks if task.marker is not Marker.DONE)
    return [gate for task in unfinished for gate in task_gates(task, 0)]


def commands(parsed: Spec, settings: Settings) -> tuple[str, ...]:
    """What this repository makes kern run: the project's gates and those of its open tasks, and
    what tells how things stand.
    """
    own = {gate.shown: None for gate in open_gates(parsed)}
    shown = [
        f"gate {gate}"
        for gate in (*(gate.shown for gate in (*settings.gates, *settings.final)), *own)
    ]
    more = len(shown) - MOST_COMMANDS
    return (
        *(f"probe {probe.shown}" for probe in settings.probes),
        *shown[:MOST_COMMANDS],
        *([f"and {more} more gates in SPEC.md"] if more > 0 else []),
    )
