#!/usr/bin/env -S python3 -IS
"""A stand-in for the agent: a real program called `claude` that plays a script and records its
calls.

The folder named by FAKE_CLAUDE holds `script.json`: for each stage a list of steps, the k-th call
plays the k-th, the last one repeats. A step may hold, played in this order: `stderr`, `run` (shell
lines), `lines` (objects of the live stream, 0.3 s apart), `acts` (tool calls with their input, 0.3
s apart), `signs` (of life, so many, 0.4 s apart), `sleep` (seconds), `kill` ("parent") with another
`signal` than SIGKILL and how long to `hang` after it, `stdout` (raw) or `megabytes` (of junk), else
a `result` (the answer's text) with `fields` of the result object and `events` before it; `exit`. A
stage without steps does what a good agent does. `claude auth status` says what `auth.json` in the
folder holds.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time


def kill_kern(signum: int) -> None:
    """In a sandbox kern is out of reach: it is asked to do it itself, see crashing_kern.py."""
    if os.getppid() > 1:
        os.kill(os.getppid(), signum)
        return
    place = os.path.join(os.environ["FAKE_CLAUDE"], "kill")
    with open(f"{place}.new", "w") as file:
        file.write(str(int(signum)))
    os.rename(f"{place}.new", place)
    while os.path.exists(place):
        time.sleep(0.01)


GOOD = {
    "research": {"result": "- Files: a.txt:1-1\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"},
    "implement": {"run": ["echo work >> work.txt"], "result": "Wrote work.txt.\n\nSUCCESS"},
    "commit": {"commit": True, "result": "committed"},
    "judge": {"result": "PASS: it does"},
}


def main() -> None:
    folder = os.environ["FAKE_CLAUDE"]
    if sys.argv[1:3] == ["auth", "status"]:
        with open(os.path.join(folder, "auth.json")) as told:
            found = json.load(told)
        json.dump(found, sys.stdout)
        sys.exit(not found["loggedIn"])
    prompt = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").lstrip("\n")
    if not prompt:  # asked for its version, say
        return
    system = contract()
    heading = re.match(r"kern (?:stage \d of 3: )?(\w+)", prompt)
    assert heading
    stage = heading[1]
    with open(os.path.join(folder, "calls.jsonl"), "a+") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)  # others may be called at the same time
        calls.seek(0)
        before = sum(json.loads(line)["stage"] == stage for line in calls)
        kept = ("KERN_", "GIT_", "CLAUDE_", "DISABLE_", "BASH_")
        call = {
            "stage": stage,
            "argv": sys.argv[1:],
            "prompt": prompt,
            "system": system,
            "cwd": os.getcwd(),
            "pid": os.getpid(),
            "began": time.time_ns(),
            "env": {name: value for name, value in os.environ.items() if name.startswith(kept)},
        }
        calls.write(json.dumps(call) + "\n")
    with open(os.path.join(folder, "script.json")) as script:
        steps = json.load(script).get(stage) or [GOOD[stage]]
    play(steps[min(before, len(steps) - 1)], f"{system}\n{prompt}")


def contract() -> str:
    """What it is told in the system prompt."""
    if "--append-system-prompt-file" not in sys.argv:
        return ""
    place = sys.argv[sys.argv.index("--append-system-prompt-file") + 1]
    with open(place, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def play(step: dict, prompt: str) -> None:
    sys.stderr.write(step.get("stderr", ""))
    sys.stderr.flush()
    for line in step.get("run", []):
        subprocess.run(line, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if step.get("commit"):
        line = re.search(r"^\s*(Kern-Task: .*)$", prompt, re.M)
        trailer = line[1] if line else ""
        subprocess.run(
            ["git", "commit", "-q", "-m", "do the task", "-m", trailer],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    for line in step.get("lines", []):
        print(json.dumps(line), flush=True)
        time.sleep(0.3)
    for number, (tool, given) in enumerate(step.get("acts", [])):
        block = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": given}
        usage = {"input_tokens": 40, "output_tokens": 2}
        message = {"id": f"m{number}", "content": [block], "usage": usage}
        print(json.dumps({"type": "assistant", "message": message}), flush=True)
        time.sleep(0.3)
    for _ in range(step.get("signs", 0)):
        time.sleep(0.4)
        print("{}", flush=True)
    time.sleep(step.get("sleep", 0))
    if step.get("kill") == "parent":
        kill_kern(step.get("signal", signal.SIGKILL))
        time.sleep(step.get("hang", 0.05))
    if "stdout" in step:
        sys.stdout.write(step["stdout"])
    elif "megabytes" in step:
        for _ in range(step["megabytes"]):
            sys.stdout.write("x" * 1_000_000)
    elif "result" in step:
        result = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 3,
            "result": step["result"],
            "total_cost_usd": 0.01,
            **step.get("fields", {}),
        }
        json.dump([*step.get("events", []), result], sys.stdout)
    sys.stdout.flush()
    sys.exit(step.get("exit", 0))


main()
