"""A dask cluster of real processes, where a task comes back once if its worker is lost."""

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kern.errors import UsageError
from kern.fleet import cluster, work
from kern.fleet.work import Job
from kern.git import refs
from kern.git.repository import open_at
from kern.journal import store as journal
from kern.model import Key
from tests.conftest import PATIENCE_S, Fake, Git, wait_for
from tests.fleet.landings import Project
from tests.kit.cluster import LocalCluster

pytestmark = pytest.mark.slow
Background = Callable[..., "subprocess.Popen[str]"]
SOURCE = Path(__file__).resolve().parents[2]


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[LocalCluster]:
    own = {"KERN_DIR": str(tmp_path / "workers"), "PYTHONPATH": str(SOURCE)}
    (other := tmp_path / "other/kern").mkdir(parents=True)
    (other / "__init__.py").touch()
    with LocalCluster(tmp_path / "dask", own, workers=2) as made:
        made.env["PYTHONPATH"] = str(other.parent)
        made.begin_worker()  # with another kern
        wait_for(lambda: made.said().count("Registered to:") == 3)
        made.env["PYTHONPATH"] = str(SOURCE)
        yield made


def jobs(repo: Path, git: Git, count: int) -> list[Job]:
    """With the tasks in SPEC.md."""
    names = [f"task {number}" for number in range(1, count + 1)]
    (repo / "SPEC.md").write_text("".join(f"- [ ] {name}\n" for name in names))
    git("commit", "--quiet", "--all", "--message=tasks")
    documents, head = (("SPEC.md", (repo / "SPEC.md").read_text()),), git("rev-parse", "HEAD")
    return [
        Job(key := Key("", name), head, work.branch("main", key), at, "run1", "main", documents)
        for at, name in enumerate(names, 1)
    ]


def test_where_a_worker_is_lost_its_task_comes_back_once_and_a_lost_scheduler_is_told(
    repo: Path, git: Git, fake: Fake, dask: LocalCluster, central: Path
) -> None:
    fake.script(research=[{"sleep": 0.5, "result": "- Files: a.txt:1-1\n\nREADY"}])
    asked = jobs(repo, git, 4)
    where = dask.address
    found = cluster.Cluster(where, open_at(repo), (said := list[str]()).append)
    found.connect()
    assert "sent to 1 worker of the cluster without kern" in said[0]
    try:
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(found.carry_out, job) for job in asked[:3]]
            wait_for(lambda: len(fake.calls) >= 2)
            dask.kill_worker(0)
            dask.begin_worker()
            came = [future.result(PATIENCE_S) for future in futures]
        assert [one.fault for one in came] == [""] * 3
        for job, one in zip(asked, came, strict=False):
            assert one.commit == git("rev-parse", f"refs/heads/{job.branch}"), dask.said()
            assert git("rev-list", "--count", f"{job.base}..{one.commit}") == "1"
        assert dask.scheduler
        dask.scheduler.kill()
        dask.scheduler.wait()
        assert f"is the scheduler {where} there?" in found.carry_out(asked[3]).hint
        with pytest.raises(UsageError, match=f"no dask scheduler answers at {where}"):
            cluster.Cluster(where, open_at(repo), patience=0.5).connect()
    finally:
        found.close()


# ---------------------------------------------------------------- without dask


class Watched(cluster.Cluster):
    """Notes what is sent, and is its own worker."""

    def __init__(self, repo: Path) -> None:
        super().__init__("", open_at(repo))
        self.sent = list[str]()
        self.times = 1  # more: dask has begun it anew

    def submit(self, text: str) -> str:
        self.sent.append(text)
        return [cluster.carry_out(text) for _ in range(self.times)][-1]


@pytest.fixture
def central(repo: Path, git: Git, tmp_path: Path) -> Path:
    git("init", "--quiet", "--bare", "central.git", cwd=tmp_path)
    git("remote", "add", "kern", str(tmp_path / "central.git"))
    return tmp_path / "central.git"


def test_a_task_is_done_elsewhere_once_and_its_commit_comes_back(
    repo: Path, git: Git, fake: Fake, central: Path
) -> None:
    carry = Watched(repo)
    asked = jobs(repo, git, 1)[0]
    kept = git("commit-tree", "HEAD^{tree}", "-p", asked.base, "-m", "kept")
    asked = replace(asked, kept=kept)
    carry.times = 2
    came = carry.carry_out(asked)
    assert (came.code, came.fault, came.under_way) == (0, "", False)
    assert came.commit == git("rev-parse", f"refs/heads/{asked.branch}")
    assert git("rev-list", "--count", f"{asked.base}..{came.commit}") == "1"
    assert came.spec.startswith("- [x] task 1") and git("status", "--porcelain") == ""
    assert fake.stages == ["research", "implement", "commit"]
    told = journal.load(journal.place(repo / ".git"))
    assert {(one["worker"], one["fleet"]) for one in told} == {(1, "run1")}
    assert carry.sent[0].count(str(repo.parent)) == 1, "the remote, which the person named"
    assert git("rev-parse", f"{carry.below}/{kept}", cwd=central) == kept
    other = carry.below[:-1]  # another's tree
    git("push", "-q", "kern", f"{kept}:{other}/{kept}")
    Watched(repo).close()  # the next run: this one was killed
    assert git("for-each-ref", "--format=%(refname)", cwd=central) == f"{other}/{kept}"


def test_a_worker_with_another_kern_says_so_and_looks_at_nothing(repo: Path) -> None:
    told = json.loads(cluster.carry_out(json.dumps({"kern": "9.9.9", "job": "nonsense"})))
    assert "9.9.9" in told["fault"] and "same kern" in told["hint"]
    assert not (repo.parent / "kern").exists()


def test_a_killed_task_is_resumed_and_on_a_new_base_or_refused_begun_anew(
    repo: Path, git: Git, fake: Fake, central: Path
) -> None:
    good = {"run": ["echo work > work.txt"], "result": "Wrote it.\n\nSUCCESS"}
    fake.script(implement=[{"kill": "worker", "result": ""}, good])
    carry, (asked,) = Watched(repo), jobs(repo, git, 1)
    first = carry.carry_out(asked)
    assert (first.commit, first.under_way) == ("", True)
    assert carry.carry_out(asked).commit
    assert fake.stages == ["research", "implement", "implement", "commit"]
    (repo / "own.txt").write_text("theirs\n")
    git("commit", "--quiet", "--all", "--message=moved")
    asked = replace(asked, base=git("rev-parse", "HEAD"))
    commit = carry.carry_out(asked).commit
    assert git("rev-parse", f"{commit}^") == asked.base
    assert fake.stages[4:] == ["research", "implement", "commit"]
    refused = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-p", commit, "-m", "to be mended")
    assert carry.carry_out(replace(asked, kept=refused)).commit and len(fake.stages) > 7


def test_attempts_come_along_and_none_here_is_overwritten(
    repo: Path, git: Git, fake: Fake, central: Path
) -> None:
    fails = {"run": ["echo x > x"], "result": "FAILED: no"}
    fake.script(implement=[fails, {"result": "SKIPPED: no a.txt"}])
    came = Watched(repo).carry_out(jobs(repo, git, 1)[0])
    assert came.commit == "" and "Attempt 1" in came.spec
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").split()
    assert "x" in git("ls-tree", "--name-only", ref).split()


def test_a_worker_is_believed_no_other_commit_no_other_ref_and_no_other_task(
    repo: Path, git: Git, central: Path
) -> None:
    carry, (asked,) = Watched(repo), jobs(repo, git, 1)
    mine = f"refs/kern/attempts/{refs.slug(asked.key)}/1"
    git("update-ref", mine, "HEAD")
    root = git("commit-tree", "HEAD^{tree}", "-m", "a root")
    below = carry.below
    pushed = [f"{root}:{below}/{ref}" for ref in (f"refs/heads/{asked.branch}", mine)]
    git("push", "-q", "kern", *pushed)
    record = {"v": 1, "id": "0", "time": "2026-01-01T00:00:00Z", "run": "r", "seq": 1}
    record |= {"kind": "outage", "fleet": "run1", "branch": asked.branch}
    others = [{**record, "id": "1", "branch": "main"}, {**record, "id": "2", "fleet": "run2"}]
    others.append({**record, "id": "3", "text": "x" * 2_000_000})
    told = [f"refs/heads/{asked.branch}", f"{mine[:-1]}*", "refs/heads/main", mine]
    answer = {"code": 0, "refs": told, "journal": [*others, record]}
    came = carry._take(asked, answer)
    assert (came.commit, came.fault) == ("", "")
    assert git("rev-parse", asked.branch) == root, "what it made is kept"
    assert git("rev-parse", mine) == git("rev-parse", "HEAD") == git("rev-parse", "main")
    assert journal.load(journal.place(repo / ".git")) == [record]
    fleet = Project(repo).fleet()
    fleet.journal = journal.Follower(journal.place(repo / ".git"), "run1")
    fleet.journal.read = 0
    fleet._follow()  # an outage that does not say since when ends nothing


def test_a_remote_that_is_not_there_is_told(repo: Path, git: Git) -> None:
    git("remote", "add", "kern", str(repo.parent / "gone.git"))
    carry, (asked,) = Watched(repo), jobs(repo, git, 1)
    assert "git push failed" in carry.carry_out(asked).fault
    assert carry.sent == []
