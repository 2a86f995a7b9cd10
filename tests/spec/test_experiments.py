"""Experiments: their code is kept only if it works, what they taught in any case."""

import re
from pathlib import Path

import pytest

from kern.memory.entries import parse
from kern.spec.parse import is_experiment
from tests.checks.test_gates import attempts, task, toml
from tests.conftest import Fake, Git, Inline

TASK = "Experiment: cache the parser"
SLOWER = "Tried it.\n\n## Learned\nThe parser is 2 % of the time.\n\nFAILED: 10 % slower"


def learnings(repo: Path) -> str:
    """The entries, without what kern counted."""
    found = parse((repo / "LEARNINGS.md").read_text()).entries
    return "".join(f"{entry.text}\n" for entry in found)


def test_the_beginning_of_its_text_makes_a_task_an_experiment() -> None:
    for text in ("Experiment: try it", "experiment : it", "**EXPERIMENT:** it", "`Experiment`: it"):
        assert is_experiment(text)
    for text in ("Experimental: it", "Run the Experiment: it", "[Experiment](a.md): try it"):
        assert not is_experiment(text)


def test_one_that_works_and_names_no_lesson_gets_one_from_its_answer_and_its_proof(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    toml(repo, git, "[gates]\ncheck = 'true'\n")
    task(repo, git, title=TASK)
    work = ["echo work >> work.txt"]
    fake.script(implement=[{"run": work, "result": "Cached it in a.txt.\n\nSUCCESS"}])
    assert inline(1).code == 0
    assert learnings(repo) == f"{TASK}: Worked (verified by gate check). Cached it in a.txt.\n"


@pytest.mark.parametrize(
    ("answers", "tried"),
    [
        (["SUCCESS", "SUCCESS", SLOWER], 3),  # a claim that gates refute is no result
        (["SUCCESS", SLOWER, "SUCCESS"], 2),
    ],
)
def test_what_is_no_result_is_an_attempt_until_they_are_used_up(
    repo: Path, git: Git, fake: Fake, inline: Inline, answers: list[str], tried: int
) -> None:
    toml(repo, git, "[gates]\ncheck = '! cat broken 2>/dev/null'\n")
    task(repo, git, title=TASK)
    steps = [{"run": [f"echo {text[-9:]} {n} > broken"], "result": text} for n, text in
             enumerate(answers)]  # fmt: skip
    fake.script(implement=steps)
    assert inline(1).code == 0
    assert fake.stages == ["research", *["implement"] * tried]
    notes = [re.search(r"Attempt (\d): ?\*\* (.*)", line) for line in attempts(repo)]
    assert len(notes) == tried
    for note in notes:
        assert note and f"attempt {note[1]}: {note[2]}" in learnings(repo)
    assert git("show", "--format=", "--name-only").split() == ["LEARNINGS.md", "SPEC.md"]
