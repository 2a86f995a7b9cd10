"""Experiments: their code is kept only if it works, what they taught in any case."""

import re
from pathlib import Path

import pytest

from kern.events import Learned, TaskSettled
from kern.memory.entries import parse
from kern.model import Outcome
from kern.spec.parse import is_experiment
from tests.conftest import Fake, Git, Heard, Inline

TASK = "Experiment: cache the parser"
WORK = {"run": ["echo work >> work.txt"], "result": "Cached it in a.txt.\n\nSUCCESS"}
SLOWER = "Tried it.\n\n## Learned\nThe parser is 2 % of the time.\n\nFAILED: 10 % slower"
NO = {"run": ["echo cache > cache.txt"], "result": SLOWER}


@pytest.fixture
def lab(repo: Path, git: Git) -> Path:
    write(repo, git, f"- [ ] {TASK}\n")
    return repo


def write(repo: Path, git: Git, spec: str, gates: str = "") -> None:
    (repo / "SPEC.md").write_text(spec)
    if gates:
        (repo / "kern.toml").write_text(f"[gates]\n{gates}\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=tasks")


def learnings(repo: Path) -> str:
    """The entries, without what kern counted."""
    found = parse((repo / "LEARNINGS.md").read_text()).entries
    return "".join(f"{entry.text}\n" for entry in found)


def paths(git: Git, commit: str = "HEAD") -> set[str]:
    return set(git("show", "--format=", "--name-only", commit).splitlines())


def outcomes(ran: Heard) -> list[Outcome]:
    return [event.outcome for event in ran.events if isinstance(event, TaskSettled)]


def learned(ran: Heard) -> list[str]:
    return [event.text for event in ran.events if isinstance(event, Learned)]


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def test_the_beginning_of_its_text_makes_a_task_an_experiment() -> None:
    for text in ("Experiment: try it", "experiment : it", "**EXPERIMENT:** it", "`Experiment`: it"):
        assert is_experiment(text)
    for text in ("Experimental: it", "Run the Experiment: it", "[Experiment](a.md): try it"):
        assert not is_experiment(text)


# ---------------------------------------------------------------- it works


def test_one_that_works_and_names_no_lesson_gets_one_from_its_answer_and_its_proof(
    lab: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write(lab, git, f"- [ ] {TASK}\n- [ ] an ordinary task\n", "check = 'true'")
    fake.script(implement=[WORK, {"run": ["echo 2 >> work.txt"], "result": "Did it.\n\nSUCCESS"}])

    ran = inline(2)

    assert outcomes(ran) == [Outcome.DONE] * 2
    said = f"{TASK}: Worked (verified by gate check). Cached it in a.txt."
    assert learnings(lab) == f"{said}\n"
    assert learned(ran) == [said], "an ordinary task that names none leaves none"
    assert [paths(git, "HEAD~1"), paths(git)] == [
        {"LEARNINGS.md", "SPEC.md", "work.txt"},
        {"SPEC.md", "work.txt"},
    ]


# ---------------------------------------------------------------- it does not


@pytest.mark.parametrize(
    ("answers", "tried"),
    [
        (["SUCCESS", "SUCCESS", NO["result"]], 3),  # a claim that gates refute is no result
        (["SUCCESS", NO["result"], "SUCCESS"], 2),
    ],
)
def test_what_is_no_result_is_an_attempt_until_they_are_used_up(
    lab: Path, git: Git, fake: Fake, inline: Inline, answers: list[str], tried: int
) -> None:
    write(lab, git, f"- [ ] {TASK}\n", "check = '! cat broken 2>/dev/null'")
    breaks = [["echo once > broken"], ["echo twice > broken"], ["echo again > broken"]]
    steps = [{"run": run, "result": text} for run, text in zip(breaks, answers, strict=True)]
    fake.script(implement=steps)

    ran = inline()

    assert fake.stages == ["research", *["implement"] * tried]
    assert (ran.code, outcomes(ran)) == (0, [Outcome.CONCLUDED])
    notes = re.findall(r"> \*\*Attempt (\d): ?\*\* (.*)", spec(lab))
    assert len(notes) == tried
    for number, text in notes:
        assert f"attempt {number}: {text}" in learnings(lab)
    assert paths(git) == {"LEARNINGS.md", "SPEC.md"}


# ---------------------------------------------------------------- surroundings


def test_it_does_not_close_a_parent_whose_own_checks_nothing_passed(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    check = "> **Judge:** it is faster"
    write(repo, git, f"- [ ] faster\n  {check}\n  - [ ] {TASK}\n")
    fake.script(implement=[NO])

    inline()

    assert spec(repo).startswith(f"- [ ] faster\n  {check}\n  - [x] {TASK}\n")
    assert git("show", "HEAD:SPEC.md") + "\n" == spec(repo)
