"""Work branches: named by task and branch, and values that can travel."""

import pickle

import pytest

from kern.fleet import work
from kern.fleet.work import Job, Outcome
from kern.model import Key

ONE = Key("", "Add a flag", 1)


def test_a_work_branch_is_told_by_task_and_by_the_branch_that_it_lands_on() -> None:
    name = work.branch("main", ONE)
    assert name.startswith("kern/work/add-a-flag-")
    assert name == work.branch("main", ONE)
    others = [
        work.branch("other", ONE),
        work.branch("main", ONE._replace(parent="above")),
        work.branch("main", ONE._replace(nth=2)),
        work.branch("main", Key("", "Add a flag.", 1)),
    ]
    assert len({name, *others}) == 5


@pytest.mark.parametrize("text", ["", "..", "a/../b", "@{", "x.lock", "ünïcode ✓", "-n", "~^:?*["])
def test_any_task_has_a_branch_that_git_takes(text: str, repo: object, git: object) -> None:
    name = work.branch("main", Key("", text))
    assert callable(git)
    assert git("check-ref-format", "--branch", name) == name


def test_what_goes_to_a_worker_and_comes_back_can_travel() -> None:
    job = Job(ONE, 1, "b" * 40, work.branch("main", ONE), 2, "run", (("SPEC.md", "- [ ] x\n"),))
    came = Outcome(job, 0, "c" * 40, papers=(("SPEC.md", "- [x] x\n"),))
    assert pickle.loads(pickle.dumps(came)) == came
    assert came.paper("SPEC.md") == "- [x] x\n"
    assert came.paper("LEARNINGS.md") is None
