"""The demo's agent: a program that speaks claude's dialect (prompt on stdin, one JSON array out)
from a script.

It works on the sample repository of `kern demo` alone. Nothing of kern is imported: it is a child
like any other.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

REPORT = 'printf "%s: %s words, %s lines\\n" "$1" "$(./words.sh "$1")" "$(./lines.sh "$1")"'
SCRIPTS = {  # and what is said of each
    "greet.sh": ('echo "Hello, ${1:-world}!"', "It takes a name and keeps its default."),
    "words.sh": (
        "wc -w < \"$1\" | tr -d ' '",
        "Another approach: standard input.\n\n## Learned\n"
        "`wc -w FILE` prints the file's name too; read from standard input instead.",
    ),
    "lines.sh": ("wc -l < \"$1\" | tr -d ' '", "It follows words.sh."),
    "report.sh": (REPORT, "It joins the two."),
}
AT_FIRST = {"words.sh": ('wc -w "$1"', "One line does it.")}  # which the gate finds wrong
TRIED = ("one awk program", "one sed program", "one shell loop")  # then the task is split
SPLIT = """Too much at once; the parts stand alone.

## Subtasks
- [ ] lines.sh FILE prints the number of lines
- [ ] report.sh FILE prints words and lines on one line

DECOMPOSED"""
RESEARCH = """- Files: greet.sh:1-2, check.sh:1-9
- Pattern: greet.sh:1-2, a small script that prints one line
- Constraint: plain sh; ./check.sh validates

READY"""


def main() -> None:
    prompt = sys.stdin.read().lstrip("\n")
    heading = re.match(r"kern stage \d of 3: (\w+)", prompt)
    task = re.search(r"^<task(?:-\d+)?>\n(.*?)\n</task", prompt, re.M | re.S)
    if heading is None or task is None:
        sys.exit("error: this agent plays the demo alone")
    time.sleep(0.15)  # slow enough to be watched
    stage, name = heading[1], task[1].splitlines()[-1].split()[0]
    attempts = len(re.findall(r"^Attempt \d+:", prompt, re.M))
    text, content = _answer(stage, name, attempts), []
    if feedback := _sent_back(text):
        content = [{"type": "text", "text": f"Stop hook feedback:\n{feedback}"}]
        text = _answer(stage, name, attempts + 1)
    back = {"type": "user", "isSynthetic": True, "message": {"content": content}}
    result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2}
    result |= {"result": text, "total_cost_usd": 0.0}
    for line in ({"type": "system", "subtype": "init", "model": "demo"}, back, result):
        print(json.dumps(line))


def _answer(stage: str, name: str, attempts: int) -> str:
    if stage == "research":
        return RESEARCH
    if stage == "commit":
        return "Greet by name" if name == "greet.sh" else f"Add {name}"
    if name not in SCRIPTS and attempts == len(TRIED):
        return SPLIT
    if name not in SCRIPTS:
        _write("summary.sh", f"# {TRIED[attempts]}")
        return f"FAILED: summary.sh as {TRIED[attempts]} did not pass ./check.sh"
    text, why = ({} if attempts else AT_FIRST).get(name, SCRIPTS[name])
    _write(name, text)
    return f"Wrote {name}. {why}\n\nSUCCESS"


def _write(name: str, text: str) -> None:
    Path(name).write_text(f"#!/bin/sh\n{text}\n")
    Path(name).chmod(0o755)


def _sent_back(answer: str) -> str:
    """What the Stop hook of its settings says, as claude would run it; empty where it may end."""
    settings = json.loads(sys.argv[sys.argv.index("--settings") + 1])
    if "hooks" not in settings:
        return ""
    (hook,) = settings["hooks"]["Stop"][0]["hooks"]
    request = json.dumps({"last_assistant_message": answer, "session_id": os.getpid()})
    done = subprocess.run(
        hook["command"], shell=True, input=request, capture_output=True, text=True
    )
    return str(json.loads(done.stdout)["reason"]) if done.stdout else ""


if __name__ == "__main__":
    main()
