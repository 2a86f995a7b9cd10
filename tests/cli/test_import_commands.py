"""`kern add -`: a list on standard input, a yes, and what is no list."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kern as package
from tests.conftest import Fake, Git, Kern


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def add(folder: Path, text: str, *argv: str) -> "subprocess.CompletedProcess[str]":
    """With the list on its standard input, and no terminal anywhere."""
    env = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)}
    return subprocess.run(
        [sys.executable, "-m", "kern", "add", "-", *argv],
        cwd=folder,
        env=env,
        input=text,
        text=True,
        capture_output=True,
        start_new_session=True,
        check=False,
    )


def test_the_first_tasks_begin_the_file(repo: Path) -> None:
    (repo / "SPEC.md").unlink()
    assert add(repo, "- [ ] one\n", "-n").returncode == 0
    assert not (repo / "SPEC.md").exists()
    assert add(repo, '{"title": "one", "number": 3}\n', "--yes").returncode == 0
    assert spec(repo) == "# Tasks\n\n- [ ] one\n  Refs: #3\n"


def test_the_commit_names_the_issue(repo: Path, git: Git, kern: Kern, fake: Fake) -> None:
    (repo / "SPEC.md").write_text("- [ ] a\n  Refs: o/r#3\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    fake.script(
        implement=[{"run": ["echo x > x.txt"], "result": "Did it.\n\nSUCCESS"}],
        commit=[{"result": "Write x"}],
    )
    assert kern("1", "0").code == 0
    assert git("log", "-1", "--format=%B").strip() == "Write x\n\nRefs: o/r#3\nKern-Task: a"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--from", "a.txt"], "hint: kern add - < FILE"),
        (["-", "--gate", "true"], "go with -"),
        (["-"], "lists no tasks"),
    ],
)
def test_what_names_no_list_is_told(repo: Path, kern: Kern, argv: list[str], said: str) -> None:
    before = spec(repo)
    ran = kern("add", *argv)
    assert ran.code == 2 and said in ran.err and "hint: " in ran.err
    assert spec(repo) == before
