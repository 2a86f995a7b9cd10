"""kern with the real `codex`: a whole task, its own sandbox and kern's around it, and what a person
configured beside it, on a scripted API. What each agent has to pass is in `test_conformance.py`.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conformance import CLIS
from tests.conftest import Git, Kern
from tests.kit.scripted_server import ScriptedServer, Turn, bash
from tests.sandbox.test_wall import needs_bwrap

BINARY = CLIS["codex"].binary
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not BINARY, reason="KERN_TEST_CODEX names no codex binary"),
]
Serve = Callable[..., ScriptedServer]
READY: Turn = {"text": "- Files: a.txt:1-7\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"}
DONE: Turn = {"text": "Did it.\n\nSUCCESS"}
WORDS: Turn = {"text": 'Greet people 😀\n\nIt\'s said & "done".'}


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """codex on PATH, chosen for all stages, and the API that it talks to from now on."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "codex").symlink_to(Path(BINARY).resolve())
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    with contextlib.ExitStack() as stack:

        def start(**script: Any) -> ScriptedServer:
            server = stack.enter_context(ScriptedServer(script))
            for name, value in CLIS["codex"].ready(tmp_path / "home", server.url).items():
                monkeypatch.setenv(name, value)
            return server

        yield start


AGENT = ("--agent", "codex", "--model", "gpt-5.5")


def native() -> Path:
    """The program behind npm's: that one's own folder may be hidden in a sandbox."""
    found = Path(BINARY).resolve()
    beside = found.parents[2].glob("codex-*/vendor/*/bin/codex")
    return next(beside, found) if found.suffix == ".js" else found


@needs_bwrap
def test_in_kern_s_sandbox_its_own_works_as_well(
    kern: Kern, repo: Path, git: Git, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "home/.config/kern/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[sandbox]\nenv = ["FAKE_KEY"]\n')
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    server = serve(
        research=[bash("cat a.txt; echo x > a.txt"), READY],
        implement=[bash("echo hello > hi.txt; git commit -qam mine; echo x >> SPEC.md"), DONE],
        commit=[bash("git diff HEAD; echo x > a.txt"), WORDS],
    )
    program = tmp_path / "bin/codex"
    program.unlink()
    program.symlink_to(native())
    # Its sandbox does not work where its folder lies in one for temporary files, as tests' do.
    with tempfile.TemporaryDirectory(prefix=".home-", dir=Path(__file__).parents[2]) as home:
        shutil.copytree(tmp_path / "home", home, dirs_exist_ok=True)
        monkeypatch.setenv("HOME", home)
        ran = kern("1", "0", *AGENT)
    assert ran.code == 0, ran.said
    assert git("log", "--format=%s") == "Greet people 😀\nstart"
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "hi.txt"]
    said = json.dumps([request.body for request in server.requests])
    assert "seven" in said, "it reads"
    assert "broke its limits" not in ran.err


def test_the_doctor_asks_for_no_login_where_a_provider_is_named(
    kern: Kern, repo: Path, git: Git, serve: Serve
) -> None:
    serve()
    (repo / "kern.toml").write_text('agents = ["codex"]\n')
    said = kern("doctor").out
    assert "login: not needed: FAKE_KEY is set" in said
    (Path.home() / ".codex/config.toml").write_text("")
    assert "login: codex is not logged in" in kern("doctor").out
