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

import _json
import fcntl
import os
import sys
import time

SIGKILL = 9


class Reading:
    """What json.loads asks for. json, re, signal and subprocess take longer to import than all that
    most calls do, and there are thousands of calls.
    """

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


_scan = _json.make_scanner(Reading)  # type: ignore[arg-type]
_encode = _json.make_encoder(
    None, str, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
)


def loads(text: str) -> dict:
    found: dict = _scan(text.strip(), 0)[0]
    return found


def dumps(value: object) -> str:
    return "".join(_encode(value, 0))


def carry_out(*argv: str) -> None:
    """A command that nobody hears."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    os.waitpid(os.posix_spawnp(argv[0], argv, os.environ, file_actions=null), 0)


def kill_kern(signum: int) -> None:
    """In a sandbox kern is out of reach: asked so, it does it itself, see scenarios/forked.py."""
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
    "commit": {"result": "do the task"},
    "judge": {"result": "PASS: it does"},
}


def main() -> None:
    folder = os.environ["FAKE_CLAUDE"]
    if sys.argv[1:3] == ["auth", "status"]:
        with open(os.path.join(folder, "auth.json")) as told:
            found = loads(told.read())
        sys.stdout.write(dumps(found))
        sys.exit(not found["loggedIn"])
    prompt = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").lstrip("\n")
    if not prompt:  # asked for its version, say
        return
    system = contract()
    words = prompt.partition("\n")[0].split()
    assert words[0] == "kern"
    stage = words[5] if words[1] == "stage" else words[1]
    with open(os.path.join(folder, "calls.jsonl"), "a+") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)  # others may be called at the same time
        calls.seek(0)
        before = sum(loads(line)["stage"] == stage for line in calls)
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
        calls.write(dumps(call) + "\n")
    with open(os.path.join(folder, "script.json")) as script:
        steps = loads(script.read()).get(stage) or [GOOD[stage]]
    play(steps[min(before, len(steps) - 1)], stage)


def contract() -> str:
    """What it is told in the system prompt."""
    if "--append-system-prompt-file" not in sys.argv:
        return ""
    place = sys.argv[sys.argv.index("--append-system-prompt-file") + 1]
    with open(place, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def shown(step: dict, stage: str) -> list[dict]:
    """As claude shows what it runs and says. Where a stage may not, its commands are nobody's."""
    if stage != "implement":
        return []
    parts = [
        {"type": "tool_use", "name": "Bash", "input": {"command": one}}
        for one in (() if "acts" in step else step.get("run", []))
    ]
    parts.append({"type": "text", "text": step["result"]})
    return [{"type": "assistant", "message": {"content": [one]}} for one in parts]


def play(step: dict, stage: str) -> None:
    sys.stderr.write(step.get("stderr", ""))
    sys.stderr.flush()
    for line in step.get("run", []):
        carry_out("/bin/sh", "-c", line)
    for line in step.get("lines", []):
        print(dumps(line), flush=True)
        time.sleep(0.3)
    for number, (tool, given) in enumerate(step.get("acts", [])):
        block = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": given}
        usage = {"input_tokens": 40, "output_tokens": 2}
        message = {"id": f"m{number}", "content": [block], "usage": usage}
        print(dumps({"type": "assistant", "message": message}), flush=True)
        time.sleep(0.3)
    for _ in range(step.get("signs", 0)):
        time.sleep(0.4)
        print("{}", flush=True)
    time.sleep(step.get("sleep", 0))
    if step.get("kill") == "parent":
        kill_kern(step.get("signal", SIGKILL))
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
        lines = [*shown(step, stage), *step.get("events", []), result]
        sys.stdout.write("".join(dumps(line) + "\n" for line in lines))
    sys.stdout.flush()
    sys.exit(step.get("exit", 0))


main()
