"""A stand-in for the agent: what fresh/fake/bin/claude is but for the login. It plays a script, and
starts fast: json, re and subprocess take longer to import than all that most calls do.

The folder named by FAKE_CLAUDE holds `script.json`: for each stage a list of steps, the k-th call
plays the k-th, the last one repeats; "STAGE WORDS" is for calls whose task holds the words. A step
may hold, in this order: `wait` (for a file of that name in the folder; `NAME.waits` is there
meanwhile), `stderr`, `run` (shell lines), `lines` (objects of the live stream), `acts` (tool calls
with their input), each 0.3 s after the one before, `sleep` (seconds), `kill` (kern; or "worker",
who called; with `signal`, 9 if not said, and `hang` seconds after it), `stdout` (raw) or a `result`
(the answer) with `fields` of the result object and `events` before it; `exit`. A stage without
steps, and an empty step, do what a good agent does.

`kill-at` there holds two numbers: after the work of that call kern gets that signal. After a kill
there is `killed`: who is then asked the same again says the same again.
"""

import _json
import fcntl
import os
import sys
import time


class Reading:
    """What json.loads asks for."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


SCAN = _json.make_scanner(Reading)  # type: ignore[arg-type]
ENCODE = _json.make_encoder(
    None, str, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
)
GOOD: dict[str, dict] = {
    "research": {"result": "- Files: a.txt:1-1\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"},
    "implement": {"run": ["echo work >> work.txt"], "result": "Wrote work.txt.\n\nSUCCESS"},
    "commit": {"result": "do the task"},
    "judge": {"result": "PASS: it does"},
}
FOLDER = os.environ["FAKE_CLAUDE"]


def read(name: str) -> str:
    place = os.path.join(FOLDER, name)
    if not os.path.exists(place):
        return ""
    with open(place) as file:
        return file.read()


def main() -> None:
    prompt = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").lstrip("\n")
    if not prompt:  # asked for its version, say
        return
    words = prompt.partition("\n")[0].split()
    stage = words[5] if words[1] == "stage" else words[1]
    script: dict[str, list[dict]] = SCAN(read("script.json"), 0)[0]
    task = prompt.partition("<task>")[2].partition("</task>")[0]
    named = [key for key in script if key.startswith(f"{stage} ")]
    fits = [key for key in named if key.partition(" ")[2] in task]
    key = max(fits, default=stage, key=len)
    with open(os.path.join(FOLDER, "calls.jsonl"), "a+") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)  # others may be called at the same time
        calls.seek(0)
        made = [SCAN(line, 0)[0] for line in calls]
        again = asked_again(made, stage, prompt)
        before = sum(call["key"] == key and not call["again"] for call in made) - again
        call = {"stage": stage, "key": key, "again": again, "prompt": prompt, **how_called()}
        calls.write("".join(ENCODE(call, 0)) + "\n")
    steps = script.get(key) or [GOOD[stage]]
    step = steps[min(before, len(steps) - 1)] or GOOD[stage]
    number, _, signal = read("kill-at").partition(" ")
    if number == str(len(made) + 1):
        step = {**step, "kill": "parent", "signal": int(signal), "hang": 300}
    play(step, stage)


def how_called() -> dict:
    kept = ("KERN_", "GIT_", "CLAUDE_", "DISABLE_", "BASH_")
    env = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    told, system = "--append-system-prompt-file", ""
    if told in sys.argv:
        with open(sys.argv[sys.argv.index(told) + 1], errors="surrogateescape") as file:
            system = file.read()
    return {"argv": sys.argv[1:], "system": system, "cwd": os.getcwd(), "env": env}


def asked_again(made: list[dict], stage: str, prompt: str) -> bool:
    """Whether the call before this one was the same and its answer may be lost with its kern."""
    killed = os.path.join(FOLDER, "killed")
    if not os.path.exists(killed):
        return False
    os.unlink(killed)
    digits = str.maketrans("", "", "0123456789abcdef")  # names of commits
    last = made[-1] if made else {"stage": "", "prompt": ""}
    same = last["prompt"].translate(digits) == prompt.translate(digits)
    return bool(last["stage"] == stage and same)


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


def acted(act: list) -> dict:
    """A tool call, as claude shows it with what it has used."""
    block = {"type": "tool_use", "id": "t", "name": act[0], "input": act[1]}
    usage = {"input_tokens": 40, "output_tokens": 2}
    message = {"id": f"m{time.time_ns()}", "content": [block], "usage": usage}
    return {"type": "assistant", "message": message}


def play(step: dict, stage: str) -> None:
    if "wait" in step:
        place = os.path.join(FOLDER, step["wait"])
        with open(f"{place}.waits", "w"):
            pass
        while not os.path.exists(place):
            time.sleep(0.01)
    sys.stderr.write(step.get("stderr", ""))
    sys.stderr.flush()
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    for line in step.get("run", []):
        argv = ("/bin/sh", "-c", line)
        os.waitpid(os.posix_spawn(argv[0], argv, os.environ, file_actions=null), 0)
    for line in (*step.get("lines", []), *map(acted, step.get("acts", []))):
        print("".join(ENCODE(line, 0)), flush=True)
        time.sleep(0.3)
    time.sleep(step.get("sleep", 0))
    if "kill" in step:
        if step["kill"] == "worker":
            os.kill(os.getppid(), step.get("signal", 9))
        else:
            kill_kern(step.get("signal", 9))
        time.sleep(step.get("hang", 0.05))
    if "stdout" in step:
        sys.stdout.write(step["stdout"])
    elif "result" in step:
        result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 3}
        result |= {"result": step["result"], "total_cost_usd": 0.01, **step.get("fields", {})}
        for line in (*shown(step, stage), *step.get("events", []), result):
            sys.stdout.write("".join(ENCODE(line, 0)) + "\n")
    sys.stdout.flush()
    sys.exit(step.get("exit", 0))


def kill_kern(signal: int) -> None:
    """In a sandbox kern is out of reach: it is asked to do it itself, see forked.py."""
    place = os.path.join(FOLDER, "kill")
    with open(f"{place}.new", "w") as file:
        file.write(str(signal))
    os.rename(f"{place}.new", place)
    while os.path.exists(place):
        time.sleep(0.01)


main()
