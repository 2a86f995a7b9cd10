"""An API, or a network, that is away: it is waited for as a usage limit is, and nothing is lost."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kern.pipeline import waits
from tests.conftest import Fake, Git, Inline, Kern

Step = dict[str, Any]
Background = Callable[..., Any]
NOW = 1_800_000_000.0
GOOD: dict[str, Step] = {
    "research": {"result": "- Files: a.txt:1\n\nREADY"},
    "implement": {"run": ["echo good > n"], "result": "did it\n\nSUCCESS"},
    "judge": {"result": "PASS: it is"},
    "commit": {"result": "do the task"},
}


def error(status: int | None, text: str, **more: object) -> Step:
    fields = {"is_error": True, "api_error_status": status, "total_cost_usd": 0, **more}
    return {"result": text, "fields": fields, "exit": 1}


REFUSED = error(None, "API Error: Unable to connect to API (ConnectionRefused)")
SAID = "(Unable to connect to API (ConnectionRefused))"


class Clock:
    """That of a run whose waits take no time. `then` is done `at` seconds after its beginning."""

    def __init__(self, at: float = 0.0, then: Callable[[], None] = lambda: None) -> None:
        self.now, self.pace = NOW, 20 if at else 1  # seconds in each that is slept
        self.at, self.then = at, then

    @property
    def slept(self) -> float:
        return self.now - NOW

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds * self.pace
        if self.now >= NOW + self.at:
            self.then()


def pauses(ran: Any) -> list[float]:
    rows = [event.record for event in ran.events]
    return [one["seconds"] for one in rows if one["kind"] == "outage" and one["did"] != "over"]


# ---------------------------------------------------------------- the wait


@pytest.mark.parametrize("stage", ["implement", "judge"])
def test_an_hour_is_waited_out_and_the_same_stage_runs_again(
    repo: Path, git: Git, fake: Fake, inline: Inline, kern: Kern, stage: str
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n  > **Judge:** it is kind\n")
    git("commit", "--quiet", "--all", "--message=judge")
    fake.script(**{name: [step] for name, step in GOOD.items()})
    half = {**REFUSED, "run": ["echo x > half"] if stage == "implement" else []}
    fake.script(**{stage: [half]})
    clock = Clock(3660, lambda: fake.script(**{stage: [GOOD[stage]]}))

    def sleep(seconds: float) -> None:
        """While it waits the tree is the person's: it is clean of half-done work."""
        assert fake.stages.count(stage) < 3 or not (repo / "half").exists()
        clock.sleep(seconds)

    ran = inline(1, sleep=sleep, clock=clock)
    assert ran.code == 0, ran.err
    assert 3600 <= clock.slept < 3600 * 4 / 3 + 500
    waits = pauses(ran)
    assert 4 <= waits[0] <= 5 and max(waits) <= 600
    assert fake.stages.count(stage) == 3 + len(waits)
    assert "**Attempt" not in (repo / "SPEC.md").read_text()
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "n"]
    since = time.strftime("%H:%M", time.localtime(NOW))
    assert ran.err.count("the API has been away") == 1
    assert f"the API has been away since {since} {SAID}; next try " in ran.err
    assert ran.err.count("the API answers again, after 1 h") == 1
    assert len(re.findall(rf"^\S+ \S+ (?:stage ./3 )?{stage} \(", ran.err, re.M)) == 1
    assert re.search(r"^1 done.*, waited 1 h.* in 1 outage$", ran.err, re.M)
    log = kern("log").out
    assert log.count("the API has been away") == log.count("the API answers again") == 1
    assert log.count("failed after") == 3
    assert re.search(r", waited 1 h.* in 1 outage\n", kern("report").out)


# ---------------------------------------------------------------- the parts


def test_pauses_grow_with_the_outage() -> None:
    for _ in range(50):
        passed = 0.0
        for _ in range(60):
            pause = waits.pause(passed)
            assert pause <= 600
            assert pause <= max(5, passed / 3)
            passed += pause
        assert passed > 2 * 3600
    assert waits.pause(40) < 15
