"""What a run and a task may cost: reaching a bound ends the run, and it can go on."""

from pathlib import Path
from typing import Any

import pytest

from kern.config import Budget, Spent
from tests.conftest import Fake, Git, Inline

GREEN = {"run": ["echo good > n"], "result": "did it\n\nSUCCESS"}


def toml(repo: Path, git: Git, text: str) -> None:
    (repo / "kern.toml").write_text(text)
    git("add", "kern.toml")
    git("commit", "--quiet", "--message=settings")


@pytest.mark.parametrize(
    ("bounds", "spent", "why", "left"),
    [
        (Budget(), Spent(99, 99), "", 0),
        (Budget(run=2), Spent(run=1.5), "", 0.5),
        (Budget(run=2), Spent(run=2.1), "the run's budget is used up: $2.10 of $2.00", 0.01),
        (Budget(run=9, task=1), Spent(run=2, task=1), "the task's budget", 0.01),
        (Budget(run=9, task=1.5), Spent(run=2, task=1), "", 0.5),
        (Budget(run_tokens=9), Spent(run_tokens=8), "", 0),
        (Budget(run_tokens=9), Spent(run_tokens=9), "the run's tokens are used up: 9 of", 0),
        (Budget(task_tokens=9), Spent(task_tokens=10), "the task's tokens are used", 0),
    ],
)
def test_the_nearest_bound_counts(bounds: Budget, spent: Spent, why: str, left: float) -> None:
    assert bounds.reached(spent).startswith(why)
    assert bool(bounds.reached(spent)) == bool(why)
    assert bounds.left(spent) == pytest.approx(left)


def most(call: dict[str, Any]) -> float:
    argv = call["argv"]
    return float(argv[argv.index("--max-budget-usd") + 1]) if "--max-budget-usd" in argv else 0.0


def test_a_tasks_budget_counts_all_its_runs(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    toml(repo, git, "[max_cost]\ntask = 1\n")
    dear = {"fields": {"total_cost_usd": 0.7}}
    fails = [{"run": [f"echo {n} > n"], "result": "FAILED: no", **dear} for n in range(2)]
    fake.script(implement=[*fails, GREEN])
    first = inline(1)
    assert first.code == 3
    assert "the task's budget is used up: $1.41 of $1.00" in first.err
    assert [most(call) for call in fake.calls] == [1.0, 0.99, 0.29]
    assert inline(1).code == 3, "the journal remembers"
    assert len(fake.calls) == 3


def test_an_agent_that_used_up_what_is_left_ends_the_run_and_is_no_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    toml(repo, git, "[max_cost]\nrun = 0.2\n")
    over = {"subtype": "error_max_budget_usd", "is_error": True, "total_cost_usd": 0.25}
    fake.script(implement=[{"run": ["echo half > half"], "result": "", "fields": over}, GREEN])
    ended = inline(1)
    assert ended.code == 3
    assert "the agent used up what it may cost: $0.25" in ended.err
    assert "Attempt" not in (repo / "SPEC.md").read_text()
    assert not (repo / "half").exists()
    assert '"cost_usd": 0.25' in (repo / ".git" / "kern" / "events.jsonl").read_text()
    assert inline(1).code == 0


def test_an_agent_that_uses_up_its_tokens_is_ended_and_that_is_no_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    toml(repo, git, "[max_cost]\nrun = '60 tokens'\n")
    works = {"acts": [["Bash", {"command": "ls"}]] * 2, "run": ["echo half > half"], "sleep": 60}
    fake.script(implement=[works, GREEN])
    ended = inline(1)
    assert ended.code == 3
    assert "implement stage: the agent used up its 60 tokens" in ended.err
    assert "Attempt" not in (repo / "SPEC.md").read_text()
    assert inline(1).code == 0
    assert fake.stages == ["research", "implement", "implement", "commit"]
