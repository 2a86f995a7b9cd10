"""The evaluation as its users run it, with the stand-in for the agent."""

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.conftest import wait_for
from tests.eval import arms, repository, rows
from tests.eval.__main__ import main
from tests.eval.cell import NotPlayed, Play
from tests.eval.dry import stage
from tests.eval.suites import MICRO

Said = pytest.CaptureFixture[str]
TASKS = {task.name: task for task in MICRO}
FEW = ("done-already", "look-alike", "quoting")


@pytest.mark.slow
def test_a_dry_run_fills_each_column_and_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: Said
) -> None:
    out = tmp_path / "rows.jsonl"
    argv = ["--dry", "--out", str(out), *(f"--only={name}" for name in FEW)]
    assert main([*argv, "--max-cost", "0.03"]) == 0
    assert "stopped at $0.05, above --max-cost" in capsys.readouterr().out
    begun = out.read_text()
    assert len(begun.splitlines()) == 3
    out.write_text(begun + '{"suite": "mic')  # killed while it wrote
    assert main(argv) == 0
    assert out.read_text().startswith(begun)
    found = rows.load(out)
    assert len({one.cell for one in found}) == len(found) == 6
    ends = {one.task: one.end for one in found}
    assert [*ends.values()] == ["skipped", "done", "done"]
    assert [one.task for one in found if one.false_done] == ["notes/quoting"] * 2
    wasted = {one.cell: one.attempts for one in found if one.wasted_correct}
    assert wasted == {("slugs/look-alike", "no-research", 1): {"own word": 1}}
    assert {one.models["research"] for one in found if one.arm == "no-research"} == {"haiku"}
    assert len({one.prompts for one in found}) == 2
    right = next(one for one in found if one.task == "slugs/look-alike")
    assert right.finished and right.lines == right.reference_lines == 2
    assert right.tokens["implement"] == {"input": 900, "output": 100}
    assert right.requests["implement"] == 3 and right.cost["implement"] == 0.01
    said = capsys.readouterr().out
    assert "no-research against prompts, 3 pairs of 3 tasks" in said
    assert "better" not in said.lower()


@pytest.mark.slow
def test_a_run_that_says_nothing_about_its_arm_leaves_no_row(tmp_path: Path) -> None:
    play = Play("micro", "", "", stage)
    broken = replace(TASKS["notes/quoting"], settings="[gates]\ntest = 'false'\n")
    with pytest.raises(NotPlayed, match="gate test is red before any task"):
        play.row(broken, arms.arm("prompts"), 1, tmp_path / "cell")


def test_an_arm_is_a_folder_of_prompts(tmp_path: Path) -> None:
    own = arms.arm("prompts")
    copy = tmp_path / "prompts"
    repository.lay(copy, arms.read(arms.PROMPTS))
    assert arms.arm(str(copy)).hash == own.hash
    (copy / "judge.md").write_text("another\n")
    assert arms.arm(str(copy)).hash != own.hash
    (copy / "jugde.md").write_text("another\n")
    with pytest.raises(ValueError, match=r"holds jugde\.md, which is no prompt"):
        arms.arm(str(copy))
    with pytest.raises(ValueError, match="holds no prompts"):
        arms.arm(str(tmp_path / "nowhere"))


def alive() -> set[int]:
    found = psutil.process_iter(["status"])
    return {one.pid for one in found if one.info["status"] != psutil.STATUS_ZOMBIE}


def test_what_is_graded_knows_no_secret_and_ends_with_its_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "1")
    assert repository.runs('sleep 347 & echo $! > pid; test -z "$SECRET_TOKEN"', tmp_path)
    left = int((tmp_path / "pid").read_text())
    wait_for(lambda: left not in alive())


def test_an_arm_tells_no_learnings_and_asks_for_no_votes() -> None:
    files = arms.arm(arms.NO_MEMORY).files
    assert set(files) >= {"1_research.md", "2_implement.md"}
    for name, text in files.items():
        own = (arms.PROMPTS / name).read_text()
        assert "{{ learnings }}" in own and "{{ learnings }}" not in text
        assert "Used: L7" not in text
        assert "## Recent commits\n\n{{ commits }}" in text, "only that section is gone"
        assert len(own) - len(text) < 400
    assert arms.arm(arms.NO_MEMORY).hash != arms.arm(arms.OWN).hash
