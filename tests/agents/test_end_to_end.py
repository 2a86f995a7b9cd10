"""A whole task by kern with each agent: a goal becomes a plan, its task goes through research,
implement, gate and commit, and what stands in the repository afterwards is the same with each.

Each is its real program on a scripted API; one that is not there is skipped by its name.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kern.journal import store
from kern.model import Stage
from kern.system.process import marked
from tests.agents.conformance import CLIS, Cli
from tests.conftest import Git, Kern
from tests.kit.scripted_server import ScriptedServer, Turn, bash, say
from tests.sandbox.test_wall import needs_bwrap

pytestmark = pytest.mark.real
Serve = Callable[..., ScriptedServer]
Bring = Callable[..., None]

# An agent of one's own: the same answers, by the heading of its prompt.
OWN = r"""#!/bin/sh
role=$(sed -n 's/^kern \(stage . of 3: \)\{0,1\}\([a-z]*\)$/\2/p' | head -n 1)
[ "$role" != implement ] || printf 'hello\r\n\360\237\230\200\n' > hi.txt
cat "${0%/*}/$role.txt"
"""
PLAN = """There is no greeting.

## Tasks
- [ ] Write hi.txt
  > **Gate:** `grep -q hello hi.txt`

TASKS"""
READY = "- Files: a.txt:1-7\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"
DONE = "Did it.\n\nSUCCESS"
WORDS = "Greet people 😀"
SETTINGS = '[commands]\nown = ["own"]\n'


def commits(task: str, subject: str = WORDS) -> list[Turn]:
    return [say(subject)]


def begun(server: ScriptedServer) -> list[str]:
    return [request.stage for request in server.requests if request.stage and not request.said]


def model(cli: Cli) -> list[str]:
    """For commit, too, which keeps its own: there gemini would ask one which of them to take."""
    return ["--model", cli.model, "--model", f"commit={cli.model}"]


# What kern knows of trees: its rooms, and in the person's tree the mirror.
TREES = ("room/", "work/", "place/")


@dataclass(frozen=True)
class Left:
    """What a run leaves, but for times and the hashes of commits."""

    spec: str
    tree: tuple[str, ...]
    subjects: tuple[str, ...]
    trailer: str
    refs: tuple[str, ...]
    status: str
    kern: tuple[str, ...]  # files below .git/kern, but for its rooms
    processes: tuple[str, ...]


def left(repo: Path, git: Git) -> Left:
    own = repo / ".git/kern"
    files = (str(one.relative_to(own)) for one in own.rglob("*") if one.is_file())
    return Left(
        spec=git("show", "HEAD:SPEC.md") + "\n",
        tree=tuple(git("ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD").splitlines()),
        subjects=tuple(git("log", "--format=%an %s").splitlines()),
        trailer=git("log", "-1", "--format=%(trailers:key=Kern-Task,valueonly)").strip(),
        refs=tuple(git("for-each-ref", "--format=%(refname)").splitlines()),
        status=git("status", "--porcelain", "--untracked-files=all", "--ignored"),
        kern=tuple(sorted(one for one in files if not one.startswith(TREES))),
        processes=tuple(" ".join(one.cmdline()) for one in marked(("KERN_ROOT", str(repo)))),
    )


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bring:
    """Puts agents on PATH, or skips the test by the name of one that is not there."""
    folder = tmp_path / "bin"

    def put(*clis: Cli) -> None:
        folder.mkdir()
        for cli in clis:
            if not cli.binary:
                pytest.skip(f"KERN_TEST_{cli.name.upper()} names no {cli.name} binary")
            if cli.agent.program != sys.executable:
                (folder / cli.agent.program).symlink_to(Path(cli.binary).resolve())
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return put


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(cli, …, research=…)`: one API on the wires of all of them, and what each needs to
    find it.
    """
    with contextlib.ExitStack() as stack:

        def start(*clis: Cli, **script: Any) -> ScriptedServer:
            server = stack.enter_context(ScriptedServer(script))
            for cli in clis:
                for name, value in cli.ready(tmp_path / "home", server.url).items():
                    monkeypatch.setenv(name, value)
            return server

        yield start


@pytest.fixture
def project(repo: Path, git: Git) -> Path:
    """Its SPEC.md has no task; the agent of one's own is known and not in use."""
    (repo / "SPEC.md").write_text("# Tasks\n")
    (repo / "kern.toml").write_text(SETTINGS)
    git("add", "--all")
    git("commit", "--quiet", "--message=settings")
    return repo


# What stands there afterwards, whoever worked.
LEFT = Left(
    spec="""# Tasks

> **Goal:** a greeting

- [x] Write hi.txt
  > **Gate:** `grep -q hello hi.txt`
  > **Research:**
  >   - Files: a.txt:1-7
  >   - Pattern: a.txt:1
  >   - Constraint: none
""",
    tree=tuple(f"100644 {name}" for name in ("SPEC.md", "a.txt", "hi.txt", "kern.toml", "own.txt")),
    subjects=(f"t {WORDS}", "t settings", "t start"),
    trailer="Write hi.txt",
    refs=("refs/heads/main",),
    status="",
    kern=("events.jsonl",),
    processes=(),
)


def whole(kern: Kern, repo: Path, git: Git, *by: str) -> None:
    """Plans and carries out, and looks at what is there then."""
    planned = kern("plan", "a greeting", "--yes", *by)
    assert planned.code == 0, planned.said
    ran = kern("1", "0", *by)
    assert ran.code == 0, ran.said
    assert left(repo, git) == LEFT, ran.said
    assert (repo / "hi.txt").read_bytes() == "hello\r\n😀\n".encode()
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "hi.txt"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_bwrap if name == "http" else ()) for name in CLIS]
)
def test_from_a_goal_to_a_commit(
    name: str,
    kern: Kern,
    project: Path,
    git: Git,
    bring: Bring,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cli = CLIS[name]
    bring(cli)
    if name == "http":  # it has a shell: without a sandbox it only implements
        monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    server = serve(
        cli,
        planner=[say(PLAN)],
        research=[bash("cat a.txt"), say(READY)],
        implement=[bash("printf 'hello\\r\\n😀\\n' > hi.txt"), say(DONE)],
        commit=commits("Write hi.txt"),
    )
    whole(kern, project, git, "--agent", name, *model(cli))
    assert begun(server) == ["planner", *Stage]


@needs_bwrap
def test_a_command_does_the_same_in_a_sandbox(
    kern: Kern, project: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one it could only implement."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "own").write_text(OWN)
    (folder / "own").chmod(0o755)
    answers = {"planner": PLAN, "research": READY, "implement": DONE, "commit": WORDS}
    for role, text in answers.items():
        (folder / f"{role}.txt").write_text(text)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    whole(kern, project, git, "--agent", "own")


# -------------------------------------------------------------------- several at once


def test_at_its_limit_the_next_takes_the_stage_over(
    kern: Kern, repo: Path, git: Git, bring: Bring, serve: Serve
) -> None:
    """The first keeps its work of before, and is not asked again until its limit is over."""
    first, second = CLIS["claude"], CLIS["codex"]
    bring(first, second)
    server = serve(
        *(first, second),
        research=[say(READY)],
        implement=[
            [bash("echo half > half.txt"), first.limit],
            [bash("echo hello > hi.txt"), say(DONE)],
        ],
        commit=commits("add a greeting"),
    )
    (repo / "kern.toml").write_text(f'agents = ["{first.name}", "{second.name}"]\n')
    git("add", "--all")
    git("commit", "--quiet", "--message=settings")
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert "codex takes the implement stage over from claude: usage limit" in ran.said
    assert begun(server) == ["research", "implement", "implement", "commit"]
    (stood_in,) = [one for one in records(repo) if one["kind"] == "stand-in"]
    assert stood_in["agent"] == "codex"
    ended = [one for one in records(repo) if one["kind"] == "stage" and one["did"] == "end"]
    assert [one["agent"] for one in ended][-2:] == ["codex", "codex"]
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "hi.txt"]
    assert git("status", "--porcelain") == "", "half of a change is put back"


def records(repo: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.place(repo / ".git").read_text().splitlines()]
