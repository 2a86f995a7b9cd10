"""A small dask cluster whose workers run the real claude on a scripted API: tasks go out, commits
come back and land.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.agents import CLAUDE
from tests.bench.measuring import environment, sample
from tests.conftest import PATIENCE_S
from tests.kit.cluster import LocalCluster
from tests.kit.scripted_server import ScriptedServer, Turn
from tests.kit.wires.wire import Asked

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not CLAUDE.binary, reason="KERN_TEST_CLAUDE names no claude binary"),
]

SCRIPT: dict[str, list[Turn]] = {  # each stage uses one tool and answers
    "research": [
        {"tool": "Grep", "input": {"pattern": "line", "output_mode": "content"}},
        {"text": "- Files: a.txt:1-3\n- Pattern: a.txt:1\n\nREADY"},
    ],
    "implement": [
        {"tool": "Bash", "input": {"command": "echo more > TASK.txt"}},
        {"text": "Wrote it.\n\nSUCCESS"},
    ],
    "commit": [{"text": "Do it: TASK"}],
}


class Named(ScriptedServer):
    """A script in which TASK stands for the task that the prompt is about."""

    def turn(self, asked: Asked, body: dict[str, Any], size: int) -> tuple[int, Turn]:
        number, turn = super().turn(asked, body, size)
        task = re.search(r"task-\d+", asked.prompt)
        return number, json.loads(json.dumps(turn).replace("TASK", task[0] if task else "TASK"))


def test_real_agents_on_a_cluster_land_each_task_once(tmp_path: Path) -> None:
    tasks = ["task-10"]  # that none is done twice the stand-in shows
    with Named(SCRIPT) as server:
        home = tmp_path / "home"
        env = environment(home)
        env |= {**CLAUDE.ready(home, server.url), CLAUDE.agent.variable: str(CLAUDE.program)}
        files = {"SPEC.md": "".join(f"- [ ] {task}\n" for task in tasks), "a.txt": "line\n"}
        files["kern.toml"] = "[gates]\nthere = 'test -f a.txt'\n"
        root = sample(tmp_path / "project", env, files)
        subprocess.run(["git", "init", "-q", "--bare", tmp_path / "central.git"], check=True)
        subprocess.run(["git", "-C", root, "remote", "add", "kern", tmp_path / "central.git"])
        elsewhere = {**env, "KERN_DIR": str(tmp_path / "workers")}
        with LocalCluster(tmp_path / "dask", elsewhere, workers=1) as cluster:
            done = subprocess.run(
                [sys.executable, "-m", "kern", "1", "0", "--scheduler", cluster.address],
                cwd=root,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert done.returncode == 0, done.stdout + done.stderr + cluster.said()

    def git(*argv: str) -> str:
        return subprocess.run(
            ["git", *argv], cwd=root, env=env, capture_output=True, text=True, check=True
        ).stdout

    trailers = git("log", "--format=%(trailers:key=Kern-Task,valueonly)").split()
    assert sorted(trailers) == tasks
    assert [git("show", f"HEAD:{task}.txt") for task in tasks] == ["more\n"]
    assert git("branch", "--list", "kern/*") == ""
    assert git("status", "--porcelain") == ""
    assert (root / "SPEC.md").read_text().count("- [x]") == len(tasks)
    assert {request.stage for request in server.requests} >= {"research", "implement", "commit"}
