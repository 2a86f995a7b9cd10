"""What is compared: kern with its own prompts or a folder of others, and the agent alone."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tests.eval.task import Files

SOURCE = Path(__file__).resolve().parents[2]
PROMPTS = SOURCE / "prompts"
OWN = "kern"
BARE = "bare agent"


@dataclass(frozen=True, slots=True)
class Arm:
    """Prompt files that stand in .kern/prompts/ of each repository; none are kern's own."""

    name: str  # as it was given
    files: Files

    @property
    def hash(self) -> str:
        """Of all prompts that count in it."""
        counted = self.files if self.name == BARE else {**read(PROMPTS), **self.files}
        told = "".join(f"{name}\0{text}\0" for name, text in sorted(counted.items()))
        return hashlib.sha256(told.encode()).hexdigest()[:12]


def arm(name: str) -> Arm:
    if name == OWN:
        return Arm(name, {})
    if name in ("bare", BARE):
        from tests.eval.bare import PROMPT

        return Arm(BARE, {"prompt": PROMPT})
    if not (files := read(Path(name))):
        raise ValueError(f"{name} holds no prompts: {', '.join(sorted(read(PROMPTS)))}")
    if strange := sorted(files.keys() - read(PROMPTS).keys()):
        raise ValueError(f"{name} holds {strange[0]}, which is no prompt of kern's")
    return Arm(name, files)


def read(folder: Path) -> Files:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
