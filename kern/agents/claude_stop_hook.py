"""A Stop hook of Claude Code: where the agent ends with SUCCESS, the gates run first, and what is
red goes back to it, in the same process. It saves an attempt and proves nothing: the verdict comes
afterwards, from kern.

Started as a program of its own; what it runs stands in the variable `KERN_GATES`. Measured with
2.1.197: a "reason" on stdout reaches the agent as "Stop hook feedback". So does stderr of exit 2,
unless "no such file" stands there: claude then takes the hook for a broken one, and ends.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

VARIABLE = "KERN_GATES"
ROUNDS = 2  # claude itself ends with an empty answer after eight
_CLAIM = "SUCCESS"
_TAIL = 3000  # bytes of what a gate printed
_LONG_S = 600.0  # a gate that takes longer is not run twice
_MOST_S = 2_000_000  # claude's timer ends at once where it is set to 2**31 milliseconds or more
# How it is called, its command, its seconds, 0 for as long as it takes, and how often it runs once
# more where it is red; None: once, unless it is late.
Gate = tuple[str, str, float, int | None]


def settings(gates: Sequence[Gate]) -> dict[str, Any]:
    """For `--settings`: this program, which may take as long as they do, each twice."""
    seconds = round(2 * sum(seconds or _MOST_S for _, _, seconds, _ in gates))
    program = shlex.join((sys.executable, "-I", "-S", __file__))
    hook = {"type": "command", "command": program, "timeout": min(seconds, _MOST_S)}
    return {"hooks": {"Stop": [{"hooks": [hook]}]}}


def feedback(request: dict[str, Any], gates: list[Gate]) -> str:
    """What goes back to the agent; empty where it may end."""
    last = str(request.get("last_assistant_message", _CLAIM)).rstrip().splitlines()[-5:]
    if not any(line.strip(" *_`#->").startswith(_CLAIM) for line in last):
        return ""
    place = os.path.join(tempfile.gettempdir(), f"kern-{request['session_id']}-rounds")
    with open(place, "ab") as marks:
        marks.write(b".")  # of each round
        number = marks.tell()
    red = [objection for gate in gates if number <= ROUNDS and (objection := _red(*gate))]
    advice = (
        f"That was round {number} of {ROUNDS}. Fix the cause, then "
        "end again with the whole answer in its form. Where it cannot be mended, say FAILED."
    )
    return "\n\n".join([*red, advice]) if red else ""


def _red(name: str, command: str, seconds: float, again: int | None) -> str:
    """How it failed, where it did twice, as kern has it run once more."""
    began, first = time.monotonic(), _once(name, command, seconds)
    if again is None:
        again = time.monotonic() - began < min(seconds or _LONG_S, _LONG_S)
    return _once(name, command, seconds) if first and again else first


def _once(name: str, command: str, seconds: float) -> str:
    """How it failed, with the end of what it printed; empty where it is green."""
    argv, null, late = ["sh", "-c", command], subprocess.DEVNULL, False
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(argv, stdin=null, stdout=out, stderr=out, start_new_session=True)
        try:
            child.wait(seconds or None)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        out.seek(max(0, out.seek(0, os.SEEK_END) - _TAIL))
        end = out.read().decode("utf-8", "replace").strip() or "(nothing)"
    how = f"not done after {seconds:g} s" if late else f"exit {child.returncode}"
    text = f"{name} is red ({how}). The end of what `{command}` printed:\n{end}"
    return text if child.returncode else ""


if __name__ == "__main__":
    if told := feedback(json.load(sys.stdin), json.loads(os.environ[VARIABLE])):
        json.dump({"decision": "block", "reason": told}, sys.stdout)
