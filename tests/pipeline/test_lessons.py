"""What one task learned in the prompts of the next: told, used, voted on, and told no more."""

from pathlib import Path
from typing import Any

import pytest

from kern.memory.entries import Entry, parse
from tests.conftest import Fake, Git, Inline, Kern

DONE = {"run": ["date +%s%N >> n"], "result": "SUCCESS"}


def answer(*lines: str, end: str = "SUCCESS") -> dict[str, Any]:
    said = "\n".join(lines)
    return {"run": ["date +%s%N >> n"], "result": f"Did it.\n\n{said}\n\n{end}"}


def tasks(repo: Path, git: Git, *names: str, learnings: str = "") -> None:
    (repo / "SPEC.md").write_text("".join(f"- [ ] {name}\n" for name in names))
    if learnings:
        (repo / "LEARNINGS.md").write_text(learnings)
    git("add", "--all")
    git("commit", "--quiet", "--message=tasks")


def entries(repo: Path) -> list[Entry]:
    return [*parse((repo / "LEARNINGS.md").read_text()).entries]


def votes(repo: Path) -> dict[str, tuple[int, int]]:
    return {entry.id: (entry.helpful, entry.harmful) for entry in entries(repo)}


def prompts(fake: Fake, stage: str) -> list[str]:
    return [call["prompt"] for call in fake.calls if call["stage"] == stage]


def test_a_lesson_that_misleads_sinks_and_is_told_no_more(
    repo: Path, git: Git, fake: Fake, inline: Inline, kern: Kern
) -> None:
    wrong = "- The database needs no start.\n- Tabs.\n"
    tasks(repo, git, "one", "two", "three", learnings=wrong)
    fake.script(implement=[answer("Misled: L1"), answer("Misled: **L1**"), DONE])

    assert inline(3).code == 0

    assert votes(repo) == {"L1": (0, 2), "L2": (0, 0)}
    told = ["needs no start" in prompt for prompt in prompts(fake, "research")]
    assert told == [True, True, False]
    assert "Tabs." in prompts(fake, "research")[2]
    assert "left out L1 (harmful: 0 helpful, 2 harmful)" in kern("show", "3").out


def test_what_a_failed_attempt_went_by_loses_once_and_what_overcame_it_is_kept(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    tasks(repo, git, "one", learnings="- Use tabs.\n")
    fake.script(
        implement=[
            answer("Used: L1", end="FAILED: tabs are refused"),
            answer("## Learned", "Tabs are refused by the linter -> indent by spaces."),
        ]
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert votes(repo) == {"L1": (0, 1), "L2": (0, 0)}
    assert "learning L1 was harmful: used, and the attempt failed" in ran.err
    assert git("status", "--porcelain") == ""


@pytest.mark.parametrize("ignored", [False, True])
def test_what_is_no_entry_is_said_and_what_is_known_becomes_a_vote(
    repo: Path, git: Git, fake: Fake, inline: Inline, ignored: bool
) -> None:
    if ignored:
        (repo / ".git" / "info" / "exclude").write_text("LEARNINGS.md\n")
    tasks(repo, git, "one", learnings="- Run `make db` before the tests.\n")
    learned = (
        "## Learned",
        "- I added a test.",
        "- Run make db before any tests.",
        "- Ports clash.",
    )
    fake.script(implement=[answer(*learned)])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert "not kept in LEARNINGS.md, it tells what was done, not what to do: I added" in ran.err
    assert votes(repo) == {"L1": (1, 0), "L2": (0, 0)}
    assert entries(repo)[1].text == "Ports clash."
    assert "learning L1 was helpful: learned again" in ran.err
    assert ("LEARNINGS.md" in git("ls-files")) is not ignored
