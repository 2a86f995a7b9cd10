"""Every child has a folder for temporary files that is there, whatever the person sets."""

import socket
import tempfile
from pathlib import Path

import pytest

from kern.obeyed import TEMPORARY
from kern.system import temporary
from tests.conftest import Fake, Git, Kern, commit_all, executable


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
    commit_all(git, "checks")
    hook = repo / ".git" / "hooks" / "pre-commit"
    executable(hook, f"#!/bin/sh\n{check}\n")
    fake.script(implement=[{"run": [check, "echo x > work.txt"], "result": "SUCCESS"}])
    ran = kern("1", "0", env={name: str(elsewhere)})
    assert ran.code == 0, ran.said
    assert elsewhere.exists() is there and (not there or list(elsewhere.iterdir()) == [])
    assert not any("kern-tmp" in place.name for place in tmp_path.iterdir())


def test_what_killed_kerns_left_goes_also_from_where_a_long_path_has_led_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = f"kern-tmp-{socket.gethostname()}-{1 << 30}-"
    left = Path(tempfile.mkdtemp(prefix=nobody, dir="/tmp"))
    (long := tmp_path / ("x" * 70)).mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    with temporary.folder() as folder, temporary.for_socket() as place:
        assert folder.parent == long and Path(place).parent == left.parent and not left.exists()
