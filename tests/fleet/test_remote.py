"""Tasks on other machines, over an executor of the standard library: what is sent, what comes back,
and that nothing is done or paid for twice. Bytes alone go between the two sides.
"""

import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kern import __version__
from kern.fleet import ends, remote, slots, work, worktrees
from kern.fleet.remote import Carrier, Lacks, Parcel, Refused
from kern.fleet.work import Job, Outcome
from kern.git import bundles
from kern.git.repository import Repo, open_at
from kern.journal import store as journal
from kern.model import Key
from kern.model import Outcome as End
from tests.conftest import Fake, Git

GREETING = Key("", "add a greeting")


class Watched(Executor):
    """Notes what is sent, and lets a test spoil what comes back."""

    def __init__(self, spoil: Callable[[bytes], bytes] = lambda data: data) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.spoil = spoil
        self.sent: list[Parcel] = []
        self.came: list[object] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        self.sent.append(pickle.loads(args[1]))

        def act() -> bytes:
            data: bytes = fn(*args, **more)
            self.came.append(pickle.loads(data)[1])
            return self.spoil(data)

        return self.pool.submit(act)

    @property
    def bundles(self) -> list[int]:
        return [len(one.bundle) for one in self.sent]


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.pool.shutdown()


def job(repo: Path, git: Git, key: Key = GREETING, **more: Any) -> Job:
    papers = (("SPEC.md", (repo / "SPEC.md").read_text()),)
    branch = work.branch("main", key)
    return Job(key, 1, git("rev-parse", "HEAD"), branch, 7, "run1", papers, **more)


def carrier(repo: Path, watched: Watched, **more: Any) -> Carrier:
    return Carrier(open_at(repo), lambda: watched, pause=0.01, **more)


def test_a_task_is_done_elsewhere_and_its_commit_comes_back(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    came = carrier(repo, watched)(asked := job(repo, git))
    assert (came.code, came.fault, came.under_way) == (0, "", False)
    assert came.commit == git("rev-parse", f"refs/heads/{asked.branch}")
    assert git("rev-list", "--count", f"{asked.base}..{came.commit}") == "1"
    assert git("show", f"{came.commit}:work.txt") == "work"
    assert (came.paper("SPEC.md") or "").startswith("- [x] add a greeting")
    assert git("status", "--porcelain") == ""
    assert fake.stages == ["research", "implement", "commit"]
    told = journal.tail(journal.place(repo / ".git"))
    assert {one["worker"] for one in told} == {7}, "the caller's number of it"
    assert {one["fleet"] for one in told} == {"run1"}
    env = fake.calls[1]["env"]
    assert env.get("KERN_WORKER") == "1", "the machine's own number: ports differ by it"


def test_a_journal_that_cannot_be_written_loses_no_work_that_was_done_elsewhere(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    (repo / ".git" / "kern" / journal.FILE).mkdir(parents=True)
    warned: list[str] = []
    came = carrier(repo, watched, warn=warned.append)(asked := job(repo, git))
    assert (came.fault, came.unfit) == ("", False)
    assert came.commit == git("rev-parse", f"refs/heads/{asked.branch}")
    assert len(watched.sent) == 2, "to a worker that lacks the history, and then with it"
    (line,) = warned
    assert "the journal" in line and "cannot be written" in line


def test_run_files_come_back_and_none_lands_elsewhere_or_on_another(
    repo: Path, git: Git, fake: Fake, watched: Watched, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    carrier(repo, watched, history=history)(job(repo, git))
    (task,) = history.iterdir()
    names = {file.name for file in task.iterdir()}
    assert {"stage1.json", "stage2.json", "stage3.json"} <= names
    before = (task / "stage1.json").read_bytes()
    strange = ("../out", "/etc/x", "a/../../out", f"{task.name}/stage1.json", "a/b/c", ".a/b")
    slots.lay(history, [(name, b"planted") for name in strange])
    assert (task / "stage1.json").read_bytes() == before
    assert [*history.iterdir()] == [task] and not (tmp_path / "out").exists()


def test_the_store_is_filled_once_and_thin_bundles_follow(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    (repo / "large.txt").write_text("".join(f"{n * 7919 % 10007}\n" for n in range(20_000)))
    git("add", "--all")
    git("commit", "--quiet", "--message=large")
    carry = carrier(repo, watched)
    carry(job(repo, git))
    (repo / "SPEC.md").write_text("- [ ] another\n")
    (repo / "a.txt").write_text("changed\n")
    git("commit", "--quiet", "--all", "--message=next")
    assert carry(job(repo, git, Key("", "another"))).commit
    first, whole, again, thin = watched.bundles
    assert (first, again) == (0, 0), "nobody knows yet what the worker has"
    assert thin < whole / 10


def test_work_that_is_to_be_mended_goes_along(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    first, second = (git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", n) for n in "ab")
    asked = job(repo, git, kept=first)
    assert carrier(repo, watched)(asked).commit
    identity = slots.identity(open_at(repo))
    store, _ = slots.stocked(slots.place(identity), asked.needed, b"", "")
    assert bundles.has(store, [asked.base, first]) and not bundles.has(store, [second])
    parcel = Parcel(replace(asked, kept=second), identity, "project")
    _, came = pickle.loads(remote.answer(__version__, pickle.dumps(parcel)))
    assert isinstance(came, Lacks) and first in came.has


def test_work_whose_answer_got_lost_is_not_done_again(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    watched.spoil = lambda data: data[: len(data) // 2] if len(watched.came) == 2 else data
    came = carrier(repo, watched)(job(repo, git))
    assert came.commit and len(watched.sent) == 3
    assert fake.stages == ["research", "implement", "commit"]


def test_a_torn_bundle_is_refused_on_either_side_and_sent_again(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    def torn(data: bytes) -> bytes:
        where, came = pickle.loads(data)
        if isinstance(came, Outcome) and len(watched.sent) == 2:
            return pickle.dumps((where, replace(came, bundle=came.bundle[:-30])))
        return data

    watched.spoil = torn
    came = carrier(repo, watched)(job(repo, git))
    assert came.commit and len(watched.sent) == 3
    good = watched.sent[1]
    sent = pickle.dumps(replace(good, identity="other", bundle=good.bundle[:-30]))
    _, said = pickle.loads(remote.answer(__version__, sent))
    assert isinstance(said, Refused) and "torn" in said.text
    assert len(fake.stages) == 3


def test_a_worker_with_another_kern_says_so_and_looks_at_nothing(
    repo: Path, git: Git, watched: Watched
) -> None:
    _, said = pickle.loads(remote.answer("9.9.9", b"no pickle at all"))
    assert isinstance(said, Refused)
    assert "9.9.9" in said.text and __version__ in said.text
    assert not (repo.parent / "kern").exists()


def test_a_killed_task_is_resumed_where_it_was_begun(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    killed: dict[str, Any] = {"kill": "parent", "result": ""}
    good = {"run": ["echo work > work.txt"], "result": "Wrote it.\n\nSUCCESS"}
    fake.script(implement=[killed, good])
    carry = carrier(repo, watched)
    first = carry(job(repo, git))
    assert (first.commit, first.under_way) == ("", True)
    second = carry(job(repo, git))
    assert second.commit
    assert fake.stages == ["research", "implement", "implement", "commit"]


def test_on_a_new_base_the_task_is_begun_anew(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    carry = carrier(repo, watched)
    first = carry(job(repo, git))
    (repo / "own.txt").write_text("theirs\n")
    git("commit", "--quiet", "--all", "--message=moved")
    second = carry(job(repo, git))
    assert second.commit != first.commit
    assert git("rev-parse", f"{second.commit}^") == git("rev-parse", "HEAD")
    assert fake.stages == ["research", "implement", "commit"] * 2


def test_an_empty_store_asks_the_remote_by_its_own_login(
    repo: Path, git: Git, fake: Fake, watched: Watched, tmp_path: Path
) -> None:
    git("clone", "--quiet", "--bare", str(repo), "shared.git", cwd=tmp_path)
    said: list[str] = []
    carry = carrier(repo, watched, remote=str(tmp_path / "shared.git"), warn=said.append)
    assert carry(job(repo, git)).commit
    assert watched.bundles == [0] and said == []


def test_a_remote_that_cannot_be_asked_is_told_and_the_history_is_sent(
    repo: Path, git: Git, fake: Fake, watched: Watched, tmp_path: Path
) -> None:
    said: list[str] = []
    carry = carrier(repo, watched, remote=str(tmp_path / "nothing.git"), warn=said.append)
    assert carry(job(repo, git)).commit
    assert len(said) == 1 and "nothing.git" in said[0]


def test_saved_attempts_come_back_and_none_here_is_overwritten(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    failed = {"run": ["echo bad > bad.txt"], "result": "No.\n\nFAILED: no way"}
    good = {"run": ["echo good > good.txt"], "result": "Yes.\n\nSUCCESS"}
    fake.script(implement=[failed, good])
    came = carrier(repo, watched)(job(repo, git))
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").split()
    assert git("show", f"{ref}:bad.txt") == "bad"
    assert f"kept: {ref.removeprefix('refs/')}" in (came.paper("SPEC.md") or "")


def test_two_of_one_task_wait_for_each_other_and_others_do_not(repo: Path, git: Git) -> None:
    here = open_at(repo)
    asked = job(repo, git)
    folder = slots.place(slots.identity(here))
    whole = bundles.pack(here, {"refs/heads/work": asked.base})
    store, said = slots.stocked(folder, asked.needed, whole, "")
    assert said == "" and slots.tips(store) == (asked.base,)
    yard = worktrees.Yard(store, folder, "project")
    with slots.hold(yard, asked) as one:
        worktrees.make(yard, one.number, asked.branch, asked.base)
        other = replace(asked, branch="kern/work/other")
        with slots.hold(yard, other) as two:
            assert (one.number, two.number) == (1, 2)
    with slots.hold(yard, asked) as again:
        assert (again.number, again.begun) == (1, True)


def test_a_caller_that_is_stopped_waits_for_nobody(repo: Path, git: Git, watched: Watched) -> None:
    carry = carrier(repo, watched)
    carry.stopped.set()
    assert carry(job(repo, git)).code == 130
    assert watched.sent == []


def test_a_task_that_nobody_answers_is_sent_again(repo: Path, git: Git, watched: Watched) -> None:
    class Deaf(Executor):
        asked = 0

        def submit(self, fn: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
            self.asked += 1
            if self.asked == 2:
                carry.stopped.set()
            return Future()

    deaf = Deaf()
    carry = Carrier(open_at(repo), lambda: deaf, pause=0.01, patience=0.1)
    assert carry(job(repo, git)).code == 130
    assert deaf.asked == 2


def test_what_travels_names_neither_a_path_nor_a_variable(
    repo: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-to-travel")
    watched = Watched(lambda data: pickle.dumps((("host", 1), Refused("no"))))
    root = (("KERN_OF", str(repo)), ("KERN_SANDBOX", "off"))
    carrier(repo, watched)(job(repo, git, variables=root))
    watched.pool.shutdown()
    sent = pickle.dumps(watched.sent[0])
    for secret in (b"sk-not", str(repo).encode(), b"HOME", b"PATH"):
        assert secret not in sent
    assert isinstance(watched.came[0], Lacks)


def test_the_identity_tells_two_repositories_apart(repo: Path, tmp_path: Path) -> None:
    one = slots.identity(open_at(repo))
    assert one == slots.identity(open_at(repo)) and one.startswith("project-")
    assert one != slots.identity(Repo(repo, tmp_path / "b", tmp_path / "b"))


def test_a_worker_that_cannot_work_is_told_and_the_task_goes_to_another(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    def unfit(data: bytes) -> bytes:
        if len(watched.sent) == 1:
            return pickle.dumps((("host", 1), Refused("no claude here", "install it")))
        return data

    watched.spoil = unfit
    said: list[object] = []

    def avoid(where: object, came: Outcome) -> bool:
        said.append((where, came.fault))
        return True

    came = carrier(repo, watched, avoid=avoid)(job(repo, git))
    assert came.commit
    assert said == [(("host", 1), "no claude here")]
    watched.spoil = lambda data: pickle.dumps((("host", 2), Refused("nor here", "buy one")))
    (repo / "a.txt").write_text("x\n")
    git("commit", "--quiet", "--all", "--message=moved")
    came = carrier(repo, watched)(job(repo, git))
    assert (came.fault, came.hint, came.unfit) == ("nor here", "buy one", True)


def test_a_kern_that_was_killed_there_is_begun_again_and_blamed_on_nobody(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    def killed(data: bytes) -> bytes:
        where, came = pickle.loads(data)
        if isinstance(came, Outcome) and len(watched.sent) == 2:
            ended = Outcome(came.job, -15, fault="its kern was ended by signal 15", unfit=True)
            return pickle.dumps((where, ended))
        return data

    watched.spoil = killed
    assert carrier(repo, watched)(job(repo, git)).commit
    assert len(watched.sent) == 3


def test_a_shallow_clone_cannot_be_sent_and_says_so(
    repo: Path, git: Git, watched: Watched, tmp_path: Path
) -> None:
    (repo / "a.txt").write_text("x\n")
    git("commit", "--quiet", "--all", "--message=second")
    git("clone", "--quiet", "--depth=1", f"file://{repo}", "shallow", cwd=tmp_path)
    came = carrier(tmp_path / "shallow", watched)(job(repo, git))
    assert came.unfit and "shallow" in came.fault
    assert came.hint == "git fetch --unshallow"


def test_a_repository_whose_contents_lie_outside_git_is_not_sent(
    repo: Path, git: Git, watched: Watched
) -> None:
    (repo / "assets").mkdir()
    (repo / "assets/.gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=large files")
    came = carrier(repo, watched)(job(repo, git))
    assert (came.unfit, came.code) == (True, 2) and "git LFS" in came.fault
    assert watched.sent == []


def test_work_whose_contents_stay_on_a_worker_is_not_done(
    repo: Path, git: Git, fake: Fake, watched: Watched
) -> None:
    """Landed, it would name what is nowhere else."""
    attributes = {
        "run": ["echo '*.bin filter=lfs' > .gitattributes"],
        "result": "Did it.\n\nSUCCESS",
    }
    fake.script(implement=[attributes])
    came = carrier(repo, watched)(job(repo, git))
    assert fake.stages == ["research", "implement", "commit"]
    assert (came.commit, came.unfit) == ("", False) and "git LFS" in came.fault
    assert git("show", f"{kept(came)}:.gitattributes") == "*.bin filter=lfs"


def kept(came: Outcome) -> str:
    """The work that could not land, as the fault names it."""
    (ref,) = re.findall(r"\(kept: (kern/attempts/\S+)\)$", came.fault)
    return f"refs/{ref}"


def test_a_commit_in_a_submodule_that_stays_on_a_worker_is_not_named_by_one_here(
    repo: Path, git: Git, fake: Fake, watched: Watched, tmp_path: Path
) -> None:
    git("config", "--global", "protocol.file.allow", "always")
    git("clone", "--quiet", "--bare", str(repo), str(tmp_path / "library"))
    git("submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    git("commit", "--quiet", "--all", "--message=a library")
    commit = "git -C lib -c user.name=a -c user.email=a@a commit -q --allow-empty -m more"
    fake.script(implement=[{"run": [commit], "result": "Did it.\n\nSUCCESS"}])
    for _ in range(2):  # its answer may be lost on the way
        came = carrier(repo, watched)(job(repo, git))
        assert fake.stages == ["research", "implement", "commit"]
        assert (came.commit, came.unfit) == ("", False) and "submodule" in came.fault
        assert git("ls-tree", kept(came), "lib") != git("ls-tree", "HEAD", "lib")
    assert ends.came_to(came, {"did": "done", "detail": "1234567"}) == (End.SKIPPED, came.fault)
