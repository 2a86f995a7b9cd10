"""kern as its users run it, when all goes well: command line, output, files, prompts, commits."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kern.cli import demo
from kern.pipeline import session
from tests.conftest import Fake, Git, Inline, Kern

READY = "- Files: a.txt:1-1\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"


def write_spec(repo: Path, git: Git, text: str) -> None:
    (repo / "SPEC.md").write_text(text)
    git("commit", "--quiet", "--all", "--message=tasks")


def load(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text())
    assert isinstance(value, dict)
    return value


# ---------------------------------------------------------------- what the agents are given


def test_each_stage_is_a_fresh_process_with_its_own_limits(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    assert inline(1).code == 0

    research, implement, commit = fake.calls
    for call in fake.calls:
        argv = call["argv"]
        assert argv[:4] == ["-p", "--output-format", "stream-json", "--verbose"]
        assert call["prompt"].startswith("kern stage ")
        assert not any("add a greeting" in word for word in argv)
        assert call["env"]["KERN_ROOT"] == str(repo)
    assert len({(call["pid"], call["began"]) for call in fake.calls}) == 3
    models = [argv[argv.index("--model") + 1] for argv in (c["argv"] for c in fake.calls)]
    tools = [argv[argv.index("--tools") + 1] for argv in (c["argv"] for c in fake.calls)]
    assert models == ["opus", "opus", "haiku"]
    assert tools[0] == "Read,Glob,Grep,Task,WebSearch,WebFetch"
    assert {"Bash", "Edit", "Write"} < set(tools[1].split(","))
    assert tools[2] == "Read,Glob,Grep"
    for sealed in (research, commit):
        assert "--strict-mcp-config" in sealed["argv"]
        assert "bypassPermissions" not in sealed["argv"]
    assert not {"GIT_INDEX_FILE", "GIT_DIR"} & {*research["env"], *implement["env"]}


# ---------------------------------------------------------------- what is shown and kept


def test_the_stage_files_are_json_with_one_more_key_and_end_in_history(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    base = git("rev-parse", "HEAD")
    fake.script(
        implement=[
            {"result": "no way\n\nFAILED: no way"},
            {"run": ["echo 1 > n"], "result": "SUCCESS"},
        ]
    )

    assert inline(1).code == 0

    folder = repo.parent / "kern" / "project" / "main"
    (walk,) = (folder / "history").iterdir()
    assert (folder / "last").resolve() == walk
    assert re.fullmatch(r"\d{8}T\d{6}Z-add-a-greeting", walk.name)
    assert {path.name for path in folder.iterdir()} == {"history", "last"}
    first, second, third = (load(walk / f"stage{n}.json") for n in (1, 2, 3))
    assert [v["result"] for v in (first, second, third)] == [READY, "SUCCESS", "do the task"]
    assert first["total_cost_usd"] == 0.01
    common = {"task", "stage", "attempt", "base", "run", "time"}
    assert common <= first["kern"].keys()
    assert common | {"start", "tree", "outcome"} <= second["kern"].keys()
    assert common <= third["kern"].keys()
    facts = [(v["kern"]["stage"], v["kern"]["attempt"], v["kern"]["base"]) for v in (first, second)]
    assert facts == [("research", 1, base), ("implement", 2, base)]
    assert second["kern"]["outcome"] == "proved"
    assert load(walk / "attempt1.json")["result"] == "no way\n\nFAILED: no way"
    assert {path.name for path in walk.iterdir()} >= {f"transcript{n}.json" for n in (1, 2, 3)}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*walk.iterdir(), walk, folder))


# ---------------------------------------------------------------- looking without touching


def test_what_done_tasks_left_goes_with_a_run_s_end_once_it_is_old(
    repo: Path,
    git: Git,
    fake: Fake,
    kern: Kern,
    inline: Inline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n")
    results = ("FAILED: no", "SUCCESS", "NEEDS_ANSWER: which a.txt?")
    fake.script(
        implement=[{"run": [f"echo {n} > n"], "result": one} for n, one in enumerate(results)]
    )
    assert inline(2).code == 1
    history = tmp_path / "kern" / "project" / "main" / "history"

    def kept() -> list[str]:
        return git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").splitlines()

    (done, asked) = kept()
    assert [*history.iterdir()]
    assert inline(1).code == 1
    assert [*history.iterdir()] and kept() == [done, asked], "they are young"
    monkeypatch.setattr(session, "AGE_S", -1.0)
    assert inline(1).code == 1
    assert [*history.iterdir()] == []
    assert kept() == [asked], "that task is open"
    assert git("show", "HEAD:n") == "1"
    for view in ("report", "show 1", "report --html", "report --json"):
        assert done.removeprefix("refs/") not in kern(*view.split()).out, view


# ---------------------------------------------------------------- words on the command line


def test_the_demo_can_write_into_its_sample_where_kern_is_installed_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(demo.SAMPLE, installed := tmp_path / "installed")
    for place in (*installed.iterdir(), installed):
        place.chmod(0o555 if place.is_dir() else 0o444)
    monkeypatch.setattr(demo, "SAMPLE", installed)
    demo.sample(root := tmp_path / "sample")
    found = (root, root / "SPEC.md", root / "check.sh")
    assert [one.stat().st_mode & 0o700 for one in found] == [0o700, 0o600, 0o700]
    installed.chmod(0o755)  # or nobody can delete it


def test_the_demo_ends_with_commands_that_work_where_kern_is_not_on_path(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a b" / "kern"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    monkeypatch.setattr("sys.argv", [str(program), "demo"])
    assert demo.own_command() == f"{sys.executable} -m kern"
    program.chmod(0o755)
    assert demo.own_command() == f"'{program}'"
