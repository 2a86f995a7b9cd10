"""What a run and a task may cost: reaching a bound ends the run, and it can go on."""

from pathlib import Path

import pytest

from kern.config import Bounds, Settings, Tokens
from tests.checks.test_gates import toml
from tests.conftest import Fake, Git, Inline

GREEN = {"run": ["echo good > n"], "result": "did it\n\nSUCCESS"}


@pytest.mark.parametrize(
    ("bounds", "spent", "why", "left"),
    [
        (Bounds(), Bounds(99, 99), "", 0),
        (Bounds(run=2), Bounds(run=1.5), "", 0.5),
        (Bounds(run=2), Bounds(run=2.1), "the run's budget is used up: $2.10 of $2.00", 0.01),
        (Bounds(run=9, task=1), Bounds(run=2, task=1), "the task's budget", 0.01),
        (Bounds(run=9, task=1.5), Bounds(run=2, task=1), "", 0.5),
        (Tokens(run=9, stage=5), Bounds(run=8), "", 1),
        (Tokens(run=9), Bounds(run=9), "the run's tokens are used up: 9 of", 0.01),
        (Tokens(task=9), Bounds(task=10), "the task's tokens are used", 0.01),
    ],
)
def test_the_nearest_bound_counts(bounds: Bounds, spent: Bounds, why: str, left: float) -> None:
    settings, nothing = Settings(max_cost=bounds), Bounds()
    reached = settings.reached(spent, nothing)
    if isinstance(bounds, Tokens):
        reached = Settings(max_tokens=bounds).reached(nothing, spent)
    assert reached.startswith(why)
    assert bool(reached) == bool(why)
    assert bounds.left(spent) == pytest.approx(left)


@pytest.mark.parametrize("bound", ["run", "stage"])
def test_an_agent_that_uses_up_its_tokens_is_ended_and_that_is_no_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline, bound: str
) -> None:
    toml(repo, git, f"[max_tokens]\n{bound} = 60\n")
    works = {"acts": [["Bash", {"command": "ls"}]] * 2, "run": ["echo half > half"], "sleep": 60}
    fake.script(implement=[works, GREEN])
    ended = inline(1)
    assert ended.code == 3
    assert "implement stage: the agent used up its 60 tokens" in ended.err
    assert "Attempt" not in (repo / "SPEC.md").read_text()
    assert inline(1).code == 0
    assert fake.stages == ["research", "implement", "implement", "commit"]
