"""Repositories in the working tree: submodules are part of a task's change, others are not made."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kern.git import submodules
from tests.conftest import Fake, Git, Inline, Kern
from tests.git.test_snapshot import disk, snapshots

Step = dict[str, Any]
ENDS: Step = {"result": "Not now.\n\nSKIPPED: no"}


def attempts(root: Path) -> list[str]:
    return re.findall(r"> \*\*Attempt \d+:\*\* (.*)", (root / "SPEC.md").read_text())


@pytest.fixture
def library(tmp_path: Path, git: Git) -> Path:
    """What submodules come from: two commits."""
    subprocess.run(["git", "config", "--global", "protocol.file.allow", "always"], check=True)
    place = tmp_path / "library"
    git("init", "--quiet", str(place), cwd=tmp_path)
    for number in (1, 2):
        (place / "f.txt").write_text(f"{number}\n")
        git("add", "--all", cwd=place)
        git("commit", "--quiet", f"--message={number}", cwd=place)
    return place


@pytest.fixture
def parent(repo: Path, git: Git, library: Path) -> Path:
    """The project with the submodule `sub`."""
    git("submodule", "--quiet", "add", str(library), "sub")
    git("commit", "--quiet", "--message=submodule")
    return repo


CHANGES = {
    "added": "git submodule --quiet add {library} more",
    "added by a name with a blank": "git submodule --quiet add {library} 'li b/x y'",
    "removed": "git rm -q -f sub",
    "removed with all traces": "git submodule deinit -q -f sub; git rm -q -f sub",
    "moved to another commit": "git -C sub checkout -q HEAD~1",
    "moved where all is text": "echo '* text' > .gitattributes; git -C sub checkout -q HEAD~1",
    "given another folder": "git mv sub other",
    "made files of": "git rm -q --cached sub; rm -rf sub/.git .gitmodules; echo x > sub/x",
    "made a link of": "git rm -q -f sub; ln -s a.txt sub",
    "replaced by another": "git rm -qf sub; git submodule --quiet add --name n {library} sub/deep",
}


@pytest.mark.unheld
@pytest.mark.parametrize("case", CHANGES)
def test_what_a_task_does_to_submodules_is_in_its_commit(
    parent: Path, git: Git, fake: Fake, inline: Inline, library: Path, tmp_path: Path, case: str
) -> None:
    """What `git add --all` makes of the same in a copy is the oracle."""
    run = CHANGES[case].format(library=library)
    copy = tmp_path / "copy"
    shutil.copytree(parent, copy, symlinks=True)
    subprocess.run(run, shell=True, cwd=copy, check=True)
    git("add", "--all", cwd=copy)
    wanted = git("ls-tree", "-r", git("write-tree", cwd=copy), cwd=copy)
    fake.script(implement=[{"run": [run], "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    made = git("ls-tree", "-r", "HEAD")

    def rest(listed: str) -> list[str]:
        return [line for line in listed.splitlines() if not line.endswith("SPEC.md")]

    assert rest(made) == rest(wanted)
    assert git("status", "--porcelain") == ""
    assert git("submodule", "status") == git("submodule", "status", cwd=copy)
    assert git("config", "--get-regexp", r"^submodule\..*\.url$")


@pytest.mark.unheld
@pytest.mark.parametrize("case", CHANGES)
def test_a_failed_attempt_leaves_submodules_as_they_were(
    parent: Path, git: Git, fake: Fake, inline: Inline, library: Path, case: str
) -> None:
    before = disk(parent), git("submodule", "status"), (parent / ".git" / "config").read_text()
    run = CHANGES[case].format(library=library)
    away = f"mv {library} {library}.gone"  # nothing may be fetched
    fake.script(implement=[{"run": [run, away], "result": "FAILED: no"}, ENDS])
    ran = inline()
    assert attempts(parent)[0].startswith("no (kept: "), ran.err
    after = disk(parent)
    for found in (before[0], after):
        found.pop(b"SPEC.md")
        found.pop(b"sub/.git")  # a path to the same folder, perhaps written another way
    assert after == before[0]
    assert git("submodule", "status") == before[1]
    assert git("status", "--porcelain", "--", ":!SPEC.md") == ""
    assert (parent / ".git" / "config").read_text() == before[2]


@pytest.mark.unheld
def test_the_next_attempt_can_add_the_same_submodule(
    repo: Path, git: Git, fake: Fake, inline: Inline, library: Path
) -> None:
    add = {"run": [f"git submodule add {library} more || exit 1"], "result": "FAILED: no"}
    fake.script(implement=[add, {**add, "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    head = git("rev-parse", "HEAD", cwd=library)
    assert git("ls-tree", "HEAD", "more") == f"160000 commit {head}\tmore"
    first = next((repo / ".git" / "kern" / "aside").iterdir()) / "more"
    assert git("rev-parse", "HEAD", cwd=first) == head  # a repository of its own
    assert "more was moved aside; bring it back: mv " in ran.err


@pytest.mark.unheld
def test_edits_inside_a_submodule_fail_the_attempt_and_a_commit_there_is_named(
    parent: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (parent / "sub" / "mine.txt").write_text("the person's\n")
    edit = "echo 3 > sub/f.txt; echo x > sub/new.txt; echo b > a.txt"
    commit = "git -C sub add f.txt; git -C sub commit -qm 3"
    fake.script(
        implement=[
            {"run": [edit], "result": "SUCCESS"},
            {"run": [edit, commit], "result": "SUCCESS"},
        ]
    )
    ran = inline()
    assert ran.code == 0, ran.err
    assert "it edited sub/f.txt, sub/new.txt in a submodule and did not" in attempts(parent)[0]
    new = git("rev-parse", "HEAD", cwd=parent / "sub")
    assert git("ls-tree", "HEAD", "sub") == f"160000 commit {new}\tsub"
    assert f"submodule sub: the task's commit names {new[:7]}, which no remote" in ran.err
    assert (parent / "sub" / "mine.txt").read_text() == "the person's\n"


@pytest.mark.unheld
@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("echo 3 > f.txt; git commit -qam 3; echo 4 > f.txt", "it holds changes that are not"),
        ("git checkout -q -b own; echo 3 > f.txt; git commit -qam 3", ""),
        ("echo 3 > f.txt; git commit -qam 3", "restored; its branch main still names"),
    ],
    ids=["edited", "on a new branch", "on its branch"],
)
def test_a_submodule_that_cannot_be_restored_whole_is_named(
    parent: Path, git: Git, fake: Fake, inline: Inline, run: str, said: str
) -> None:
    before = git("rev-parse", "HEAD", cwd=parent / "sub")
    step = {"run": [f"cd sub; {run}"], "result": "FAILED: no"}
    fake.script(implement=[step, ENDS])
    ran = inline()
    now = git("rev-parse", "HEAD", cwd=parent / "sub")
    assert (now == before) == (not said.startswith("it holds"))
    assert ("warning: submodule sub: " in ran.err) == bool(said)
    assert said in ran.err


@pytest.mark.unheld
def test_a_submodule_whose_repository_is_gone_is_named(
    parent: Path, fake: Fake, inline: Inline
) -> None:
    step = {"run": ["git rm -q -f sub; rm -rf .git/modules/sub"], "result": "FAILED: no"}
    fake.script(implement=[step, ENDS])
    assert "submodule sub: not restored: its repository is gone" in inline().err


@pytest.mark.parametrize("kills", [False, True])
def test_what_you_had_not_committed_in_a_removed_submodule_is_named(
    parent: Path, fake: Fake, kern: Kern, kills: bool
) -> None:
    (parent / "sub" / "f.txt").write_text("mine\n")
    (parent / "sub" / "mine.txt").write_text("mine\n")
    ends = {"kill": "parent"} if kills else {"result": "FAILED: no"}
    fake.script(implement=[{"run": ["rm -rf sub; git rm -q --cached sub"], **ends}, ENDS])
    ran = kern("1", "0")
    ran = kern("1", "0") if kills else ran
    told = "submodule sub/ was removed with what was in no commit: sub/f.txt, sub/mine.txt"
    assert ran.err.count(f"{told}: kern has no copy of it") == 1


@pytest.mark.unheld
def test_a_submodule_that_a_task_moves_takes_along_what_is_yours_in_it(
    parent: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (parent / "sub" / "mine.txt").write_text("mine\n")
    fake.script(implement=[{"run": ["git mv sub moved"], "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0 and not attempts(parent), ran.err
    assert "submodule sub/ was removed" not in ran.err
    assert git("ls-tree", "HEAD", "moved").startswith("160000")
    assert (parent / "moved" / "mine.txt").read_text() == "mine\n"


def test_a_move_of_a_submodule_by_the_person_stays_theirs(
    parent: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("checkout", "--quiet", "HEAD~1", cwd=parent / "sub")
    old = git("ls-tree", "HEAD", "sub")
    fake.script(implement=[{"run": ["echo b > a.txt"], "result": "SUCCESS"}])
    assert inline().code == 0
    assert git("ls-tree", "HEAD", "sub") == old
    assert git("status", "--porcelain") == " M sub"


# ---------------------------------------------------------------- repositories that appear

OWN_FILES = {"a new folder": (), "an untracked folder": ("x/mine.txt",), "an empty folder": ("x/",)}
MAKES = {
    "init": "mkdir -p x; git init -q x; echo new > x/new.txt; echo b > a.txt",
    "clone": "mkdir -p x; git clone -q --bare . x/.git; git -C x config core.bare false",
    "worktree": "git worktree add -q --detach x/y; echo b > a.txt",
    "no repository at all": "mkdir -p x/.git; echo hidden > x/.git/hidden; echo b > a.txt",
}


# Each of both, with each answer for each.
APPEARS = [
    pytest.param(
        own,
        how,
        ("SUCCESS", "FAILED: no")[(x + y) % 2],
        marks=pytest.mark.unheld if how == "worktree" else (),
    )
    for x, own in enumerate((*OWN_FILES, "a tracked folder"))
    for y, how in enumerate(MAKES)
]


@pytest.mark.parametrize(("own", "how", "answer"), APPEARS)
def test_a_repository_that_appears_is_moved_aside_and_fails_the_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline, own: str, how: str, answer: str
) -> None:
    for name in OWN_FILES.get(own, ("x/mine.txt",)):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).mkdir() if name.endswith("/") else (repo / name).write_text("mine\n")
    if own == "a tracked folder":
        git("add", "--all")
        git("commit", "--quiet", "--message=more")
    before = disk(repo)
    fake.script(implement=[{"run": [MAKES[how]], "result": answer}, ENDS])
    ran = inline()
    note = attempts(repo)[0]
    assert note.startswith("it made a repository of its own in x"), ran.err
    after = disk(repo)
    for found in (before, after):
        found.pop(b"SPEC.md")
    assert after == before
    assert (repo / "x").exists() == (own != "a new folder")
    aside = [
        where
        for where, folders, files in os.walk(repo / ".git" / "kern" / "aside")
        if ".git" in (*folders, *files)
    ]
    assert len(aside) == 1
    command = re.search(r"bring it back: (mv .*)", ran.err)
    assert command
    if (repo / "x").exists() or how != "worktree":
        subprocess.run(command[1], shell=True, check=True)
        assert (repo / ("x/y/.git" if how == "worktree" else "x/.git")).exists()


def test_a_repository_beside_another_fault_is_moved_aside_as_well(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    planted = "mkdir -p .kern/prompts; echo x > .kern/prompts/judge.md"
    fake.script(implement=[{"run": [planted, "git init -q empty"], "result": "SUCCESS"}, ENDS])
    ran = inline()
    note = attempts(repo)[0]
    assert "it changed .kern/prompts/judge.md" in note
    assert "it made a repository of its own in empty/" in note, ran.err
    assert not (repo / "empty").exists()


def test_a_repository_that_a_person_has_there_stays_untouched(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    for name in ("mine", "deep/mine"):
        git("init", "--quiet", str(repo / name))
        (repo / name / "f").write_text("f\n")
    step = {"run": ["echo b > a.txt; echo more >> mine/f"], "result": "FAILED: no"}
    fake.script(implement=[step, {**step, "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    assert (repo / "mine" / "f").read_text() == "f\nmore\nmore\n"
    assert (repo / "deep" / "mine" / ".git" / "HEAD").exists()
    assert "aside" not in ran.err
    assert git("status", "--porcelain") == "?? deep/\n?? mine/"


def test_a_repository_of_a_person_that_is_gone_is_named(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("init", "--quiet", str(repo / "mine"))
    fake.script(implement=[{"run": ["rm -rf mine; echo b > a.txt"], "result": "SUCCESS"}])
    assert "the repository mine/ is gone" in inline().err


def test_what_lies_behind_a_link_stays_there(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    (repo / "d").mkdir(mode=0o700)
    (repo / "d" / "x").write_text("mine\n")
    (repo / "d" / "y").write_text("mine\n")
    (repo / "d" / "y").chmod(0o600)
    (repo / "d" / "empty").mkdir()
    away = tmp_path / "away"
    away.mkdir()
    git("init", "--quiet", str(away / "x"))
    (away / "y").write_text("another's\n")
    (away / "y").chmod(0o644)
    fake.script(implement=[{"run": [f"rm -r d; ln -s {away} d"], "result": "FAILED: no"}, ENDS])
    ran = inline()
    assert "moved aside" not in ran.err
    assert (repo / "d" / "x").read_text() == "mine\n"
    assert (repo / "d" / "empty").is_dir()
    assert sorted(entry.name for entry in away.iterdir()) == ["x", "y"]
    assert (away / "x" / ".git").is_dir()
    assert (away / "y").stat().st_mode & 0o777 == 0o644


def test_a_build_may_clone_into_what_its_task_has_git_ignore(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    step = {
        "run": ["echo build/ >> .gitignore; mkdir -p build/dep; git init -q build/dep"],
        "result": "FAILED: no",
    }
    fake.script(implement=[step, {**step, "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    assert attempts(repo)[0].startswith("no (kept: ")
    assert "build/dep was moved aside" in ran.err
    assert (repo / "build" / "dep" / ".git").is_dir()
    assert git("status", "--porcelain") == ""


def test_what_a_killed_stage_2_left_is_moved_aside_by_the_next_kern(
    repo: Path, fake: Fake, kern: Kern, inline: Inline
) -> None:
    (repo / "notes").mkdir()
    (repo / "notes" / "mine.txt").write_text("mine\n")
    run = "git init -q notes; rm notes/mine.txt; mkdir tool; git init -q tool"
    fake.script(implement=[{"run": [run], "kill": "parent"}, ENDS])
    assert kern("1", "0").code == -9
    ran = inline()
    assert ran.err.count("was moved aside") == 2
    assert (repo / "notes" / "mine.txt").read_text() == "mine\n"
    assert not (repo / "notes" / ".git").exists()
    assert not (repo / "tool").exists()
    aside = repo / ".git" / "kern" / "aside"
    assert "set aside" not in kern("clean", "--older", "1d").out
    assert [*aside.iterdir()]
    assert " and 1 folder of files set aside" in kern("clean", "--all", "--older", "0d").out
    assert not [*aside.iterdir()]


def test_what_was_moved_aside_for_an_open_task_stays_unless_all_is_to_go(
    repo: Path, fake: Fake, kern: Kern, inline: Inline
) -> None:
    run = "mkdir o; git init -q o; echo unique > o/u"
    fake.script(implement=[{"run": [run], "result": "SUCCESS"}] * 2)
    inline()
    aside = repo / ".git" / "kern" / "aside"
    there = sorted(aside.iterdir())
    assert there
    ran = kern("clean", "--older", "0h")
    assert ran.code == 0, ran.err
    assert sorted(aside.iterdir()) == there
    do = "kern clean --all --older 0h deletes them too"
    assert f"{len(there)} folders of files set aside of 1 open task; {do}" in ran.out
    assert kern("clean", "--older", "0h", "--all").code == 0
    assert not [*aside.iterdir()]


# ---------------------------------------------------------------- as values

CONFIG = b"[core]\n\tbare = false\n"
ADDED = b'[submodule "x"]\n\turl = /lib\n\tactive = true\n'


@pytest.mark.parametrize(
    ("now", "alike"),
    [
        (CONFIG + ADDED, True),
        (CONFIG + ADDED + b'[submodule "y z"]\n\tactive = true\n', True),
        (b'[submodule "x"]\n\turl = /other\n' + CONFIG, True),
        (CONFIG + b'[submodule "x"]\n\turl = /lib\n\tupdate = !touch planted\n', False),
        (CONFIG + ADDED + b"\tpager = touch planted\n", False),
        (CONFIG + ADDED + b"[alias]\n\tst = !touch planted\n", False),
        (CONFIG + b'[submodule "x"]\n\turl = a\\\n\tupdate = !touch planted\n', False),
        (CONFIG.replace(b"false", b"true") + ADDED, False),
        (CONFIG + b'[submodule "x"]\n\turl = /lib', False),
    ],
)
def test_only_what_git_notes_of_a_submodule_is_no_change_of_configuration(
    now: bytes, *, alike: bool
) -> None:
    assert submodules.registered_alike(CONFIG, now) == alike


@pytest.mark.parametrize(
    "path", ["../x", "/tmp/x", ".git/x", "a/../x", "a//x", "./x", "x/.git", ""]
)
def test_no_path_of_gitmodules_leads_out_of_the_tree(repo: Path, git: Git, path: str) -> None:
    git("config", "--file", ".gitmodules", "submodule.s.path", path)
    git("config", "--file", ".gitmodules", "submodule.t.path", "in/side")
    assert submodules.declared(snapshots(repo).repo) == ["in/side"]


# ---------------------------------------------------------------- what is planted in a submodule

PLANTS = {
    "a filter": (
        "config",
        "git -C sub config filter.evil.clean 'touch {evil}; cat'; "
        "echo '* filter=evil' > .git/modules/sub/info/attributes; touch sub/f.txt",
    ),
    "a broken configuration": ("config", "echo '[broken' >> .git/modules/sub/config"),
    "a hook": (
        "hooks/post-checkout",
        "echo 'touch {evil}' > .git/modules/sub/hooks/post-checkout; "
        "chmod +x .git/modules/sub/hooks/post-checkout",
    ),
}


@pytest.mark.unheld
@pytest.mark.parametrize("killed", [False, True], ids=["", "and kern killed"])
@pytest.mark.parametrize("case", PLANTS)
def test_what_is_planted_in_a_submodule_s_repository_is_undone_before_kern_enters_it(
    parent: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path, case: str, killed: bool
) -> None:
    path, plant = PLANTS[case]
    evil = tmp_path / "evil"
    module = parent / ".git" / "modules" / "sub"
    before = (module / "config").read_bytes()
    bad: Step = {"run": ["echo 1 > n", plant.format(evil=evil)], "result": "SUCCESS"}
    good: Step = {"run": ["echo 1 > n", "git -C sub checkout -q HEAD~1"], "result": "SUCCESS"}
    fake.script(implement=[{**bad, **({"kill": "parent"} if killed else {})}, good])
    if killed:
        assert kern("1", "0").code == -9
    ran = kern("1", "0")
    assert ran.code == 0, ran.err
    assert re.search(rf"it changed .*\.git/modules/sub/{path}.*; restored", ran.err)
    assert len(attempts(parent)) == (0 if killed else 1)
    assert not evil.exists()
    assert (module / "config").read_bytes() == before
    assert not (module / path).exists() or path == "config"
    assert git("ls-tree", "HEAD", "sub").split()[2] == git("rev-parse", "HEAD", cwd=parent / "sub")


def test_what_a_task_may_change_in_a_submodule_s_configuration_and_what_not() -> None:
    before = b'[core]\n\tbare = false\n\tworktree = ../../../sub\n[remote "origin"]\n\turl = /lib\n'
    follows = before + b'[branch "x"]\n\tremote = origin\n\tmerge = refs/heads/x\n'
    assert submodules.alike(follows.replace(b"/sub", b"/other"), before)
    for more in (
        b"\tuploadpack = touch evil\n",
        b"\tfsmonitor = x\n",
        b'[filter "x"]\n\tclean = x\n',
    ):
        assert not submodules.alike(before + more, before)
    assert not submodules.alike(before.replace(b"bare = false", b"fsmonitor = x"), before)
