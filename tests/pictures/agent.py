"""The demo's agent at the pace of a real one: what it does comes line by line, with a price."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent

STEP_S = 0.7
CALLS = {
    "research": [("Read", "file_path", "check.sh"), ("Grep", "pattern", "echo")],
    "implement": [
        ("Read", "file_path", "check.sh"),
        ("Write", "file_path", "words.sh"),
        ("Bash", "command", "./check.sh"),
    ],
    "commit": [],
}
COSTS = {"research": 0.21, "implement": 0.34, "commit": 0.02}


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


def main() -> None:
    if "--version" in sys.argv:
        print("2.1.205 (Claude Code)")
        return
    if sys.argv[1:3] == ["auth", "status"]:
        say({"loggedIn": True, "authMethod": "claude.ai", "subscriptionType": "max"})
        return
    prompt = sys.stdin.read()
    stage = next(name for name in CALLS if f": {name}" in prompt.lstrip("\n").split("\n")[0])
    call = [sys.executable, "-m", "kern.cli.demo_agent", *sys.argv[1:]]
    env = {**os.environ, "PYTHONPATH": str(TOP)}
    done = subprocess.run(call, input=prompt, env=env, capture_output=True, text=True)
    first, *rest = json.loads(done.stdout)
    say(first)
    for number, (tool, key, value) in enumerate(CALLS[stage]):
        used = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": {key: value}}
        usage = {"input_tokens": 9000, "output_tokens": 900 * (number + 1)}
        message = {"id": f"m{number}", "content": [used], "usage": usage}
        say({"type": "assistant", "message": message})
        time.sleep(STEP_S)
    *told, result = rest
    for one in [*told, {**result, "total_cost_usd": COSTS[stage]}]:
        say(one)


if __name__ == "__main__":
    main()
