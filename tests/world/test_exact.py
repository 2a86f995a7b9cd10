"""A commit that is called verified is green in a clean clone of it; and what is said where it is
not.
"""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, open_to_tests
from tests.sandbox.test_wall import needs_bwrap

pytestmark = needs_bwrap
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
    assert f"green in your tree: it needs {needs}" in (repo / "SPEC.md").read_text(), ran.said
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
    assert "verified by gate test" in ran.out, ran.said
    assert clean(repo, tmp_path)
    assert git("status", "--short") == "?? mine.py"


def test_a_formatter_is_part_of_the_task(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    gates(repo, git, "sed -i 's/ *= */ = /' app.py && date > LOCK")
    (repo / "LOCK").write_text("1\n")
    git("add", "LOCK")
    git("commit", "-qm", "a lock file")
    implement(fake, "echo 'y=2' >> app.py")
    ran = kern("1", "0", env=IN)
    assert "verified by gate test" in ran.out, ran.said
    assert git("show", "HEAD:app.py").endswith("y = 2")
    assert (repo / "app.py").read_text().endswith("y = 2\n")
    assert git("show", "HEAD:LOCK") == "1" and (repo / "LOCK").read_text() == "1\n"
    assert ran.err.count("gate test rewrote LOCK, which is not part of the task") == 1


def test_a_gate_of_a_daemon_sees_your_tree(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    gates(repo, git, "test -e mine.py", room="false")
    (repo / "mine.py").write_text("y = 1\n")
    implement(fake, "echo 'y = 2' >> app.py")
    ran = kern("1", "0", env=IN)
    assert "verified by gate test" in ran.out and "the gates also saw your uncommitted" in ran.err


def test_a_baseline_that_only_your_tree_passes_is_told(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    gates(repo, git, "test -e mine.py")
    (repo / "mine.py").write_text("y = 1\n")
    ran = kern("1", "0", env=IN)
    assert ran.code == 2 and fake.calls == []
    assert "green in your tree: it needs mine.py, which is not committed" in ran.err


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
    assert "it needs part/b, which is not committed" in (repo / "SPEC.md").read_text()


def test_what_the_room_has_no_place_for_is_told(repo: Path, git: Git, kern: Kern) -> None:
    gates(repo, git, "ls build.big")
    (repo / ".gitignore").write_text("*.big\n")
    git("commit", "-qam", "large")
    with (repo / "build.big").open("wb") as file:
        file.truncate(60 << 20)
    told = "green in your tree: it needs build.big, which is not in its room"
    assert told in kern("1", "0", env=IN).err
