"""kern with a model that nobody scripted: `KERN_TEST_MODEL="http://localhost:11434/v1 NAME"`, any
endpoint of chat completions. How much the model gets done is its own; the bar is kern's: no error
of a tool, no commit that is false, a reason for each end.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kern.model import Marker
from kern.spec.parse import parse
from tests.conftest import Git
from tests.sandbox.test_wall import needs_bwrap

URL, _, NAME = os.environ.get("KERN_TEST_MODEL", "").partition(" ")
PATIENCE_S = 3600.0
# Each with its gate, which must hold on what is committed as well.
TASKS = {
    "Add hello.py, which prints exactly the word hello": 'test "$(python3 hello.py)" = hello',
    "Replace the word two in a.txt by 2": 'test "$(sed -n 2p a.txt)" = 2 && ! grep -q two a.txt',
    "Add sum.py, which prints the sum of its arguments": 'test "$(python3 sum.py 2 -5 40)" = 37',
}


@needs_bwrap
@pytest.mark.slow
@pytest.mark.skipif(not URL, reason="KERN_TEST_MODEL names no endpoint")
def test_no_tool_fails_no_commit_is_false_and_each_end_has_a_reason(
    repo: Path,
    git: Git,
    background: Callable[..., "subprocess.Popen[str]"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    table = f'[agent.http]\nurl = "{URL}"\n' + f'model = "{NAME}"\n' * bool(NAME)
    (repo / "kern.toml").write_text(f'agents = ["http"]\n{table}')
    (repo / "SPEC.md").write_text(
        "".join(f"- [ ] {one}\n  > **Gate:** `{gate}`\n" for one, gate in TASKS.items())
    )
    (repo / ".gitignore").write_text("__pycache__/\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=tasks")
    out, err = (running := background("9", "0")).communicate(timeout=PATIENCE_S)
    assert running.returncode in (0, 1), err

    transcripts = [*(tmp_path / "kern").rglob("*transcript*.json")]
    lines = [line for place in transcripts for line in place.read_text("utf-8").splitlines()]
    said = [json.loads(line) for line in lines]
    assert said and not [one for one in said if one["type"] == "error"]
    assert not [one for one in said if one.get("text", "").startswith("[it cannot be run")]

    tasks = parse((repo / "SPEC.md").read_text("utf-8")).tasks
    done = [task.text for task in tasks if task.marker is Marker.DONE]
    git("stash", "--all") if git("status", "--porcelain") else None
    for task in done:
        if task in TASKS:
            assert subprocess.run(["sh", "-c", TASKS[task]], cwd=repo).returncode == 0, task

    records = (repo / ".git/kern/events.jsonl").read_text("utf-8").splitlines()
    ends = [one for one in map(json.loads, records) if one["kind"] == "task"]
    named = {one["task"] for one in ends if one["did"] != "start" and one.get("detail")}
    assert named == {one["task"] for one in ends}, out
