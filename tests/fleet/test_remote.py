"""Tasks on other machines, over an executor of the standard library: what is sent, what comes back,
and that nothing is done or paid for twice.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kern import __version__
from kern.fleet import remote, work
from kern.fleet.remote import BASES, Carrier
from kern.fleet.work import Job
from kern.git.repository import open_at
from kern.journal import store as journal
from kern.model import Key
from tests.conftest import Fake, Git

GREETING = Key("", "add a greeting")


class Watched(Executor):
    """Notes what is sent, and lets a test spoil what comes back."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.spoil: Callable[[str], str] = lambda text: text
        self.sent: list[str] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        self.sent.append(args[0])
        return self.pool.submit(lambda: self.spoil(fn(*args, **more)))


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.pool.shutdown()


@pytest.fixture
def central(repo: Path, git: Git, tmp_path: Path) -> Path:
    git("init", "--quiet", "--bare", "central.git", cwd=tmp_path)
    return tmp_path / "central.git"


def job(repo: Path, git: Git, key: Key = GREETING, **more: Any) -> Job:
    papers = (("SPEC.md", (repo / "SPEC.md").read_text()),)
    branch = work.branch("main", key)
    return Job(key, 1, git("rev-parse", "HEAD"), branch, 7, "run1", papers, **more)


def carrier(repo: Path, watched: Watched, **more: Any) -> Carrier:
    return Carrier(
        open_at(repo), lambda: watched, str(repo.parent / "central.git"), pause=0.01, **more
    )


def test_a_task_is_done_elsewhere_and_its_commit_comes_back(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path
) -> None:
    carry = carrier(repo, watched)
    came = carry(asked := job(repo, git))
    assert (came.code, came.fault, came.under_way) == (0, "", False)
    assert came.commit == git("rev-parse", f"refs/heads/{asked.branch}")
    assert git("rev-list", "--count", f"{asked.base}..{came.commit}") == "1"
    assert git("show", f"{came.commit}:work.txt") == "work"
    assert (came.paper("SPEC.md") or "").startswith("- [x] add a greeting")
    assert git("status", "--porcelain") == ""
    assert fake.stages == ["research", "implement", "commit"]
    told = journal.tail(journal.place(repo / ".git"))
    assert {(one["worker"], one["fleet"]) for one in told} == {(7, "run1")}
    carry.tidy()
    assert git("for-each-ref", cwd=central) == "", "nothing is left on the remote"


def test_what_travels_names_neither_a_path_nor_a_variable(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path
) -> None:
    mine = (("KERN_SANDBOX", "off"), ("KERN_OF", str(repo)), ("SECRET_TOKEN", "hunter2"))
    carrier(repo, watched)(job(repo, git, variables=mine))
    told = json.loads(watched.sent[0])
    assert told["job"]["variables"] == [["KERN_SANDBOX", "off"]]
    assert watched.sent[0].count(str(repo.parent)) == 1, "the remote, which the person named"
    assert remote.job_of(told["job"]) == job(repo, git, variables=mine[:1])


def test_work_that_is_to_be_mended_goes_along(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path
) -> None:
    kept = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "kept")
    assert carrier(repo, watched)(job(repo, git, kept=kept)).commit
    assert git("rev-parse", f"{BASES}/{kept}", cwd=central) == kept


def test_work_whose_answer_got_lost_is_not_done_again(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path
) -> None:
    watched.spoil = lambda text: text[:9] if len(watched.sent) == 1 else text
    came = carrier(repo, watched)(job(repo, git))
    assert came.commit and len(watched.sent) == 2
    assert fake.stages == ["research", "implement", "commit"]


def test_a_worker_with_another_kern_says_so_and_looks_at_nothing(repo: Path) -> None:
    said = json.loads(remote.carry_out(json.dumps({"kern": "9.9.9", "job": "nonsense"})))
    assert "9.9.9" in said["fault"] and __version__ in said["fault"] and said["unfit"]
    assert not (repo.parent / "kern").exists()


def test_a_killed_task_is_resumed_where_it_was_begun(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path
) -> None:
    killed: dict[str, Any] = {"kill": "parent", "result": ""}
    good = {"run": ["echo work > work.txt"], "result": "Wrote it.\n\nSUCCESS"}
    fake.script(implement=[killed, good])
    carry = carrier(repo, watched)
    first = carry(job(repo, git))
    assert (first.commit, first.under_way) == ("", True)
    assert carry(job(repo, git)).commit
    assert fake.stages == ["research", "implement", "implement", "commit"]


def test_on_a_new_base_the_task_is_begun_anew(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path
) -> None:
    carry = carrier(repo, watched)
    first = carry(job(repo, git))
    (repo / "own.txt").write_text("theirs\n")
    git("commit", "--quiet", "--all", "--message=moved")
    second = carry(job(repo, git))
    assert second.commit != first.commit
    assert git("rev-parse", f"{second.commit}^") == git("rev-parse", "HEAD")
    assert fake.stages == ["research", "implement", "commit"] * 2


def test_attempts_come_along_and_none_here_is_overwritten(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path
) -> None:
    fails = {"run": ["echo x > x"], "result": "FAILED: no"}
    fake.script(implement=[fails, {"result": "SKIPPED: no key"}])
    asked = job(repo, git)
    came = carrier(repo, watched)(asked)
    assert came.commit == "" and "Attempt 1" in (came.paper("SPEC.md") or "")
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").split()
    assert "x" in git("ls-tree", "--name-only", ref).split()
    assert ref not in git("for-each-ref", cwd=central), "it is here now"


@pytest.mark.parametrize("others", [True, False])
def test_a_worker_that_cannot_work_is_told_and_the_task_goes_to_another(
    repo: Path, git: Git, fake: Fake, watched: Watched, central: Path, *, others: bool
) -> None:
    avoided: list[str] = []
    unfit = json.dumps({"where": ["h", 1], "code": 2, "fault": "no agent", "unfit": True})
    watched.spoil = lambda text: unfit if len(watched.sent) == 1 else text

    def avoid(where: list[Any], came: Any) -> bool:
        avoided.append(came.fault)
        return others

    came = carrier(repo, watched, avoid=avoid)(job(repo, git))
    assert avoided == ["no agent"] and bool(came.commit) is others
    assert others or (came.unfit and came.fault == "no agent")


def test_a_remote_that_is_not_there_is_said_before_anything_is_sent(
    repo: Path, git: Git, watched: Watched
) -> None:
    came = carrier(repo, watched)(job(repo, git))
    assert came.unfit and "git push failed" in came.fault and watched.sent == []


def test_a_repository_whose_contents_lie_outside_git_is_not_sent(
    repo: Path, git: Git, watched: Watched, central: Path
) -> None:
    (repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=lfs")
    came = carrier(repo, watched)(job(repo, git))
    assert came.unfit and "git LFS" in came.fault and watched.sent == []


def test_a_caller_that_is_stopped_waits_for_nobody(
    repo: Path, git: Git, watched: Watched, central: Path
) -> None:
    carry = carrier(repo, watched)
    carry.stopped.set()
    assert carry(job(repo, git)).fault == "the run was ended"
