"""What a run waits for, and for how long: usage limits and time-outs."""

from pathlib import Path
from typing import Any

import pytest

from tests.checks.test_gates import attempts, toml
from tests.conftest import Fake, Git, Inline, survivors

GREEN = {"run": ["echo good > n"], "result": "did it\n\nSUCCESS"}
NOW = 1_800_000_000.0
SAID = "You've hit your session limit"


def limit(resets_at: float | None, *run: str) -> dict[str, Any]:
    told = {"status": "rejected", "rateLimitType": "five_hour"}
    if resets_at is not None:
        told["resetsAt"] = resets_at  # type: ignore[assignment]
    return {
        "run": list(run),
        "events": [{"type": "rate_limit_event", "rate_limit_info": told}],
        "result": SAID,
        "fields": {"is_error": True, "api_error_status": 429, "num_turns": 1},
        "exit": 1,
    }


def test_it_waits_for_the_reset_and_runs_the_same_stage_again(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        """While it waits the tree is clean of half-done work."""
        assert git("status", "--porcelain") == " M SPEC.md"
        assert git("for-each-ref", "refs/kern/start") == ""
        slept.append(seconds)

    toml(repo, git, "max_wait = 100\n")  # of each by itself
    half = [limit(NOW + 90, "echo x > half"), GREEN]
    fake.script(research=[limit(NOW + 90), {}], implement=half)
    ran = inline(1, sleep=sleep, clock=lambda: NOW)
    assert ran.code == 0, ran.err
    assert fake.stages == ["research", "research", "implement", "implement", "commit"]
    assert sum(slept) == pytest.approx(190) and max(slept) <= 1
    assert not attempts(repo)
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "n"]
    assert "usage limit: You've hit your session limit" in ran.err


# ---------------------------------------------------------------- time-outs

LOST = "sh -c 'echo $$ >> \"$FAKE_CLAUDE/pids\"; exec sleep 300' &"
DEAF = 'setsid sh -c \'trap "" INT TERM; echo $$ >> "$FAKE_CLAUDE/pids"; exec sleep 300\' &'


@pytest.mark.parametrize(
    ("setting", "why"), [("timeout = 0.5", "not done after 0.5 s"), ("", "no sign of life for 1 s")]
)
def test_an_implement_stage_without_an_end_is_an_attempt(
    repo: Path,
    git: Git,
    fake: Fake,
    inline: Inline,
    setting: str,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toml(repo, git, f"[stages.implement]\n{setting}\n")
    monkeypatch.setenv("KERN_TEST_WAITS", "1" if setting else "0.001")
    began_work = {"run": ["echo half > half", LOST, DEAF], "acts": [["Bash", {"command": "x"}]]}
    hangs = {**began_work, "sleep": 60, "result": "late\n\nSUCCESS"}
    goes_on = {**GREEN, "run": ["mv half whole", *GREEN["run"]]}
    fake.script(implement=[hangs, goes_on])
    ran = inline(1, watched=not setting)
    assert ran.code == 0, ran.err
    assert (repo / "whole").read_text() == "half\n"
    assert f"timed out: {why}" in attempts(repo)[0]
    assert not survivors(fake.folder / "pids")
    assert not (repo / "half").exists()
