"""A red gate runs once more before it counts."""

import re
from pathlib import Path

import pytest

from kern.checks import result
from kern.config import Gate
from kern.model import Result
from tests.checks.test_gates import attempts, toml
from tests.conftest import Fake, Git, Inline, Kern

DONE = {"run": ["echo good > n"], "result": "did it\n\nSUCCESS"}
RED = Result("gate net", 1, "look\nFAILED test_timeout", 3.0)


def counting(folder: Path, *red: int) -> str:
    """A gate that is red in these of its runs, counted from 1."""
    count = f"echo x >> {folder}/ran; k=$(wc -l < {folder}/ran)"
    which = "|".join(map(str, red))
    return f"{count}; case $((k)) in {which}) echo FAILED test_timeout $((k)); exit 1;; esac"


def runs(folder: Path) -> int:
    return len((folder / "ran").read_text().splitlines())


@pytest.mark.parametrize(
    ("ended", "due"),
    [
        (RED, True),
        (Result("gate net", 0, ""), False),
        (Result("gate net", -9, ""), True),  # it ended its own shell
        (Result("gate net", None, "not done after 1 s"), False),
        (Result("gate net", 127, "not found"), False),
        (Result("gate net", 1, "", 601.0), False),
        (RED.against(red_before=True), False),
        (Result("gate net", 1, "", known_red=True), False),
    ],
)
def test_only_a_red_gate_that_counts_and_came_to_its_end_runs_once_more(
    ended: Result, due: bool
) -> None:
    assert result.runs_again(Gate("net", "true", 0), ended) is due
    assert not result.runs_again(Gate("net", "true", 0, strict=True), ended)
    assert not result.runs_again(Gate("net", "true", 0, again=0), ended)
    assert (
        result.runs_again(Gate("net", "true", 0, again=1), ended)
        is ended.against(ended.red_before).blocks
    )


def test_two_ends_are_one() -> None:
    green = result.combined(RED, Result("gate net", 0, "", 2.0))
    assert (green.red, green.seconds) == (False, 5.0)
    assert green.flaky == "red at first (exit 1): look / FAILED test_timeout"
    assert not result.combined(RED, RED).flaky


def test_a_flake_costs_no_attempt_and_is_named_with_the_change_that_brought_it(
    repo: Path, git: Git, fake: Fake, inline: Inline, kern: Kern
) -> None:
    toml(repo, git, f"[gates]\nnet = '{counting(fake.folder, 2, 4)}'\n")
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    fake.script(implement=[DONE, {**DONE, "run": ["echo better > n"]}])
    ran = inline(2)
    assert (ran.code, attempts(repo)) == (0, []), ran.said
    assert fake.stages == ["research", "implement", "commit"] * 2
    flaky = "red at first (exit 1): FAILED test_timeout"
    assert re.search(rf"gate net: green, [0-9.]+ s, flaky: {re.escape(flaky)} 2", ran.said)
    assert ran.said.count("gate net: echo") == 3, "at the start, and once for each task"
    risk = "one: a risk of this change: gate net was not flaky before it"
    assert ran.said.count(risk) == 1
    assert f"flaky gate net: {flaky} 4; green on the same files (2 times)" in ran.said
    told = kern("report").out
    assert f"flaky gate net: {flaky} 4; green on the same files (2 times)" in told


@pytest.mark.unheld
def test_what_a_red_run_makes_turns_no_second_one_green(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    """In the tree, where there is no room to be filled anew."""
    gate = "test ! -f n || grep -q built n || test -e made || { touch made; exit 1; }"
    toml(repo, git, f"[gates]\nnet = '{gate}'\n")
    fake.script(implement=[DONE, {**DONE, "run": ["echo built > n"]}])
    ran = inline(1)
    assert (ran.code, len(attempts(repo))) == (0, 1), ran.said
