"""Long SPEC.md and LEARNINGS.md."""

import json
from collections.abc import Iterator
from pathlib import Path

from kern.model import Marker
from kern.spec import edit, order
from kern.spec.parse import Kind, parse
from tests.bench.measuring import (
    Row,
    best_ms,
    environment,
    interleaved,
    peak_of,
    ratio,
    row,
    sample,
)

SIZES = (1_000, 10_000, 20_000)

LEARNINGS = """
import json, sys, time
from pathlib import Path
from kern.git import repository
from kern.memory import entries
from kern.spec.file import Documents
from kern.model import Stage
from kern.stages import briefs, prompts
found = repository.open_at(Path.cwd())
papers = Documents(found.root)
form = prompts.templates(found.root)[Stage.RESEARCH]
task = papers.spec()[1].tasks[0]
began = time.perf_counter()
prompt = briefs.brief(form, task, briefs.known(found, papers))
composed = time.perf_counter() - began
began = time.perf_counter()
text = papers.read("LEARNINGS.md")
text = entries.appended(text, [entries.Entry("L0", "a new body")])
papers.write("LEARNINGS.md", text)
print(json.dumps([composed, time.perf_counter() - began, prompt.tokens]))
"""


def rows(folder: Path) -> Iterator[Row]:
    yield from _spec()
    yield from _learnings(folder)


def document(tasks: int) -> str:
    """Parents with notes and subtasks, most of them done: the next one stands far below."""
    lines = ["# Tasks", ""]
    for number in range(0, tasks, 4):
        mark = "x" if number < tasks * 0.9 else " "
        lines += [
            f"- [{mark}] task {number}: change the thing in module_{number % 97}.py",
            "  > **Research:**",
            f"  >   - Files: module_{number % 97}.py:10-40",
            f"  > **Attempt 1:** it did not work because of {number}",
            *(f"  - [{mark}] part {part} of {number}" for part in (1, 2, 3)),
            "",
        ]
    return "\n".join(lines)


def _spec() -> Iterator[Row]:
    for size in SIZES:
        times = _times(document(size), size)
        parts = ", ".join(f"{name} {ms:.1f}" for name, ms in times.items())
        most = 150.0 if size == 10_000 else None
        yield row(f"SPEC.md of {size:,} tasks", sum(times.values()), "ms", most=most, note=parts)
    short, long = document(10_000), document(20_000)
    acts = {"short": lambda: parse(short), "long": lambda: parse(long)}
    growth = ratio(interleaved(acts, 9), "long", "short")
    yield row("SPEC.md: 20,000 tasks parsed against 10,000", growth, "x", most=2.6)


def _times(text: str, size: int) -> dict[str, float]:
    """Milliseconds of what a run does with SPEC.md again and again."""
    parsed = parse(text)
    task = order.select(parsed)
    assert task is not None
    assert len(parsed.tasks) == size
    note = edit.note(Kind.ATTEMPT, "it failed", 2)
    return {
        "parsed": best_ms(lambda: parse(text)),
        "selected": best_ms(lambda: order.select(parsed)),
        "marked": best_ms(lambda: edit.mark(text, task, Marker.ACTIVE)),
        "annotated": best_ms(lambda: edit.annotate(text, task, [note])),
        "ticked": best_ms(lambda: edit.tick(text, parsed, task)),
    }


def _learnings(folder: Path) -> Iterator[Row]:
    env = environment(folder / "home")
    entry = "- L{1} +0 -0 topic {0}: " + "A sentence that was learned, at length. " * 12 + "\n"
    text = "\n".join(entry.format(n % 28 + 1, n) for n in range(10_000_000 // 530))
    files = {"SPEC.md": "- [ ] one\n", "LEARNINGS.md": text}
    root = sample(folder / "project", env, files)
    size = len(text) / 1e6
    peak, _, said = peak_of(LEARNINGS, env, root)
    composed, added, tokens = json.loads(said)
    yield row(
        f"LEARNINGS.md of {size:.0f} MB: prompt of {tokens} tokens composed", 1e3 * composed, "ms"
    )
    yield row(f"LEARNINGS.md of {size:.0f} MB: entry added", 1e3 * added, "ms")
    yield row(f"LEARNINGS.md of {size:.0f} MB: peak memory of both", peak, "MB", most=80)
