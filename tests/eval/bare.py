"""The bare agent: one `claude -p` for a task, in the same repository, with the same model, effort,
budget and checks as kern's implement stage. It runs without kern's sandbox.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.eval import repository
from tests.eval.arms import PROMPTS
from tests.eval.task import Task

PROMPT = """\
Carry out a task in the git repository that you are in. Nobody is there to answer a question.

The task:
{task}
Commands that must succeed afterwards stand in kern.toml, below [gates]. Leave SPEC.md and kern.toml
as they are. Commit your work, and nothing else. The last line of your answer is exactly one of:

DONE
NOT DONE: the reason
"""


def play(task: Task, root: Path, env: Mapping[str, str], budget: float) -> dict[str, Any] | str:
    """Of a row what only this arm knows; or why the process says nothing about it."""
    start = repository.git(root, "rev-parse", "HEAD")
    model, effort = _as_implement()
    argv = [env.get("KERN_CLAUDE", "claude"), "-p", "--output-format", "json"]
    argv += ["--permission-mode", "bypassPermissions", "--model", model, "--effort", effort]
    argv += ["--max-budget-usd", str(budget)] if budget else []
    # As root claude demands this, as it does of kern's.
    env = {"IS_SANDBOX": "1", **env, "DISABLE_AUTOUPDATER": "1"}
    given = PROMPT.format(task=task.spec.replace("- [ ] ", ""))
    ended = subprocess.run(argv, cwd=root, env=env, input=given, capture_output=True, text=True)
    found = _result(ended.stdout)
    broke = found.get("subtype") == "error_max_budget_usd"
    if not found or (found.get("is_error") and not broke):
        return str(found.get("result") or ended.stderr.strip()[-1000:] or "no answer")
    _commit(root, start)
    last = str(found.get("result") or "").strip().splitlines()[-1:]
    claims = not broke and not any(line.strip(" *_`").startswith("NOT DONE") for line in last)
    idle = repository.git(root, "rev-parse", "HEAD") == start and "skipped" in task.ends
    usage = {name: n for name, n in found.get("usage", {}).items() if isinstance(n, int)}
    return {
        "end": "budget" if broke else "skipped" if idle else "done" if claims else "blocked",
        "models": {"agent": model},
        "effort": {"agent": effort},
        "wasted_correct": 0,
        "attempts": {},
        "cost_usd": round(found.get("total_cost_usd") or 0.0, 6),
        "unpriced": int(found.get("total_cost_usd") is None),
        "cost": {"agent": found.get("total_cost_usd") or 0.0},
        "tokens": {"agent": usage},
        "requests": {"agent": found.get("num_turns", 0)},
    }


def _as_implement() -> tuple[str, str]:
    text = (PROMPTS / "2_implement.md").read_text(encoding="utf-8")
    model, effort = (re.findall(rf"(?m)^{name}: (\S+)$", text)[0] for name in ("model", "effort"))
    return model, effort


def _result(printed: str) -> dict[str, Any]:
    """The object on its last line."""
    try:
        value = json.loads(printed.strip().rpartition("\n")[2])
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _commit(root: Path, start: str) -> None:
    """What it left and did not commit, as a person would."""
    if repository.git(root, "rev-parse", "HEAD") == start:
        repository.git(root, "add", "--all")
        if repository.git(root, "diff", "--cached", "--name-only"):
            repository.git(root, "commit", "--quiet", "--no-verify", "--message=Left by the agent")
