"""What waits for what: where that leads nowhere, and a picture of it. Pure.

A task begins when the tasks are done that its `After` notes name, and those that the notes of the
tasks above it name. It is done with its last subtask.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import islice

from kern import choice, plain
from kern.choice import name
from kern.spec import Diagnostic, Kind, Marker, Note, Spec, Task

_MOST_NAMED = 20  # tasks of one circle
_Steps = dict[int, list[int]]


def faults(spec: Spec) -> tuple[Diagnostic, ...]:
    """`After` notes that nothing can ever meet: each unknown name, and each circle that is met on
    the way from a task to what it waits for. Linear in the tasks and notes.
    """
    found = [
        Diagnostic(note.line, f"After names no task in SPEC.md: {plain.line(note.text, 160)!r}")
        for note in _unknown(spec)
    ]
    return tuple(sorted([*found, *circles(spec)], key=lambda fault: fault.line))


def circles(spec: Spec) -> tuple[Diagnostic, ...]:
    """The faults among them that no other task can mend: tasks that wait for each other."""
    return tuple(_circle(spec, circle) for circle in _circles(_left(_steps(spec))))


def unknown(spec: Spec) -> tuple[str, ...]:
    """The names in `After` notes that no task has, each once."""
    return tuple(dict.fromkeys(name(note.text) for note in _unknown(spec)))


def stuck(spec: Spec) -> frozenset[int]:
    """The open tasks, by index, that never begin or end: in a circle, or behind one."""
    return frozenset(_left(_steps(spec))) & frozenset(range(len(spec.tasks)))


def _open(task: Task) -> bool:
    """Whether what stands under it still matters: a task ticked above open subtasks holds them."""
    return task.marker is not Marker.DONE or task.open_subtasks


def _unknown(spec: Spec) -> list[Note]:
    after = [n for task in spec.tasks if task.notes and _open(task) for n in task.of(Kind.AFTER)]
    known = {name(task.text) for task in spec.tasks} | spec.finished if after else frozenset()
    return [note for note in after if name(note.text) not in known]


def _steps(spec: Spec) -> _Steps:
    """What each step waits for: `i` is the end of the task with that index, `~i` its beginning.
    Empty where no order is asked for: then nothing can go in a circle.
    """
    after = {
        index: [name(note.text) for note in notes]
        for index, task in enumerate(spec.tasks)
        if task.notes and _open(task) and (notes := task.of(Kind.AFTER))
    }
    if not after:
        return {}
    # A name is a step of its own, so that many notes with the name of many tasks stay few lines.
    names: dict[str, int] = {}
    for asked in after.values():
        for text in asked:
            names.setdefault(text, len(spec.tasks) + len(names))
    steps: _Steps = {number: [] for number in names.values()}
    for index, task in enumerate(spec.tasks):
        above = [] if task.parent is None else [~task.parent]
        steps[~index] = above + [names[text] for text in after.get(index, ())]
        if task.marker is Marker.DONE:
            continue
        steps[index] = [~index]
        if task.parent in steps:
            steps[task.parent].append(index)
        if (number := names.get(name(task.text))) is not None:
            steps[number].append(index)
    return steps


def _left(steps: _Steps) -> Mapping[int, int]:
    """The steps that are never reached, each with one of them that it waits for."""
    sorter = TopologicalSorter(steps)
    try:
        sorter.prepare()
    except CycleError:
        reached: set[int] = set()
        while free := sorter.get_ready():
            reached.update(free)
            sorter.done(*free)
        left = steps.keys() - reached
        return {
            step: next(before for before in steps[step] if before in left)
            for step in steps
            if step in left
        }
    return {}


def _circles(left: Mapping[int, int]) -> Iterator[list[int]]:
    """Whoever follows what is never reached comes into a circle."""
    met: dict[int, int] = {}
    for start in left:
        way: list[int] = []
        step = start
        while step not in met:
            met[step] = start
            way.append(step)
            step = left[step]
        if met[step] == start:
            yield way[way.index(step) :]


def _circle(spec: Spec, steps: Sequence[int]) -> Diagnostic:
    """Each of its tasks with its line, from the first in the file."""
    count = len(spec.tasks)
    walked = [step if step >= 0 else ~step for step in steps if step < count]
    tasks = [index for at, index in enumerate(walked) if index != walked[at - 1]] or walked[:1]
    first = tasks.index(min(tasks))
    tasks = tasks[first:] + tasks[:first]
    shown = [
        f"{plain.line(spec.tasks[index].text, 60)} (line {spec.tasks[index].line})"
        for index in tasks[:_MOST_NAMED]
    ]
    if len(tasks) > _MOST_NAMED:
        shown.append(f"{len(tasks) - _MOST_NAMED} more")
    shown.append(plain.line(spec.tasks[tasks[0]].text, 60))
    links = list(zip(steps, [*steps[1:], steps[0]], strict=True))
    why = ""
    if any(0 <= step < count and 0 <= before < count for step, before in links):
        why = "; a task is done with its last subtask"
    if any(step < 0 and before < 0 for step, before in links):
        why += "; a subtask waits with its parent"
    said = f"waits for itself: {' -> '.join(shown)}{why}"
    return Diagnostic(spec.tasks[tasks[0]].line, said)


# ---------------------------------------------------------------- as a picture

# Mermaid refuses a drawing of more than 50,000 characters or 500 arrows.
_MOST_DRAWN = 200  # tasks, done ones included
_MOST_ARROWS = 500
_PLAIN = re.compile(r"[^\w .,/()'-]")  # what Mermaid could take for its own
_STYLES = {
    "done": "fill:#d3f0d3,stroke:#4a8a4a,color:#234023",
    "active": "fill:#fff3bf,stroke:#b8860b,color:#4d3800",
    "waiting": "fill:#eeeeee,stroke:#888888,color:#333333,stroke-dasharray:4",
    "blocked": "fill:#f8d0d0,stroke:#a03030,color:#501010",
}


def mermaid(spec: Spec) -> str:
    """A `graph TD`: an arrow leads from a task to the one that waits for it, a dotted line from a
    task to its subtasks. Of a long SPEC.md what is done is left out.
    """
    whole = len(spec.tasks) <= _MOST_DRAWN
    drawn = dict.fromkeys(i for i, task in enumerate(spec.tasks) if whole or _open(task))
    blocker = choice.blockers(spec)
    lines = ["graph TD"]
    if len(drawn) < len(spec.tasks):
        lines.append(f"  %% {len(spec.tasks) - len(drawn)} finished tasks are left out")
    nodes: dict[str, list[str]] = {}
    for index in drawn:
        nodes.setdefault(name(spec.tasks[index].text), []).append(f"t{index + 1}")
        task = spec.tasks[index]
        style = _style(task, blocker(task))
        lines.append(f'  t{index + 1}["{index + 1} {_label(task.text)}"]{style}')
    for number, text in enumerate(unknown(spec), 1):
        nodes[text] = [f"m{number}"]
        lines.append(f'  m{number}["{_label(text + "?")}"]:::blocked')
    arrows = _arrows(spec, drawn, nodes)
    lines += islice(arrows, _MOST_ARROWS)
    if next(arrows, ""):
        lines.append(f"  %% only the first {_MOST_ARROWS} arrows are drawn")
    lines += [f"  classDef {style} {how}" for style, how in _STYLES.items()]
    return "\n".join(lines)


def _arrows(
    spec: Spec, drawn: Collection[int], nodes: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    for index in drawn:
        task = spec.tasks[index]
        if task.parent is not None and task.parent in drawn:
            yield f"  t{task.parent + 1} -.- t{index + 1}"
        for text in dict.fromkeys(name(note.text) for note in task.of(Kind.AFTER)):
            for node in nodes.get(text, ()):
                yield f"  {node} --> t{index + 1}"


def _label(text: str) -> str:
    """In the quotes of a node, as Mermaid spells what is not plain."""
    return _PLAIN.sub(lambda match: f"#{ord(match[0])};", plain.line(text, 60))


def _style(task: Task, why: str) -> str:
    if task.marker is Marker.DONE:
        return ":::done"
    if task.marker is Marker.ACTIVE:
        return ":::active"
    if why.startswith(("blocked", choice.UNKNOWN)):
        return ":::blocked"
    return ":::waiting" if why else ""
