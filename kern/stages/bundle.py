"""The files that kern brings along: prompts, examples, the installer."""

from pathlib import Path

from kern.model import Aide, Role, Stage
from kern.spec import edit

PROMPTS: dict[Role, str] = {
    Stage.RESEARCH: "1_research.md",
    Stage.IMPLEMENT: "2_implement.md",
    Stage.COMMIT: "3_commit.md",
    Aide.JUDGE: "judge.md",
    Aide.PLANNER: "plan.md",
}
OVERRIDES = Path(".kern") / "prompts"


def path(name: str) -> Path:
    """Beside the package in an installed kern, above it in a clone."""
    here = Path(__file__).resolve().parent.parent
    installed = here / "bundled" / name
    return installed if installed.exists() else here.parent / name


def overriding(role: Role) -> str:
    """The file that a project puts over a prompt, and what to begin it with."""
    name = PROMPTS[role]
    return f"{OVERRIDES / name} (a copy of {path('prompts') / name})"


def is_example(text: str) -> bool:
    """Whether a SPEC.md is still the one that kern init wrote: its tasks are nobody's."""
    return text == path("SPEC.example.md").read_bytes().decode("utf-8")


def without_example(text: str) -> str:
    """Of that SPEC.md nothing but its title."""
    return edit.NO_TASKS if is_example(text) else text
