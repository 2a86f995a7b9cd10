"""What waits for what, as a drawing for Mermaid, which GitHub shows in Markdown. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from kern import plain
from kern.model import Marker
from kern.spec import order
from kern.spec.order import name
from kern.spec.parse import Kind, Spec, Task

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
    drawn = dict.fromkeys(i for i, task in enumerate(spec.tasks) if whole or order.matters(task))
    blocker = order.blockers(spec)
    lines = ["graph TD"]
    if len(drawn) < len(spec.tasks):
        lines.append(f"  %% {len(spec.tasks) - len(drawn)} finished tasks are left out")
    nodes: dict[str, list[str]] = {}
    for index in drawn:
        nodes.setdefault(name(spec.tasks[index].text), []).append(f"t{index + 1}")
        task = spec.tasks[index]
        style = _style(task, blocker(task))
        lines.append(f'  t{index + 1}["{index + 1} {_label(task.text)}"]{style}')
    for number, text in enumerate(order.unknown(spec), 1):
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
    if why.startswith(("blocked", order.UNKNOWN)):
        return ":::blocked"
    return ":::waiting" if why else ""
