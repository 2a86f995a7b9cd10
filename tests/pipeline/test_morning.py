"""The morning is true: what is done, what it cost, and what a person must look at, after a night in
which agents lie, a person works beside the run, and calls are cut off.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, wait_for

READS = {"acts": [["Read", {"file_path": "a.txt"}]], "result": "Did it.\n\nSUCCESS"}
MINE = "echo 'my own line' >> own.txt"
COMMITS = "echo mine > mine.txt; {git} add mine.txt; {git} commit --quiet --message=mine mine.txt"
# As a person's own terminal has it, which bears no mark of kern's.
GIT = "env -u GIT_REFLOG_ACTION -u KERN_RUN_ID -u KERN_ROOT git"


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


@pytest.mark.parametrize("person", [MINE, COMMITS.format(git=GIT)], ids=["saves", "commits"])
def test_what_a_person_does_beside_an_agent_that_only_read_is_no_done_task(
    repo: Path, git: Git, fake: Fake, kern: Kern, person: str
) -> None:
    fake.script(implement=[{**READS, "run": [person]}, {"result": "FAILED: no"}])
    ran = kern("1", "0")
    assert "[x]" not in spec(repo)
    assert "attempt 1 failed: SUCCESS was claimed, but nothing changed" in ran.out
    mine = "own.txt" if person == MINE else "mine.txt"
    assert "m" in (repo / mine).read_text(), "and what is theirs stays where it is"
    assert git("log", "--format=%s").splitlines()[-1] == "start"
    assert "do the task" not in git("log", "--format=%s")


def test_a_task_that_mends_its_first_attempt_may_be_done_without_another_call(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "kern.toml").write_text('[gates]\ntest = "test ! -e work.txt || test -e ../yes"\n')
    git("add", "--all")
    git("commit", "--quiet", "--message=gates")
    wrote = {"acts": [["Bash", {"command": "echo"}]], "run": ["echo work > work.txt"]}
    fake.script(implement=[{**wrote, "result": "SUCCESS"}, {**READS, "run": ["touch ../yes"]}])
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert (repo / "work.txt").exists()


# ---------------------------------------------------------------- what it cost


CUT: dict[str, object] = {"acts": [["Bash", {"command": "ls"}]] * 2, "sleep": 60}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_call_that_was_cut_off_is_of_unknown_cost_with_the_tokens_that_are_known(
    repo: Path,
    fake: Fake,
    kern: Kern,
    background: Callable[..., "object"],
    signum: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(implement=[CUT, {"run": ["echo 1 > new.txt"], "result": "SUCCESS"}])
    cut = background("1", "0")
    transcript = Path(kern("path").out.strip()) / "transcript2.json"
    wait_for(lambda: _acts(transcript) == 2, 30)
    cut.send_signal(signum)  # type: ignore[attr-defined]
    cut.wait()  # type: ignore[attr-defined]
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    if signum is signal.SIGKILL:
        assert "and 1 stage of unknown cost" in ran.out.partition("1 done")[2]
    assert "and 1 stage of unknown cost" in kern("report").out
    found = json.loads(kern("report", "--json").out)
    assert found["unpriced"] == 1
    assert found["tokens"] == {"input": 80, "output": 4}


def _acts(transcript: Path) -> int:
    return transcript.read_text().count("tool_use") if transcript.exists() else 0


# ---------------------------------------------------------------- many at once


def test_what_a_task_did_to_its_gates_outlives_the_proof_of_the_landing(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    (repo / "kern.toml").write_text('[gates]\nsees = "cat a.txt"\n')
    git("add", "--all")
    git("commit", "--quiet", "--message=tasks")
    landed = f"git -C {repo} log --format=%s | grep -q 'do the'"
    second = f"until {landed}; do sleep 0.1; done; echo 2 >> a.txt"
    works = f"if [ $KERN_WORKER = 1 ]; then echo 1 > one; else {second}; fi"
    fake.script(implement=[{"run": [works], "result": "SUCCESS"}])
    ran = kern("-j", "2")
    assert ran.code == 0, ran.said
    assert "the task changed a.txt, named by a gate" in ran.out.partition("Look at this:")[2]
    assert "the task changed a.txt, named by a gate" in kern("report").out


# ---------------------------------------------------------------- what was said at night


@pytest.mark.parametrize("many", [(), ("-j", "2")], ids=["one", "many"])
def test_a_warning_that_matters_is_said_again_in_summary_report_and_journal(
    repo: Path, git: Git, fake: Fake, kern: Kern, many: tuple[str, ...]
) -> None:
    (repo / ".claude").mkdir()
    (repo / ".claude" / "settings.json").write_text("{}\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=settings")
    changes = "echo '{\"env\": {}}' > .claude/settings.json"
    fake.script(implement=[{"run": [changes], "result": "SUCCESS"}])
    ran = kern(*many, "1")
    assert ran.code == 0, ran.said
    told = "the task changes .claude/settings.json: it runs unasked; review it"
    assert told in ran.out.partition("Look at this:")[2]
    assert told in kern("report").out
    assert told in kern("log").out
    kinds = [json.loads(line)["kind"] for line in kern("log", "--json").out.splitlines()]
    assert kinds.count("warning") == 1
