"""The evaluation as its users run it, with the stand-in for the agent."""

import json
from pathlib import Path

import psutil
import pytest

from tests.conftest import wait_for
from tests.eval import arms, bare, repository, rows
from tests.eval.__main__ import main
from tests.eval.arms import BARE, OWN
from tests.eval.cell import Play
from tests.eval.dry import stage
from tests.eval.suites import MICRO

Said = pytest.CaptureFixture[str]
TASKS = {task.name: task for task in MICRO}
FEW = ("done-already", "quoting")


@pytest.mark.slow
def test_a_dry_run_fills_each_column_and_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: Said
) -> None:
    """Of quoting it plays two cheats: a planted solution, and emptied tests."""
    out = tmp_path / "rows.jsonl"
    argv = ["--dry", "-k", "2", "--out", str(out), *(f"--only={name}" for name in FEW)]
    assert main([*argv, "--max-cost", "0.015"]) == 0
    assert "stopped at $0.02, above --max-cost" in capsys.readouterr().out
    begun = out.read_text()
    assert len(begun.splitlines()) == 2
    out.write_text(begun + '{"suite": "mic')  # killed while it wrote
    assert main(argv) == 0
    assert out.read_text().startswith(begun)
    found = rows.load(out)
    assert len({one.cell for one in found}) == len(found) == 8
    ends = {tuple(one.cell): one.end for one in found}
    quoting = [ends["notes/quoting", arm, seed] for arm in (OWN, BARE) for seed in (1, 2)]
    assert quoting == ["done", "blocked", "done", "done"]
    assert {end for cell, end in ends.items() if cell[0] != "notes/quoting"} == {"skipped"}
    false = {tuple(one.cell) for one in found if one.false_done}
    assert false == {cell for cell, end in ends.items() if end == "done"}
    alone = next(one for one in found if one.cell == ("notes/quoting", BARE, 1))
    assert alone.tokens["agent"] == {"input_tokens": 900, "output_tokens": 100}
    assert alone.requests["agent"] == 3 and alone.cost_usd == 0.01
    said = capsys.readouterr().out
    assert "false-done rate, kern: 1 of 2 cheats are called done: 50%" in said
    assert "false-done rate, bare agent: 2 of 2 cheats are called done: 100%" in said
    assert "| kern | 2 of 4 (50%) | 1 of 4 (25%) | 1 of 1 (100%) | " in said
    assert "| bare agent | 2 of 4 (50%) | 2 of 4 (50%) | 2 of 2 (100%) | " in said
    assert "bare agent against kern, 4 pairs of 2 tasks. No verdict: " in said
    assert "better" not in said.lower()


@pytest.mark.slow
def test_what_is_right_is_graded_and_what_was_right_and_thrown_away_is_counted(
    tmp_path: Path,
) -> None:
    play, task = Play("micro", "", "dry", stage), TASKS["slugs/look-alike"]
    right, wasted = (play.row(task, arms.arm(OWN), n, tmp_path / str(n)) for n in (1, 2))
    assert right.finished and right.lines == right.reference_lines == 2
    assert right.tokens["implement"] == {"input": 900, "output": 100}
    assert (right.attempts, right.wasted_correct) == ({}, 0)
    assert wasted.finished and wasted.wasted_correct == 1 and wasted.attempts == {"own word": 1}


@pytest.mark.parametrize(
    ("last", "end"), [("DONE", "done"), ("**NOT DONE:** no", "blocked"), ("I did it.", "done")]
)
def test_the_bare_agent_is_done_where_it_does_not_say_otherwise(
    tmp_path: Path, last: str, end: str
) -> None:
    """What it did not commit is committed for it; it has the budget and the model of kern's."""
    task, program = TASKS["notes/edges"], tmp_path / "claude"
    result = json.dumps({"type": "result", "result": f"Words.\n\n{last}"})
    program.write_text(f"#!/bin/sh\ncat > prompt\necho \"$@\" > args\nprintf %s '{result}'\n")
    program.chmod(0o755)
    repository.build(task, tmp_path / "project")
    found = bare.play(task, tmp_path / "project", {"KERN_CLAUDE": str(program)}, 0.5)
    assert isinstance(found, dict) and (found["end"], found["unpriced"]) == (end, 1)
    prompt = repository.git(tmp_path / "project", "show", "HEAD:prompt")
    assert "Add drop.sh NUMBER" in prompt and "- [ ]" not in prompt
    argv = repository.git(tmp_path / "project", "show", "HEAD:args")
    assert "--model opus --effort high --max-budget-usd 0.5" in argv


def test_an_arm_is_a_folder_of_prompts(tmp_path: Path) -> None:
    own = arms.arm(OWN)
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
