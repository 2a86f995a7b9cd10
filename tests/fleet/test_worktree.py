"""Worktrees, what a person's tree lends them, and one task in one by an ordinary kern."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kern.config import Worktree
from kern.errors import UsageError
from kern.fleet import work, worktree
from kern.fleet.work import Job
from kern.fleet.worktree import Yard
from kern.git import repository
from kern.model import Key
from kern.system import workspace
from tests.conftest import Fake, Git, commit_all
from tests.fleet.landings import Project

KEY = Key("", "add a greeting")


@pytest.fixture
def yard(repo: Path) -> Yard:
    here, scope = repository.open_at(repo), workspace.scope(repo, "main")
    return Yard(here, scope.folder / workspace.FLEET, repo)


def job(git: Git, repo: Path, **more: object) -> Job:
    documents = (("SPEC.md", (repo / "SPEC.md").read_text()),)
    name = work.branch("main", KEY)
    return Job(KEY, git("rev-parse", "HEAD"), name, 2, "f" * 16, "main", documents, **more)  # type: ignore[arg-type]


def test_a_worktree_has_a_document_that_a_person_has_emptied_as_it_is(repo: Path) -> None:
    (repo / "LEARNINGS.md").touch()
    assert ("LEARNINGS.md", "") in worktree.documents(Project(repo).site(), "")


def test_a_worktree_is_used_again_and_what_git_ignores_stays_in_it(
    repo: Path, git: Git, fake: Fake, yard: Yard
) -> None:
    (repo / ".git/info/exclude").write_text("cache\n")
    worktree.carry_out(yard, job(git, repo))
    root, name = yard.place(2), "kern/work/x-123456"
    for file in ("cache", "left.txt", "a.txt"):
        (root / file).write_text("a gate's\n")
    worktree.make(yard, 2, git("rev-parse", "HEAD"), "-B", name)
    assert (root / "cache").exists() and not (root / "left.txt").exists()
    assert (root / "a.txt").read_text() == (repo / "a.txt").read_text()
    assert worktree.numbers(yard) == {2: name}
    git("worktree", "lock", str(root))
    shutil.rmtree(root)
    assert worktree.of(yard, 2) is None
    assert worktree.make(yard, 2, name).head().branch == name
    (root / ".git").unlink()  # something else lies there
    assert worktree.make(yard, 2, name).head().branch == name
    git("switch", "-qc", "mine", cwd=root)
    assert worktree.numbers(yard) == {2: ""}, "no work branch: nothing of it is taken away"
    assert workspace.scope(root, name).base == yard.folder / "runs"  # which goes with them
    worktree.remove(yard, 2)
    assert not root.exists() and len(git("worktree", "list").splitlines()) == 1


def test_a_worktree_gets_what_is_named_for_each_task_and_no_link_is_followed(
    repo: Path, git: Git, fake: Fake, yard: Yard, tmp_path: Path
) -> None:
    (tmp_path / "away").mkdir()
    (repo / "conf/x.local/in").mkdir(parents=True)
    setup = f"echo $KERN_WORKER $KERN_PORT >> {tmp_path}/set-up"
    (repo / ".git/info/exclude").write_text("*.local\nsecret*\n.worktreeinclude\n")
    for name, text in {
        "conf/tracked": "committed\n",
        "kern.toml": f'[worktree]\nsetup = "{setup}"\n',
        ".worktreeinclude": "secret?\n!secret2\nunignored\n",
        "secret1": "",
        "secret2": "",
        "conf/x.local/in/x": "mine\n",
    }.items():
        (repo / name).write_text(text)
    commit_all(git, "settings")
    for name in ("conf/tracked", "conf/new", "unignored"):
        (repo / name).write_text("changed\n")
    names = worktree.copied(yard.repo, Worktree(copy=("conf",)))
    assert names == ("conf/x.local", "secret1")
    yard, conf = replace(yard, brought=names), yard.place(2) / "conf"
    came = worktree.carry_out(yard, job(git, repo))
    assert (came.code, came.fault) == (0, "")
    assert (tmp_path / "set-up").read_text() == "2 20080\n"  # once, and the worker is told
    assert (conf / "tracked").read_text() == "committed\n"
    assert (conf / "x.local/in/x").read_text() == "mine\n"
    (conf / "x.local/in/x").write_text("the last task's\n")
    (repo / "conf/x.local/in/x").write_text("mine, and newer\n")
    again = 2, git("rev-parse", "HEAD"), "-B", "kern/work/x-123456"
    worktree.make(yard, *again)
    assert (conf / "x.local/in/x").read_text() == "mine, and newer\n"
    # What a task has left in the worktree leads nowhere either.
    shutil.rmtree(conf)
    conf.symlink_to(tmp_path / "away")
    git("update-index", "--assume-unchanged", "conf/tracked", cwd=conf.parent)
    worktree.make(yard, *again)
    assert not any((tmp_path / "away").iterdir())


SITE = ".venv/lib/python3.11/site-packages"


def test_what_leads_back_is_seen_whatever_the_path_holds(tmp_path: Path) -> None:
    (folder := tmp_path / "a[b]/modules").mkdir(parents=True)
    (folder / "x").symlink_to(tmp_path / "a[b]/src")
    assert str(folder / "x") in worktree._back(folder.parent, [folder])


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (f"echo {{root}}/src > {SITE}/_p.pth", "_p.pth"),
        (f"echo 'MAPPING = \"{{root}}/src\"' > {SITE}/__editable___p.py", "__editable"),
        ("echo CMAKE_HOME_DIRECTORY:INTERNAL={root} > .venv/CMakeCache.txt", "CMakeCache.txt"),
        (f"echo {{root}}2/src > {SITE}/_p.pth; echo import os > {SITE}/r.pth", ""),
        (f"ln -s {{root}}/src {SITE}/installed", "installed"),
        (f"ln -s {{root}}2/src {SITE}/other; ln -s {{root}}/.venv/lib .venv/lib64", ""),
        ("PYTHONPATH", "PYTHONPATH"),
    ],
)
@pytest.mark.parametrize("copy", [True, False])
def test_no_copy_and_no_python_in_use_leads_back(
    repo: Path, yard: Yard, make: str, found: str, copy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / ".git/info/exclude").write_text(".venv\n")
    (repo / SITE).mkdir(parents=True)
    if make == found:
        monkeypatch.setenv(make, f"/elsewhere:{repo}/src")
    else:
        subprocess.run(["sh", "-ec", make.format(root=repo)], cwd=repo, check=True)
    wanted = Worktree(copy=(".venv",) * copy)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{f':{repo}/.venv/bin' * (not copy)}")
    if not found or ("CMake" in found and not copy):
        assert worktree.copied(yard.repo, wanted) == (".venv",) * copy
        return
    with pytest.raises(UsageError, match=f"{found}.* leads back to your tree: a worker would"):
        worktree.copied(yard.repo, wanted)
