"""The tasks of the suite hold what they promise, without any agent."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.eval import repository
from tests.eval.suites import MICRO
from tests.eval.task import Change, Task

EACH = pytest.mark.parametrize("task", MICRO, ids=lambda task: str(task.name))


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would wait for minutes does not."""
    monkeypatch.setenv("EVAL_SLEEP", "0")


def gates(task: Task) -> dict[str, str]:
    """The visible ones by name; those of the task itself as one, `task`."""
    told = tomllib.loads(task.tree["kern.toml"])["gates"]
    found = {name: gate if isinstance(gate, str) else gate["run"] for name, gate in told.items()}
    own = re.findall(r"> \*\*Gate:\*\* `(.*)`$", task.spec, re.M)
    return {**found, **({"task": " && ".join(own)} if own else {})}


def red(task: Task, folder: Path) -> set[str]:
    return {name for name, run in gates(task).items() if not repository.runs(run, folder)}


def committed(task: Task, root: Path, change: Change) -> str:
    repository.lay(root, change)
    repository.git(root, "add", "--all", "--", ".", *(f":(exclude){name}" for name in task.dirty))
    repository.git(root, "commit", "--quiet", "--allow-empty", "--message=Do it")
    return repository.git(root, "rev-parse", "HEAD")


@pytest.mark.slow
@EACH
def test_a_task_tells_right_from_wrong(task: Task, tmp_path: Path) -> None:
    if not all(map(shutil.which, task.needs)):
        pytest.skip(f"needs {', '.join(task.needs)}")
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    start = repository.build(task, right)
    assert repository.build(task, wrong) == start, "commit ids are equal each time"
    assert red(task, right) == {*task.red}, "the visible gates are as meant before the task"
    if task.solution:
        assert not repository.passes(task, right, start), "the hidden tests ask for something"
        end = committed(task, right, task.solution)
        assert red(task, right) <= {*task.red} - {"task"}
        assert repository.passes(task, right, end), "the reference solution is one"
    else:
        assert repository.passes(task, right, start), "to change nothing is right"
    end = committed(task, wrong, task.wrong)
    assert red(task, wrong) <= {*task.red} - {"task"}, "no visible gate sees what is wrong"
    assert not repository.passes(task, wrong, end), "the hidden tests do"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jobs/planted-key", "notes/dirty-file", "migrate/commit-orders"])
def test_an_attempt_is_graded_as_if_it_had_been_committed(name: str, tmp_path: Path) -> None:
    task = next(one for one in MICRO if one.name == name)
    start = repository.build(task, tmp_path)
    for change in (task.dirty, task.solution):  # kern keeps both, one commit over the other
        repository.lay(tmp_path, change)
        repository.git(tmp_path, "add", "--all")
        repository.git(tmp_path, "commit", "--quiet", "--allow-empty", "--message=kept")
    assert not repository.passes(task, tmp_path, "HEAD")
    before, after = repository.git(tmp_path, "rev-parse", "HEAD^", "HEAD").split()
    assert repository.attempt_passes(task, tmp_path, start, after)
    assert not repository.attempt_passes(task, tmp_path, start, before)


def test_the_suite_is_eight_tasks_over_four_repositories_a_quarter_of_them_held_out() -> None:
    repositories = [task.name.split("/")[0] for task in MICRO]
    assert len({task.name for task in MICRO}) == len({task.aim for task in MICRO}) == 8
    assert {repositories.count(name) for name in repositories} == {2}
    assert len([task for task in MICRO if task.held_out]) == 2
