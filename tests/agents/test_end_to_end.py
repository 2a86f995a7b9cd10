"""A whole task by kern with each agent: a goal becomes a plan (by claude and by kern's own), its
task goes through research, implement, gate and commit, and what stands in the repository afterwards
is the same with each. In implement it changes files, runs commands and obeys the project.

Each is its real program on a scripted API; one that is not there is skipped by its name.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from kern.model import Stage
from kern.system.process import marked
from tests.agents.conformance import CLIS
from tests.conftest import Git, Kern, commit_all, open_to_tests
from tests.kit.scripted_server import ScriptedServer, bash, say, use
from tests.sandbox.test_wall import needs_bwrap

pytestmark = pytest.mark.real

PLAN = """There is no greeting.

## Tasks
- [ ] Write hi.txt
  > **Gate:** `grep -q hello hi.txt`

TASKS"""
READY = "- Files: a.txt:1-7\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"
SPEC = """# Tasks

> **Goal:** a greeting

- [x] Write hi.txt
  > **Gate:** `grep -q hello hi.txt`
  > **Research:**
  >   - Files: a.txt:1-7
  >   - Pattern: a.txt:1
  >   - Constraint: none"""
# What kern knows of trees: its rooms, and in the person's tree the mirror.
TREES = ("room/", "work/", "place/")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_bwrap if name == "http" else ()) for name in CLIS]
)
def test_from_a_goal_to_a_commit(
    name: str, kern: Kern, repo: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, own = CLIS[name], repo / ".git/kern"
    if not cli.binary:
        pytest.skip(f"KERN_TEST_{name.upper()} names no {name} binary")
    (sprung := tmp_path / "open" / "sprung").parent.mkdir()
    if cli.agent.program == sys.executable:  # it has a shell: without a sandbox it only implements
        monkeypatch.setenv("KERN_SANDBOX", "bwrap")
        open_to_tests(tmp_path / "home", sprung.parent)
    else:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / cli.agent.program).symlink_to(Path(cli.binary).resolve())
        monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    plans = name in ("claude", "http")
    planned = SPEC.partition("\n  > **Research")[0].replace("[x]", "[ ]")
    (repo / "SPEC.md").write_text("# Tasks\n" if plans else f"{planned}\n")
    planner = f'agent = "{name}"\n[stages.planner]\nmodel = "{cli.model}"\n'
    (repo / "kern.toml").write_text(planner)
    cli.planted(repo, f"echo x >> {sprung}")
    (repo / "AGENTS.md").write_text("WAYLAID\n")
    (skill := repo / ".claude/skills/kern/SKILL.md").parent.mkdir(parents=True)
    skill.write_text("---\nname: kern\ndescription: BECKONED\n---\nBECKONED\n")
    commit_all(git, "none yet")
    script = {
        "planner": [say(PLAN)],
        "research": [bash("cat a.txt"), say(READY)],
        "implement": [
            use("Write", file_path=str(repo / "new.txt"), content="new\n"),
            use("Read", file_path=str(repo / "a.txt")),  # before it edits, claude wants it read
            use("Edit", file_path=str(repo / "a.txt"), old_string="two", new_string="2"),
            bash("yes abcdefghi | head -c 5000000"),
            bash("printf 'hello\\r\\n😀\\n' > hi.txt && git status --short"),
            say("Did it.\n\nSUCCESS"),
        ],
        "commit": [say("Greet people 😀")],
    }
    # For commit, too, which keeps its own model: there gemini would ask one which of them to take.
    by = ("--agent", name, "--model", cli.model, "--model", f"commit={cli.model}")
    with ScriptedServer(script) as server:
        for variable, value in cli.ready(tmp_path / "home", server.url).items():
            monkeypatch.setenv(variable, value)
        for argv in (("plan", "a greeting", "--yes"), ("1", "0", *by))[not plans :]:
            ran = kern(*argv)
            assert ran.code == 0, ran.said
    asked = [one.stage for one in server.requests if one.stage and not one.said]
    assert asked == [*["planner"] * plans, *Stage]
    assert git("show", "HEAD:SPEC.md") == SPEC
    assert git("log", "--format=%an %s").splitlines() == [
        *("t Greet people 😀", "t none yet", "t start")
    ]
    assert (
        git("log", "-1", "--format=%(trailers:key=Kern-Task,valueonly)").strip() == "Write hi.txt"
    )
    changed = git("show", "--format=", "--name-only", "HEAD").split()
    assert changed == ["SPEC.md", "a.txt", "hi.txt", "new.txt"]
    assert (repo / "new.txt").read_text() == "new\n"
    assert (repo / "a.txt").read_text().startswith("one\n2\n")
    assert sprung.exists() is cli.obeys
    sent = [json.dumps(one.body) for one in server.requests if one.stage == "implement"]
    assert sent[0].count("WAYLAID") == 1, "kern alone hands it on"
    assert not any("BECKONED" in one for one in sent)
    assert (repo / "hi.txt").read_bytes() == "hello\r\n😀\n".encode()
    assert git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git("status", "--porcelain", "--untracked-files=all", "--ignored") == ""
    files = [str(one.relative_to(own)) for one in own.rglob("*") if one.is_file()]
    assert [one for one in files if not one.startswith(TREES)] == ["events.jsonl"]
    assert not [*marked(("KERN_ROOT", str(repo)))]
