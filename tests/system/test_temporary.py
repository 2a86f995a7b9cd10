"""Every child has a folder for temporary files that is there, whatever the person sets."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kern.obeyed import TEMPORARY
from kern.system import temporary
from tests.conftest import HERE, Fake, Git, Kern

HOLD = """
import sys
from kern.system import temporary
with temporary.folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "parent"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def begun() -> "tuple[subprocess.Popen[str], Path]":
    """Another process, and the folder that it holds."""
    pipe, env = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(HERE.parent)}
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=env, stdin=pipe, stdout=pipe, text=True
    )
    assert child.stdout
    return child, Path(child.stdout.readline().strip())


def test_what_a_killed_process_left_goes_and_nothing_else_does(parent: Path) -> None:
    kept = {parent / name for name in ("kern-notes", "kern-run-", "kern-run-abcdefgh.txt")}
    for place in kept:
        place.mkdir()
    file = parent / "kern-run-00000000"
    file.symlink_to(parent / "kern-notes")
    living, used = begun()
    killed, left = begun()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    with temporary.folder() as folder:
        assert {*parent.iterdir()} == {*kept, file, used, folder}
    living.communicate("")
    assert not left.exists() and not used.exists()


@pytest.mark.parametrize(("name", "there"), [("TMPDIR", True), ("TMP", False)])
def test_agents_gates_hooks_and_notify_write_there_wherever_a_variable_leads(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path, name: str, there: bool
) -> None:
    """Elsewhere than /tmp a sandbox closes it."""
    elsewhere = tmp_path / "elsewhere"
    if there:
        elsewhere.mkdir()
    check = " && ".join(f'echo x > "${{{one}:?}}/{one}"' for one in TEMPORARY)
    (repo / "kern.toml").write_text(f"[gates]\ncheck = '{check}'\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=checks")
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\n{check}\n")
    hook.chmod(0o755)
    fake.script(implement=[{"run": [check, "echo x > work.txt"], "result": "SUCCESS"}])
    ran = kern("1", "0", env={name: str(elsewhere)})
    assert ran.code == 0, ran.said
    assert elsewhere.exists() is there and (not there or list(elsewhere.iterdir()) == [])
    assert not any("kern-run" in place.name for place in tmp_path.iterdir())
