"""Killed anywhere, the next kern goes on: each row of the resume table with real git.

The first run dies by SIGKILL, from the agent (`{"kill": "parent"}`) or after one of kern's own
writes; perhaps a person acts; then kern runs again and the git CLI tells.
"""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kern.system import workspace
from tests.conftest import Fake, Git, at_home, survivors
from tests.kit.stable import Ran, Stable

pytestmark = pytest.mark.crash

Script = list[dict[str, Any]]

HERE = Path(__file__).parent.parent
TASK = "- [ ] add a greeting\n"
WORK = ["sed -i s/seven/SEVEN/ a.txt", "echo work >> work.txt"]
DONE = "Wrote it.\n\nSUCCESS"
WORKS = {"run": WORK, "result": DONE}
LEARNS = {"run": WORK, "result": "Wrote it.\n\n## Learned\nGreet late.\n\nSUCCESS"}
FAILS = {"run": WORK, "result": "FAILED: it does not link"}
COMMITS = {"result": "do the task"}
COMMITS_ITSELF = {
    "run": ["env -u GIT_INDEX_FILE git commit -q --allow-empty -m 'sweep up'"],
    "result": "do the task",
}
DIES = {"kill": "parent"}
BRANCH = "update-ref#4"  # the write by which HEAD has the task
HALFWAY = {"run": WORK, "kill": "parent"}  # the work is in the tree, the answer never came


@dataclass
class Bench:
    """One repository with a person's own work in it, an agent to script, kerns to kill.

    It lies at one place for all tests: a state that one of them has reached is copied for the next.
    """

    place: Path
    fake: Fake
    stable: Stable
    states: dict[str, Path]
    run_git: Git
    earlier: int = 0  # calls of the agent before the kern that is asked about

    @property
    def root(self) -> Path:
        return self.place / "project"

    @property
    def folder(self) -> Path:
        """The output folder on main."""
        return self.place / "kern" / "project" / "main"

    def git(self, *argv: str, cwd: Path | None = None) -> str:
        return self.run_git(*argv, cwd=cwd or self.root)

    # -- runs

    def kern(self, *argv: str, cwd: Path | None = None, where: str = "") -> Ran:
        return self.stable.kern(argv, cwd or self.root, where)

    def killed(self, *, anew: bool = False, **script: Script) -> None:
        """A run that the scripted agent kills; `anew` where a person has acted before."""
        self.crashed("", anew=anew, **script)

    def crashed(self, where: str, *, anew: bool = False, **script: Script) -> None:
        """A run that dies after kern's own write `where`."""
        state = json.dumps([where, script])
        if state in self.states and not anew:
            restore(self.states[state], self.place)
            self.fake.steps = dict(script)
            return
        self.fake.script(**script)
        ran = self.kern("1", "0", where=where)
        assert ran.code == -signal.SIGKILL, ran.err
        if not anew:
            self.states[state] = self.states["fresh"].with_name(f"state{len(self.states)}")
            restore(self.place, self.states[state])

    def resumed(self, code: int = 0) -> Ran:
        """The next run; `asked` then tells of it alone."""
        self.earlier = len(self.fake.calls)
        ran = self.kern("1", "0")
        assert ran.code == code, ran.err
        return ran

    @property
    def asked(self) -> list[str]:
        """The stages that the resumed run and later ones called."""
        return self.fake.stages[self.earlier :]

    # -- a person

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def mark(self, marker: str) -> None:
        text = self.spec.replace("[~] add", f"[{marker}] add")
        assert text != self.spec
        self.write("SPEC.md", text)

    def clean_tmp(self) -> None:
        shutil.rmtree(self.place / "kern")

    # -- what is there

    @property
    def spec(self) -> str:
        return (self.root / "SPEC.md").read_text()

    @property
    def subjects(self) -> list[str]:
        return self.git("log", "--format=%s", "--reverse").splitlines()

    def head(self, path: str) -> str:
        return self.git("show", f"HEAD:{path}")

    def refs(self, kind: str) -> list[str]:
        """Names of the kept attempts or start refs without what comes before the last folder."""
        names = self.git("for-each-ref", "--format=%(refname)", f"refs/kern/{kind}").splitlines()
        return [name.rpartition("/")[2] for name in names]

    def kept(self, name: str, path: str) -> str:
        ref = self.git("for-each-ref", "--format=%(refname)", f"refs/kern/attempts/*/{name}")
        assert ref, f"nothing is kept as {name}"
        return self.git("show", f"{ref}:{path}")

    @property
    def left(self) -> list[str]:
        """Stage files, transcripts and temporary files in the output folder."""
        found = self.folder.iterdir() if self.folder.exists() else ()
        return sorted(p.name for p in found if p.is_file() and not p.is_symlink())


def restore(state: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(state, place, symlinks=True)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"fresh": tmp_path_factory.mktemp("states") / "fresh"}


@pytest.fixture
def bench(
    request: pytest.FixtureRequest,
    fake: Fake,
    git: Git,
    stable: Stable,
    states: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Bench:
    fresh = states["fresh"]
    if not fresh.exists():
        furnish(request.getfixturevalue("repo"), fresh, git)
    place = fresh.with_name("place")
    restore(fresh, place)
    fake.folder = place / "fake"
    at_home(fake.folder, monkeypatch)
    monkeypatch.setenv("KERN_DIR", str(place / "kern"))
    return Bench(place, fake, stable, states, git)


def furnish(repo: Path, place: Path, git: Git) -> None:
    """The sample repository, with what git ignores in it."""
    shutil.copytree(repo, place / "project")
    (place / "fake").mkdir()
    (place / "fake" / "script.json").write_text("{}")
    root = place / "project"
    (root / ".git/info/exclude").write_text(".env\n")
    (root / ".env").write_text("KEY=mine\n")


def is_done_once(bench: Bench, *, more: tuple[str, ...] = ()) -> None:
    """One commit of the task on top of what was there, nothing of the person's in it, none of it
    gone.
    """
    assert bench.subjects == ["start", *more, "do the task"]
    assert bench.head("work.txt") == "work"
    assert bench.head("a.txt") == "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN"
    assert bench.head("SPEC.md").startswith("- [x] add a greeting")
    assert (bench.root / "SPEC.md").read_text().startswith("- [x] add a greeting")
    changed = set(bench.git("show", "--format=", "--name-only").splitlines())
    assert changed == {"SPEC.md", "a.txt", "work.txt"}
    nothing_of_the_persons_is_touched(bench)
    assert not bench.refs("start")


def nothing_of_the_persons_is_touched(bench: Bench) -> None:
    assert bench.git("status", "--porcelain") == ""
    assert (bench.root / ".env").read_text() == "KEY=mine\n"


# ------------------------------------------------------------ a: on another branch


def test_a_task_begun_on_another_branch_stops_the_run_until_one_switches_back(
    bench: Bench,
) -> None:
    bench.git("switch", "-qc", "feature/x")
    bench.killed(anew=True, implement=[HALFWAY, WORKS])
    bench.git("switch", "-qc", "feature-x")
    refs = bench.git("for-each-ref")
    before, status = bench.spec, bench.git("status", "--porcelain")
    ran = bench.resumed(code=1)
    assert "begun on branch feature/x" in ran.err and "git switch feature/x" in ran.err
    assert (bench.spec, bench.git("status", "--porcelain")) == (before, status)
    assert bench.git("for-each-ref") == refs
    assert not bench.asked
    bench.git("switch", "-q", "feature/x")
    assert bench.kern("1", "0").code == 0
    assert bench.asked == ["implement", "commit"]
    is_done_once(bench)


def test_unmarked_on_the_other_branch_the_task_is_done_there(bench: Bench) -> None:
    """A branch `a` that became `a/b`: the start ref of the old name stands in nobody's way."""
    bench.git("switch", "-qc", "a")
    bench.killed(anew=True, implement=[HALFWAY, WORKS])
    bench.git("branch", "-m", "a", "a/b")
    assert "begun on branch a" in bench.resumed(code=1).err
    bench.mark(" ")
    bench.git("checkout", "-q", "HEAD", "--", "a.txt")
    (bench.root / "work.txt").unlink()
    assert bench.kern("1", "0").code == 0
    assert bench.subjects == ["start", "do the task"]
    assert bench.git("for-each-ref", "--format=%(refname)", "refs/kern/start") == (
        "refs/kern/start/main/a/@"
    )


# ------------------------------------------------------------ j: a commit of the commit stage


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.unheld
def test_a_swept_up_commit_is_taken_back_after_the_kill(bench: Bench, cleaned: bool) -> None:
    bench.killed(implement=[WORKS], commit=[{**COMMITS_ITSELF, "kill": "parent"}, COMMITS])
    assert bench.subjects[-1] == "sweep up"
    if cleaned:
        bench.clean_tmp()
    told = bench.resumed().err
    assert "committed by itself: the commit was undone" in told
    assert "HEAD was moved meanwhile" not in told
    is_done_once(bench)
    assert bench.asked == ["commit"]


@pytest.mark.unheld
def test_a_swept_up_commit_that_a_person_built_upon_is_theirs_and_named(bench: Bench) -> None:
    bench.killed(implement=[WORKS], commit=[{**COMMITS_ITSELF, "kill": "parent"}, COMMITS])
    bench.git("commit", "-q", "--allow-empty", "-m", "on top")
    told = bench.resumed().err
    assert "'sweep up'" in told and "git revert" in told
    assert bench.subjects == ["start", "sweep up", "on top", "do the task"]
    assert bench.head("SPEC.md").startswith("- [x]") and not bench.refs("start")


# ------------------------------------------------------------ c: HEAD has the task


def nobody(bench: Bench) -> None:
    pass


def unmarks_and_cleans(bench: Bench) -> None:
    bench.mark(" ")
    bench.clean_tmp()


def commits_on_top(bench: Bench) -> None:
    bench.git("commit", "-qm", "my own", "own.txt")


@pytest.mark.parametrize("person", [nobody, unmarks_and_cleans])
def test_a_committed_task_is_only_finished(bench: Bench, person: Callable[[Bench], None]) -> None:
    bench.crashed(BRANCH, implement=[WORKS], commit=[COMMITS])
    assert bench.spec.startswith("- [~]") and bench.head("SPEC.md").startswith("- [x]")
    person(bench)
    bench.resumed()
    assert not bench.asked
    is_done_once(bench)
    assert not bench.left


def test_a_committed_task_is_finished_under_a_persons_commit(bench: Bench) -> None:
    bench.crashed(BRANCH, implement=[WORKS], commit=[COMMITS])
    bench.write("own.txt", "mine too\n")
    bench.git("commit", "-qm", "my own", "own.txt")
    bench.resumed()
    assert not bench.asked
    assert bench.subjects == ["start", "do the task", "my own"]
    assert bench.spec.startswith("- [x]") and not bench.refs("start") and not bench.left
    assert bench.git("status", "--porcelain") == ""


def test_a_committed_task_is_finished_even_without_any_ref_or_file(bench: Bench) -> None:
    """Base unknown: HEAD itself is the witness."""
    bench.crashed(BRANCH, implement=[WORKS], commit=[COMMITS])
    bench.clean_tmp()
    for ref in bench.git("for-each-ref", "--format=%(refname)", "refs/kern").splitlines():
        bench.git("update-ref", "-d", ref)
    bench.resumed()
    assert not bench.asked
    assert bench.subjects == ["start", "do the task"]
    assert bench.spec.startswith("- [x]")


def test_the_last_subtask_ticks_its_parent_after_the_kill_as_well(bench: Bench) -> None:
    bench.write("SPEC.md", "- [ ] all\n  - [x] first\n  - [ ] add a greeting\n")
    bench.crashed(BRANCH, anew=True, implement=[WORKS], commit=[COMMITS])
    bench.resumed()
    assert not bench.asked
    assert bench.spec.startswith("- [x] all\n  - [x] first\n  - [x] add a greeting\n")
    assert bench.spec == bench.head("SPEC.md") + "\n"
    nothing_of_the_persons_is_touched(bench)


def test_a_lock_that_a_killed_git_left_is_named_and_not_deleted(bench: Bench) -> None:
    bench.crashed(BRANCH, implement=[WORKS], commit=[COMMITS])
    lock = bench.root / ".git" / "index.lock"
    lock.touch()
    ran = bench.resumed(code=1)
    assert str(lock) in ran.err and " s old" in ran.err
    assert lock.exists()
    lock.unlink()
    assert bench.kern("1", "0").code == 0
    assert not bench.asked
    is_done_once(bench)


# ------------------------------------------------------------ d: files of another task


def test_stage_files_of_another_task_are_swept_and_never_read(bench: Bench) -> None:
    bench.crashed("SPEC.md", implement=[WORKS])
    bench.mark(" ")
    stranger = {"task": "another task", "attempt": 1, "time": "2020-01-01T00:00:00Z"}
    for number in (1, 2, 3):
        value = {"result": DONE, "kern": {**stranger, "outcome": "proved"}}
        (bench.folder / f"stage{number}.json").write_text(json.dumps(value))
    bench.resumed()
    assert bench.asked == ["research", "implement", "commit"]
    is_done_once(bench)
    swept = bench.folder / "history" / "20200101T000000Z-another-task"
    assert sorted(p.name for p in swept.iterdir()) == ["stage1.json", "stage2.json", "stage3.json"]


# ------------------------------------------------------------ e: a person ticked it


def test_what_a_person_ticked_after_the_answer_is_theirs(bench: Bench) -> None:
    bench.crashed("stage2.json#3", implement=[WORKS])
    bench.mark("x")
    ran = bench.resumed()
    assert "no longer in progress: add a greeting: its work" in ran.err
    assert not bench.asked
    assert bench.subjects == ["start"]
    assert bench.kept("1-killed", "work.txt") == "work"
    assert bench.spec.startswith("- [x]") and not bench.refs("start") and not bench.left


def test_a_tick_without_an_answer_is_not_believed(bench: Bench) -> None:
    bench.killed(implement=[HALFWAY, WORKS])
    bench.mark("x")
    ran = bench.resumed()
    assert "back to [~]" in ran.err
    assert bench.asked == ["implement", "commit"]
    is_done_once(bench)


# ------------------------------------------------------------ f: the task was taken away


def test_an_unmarked_task_begins_anew_its_half_done_work_kept(bench: Bench) -> None:
    bench.killed(implement=[HALFWAY, WORKS])
    bench.mark(" ")
    ran = bench.resumed()
    assert "no longer in progress" in ran.err and "1-killed" in ran.err
    assert bench.kept("1-killed", "work.txt") == "work"
    assert bench.asked == ["research", "implement", "commit"]
    is_done_once(bench)


def test_of_an_unmarked_task_the_answered_attempt_is_kept(bench: Bench) -> None:
    bench.killed(implement=[WORKS], commit=[DIES, COMMITS])
    bench.mark(" ")
    bench.resumed()
    assert bench.kept("1-killed", "work.txt") == "work"
    assert bench.asked == ["research", "implement", "commit"]
    is_done_once(bench)


@pytest.mark.parametrize(
    "edited",
    [
        "- [~] add a warm greeting\n",
        "- [ ] add a greeting\n- [~] write the manual\n",
        "- [ ] write the manual\n",
    ],
    ids=["reworded", "moved to another task", "deleted"],
)
def test_the_work_of_a_task_that_was_taken_away_is_kept_and_put_back(
    bench: Bench, edited: str
) -> None:
    bench.killed(implement=[HALFWAY, WORKS])
    bench.kern("add", "write the manual")  # by hand alone an agent may have done it
    bench.write("SPEC.md", edited)
    ran = bench.resumed()
    assert "no longer in progress: add a greeting" in ran.err
    assert bench.kept("1-killed", "work.txt") == "work"
    assert bench.subjects == ["start", "do the task"]
    assert bench.head("work.txt") == "work"
    assert "[~]" not in bench.spec and "[x]" in bench.spec
    assert "[x] add a greeting" not in bench.spec
    assert bench.asked == ["research", "implement", "commit"]
    nothing_of_the_persons_is_touched(bench)


def test_a_task_taken_up_again_after_another_begins_anew(bench: Bench) -> None:
    """What its first walk saved was kept and put back: it must not count again."""
    bench.killed(implement=[WORKS], commit=[DIES, COMMITS])
    bench.write("SPEC.md", "- [ ] add a greeting\n- [~] write the manual\n")
    dies_next = [{"result": "READY"}, DIES, {"result": "- Files: a.txt\n\nREADY"}]
    bench.fake.script(research=dies_next)
    bench.resumed(code=-signal.SIGKILL)
    bench.write("SPEC.md", "- [~] add a greeting\n- [ ] write the manual\n")
    bench.resumed()
    assert bench.asked == ["research", "implement", "commit"]
    is_done_once(bench)


# ------------------------------------------------------------ g, h: decided, not yet carried out


def test_a_failed_attempt_is_booked_and_the_next_one_begun(bench: Bench) -> None:
    bench.crashed("stage2.json#3", implement=[FAILS, WORKS])
    ran = bench.resumed()
    assert bench.asked == ["implement", "commit"]
    assert "attempt 1 failed: it does not link" in ran.out
    assert bench.kept("1", "work.txt") == "work"
    assert "> **Attempt 1:** it does not link (kept: kern/attempts/" in bench.spec
    assert "Attempt 2" not in bench.spec
    is_done_once(bench)


@pytest.mark.parametrize(
    ("answer", "noted"),
    [
        ("## Subtasks\n- [ ] one half\n- [ ] other half\n\nDECOMPOSED", "  - [ ] other half\n"),
        ("SKIPPED: there is no key", "  > **Skipped:** there is no key\n"),
    ],
)
def test_a_task_split_or_skipped_is_released(bench: Bench, answer: str, noted: str) -> None:
    bench.crashed("stage2.json#3", implement=[{"run": WORK, "result": answer}])
    bench.resumed(code=1 if "SKIPPED" in answer else 0)
    assert not bench.asked
    assert bench.spec.startswith(TASK) and bench.spec.count(noted) == 1
    assert bench.kept("1-stopped", "work.txt") == "work"
    assert bench.subjects == ["start"]
    nothing_but_the_spec_differs(bench)
    assert not bench.refs("start") and not bench.left


def nothing_but_the_spec_differs(bench: Bench) -> None:
    assert bench.git("status", "--porcelain", "--", ":!SPEC.md") == ""


def test_a_killed_split_is_asked_for_again_as_a_split(bench: Bench) -> None:
    notes = [f"  > **Attempt {number}:** no\n" for number in (1, 2, 3)]
    bench.write("SPEC.md", "".join([TASK, *notes]))
    split = {"result": "## Subtasks\n- [ ] one half\n- [ ] other half\n\nDECOMPOSED"}
    bench.killed(anew=True, implement=[HALFWAY, split])
    bench.resumed()
    assert bench.asked == ["implement"]
    assert "The task failed as a whole" in bench.fake.calls[-1]["system"]
    assert bench.spec.endswith("  - [ ] one half\n  - [ ] other half\n")
    assert bench.spec.startswith(TASK) and bench.spec.count("> **Attempt") == 3
    nothing_but_the_spec_differs(bench)


# ------------------------------------------------------------ i: proved, on its base


def test_a_proved_change_is_proved_again_with_what_was_edited_since(bench: Bench) -> None:
    """A proof belongs to the process that made it: the next one's gates see what it judges."""
    bench.killed(implement=[WORKS], commit=[DIES, COMMITS])
    with (bench.root / "work.txt").open("a") as file:
        file.write("mine, later\n")
    ran = bench.resumed()
    assert bench.asked == ["commit"]
    told = "changed since the task was implemented, and proven with the rest: work.txt; as it was"
    assert told in ran.err
    assert bench.kept("1-before", "work.txt") == "work"
    assert bench.head("work.txt") == "work\nmine, later"


def test_a_message_that_was_saved_is_not_asked_for_again(bench: Bench) -> None:
    bench.crashed("stage3.json", implement=[WORKS], commit=[COMMITS])
    bench.resumed()
    assert not bench.asked
    is_done_once(bench)


def test_the_tasks_commit_that_you_amend_after_a_kill_is_not_called_verified(
    bench: Bench,
) -> None:
    bench.write("kern.toml", "[gates]\nsee = 'true'\n")
    bench.git("add", "kern.toml")
    bench.git("commit", "-qm", "gates", "--", "kern.toml")
    bench.crashed(BRANCH, anew=True, implement=[WORKS], commit=[COMMITS])
    bench.git("commit", "-q", "--amend", "-m", "mine\n\nKern-Task: add a greeting", "own.txt")
    ran = bench.resumed()
    assert not bench.asked and bench.spec.startswith("- [x]")
    assert "is not the commit that kern made: no gate has seen it" in ran.err
    assert "verified by" not in ran.out and "UNVERIFIED" in ran.out


def test_a_saved_rejection_is_a_failed_attempt(bench: Bench) -> None:
    rejects = {"result": "REJECT: it holds a password"}
    mends = {"result": "SUCCESS"}
    bench.crashed("stage3.json", implement=[WORKS, mends], commit=[rejects, COMMITS])
    bench.resumed()
    assert "> **Attempt 1:** rejected at the commit: it holds a password" in bench.spec
    assert bench.kept("1", "work.txt") == "work"
    assert bench.asked == ["implement", "commit"]
    is_done_once(bench)


# ------------------------------------------------------------ stage files that an agent wrote

CUT = "was killed while an agent implemented"
STRICT = "[gates]\ncheck = { run = '! test -e evil.txt', strict = true }\n"
FORGE = """
echo evil > evil.txt
export GIT_INDEX_FILE=$PWD/../forged
ref=$(git for-each-ref --format='%(refname)' refs/kern/start)
start=$(git rev-parse $ref^{tree})
git read-tree $start && git update-index --add evil.txt
tree=$(git write-tree)
git rm -q --cached kern.toml evil.txt
lower=$(git write-tree)
cat > ../kern/project/main/stage2.json <<END
{"result": "Done.\\n\\nSUCCESS", "kern": {"task": "add a greeting", "parent": "", "nth": 1,
"stage": "implement", "attempt": 1, "run": "0", "time": "2026-01-01T00:00:00Z",
"base": "$(git rev-parse HEAD)", "start": "START", "tree": "$tree" OUTCOME}}
END
"""


@pytest.mark.unheld
@pytest.mark.parametrize(
    ("start", "outcome", "more", "found", "commits"),
    [
        ("$start", ', "outcome": "proved", "proof": "no"', "", CUT, ["do the task"]),
        ("$start", "", "", CUT, ["do the task"]),
        ("$lower", "", "", CUT, ["do the task"]),
        ("$lower", "", "git update-ref -d $ref", "not committed: evil.txt", []),
    ],
    ids=["a proof", "an answer", "a start without the gate", "and no start ref"],
)
def test_no_stage_file_that_an_agent_wrote_gets_its_work_past_the_gates(
    bench: Bench, start: str, outcome: str, more: str, found: str, commits: list[str]
) -> None:
    bench.write("kern.toml", STRICT)
    bench.git("add", "kern.toml")
    bench.git("commit", "-qm", "gate", "kern.toml")
    forge = FORGE.replace("START", start).replace("OUTCOME", outcome) + more
    honest = {**WORKS, "run": ["rm -f evil.txt", *WORK]}
    bench.killed(anew=True, implement=[{"run": [forge], **DIES}, honest])
    assert (bench.folder / "stage2.json").exists()
    ran = bench.resumed(code=0 if commits else 2)
    assert found in ran.said
    assert bench.asked[:1] == (["implement"] if commits else [])
    assert bench.subjects == ["start", "gate", *commits]
    assert "evil.txt" not in bench.git("ls-tree", "--name-only", "HEAD").split()


# ------------------------------------------------------------ j: proved, a commit came in between


def test_a_persons_commit_in_between_asks_for_the_proof_again_not_the_work(bench: Bench) -> None:
    bench.killed(implement=[WORKS], commit=[DIES, COMMITS])
    bench.write("own.txt", "mine too\n")
    bench.git("commit", "-qm", "my own", "own.txt")
    ran = bench.resumed()
    assert "a commit of yours came in" in ran.err
    assert bench.asked == ["commit"]
    assert bench.subjects == ["start", "my own", "do the task"]
    assert bench.head("work.txt") == "work"
    assert "SEVEN" in bench.head("a.txt")
    assert bench.git("status", "--porcelain") == ""


def test_work_that_a_person_committed_needs_no_agent_only_the_tick(bench: Bench) -> None:
    named = {**WORKS, "result": "Wrote work.txt.\n\nSUCCESS"}  # as a transcript does
    bench.killed(implement=[named], commit=[DIES, COMMITS])
    bench.git("add", "work.txt", "a.txt")
    bench.git("commit", "-qm", "the work", "work.txt", "a.txt")
    bench.resumed()
    assert not bench.asked
    assert bench.subjects == ["start", "the work", "add a greeting"]
    assert bench.git("show", "--format=", "--name-only") == "SPEC.md"
    assert bench.spec.startswith("- [x]")


def test_a_persons_commit_of_the_same_lines_fails_the_attempt(bench: Bench) -> None:
    bench.killed(implement=[WORKS], commit=[DIES, COMMITS])
    other = {"run": ["echo other > other.txt"], "result": DONE}
    bench.fake.script(implement=[WORKS, other])
    text = (bench.root / "a.txt").read_text()
    bench.write("a.txt", text.replace("SEVEN", "my seven"))
    bench.git("commit", "-qm", "my own", "a.txt")
    bench.resumed()
    assert "> **Attempt 1:** the change overlaps your commit in a.txt" in bench.spec
    assert bench.subjects == ["start", "my own", "do the task"]
    assert "my seven" in bench.head("a.txt") and bench.head("other.txt") == "other"
    assert "my seven" in (bench.root / "a.txt").read_text()
    assert not (bench.root / "work.txt").exists()


# ------------------------------------------------------------ k: answered, not judged


def test_an_answer_is_judged_with_what_a_person_made_of_it_since(bench: Bench) -> None:
    bench.crashed("stage2.json", implement=[WORKS])
    bench.write("work.txt", "mine, later\n")
    ran = bench.resumed()
    assert bench.asked == ["commit"]
    assert "and proven with the rest: work.txt" in ran.err
    assert bench.head("work.txt") == "mine, later"


def test_work_that_a_person_stashed_is_there_again(bench: Bench) -> None:
    bench.crashed("stage2.json", implement=[WORKS])
    (bench.root / "work.txt").unlink()
    bench.resumed()
    assert bench.asked == ["commit"]
    is_done_once(bench)


def test_an_answer_outlasts_git_s_collector(bench: Bench) -> None:
    bench.crashed("stage2.json#3", implement=[WORKS])
    bench.git("gc", "--quiet", "--prune=now")
    bench.resumed()
    assert bench.asked == ["commit"]
    is_done_once(bench)


def test_a_broken_start_ref_is_named_with_the_way_out(bench: Bench) -> None:
    other = {"run": ["echo other > other.txt"], "result": "SUCCESS"}
    bench.killed(implement=[HALFWAY, other])
    (ref,) = bench.git("for-each-ref", "--format=%(refname)", "refs/kern/start").splitlines()
    lacking = bench.git("rev-parse", ref)
    (bench.root / ".git" / "objects" / lacking[:2] / lacking[2:]).unlink()
    for _ in range(2):
        ran = bench.resumed(code=1)
        assert f"{ref} is broken: git lacks the object {lacking}" in ran.err
        assert not bench.asked
    hint = re.search(r"hint: (git update-ref -d \S+), then: kern;", ran.err)
    assert hint
    bench.git(*hint[1].split()[1:])
    bench.git("fsck", "--connectivity-only")
    assert "work.txt" in bench.resumed(code=2).err
    assert (bench.root / "work.txt").read_text() == "work\n"  # it stays, as was said
    bench.git("stash", "--include-untracked")
    bench.resumed()
    assert bench.head("other.txt") == "other" and not bench.refs("start")


# ------------------------------------------------------------ l: begun, never answered


@pytest.mark.parametrize("cleaned", [False, True])
def test_half_done_work_is_kept_put_back_and_done_again(bench: Bench, cleaned: bool) -> None:
    bench.killed(implement=[HALFWAY, WORKS])
    if cleaned:
        bench.clean_tmp()
    ran = bench.resumed()
    assert bench.asked == ["implement", "commit"]
    assert "was killed while an agent implemented" in ran.err
    assert bench.kept("1-killed", "work.txt") == "work"
    assert "Attempt" not in bench.spec
    is_done_once(bench)


def test_a_torn_stage_file_counts_as_none(bench: Bench) -> None:
    bench.killed(implement=[HALFWAY, WORKS])
    (bench.folder / "stage2.json").write_text('{"result": "SUCC')
    bench.resumed()
    assert bench.asked == ["implement", "commit"]
    is_done_once(bench)


@pytest.mark.unheld
def test_commits_of_a_killed_implement_agent_are_kept_and_taken_back(bench: Bench) -> None:
    sneaky = {"run": [*WORK, "git add --all", "git commit -qm sneaky"], "kill": "parent"}
    bench.killed(implement=[sneaky, WORKS])
    assert bench.subjects == ["start", "sneaky"]
    ran = bench.resumed()
    assert "committed by itself: the commit was undone and saved as" in ran.err
    assert bench.kept("1-commit", "work.txt") == "work"
    is_done_once(bench)


def test_edits_after_the_kill_are_kept_with_the_agents(bench: Bench) -> None:
    """They cannot be told apart; the first line of output says so."""
    bench.killed(implement=[HALFWAY, WORKS])
    bench.write("notes.txt", "mine\n")
    ran = bench.resumed()
    assert "what you changed since is saved" in ran.err
    assert bench.kept("1-killed", "notes.txt") == "mine"
    is_done_once(bench)


# ------------------------------------------------------------ m: researched


def test_saved_research_is_not_asked_for_again(bench: Bench) -> None:
    bench.crashed("stage1.json", implement=[WORKS])
    bench.write("notes.txt", "mine\n")
    assert "not committed: notes.txt" in bench.resumed(code=2).err and not bench.asked
    (bench.root / "notes.txt").unlink()
    bench.resumed()
    assert bench.asked == ["implement", "commit"]
    assert bench.spec.count("> **Research:**") == 1
    is_done_once(bench)


def test_killed_at_the_note_of_the_second_attempt_research_runs_again_all_the_same(
    bench: Bench,
) -> None:
    failed = {"result": "FAILED: too hard"}
    bench.crashed("SPEC.md#4", implement=[failed, {**WORKS, **failed}, WORKS])
    assert "Attempt 2" in bench.spec
    bench.resumed()
    assert bench.asked == ["research", "implement", "commit"]
    is_done_once(bench)


def test_a_saved_no_task_is_written_down_without_an_agent(bench: Bench) -> None:
    bench.crashed("stage1.json", research=[{"result": "NO_TASK: it is there already"}])
    bench.resumed(code=1)
    assert not bench.asked
    assert bench.spec == TASK + "  > **Skipped:** it is there already\n"
    nothing_but_the_spec_differs(bench)
    assert not bench.left


def test_a_subtask_whose_attempts_are_noted_is_skipped_without_an_agent(bench: Bench) -> None:
    bench.write("SPEC.md", "- [ ] all\n  - [ ] part\n")
    bench.crashed("stage2.json#3", anew=True, implement=[{"result": "FAILED: third"}])
    notes = [f"    > **Attempt {n}:** no\n" for n in (1, 2)]
    lines = bench.spec.splitlines(keepends=True)
    bench.write("SPEC.md", "".join([*lines, *notes]))
    second = json.loads((bench.folder / "stage2.json").read_text())
    second["kern"]["attempt"] = 3
    (bench.folder / "stage2.json").write_text(json.dumps(second))
    bench.resumed(code=1)
    assert not bench.asked
    assert "  - [ ] part\n" in bench.spec and "**Skipped:** 3 attempts failed" in bench.spec
    assert bench.spec.count("> **Attempt") == 3
    assert not bench.refs("start") and not bench.left


# ------------------------------------------------------------ n: nothing but the marker


def test_a_fresh_clone_of_a_marked_task_begins_anew(bench: Bench, tmp_path: Path) -> None:
    bench.write("SPEC.md", TASK.replace("[ ]", "[~]"))
    bench.git("commit", "-qm", "in progress", "SPEC.md")
    clone = tmp_path / "clone"
    bench.git("clone", "-q", ".", str(clone))
    assert bench.kern("1", "0", cwd=clone).code == 0
    assert bench.asked == ["research", "implement", "commit"]
    assert bench.git("log", "--format=%s", cwd=clone).splitlines() == [
        "do the task",
        "in progress",
        "start",
    ]


# ------------------------------------------------------------ questions that are not states


def untrack_spec(bench: Bench) -> None:
    bench.git("rm", "-q", "--cached", "SPEC.md")
    bench.git("commit", "-qm", "untrack")


def test_an_untracked_spec_is_added_with_the_first_commit(bench: Bench) -> None:
    untrack_spec(bench)
    bench.killed(anew=True, implement=[HALFWAY, WORKS])
    bench.resumed()
    is_done_once(bench, more=("untrack",))


@pytest.mark.unheld
@pytest.mark.parametrize("killed", ["committed", "swept"])
def test_an_ignored_spec_stays_out_and_the_trailer_is_the_witness(
    bench: Bench, killed: str
) -> None:
    untrack_spec(bench)
    (bench.root / ".git" / "info" / "exclude").write_text("SPEC.md\n.env\n")
    forced = "env -u GIT_INDEX_FILE git commit -q --allow-empty"
    by_itself = {"run": [f"{forced} -m x -m 'Kern-Task: add a greeting'"], **DIES}
    if killed == "swept":
        bench.killed(anew=True, implement=[WORKS], commit=[by_itself, COMMITS])
    else:
        bench.crashed(BRANCH, anew=True, implement=[WORKS], commit=[COMMITS])
    ran = bench.resumed()
    assert "git ignores SPEC.md" in ran.err
    assert bench.asked == ([] if killed == "committed" else ["commit"])
    assert bench.subjects == ["start", "untrack", "do the task"]
    assert bench.git("show", "--format=", "--name-only").split() == ["a.txt", "work.txt"]
    assert bench.spec.startswith("- [x]") and not bench.refs("start")
    nothing_of_the_persons_is_touched(bench)


def test_rewritten_history_counts_like_a_persons_commit(bench: Bench) -> None:
    bench.killed(implement=[WORKS], commit=[DIES, COMMITS])
    bench.git("commit", "-q", "--amend", "--only", "-m", "start over")
    ran = bench.resumed()
    assert "a commit of yours came in" in ran.err
    assert bench.asked == ["commit"]
    assert bench.subjects == ["start over", "do the task"]
    assert bench.head("work.txt") == "work"
    nothing_of_the_persons_is_touched(bench)


def test_rewritten_history_under_half_done_work_stays(bench: Bench) -> None:
    bench.killed(implement=[HALFWAY, {"run": ["echo other > other.txt"], "result": DONE}])
    bench.git("commit", "-q", "--amend", "--only", "-m", "start over")
    bench.resumed()
    assert bench.subjects == ["start over", "do the task"]
    assert bench.kept("1-killed", "work.txt") == "work"
    assert bench.head("other.txt") == "other"


@pytest.mark.parametrize("killed", ["stage 1", "stage 2"])
def test_of_two_marked_tasks_the_one_that_was_begun_stays(bench: Bench, killed: str) -> None:
    """The start ref names it, or the stage files do."""
    if killed == "stage 2":
        bench.killed(implement=[HALFWAY, WORKS])
    else:
        bench.crashed("stage1.json", implement=[WORKS])
    before = bench.spec
    bench.kern("add", "write the manual")  # by hand alone an agent may have done it
    bench.write("SPEC.md", "- [~] write the manual\n  > a note\n" + before)
    ran = bench.resumed()
    assert "more than one [~]: line 1 goes back to [ ]: write the manual" in ran.err
    assert bench.asked == ["implement", "commit"]
    assert bench.spec.startswith("- [ ] write the manual\n  > a note\n- [x] add a greeting\n")
    assert bench.subjects == ["start", "do the task"]
    assert bench.head("work.txt") == "work"


def test_notes_deleted_by_hand_make_the_count_fall_and_overwrite_no_ref(bench: Bench) -> None:
    other = {"run": ["echo other > other.txt"], "result": "FAILED: again"}
    bench.killed(implement=[FAILS, HALFWAY, other, WORKS])
    kept = [line for line in bench.spec.splitlines(keepends=True) if "Attempt 1" not in line]
    bench.write("SPEC.md", "".join(kept))
    bench.resumed()
    assert bench.asked == ["implement", "implement", "commit"]
    assert bench.refs("attempts") == ["1", "1+1", "2-killed"]
    assert bench.kept("1", "work.txt") == "work" and bench.kept("1+1", "other.txt") == "other"
    assert bench.spec.count("> **Attempt") == 1 and "/1+1)" in bench.spec
    is_done_once(bench)


def test_each_worktree_resumes_its_own(bench: Bench) -> None:
    """A killed run in one is nothing to the other, even where both are called the same."""
    side = bench.place / "side" / "project"
    bench.git("worktree", "add", "-q", "-b", "side", str(side))
    bench.fake.script(implement=[HALFWAY, WORKS])
    assert bench.kern("1", "0", cwd=side).code == -signal.SIGKILL
    assert bench.kern("1", "0").code == 0
    assert bench.fake.stages == ["research", "implement", "research", "implement", "commit"]
    starts = bench.git("for-each-ref", "--format=%(refname)", "refs/kern/start")
    assert starts == "refs/kern/start/wt/project/side/@"
    assert bench.kern("1", "0", cwd=side).code == 0
    assert bench.fake.stages[5:] == ["implement", "commit"]
    assert bench.git("log", "--format=%s", "side").splitlines() == ["do the task", "start"]
    is_done_once(bench)


def test_branches_that_are_spelled_alike_keep_their_files_and_locks_apart(bench: Bench) -> None:
    branches = ("a", "a-b", "feature/x", "feature-x", "x")
    scopes = [workspace.scope(bench.root, branch) for branch in branches]
    assert len({scope.folder for scope in scopes}) == len({scope.lock for scope in scopes}) == 5


@pytest.mark.parametrize("write", [BRANCH, "LEARNINGS.md"])
def test_a_learning_is_written_once_though_the_run_died_after_its_commit(
    bench: Bench, write: str
) -> None:
    bench.crashed(write, implement=[LEARNS], commit=[COMMITS])
    bench.clean_tmp()
    bench.resumed()
    text = (bench.root / "LEARNINGS.md").read_text()
    assert text == "## Learnings\n\n- L1 +0 -0 Greet late.\n"
    assert bench.head("LEARNINGS.md") == text.rstrip("\n")
    nothing_of_the_persons_is_touched(bench)


def test_a_finished_walk_lies_in_history_and_last_points_to_it(bench: Bench) -> None:
    bench.crashed("stage2.json#3", implement=[FAILS, WORKS])
    second = json.loads((bench.folder / "stage2.json").read_text())
    bench.resumed()
    (name,) = os.listdir(bench.folder / "history")
    stamp = second["kern"]["time"].replace("-", "").replace(":", "")
    assert name == f"{stamp}-add-a-greeting"
    assert (bench.folder / "last").resolve() == bench.folder / "history" / name
    stages = [f"stage{number}.json" for number in (1, 2, 3)]
    found = set(os.listdir(bench.folder / "last"))
    assert {*stages, "attempt1.json", "transcript3.json"} <= found
    first = json.loads((bench.folder / "last" / "attempt1.json").read_text())
    assert first["result"] == FAILS["result"] and first["kern"]["attempt"] == 1
    assert not bench.left


@pytest.mark.unheld
def test_an_agent_that_outlived_its_kern_is_ended_before_anything_else(bench: Bench) -> None:
    loop = "for i in $(seq 80); do echo leak >> leak.txt; sleep 0.1; done"
    leaves = {"run": [f"({loop}) & echo $! > ../pid"], "kill": "parent"}
    bench.killed(anew=True, implement=[leaves, WORKS])
    assert survivors(bench.place / "pid")
    ran = bench.resumed()
    assert re.search(r"ended \d process(es)? that an earlier run left behind", ran.err)
    assert not survivors(bench.place / "pid")
    assert "leak" in bench.kept("1-killed", "leak.txt")
    is_done_once(bench)


@pytest.mark.parametrize("write", ["SPEC.md#2", "LEARNINGS.md#1"])
def test_a_half_written_file_is_not_left_lying_about(bench: Bench, write: str) -> None:
    bench.crashed(f"before {write}", implement=[LEARNS])
    bench.resumed()
    assert bench.subjects == ["start", "do the task"]
    nothing_of_the_persons_is_touched(bench)
    assert not bench.left


def test_private_indexes_of_killed_runs_do_not_pile_up(bench: Bench) -> None:
    bench.killed(implement=[WORKS], commit=[DIES, COMMITS])
    bench.resumed()
    assert not list((bench.root / ".git").rglob("*index-*"))


# ------------------------------------------------------------ what a kill leaves of an agent's hand

ORDERS = "sed -i -e 's/^  > .*Gate.*$//' -e 's/\\[ \\] second/[x] second/' SPEC.md"
SPEC = "- [ ] add a greeting\n  > **Gate:** `true`\n- [ ] second\n"


@pytest.mark.unheld
def test_after_an_interrupt_what_a_person_writes_by_hand_is_theirs_and_what_was_planted_gone(
    bench: Bench,
) -> None:
    bench.write("SPEC.md", SPEC)
    forge = FORGE.replace("START", "$start").replace("OUTCOME", "")
    half = {"run": [*WORK, ORDERS, forge], **DIES, "signal": signal.SIGINT, "hang": 5}
    bench.fake.script(implement=[half, WORKS])
    ran = bench.kern("1", "0")
    assert ran.code == 130, ran.err
    assert "an order" not in bench.spec
    bench.write("SPEC.md", bench.spec + "- [ ] by hand\n")
    ran = bench.resumed()
    assert bench.asked == ["implement", "commit"]
    assert "- [ ] by hand\n" in bench.spec
