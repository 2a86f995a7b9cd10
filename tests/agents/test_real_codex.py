"""kern with the real `codex`: a whole task, its own sandbox and kern's around it, and what a person
configured beside it, on a scripted API. What each agent has to pass is in `test_conformance.py`.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kern.agents import codex
from kern.agents.protocol import Call
from kern.model import Aide, Role, Stage
from tests.agents.conformance import CLIS
from tests.conftest import PATIENCE_S, Git, Kern
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


def begun(server: ScriptedServer) -> list[str]:
    return [request.stage for request in server.requests if not request.said]


AGENT = ("--agent", "codex", "--model", "gpt-5.5")


def test_guidance_of_the_project_is_told_once(
    kern: Kern, repo: Path, git: Git, serve: Serve
) -> None:
    (repo / "AGENTS.md").write_text("Of agents: 7f3a\n")
    (repo / "docs").mkdir()
    git("add", "--all")
    git("commit", "--quiet", "--message=advice")
    server = serve(research=[READY], implement=[bash("echo x > hi.txt"), DONE], commit=[WORDS])
    assert kern("1", "0", *AGENT).code == 0
    for request in server.requests:
        assert json.dumps(request.body["input"]).count("Of agents: 7f3a") == 1, request.stage


OUTSIDE = "s3cret-file"


@pytest.mark.parametrize("role", [Stage.RESEARCH, Stage.COMMIT, Aide.JUDGE, Aide.PLANNER])
def test_what_reads_writes_nowhere_and_reaches_nobody(
    serve: Serve, repo: Path, tmp_path: Path, role: Role
) -> None:
    """Beyond the repository, too: nor does a person's own server do more than read."""
    called = tmp_path / "called"
    common = Path(f"/tmp/kern-test-{os.getpid()}-{role}")
    places = [str(tmp_path / "new"), str(common), "~/new", "$CODEX_HOME/new"]
    tries = "; ".join(f"echo x > {place}" for place in places)
    listener = socket.create_server(("127.0.0.1", 0))
    connect = f"import socket as s; s.create_connection({listener.getsockname()}, 3)"
    calls = [
        bash(tries),
        bash(f'python3 -c "{connect}" && echo reached-$((3 * 7))'),
        *({"tool": f"mcp__own/{name}", "input": {}} for name in ("look", "change")),
        bash(f"echo {OUTSIDE} | rev"),
    ]
    server = serve(**{role.value: [*calls, {"text": "ok"}]})
    config = tmp_path / "home/.codex/config.toml"
    own = Path(__file__).parents[1] / "kit/mcp_server.py"
    args = json.dumps([str(own), str(called)])
    with config.open("a") as file:
        file.write(f'[mcp_servers.own]\ncommand = "python3"\nargs = {args}\n')
    done = subprocess.run(
        codex.start(Call("codex", role, "gpt-5.5", root=str(repo))).argv,
        cwd=repo,
        env=dict(os.environ),
        input=f"kern {role}\n\nDo it.",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    listener.close()
    assert done.returncode == 0, done.stderr
    last = json.dumps(server.requests[-1].body)
    assert OUTSIDE[::-1] in last, "commands run"
    assert "reached-21" not in last
    written = common.exists()
    common.unlink(missing_ok=True)
    assert not written
    assert [*tmp_path.rglob("new")] == []
    assert called.read_text().split() == ["look"], "it runs, and only reads"


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
