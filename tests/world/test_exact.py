"""A commit that is called verified is green in a clean clone of it; and what is said where it is
not.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Fake, Git, Kern, open_to_tests, wait_for
from tests.sandbox.test_wall import needs_bwrap

pytestmark = needs_bwrap
Background = Callable[..., "subprocess.Popen[str]"]
IN = {"KERN_SANDBOX": "bwrap"}
GATE = "python3 -B -c 'import app'"


@pytest.fixture(autouse=True)
def project(repo: Path, git: Git, fake: Fake) -> None:
    open_to_tests(Path.home(), fake.folder)
    (repo / ".gitignore").write_text("build/\n.env\n")
    (repo / "lib.py").write_text("x = 1\n")
    (repo / "app.py").write_text("import lib\n")
    gates(repo, git, GATE)


def gates(repo: Path, git: Git, command: str, **more: str) -> None:
    given = ", ".join(f"{name} = {value}" for name, value in more.items())
    text = f'[gates]\ntest = {{ run = "{command}"{", " + given if given else ""} }}\n'
    (repo / "kern.toml").write_text(text)
    git("add", "--all")
    git("commit", "-qm", "begin")


def implement(fake: Fake, *lines: str) -> None:
    fake.script(implement=[{"run": [*lines], "result": "Did it.\n\nSUCCESS"}])


def clean(repo: Path, tmp_path: Path) -> bool:
    subprocess.run(["git", "clone", "-q", str(repo), str(tmp_path / "c")], check=True)
    return subprocess.run(["sh", "-c", GATE], cwd=tmp_path / "c", check=False).returncode == 0


@pytest.mark.parametrize(
    ("does", "needs"),
    [
        ("echo 'import mine' >> app.py", "mine.py"),
        ("echo 'lib.new' >> app.py", "lib.py"),
        ("mkdir -p build; echo 'z = 1' > build/gen.py; echo 'import build.gen' >> app.py", "build"),
    ],
)
def test_what_is_not_committed_proves_nothing(
    repo: Path, git: Git, fake: Fake, kern: Kern, does: str, needs: str
) -> None:
    (repo / "mine.py").write_text("y = 1\n")
    (repo / "lib.py").write_text("x = 1\nnew = 2\n")
    implement(fake, does)
    ran = kern("1", "0", env=IN)
    assert "verified" not in ran.out and git("log", "-1", "--format=%s") == "begin"
    assert f"it may need {needs}" in (repo / "SPEC.md").read_text(), ran.said
    assert (repo / "mine.py").exists() and "new = 2" in (repo / "lib.py").read_text()


def test_what_is_right_is_verified_beside_your_own_work(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    (repo / "mine.py").write_text("y = 1\n")
    (repo / ".env").write_text("A=1\n")
    gates(repo, git, GATE + " && cat .env && git diff --exit-code")
    git("reset", "-q", "--soft", "HEAD^")
    git("rm", "-q", "--cached", "mine.py")
    git("commit", "-qm", "begin")
    implement(fake, "echo 'y = 2' >> app.py")
    ran = kern("1", "0", env=IN)
    assert "verified by test" in ran.out, ran.said
    assert clean(repo, tmp_path)
    assert git("status", "--short") == "?? mine.py"


def test_a_formatter_is_part_of_the_task(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    gates(repo, git, "sed -i 's/ *= */ = /' app.py && date > LOCK")
    (repo / "LOCK").write_text("1\n")
    git("add", "LOCK")
    git("commit", "-qm", "a lock file")
    implement(fake, "echo 'y=2' >> app.py")
    ran = kern("1", "0", env=IN)
    assert "verified by test" in ran.out, ran.said
    assert git("show", "HEAD:app.py").endswith("y = 2")
    assert (repo / "app.py").read_text().endswith("y = 2\n")
    assert git("show", "HEAD:LOCK") == "1" and (repo / "LOCK").read_text() == "1\n"


def test_a_gate_of_a_daemon_runs_in_your_tree_which_has_to_be_clean(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    seen = fake.folder / "seen"
    gates(repo, git, f"ls -i app.py >> {seen}", room="false")
    (repo / "mine.py").write_text("y = 1\n")
    implement(fake, "echo 'y = 2' >> app.py")
    ran = kern("1", "0", env=IN)
    assert ran.code == 2 and fake.calls == [], ran.said
    assert "your tree has changes that are not committed: mine.py" in ran.err
    git("add", "mine.py")
    git("commit", "-qm", "mine")
    ran = kern("1", "0", env=IN)
    assert "verified by test" in ran.out, ran.said
    assert seen.read_text().splitlines()[-1] == f"{(repo / 'app.py').stat().st_ino} app.py"


def test_a_baseline_that_only_your_tree_passes_is_told(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    gates(repo, git, "cat mine.py")
    (repo / "mine.py").write_text("y = 1\n")
    ran = kern("1", "0", env=IN)
    assert ran.code == 2 and fake.calls == []
    assert "it may need mine.py, which is not committed" in ran.err


def test_check_proposes_no_room_for_a_daemon(repo: Path, git: Git, kern: Kern) -> None:
    gates(repo, git, "true docker run x")
    assert "gate test: room = false, so that the daemon" in kern("check", env=IN).out
    gates(repo, git, "true docker run x", room="false")
    assert "room = false" not in kern("check", env=IN).out


def test_a_submodule_has_what_is_to_be_committed(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git("init", "-q", cwd=inner)
    git("commit", "-qm", "of inner", "--allow-empty", cwd=inner)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "part")
    gates(
        repo, git, "cd part && git log -1 --format=%s | grep inner && { test ! -e ../b || ls b; }"
    )
    (repo / "part/b").touch()
    implement(fake, "touch b")
    ran = kern("1", "0", env=IN)
    assert "verified" not in ran.out, ran.said
    assert "it may need part, which is not committed" in (repo / "SPEC.md").read_text()
    assert sorted(os.listdir(repo / "part")) == [".git", "b"], "yours as it was"


def test_a_large_file_is_there_and_what_has_no_place_is_told(
    repo: Path, git: Git, kern: Kern
) -> None:
    gates(repo, git, "ls build.big && ls z999/build")
    (repo / ".gitignore").write_text("*.big\nbuild/\n")
    git("commit", "-qam", "large")
    with (repo / "build.big").open("wb") as file:
        file.truncate(60 << 20)
    for number in range(900, 1000):
        (repo / f"z{number}/build").mkdir(parents=True)
    told = "its room has no place for z999 (kern help settings)"
    ran = kern("1", "0", env=IN)
    assert told in ran.err and "No such file" in ran.err.replace("build.big", ""), ran.said
    (repo / "z900/build").rmdir()
    assert "verified" in kern("1", "0", env=IN).out


def test_what_tells_why_a_gate_is_red_leaves_your_tree_alone(
    repo: Path, git: Git, kern: Kern
) -> None:
    gates(repo, git, "touch left build/left; rm app.py; cat build/new; cat mine.py")
    (repo / "mine.py").write_text("y = 1\n")
    (repo / "build").mkdir()
    ran = kern("check", env=IN)
    assert "it may need mine.py" in ran.said, ran.said
    assert "outside of the sandbox" not in ran.said
    assert git("status", "--short") == "?? mine.py" and not [*(repo / "build").iterdir()]


def test_you_go_on_working_while_gates_run(
    repo: Path, git: Git, fake: Fake, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the task, and after it."""
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    at_work, go = fake.folder / "at-work", fake.folder / "go"
    wait = f"touch {at_work}; while [ ! -e {go} ]; do sleep 0.01; done; rm {go}"
    gates(repo, git, wait)
    fake.script(implement=[{"run": ["echo 'y = 2' >> app.py"], "result": "Did it.\n\nSUCCESS"}])
    process = background("1", "0")
    for number in range(2):
        wait_for(lambda: at_work.exists() or process.poll() is not None)
        at_work.unlink()
        (repo / "lib.py").write_text(f"x = {number}\n")
        (repo / f"new{number}").write_text("mine\n")
        go.touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert fake.stages == ["research", "implement", "commit"], out + err
    assert (repo / "lib.py").read_text() == "x = 1\n" and not git("stash", "list")
    assert git("status", "--short").split("\n") == [" M lib.py", *(f"?? new{n}" for n in range(2))]
    assert git("show", "HEAD:lib.py") == "x = 1" and git("show", "HEAD:app.py").endswith("y = 2")
    assert "lib.py" not in err and "new" not in err


def test_a_judge_reads_exactly_what_is_to_be_committed(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] do it\n  > **Judge:** it is clear\n")
    git("commit", "-qam", "a judge")
    (repo / "mine.py").write_text("y = 1\n")
    seen = fake.folder / "seen"
    fake.script(
        implement=[{"run": ["echo 'y = 2' >> app.py"], "result": "Did it.\n\nSUCCESS"}],
        judge=[{"run": [f"ls > {seen}; cat app.py >> {seen}"], "result": "PASS: it is"}],
    )
    ran = kern("1", "0", env=IN)
    assert "verified by test, judge of" in ran.out, ran.said
    assert "y = 2" in seen.read_text() and "mine.py" not in seen.read_text()
