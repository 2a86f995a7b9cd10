"""What an attempt is given of the one before: its change where that went the right way, else the
reason alone; and research anew before the third.
"""

from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Inline

MENDING = "went the right way"
GATED = "- [ ] add a greeting\n  > **Gate:** `grep -q good n && test ! -e bad || { ls; exit 1; }`\n"
FIRST = {"run": ["echo good > n; touch bad"], "result": "Wrote n as asked.\n\nSUCCESS"}
SECOND = {"run": ["rm bad"], "result": "Removed bad.\n\nSUCCESS"}
GIVES_UP = {"run": ["echo half > n"], "result": "FAILED: the API lacks it"}
WORKS = {"run": ["echo good > n"], "result": "SUCCESS"}


@pytest.fixture(autouse=True)
def spec(repo: Path, git: Git) -> None:
    (repo / "SPEC.md").write_text(GATED)
    git("commit", "--quiet", "--all", "--message=tasks")


def told(fake: Fake, number: int) -> str:
    """All that the agent of that call read."""
    return str(fake.calls[number]["system"] + fake.calls[number]["prompt"])


def test_the_second_attempt_goes_on_from_a_change_that_a_gate_refused(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    fake.script(implement=[FIRST, SECOND])
    ran = inline()
    assert ran.code == 0, ran.err
    assert fake.stages == ["research", "implement", "implement", "commit"]
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "n"]
    second = told(fake, 2)
    assert MENDING in second and MENDING not in told(fake, 1)
    assert "Wrote n as asked." in second and "bad" in second and "+good" in second
    assert git("status", "--porcelain") == ""


def test_after_the_agents_own_word_the_next_attempt_begins_anew(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    seen = {**WORKS, "run": ["test ! -e n || touch bad", *WORKS["run"]]}
    fake.script(implement=[GIVES_UP, seen])
    assert inline().code == 0
    assert MENDING not in told(fake, 2)
    assert "take one that differs in kind" in told(fake, 2)


def test_before_the_third_attempt_research_runs_again_and_its_note_is_replaced(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    found = "- Files: {}\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"
    fake.script(
        research=[{"result": found.format(place)} for place in ("one.py:1", "two.py:2")],
        implement=[FIRST, GIVES_UP, WORKS],
    )
    assert inline().code == 0
    assert fake.stages == [
        *("research", "implement", "implement"),
        "research",
        "implement",
        "commit",
    ]
    again = told(fake, 3)
    assert "is red" in again and "the API lacks it" in again
    committed = git("show", "HEAD:SPEC.md")
    assert "two.py:2" in committed and "one.py:1" not in committed
    assert MENDING not in told(fake, 4), "only the second mends"


def test_a_tasks_own_gate_runs_before_it_and_the_stages_read_how_it_fails(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    gates = ["echo the greeting is missing; test -e n", "true"]
    noted = "".join(f"  > **Gate:** `{gate}`\n" for gate in gates)
    (repo / "SPEC.md").write_text(f"- [ ] add a greeting\n{noted}")
    git("commit", "--quiet", "--all", "--message=gates")
    fake.script(implement=[WORKS])
    ran = inline()
    assert ran.code == 0, ran.err
    for number in (0, 1):
        assert "gate of the task (`echo the greeting is missing; test -e n`): failed" in told(
            fake, number
        )
        assert "test -e n (red now)" in told(fake, number)
    assert ran.err.count("gate `true` is green before the task: it proves nothing of it") == 1


def test_a_part_is_told_what_the_whole_was_and_what_came_of_it(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text(
        "> **Goal:** a friendly program\n\n"
        "- [x] the task before\n"
        "- [ ] the whole\n"
        "  in the manner of hello.c\n"
        "  > **Question:** tea or coffee?\n"
        "  > **Answer:** tea\n"
        "  > **Attempt 1:** the cups were too small\n"
        "  - [ ] the first part\n"
        "  - [ ] the second part\n"
        "- [ ] the task after\n"
    )
    git("commit", "--quiet", "--all", "--message=parts")
    fake.script(implement=[WORKS])
    assert inline().code == 0
    for number in (0, 1):
        read = told(fake, number)
        for word in ("hello.c", "Answer: tea", "the cups were too small", "a friendly program"):
            assert word in read, word
        assert "after this one: the second part" in read
        assert "the task after" not in read
