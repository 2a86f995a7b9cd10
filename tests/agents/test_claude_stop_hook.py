"""The program that sends an agent back while a gate is red, as claude starts it."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from kern.agents import claude_stop_hook

pytestmark = pytest.mark.slow
Gates = list[tuple[str, str, float]]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def ends(
    found: Gates, said: str = "Did it.\n\nSUCCESS", run: str = "1", again: int | None = None
) -> str:
    """What the agent is told; empty where it may end."""
    gates = [(*gate, again) for gate in found]
    hook = claude_stop_hook.settings(gates)["hooks"]["Stop"][0]["hooks"][0]
    done = subprocess.run(
        shlex.split(hook["command"]),
        input=json.dumps({"last_assistant_message": said, "session_id": run}),
        env={**os.environ, claude_stop_hook.VARIABLE: json.dumps(gates)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout or "{}")
    assert not answer or answer.keys() == {"decision", "reason"}
    assert answer.get("decision", "block") == "block"
    return str(answer.get("reason", ""))


def test_a_red_gate_goes_back_twice_and_then_no_more() -> None:
    gates: Gates = [("gate fmt", "true", 0), ("gate check", "echo no semicolon; exit 3", 5)]
    told = ends(gates)
    assert "gate check is red (exit 3)" in told and "no semicolon" in told and "fmt" not in told
    assert "round 1 of 2" in told
    assert "round 2 of 2" in ends(gates)
    assert ends(gates) == ""


def test_green_gates_let_it_end() -> None:
    assert ends([("gate check", "true", 0)]) == ""


@pytest.mark.parametrize(
    "said", ["FAILED: it cannot be", "SKIPPED: no network", "NEEDS_ANSWER: a or b?", ""]
)
def test_who_claims_no_success_may_end_and_no_gate_runs(said: str, tmp_path: Path) -> None:
    assert ends([("gate check", f"touch {tmp_path}/ran; exit 1", 0)], said) == ""
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("said", ["**SUCCESS**", "SUCCESS\n\nAll is well.", "- SUCCESS: done"])
def test_a_claim_is_one_however_it_is_marked(said: str) -> None:
    assert "is red" in ends([("gate check", "exit 1", 0)], said)


def test_a_gate_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    told = ends([("gate slow", f"(sleep 60; touch {tmp_path}/late) & sleep 60", 0.5)])
    assert "not done after 0.5 s" in told
    assert not (tmp_path / "late").exists()
    assert not subprocess.run(["pgrep", "-f", f"{tmp_path}/late"], capture_output=True).stdout


@pytest.mark.parametrize(("again", "runs"), [(None, 2), (0, 1), (1, 2)])
def test_a_red_gate_runs_once_more_before_it_goes_back(
    tmp_path: Path, again: int | None, runs: int
) -> None:
    flaky = f"echo x >> {tmp_path}/ran; test $(wc -l < {tmp_path}/ran) -gt 1"
    assert ("is red" in ends([("gate net", flaky, 0)], again=again)) is (runs == 1)
    assert (tmp_path / "ran").read_text() == "x\n" * runs


def test_two_stages_at_once_count_their_own_rounds() -> None:
    gates: Gates = [("gate check", "exit 1", 0)]
    assert "round 1" in ends(gates, run="a")
    assert "round 1" in ends(gates, run="b")


def test_its_own_time_out_is_one_that_a_timer_takes() -> None:
    made = claude_stop_hook.settings(4 * [("gate check", "true", 0, None)])
    hook = made["hooks"]["Stop"][0]["hooks"][0]
    assert 1000 * hook["timeout"] < 2**31
