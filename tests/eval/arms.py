"""What is compared: kern's own prompts, a folder of others, no look around before the work, or no
word of what earlier tasks learned.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tests.eval.task import Files

SOURCE = Path(__file__).resolve().parents[2]
PROMPTS = SOURCE / "prompts"
OWN = "prompts"
NO_RESEARCH = "no-research"
NO_MEMORY = "no-memory"
_RESEARCH = "1_research.md"
_AT_ONCE = """\
---
model: haiku
---
Answer at once, without using any tool. Your whole answer is this one line:

READY

What follows is for another stage; do not look at it.

"""


@dataclass(frozen=True, slots=True)
class Arm:
    """Prompt files that stand in .kern/prompts/ of each repository; none are kern's own."""

    name: str  # as it was given
    files: Files

    @property
    def hash(self) -> str:
        """Of all prompts that count in it."""
        counted = {**read(PROMPTS), **self.files}
        told = "".join(f"{name}\0{text}\0" for name, text in sorted(counted.items()))
        return hashlib.sha256(told.encode()).hexdigest()[:12]


def arm(name: str) -> Arm:
    if name == OWN:
        return Arm(name, {})
    if name == NO_RESEARCH:
        return Arm(name, {_RESEARCH: without_research()})
    if name == NO_MEMORY:
        return Arm(name, without_learnings())
    if not (files := read(Path(name))):
        raise ValueError(f"{name} holds no prompts: {', '.join(sorted(read(PROMPTS)))}")
    if strange := sorted(files.keys() - read(PROMPTS).keys()):
        raise ValueError(f"{name} holds {strange[0]}, which is no prompt of kern's")
    return Arm(name, files)


def read(folder: Path) -> Files:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}


def without_research() -> str:
    """Stage 1 still is a process, of a small model that is told to answer at once and finds
    nothing: stage 2 begins as if nobody had looked. kern demands that it names the task.
    """
    return _AT_ONCE + "{{ task }}\n"


def without_learnings() -> Files:
    """kern's own prompts without the section that tells learnings: so none is told, and none is
    voted on. What a task learns is written down all the same.
    """
    kept = {
        name: re.sub(r"(?sm)^\{% if learnings %\}\n.*?^\{% endif %\}\n", "", text)
        for name, text in read(PROMPTS).items()
    }
    return {name: text for name, text in kept.items() if text != read(PROMPTS)[name]}
