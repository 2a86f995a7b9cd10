"""The demo's agent: a program that speaks claude's dialect (prompt on stdin, one JSON array out)
from a script.

It works on the sample repository of `kern demo` alone. Nothing of kern is imported: it is a child
like any other.
"""

import json
import re
import sys
import time
from pathlib import Path

SCRIPTS = {  # by attempts; the gate finds the first words.sh wrong
    "greet.sh": ('echo "Hello, ${1:-world}!"',),
    "words.sh": ('wc -w "$1"', "wc -w < \"$1\" | tr -d ' '"),
    "lines.sh": ("wc -l < \"$1\" | tr -d ' '",),
    "report.sh": ('printf "%s words, %s lines\\n" "$(./words.sh "$1")" "$(./lines.sh "$1")"',),
}
TRIED = ("one awk program", "one shell loop")  # both change nothing: then the task is split
SPLIT = """Too much at once; the parts stand alone.

## Subtasks
- [ ] lines.sh FILE prints the number of lines
- [ ] report.sh FILE prints words and lines on one line

DECOMPOSED"""
RESEARCH = """- Files: greet.sh:1-2, check.sh:1-9
- Pattern: greet.sh:1-2, a small script that prints one line
- Constraint: plain sh; ./check.sh validates

READY"""
DONE = "Wrote {}.\n\nSUCCESS"
LEARNED = """Another approach: standard input.

## Learned
`wc -w FILE` prints the file's name too; read from standard input instead.

SUCCESS"""


def main() -> None:
    prompt = sys.stdin.read()
    stage = re.match(r"\s*kern stage \d of 3: (\w+)", prompt)
    task = re.search(r"^<task(?:-\d+)?>\n(?:\(part of: .*\n)?(\S+)", prompt, re.M)
    if stage is None or task is None:
        sys.exit("error: this agent plays the demo alone")
    time.sleep(0.15)  # slow enough to be watched
    attempts = len(re.findall(r"^Attempt \d+:", prompt, re.M))
    text = {"research": RESEARCH, "commit": f"Write {task[1]}"}.get(stage[1])
    text = text or implemented(task[1], attempts)
    result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2}
    for line in ({"type": "system", "subtype": "init", "model": "demo"}, result):
        print(json.dumps(line | {"result": text, "total_cost_usd": 0.0}))


def implemented(name: str, attempts: int) -> str:
    if name not in SCRIPTS:
        return [*(f"FAILED: {one} did not pass ./check.sh" for one in TRIED), SPLIT][attempts]
    place = Path(name)
    place.write_text(f"#!/bin/sh\n{SCRIPTS[name][attempts]}\n")
    place.chmod(0o755)
    return LEARNED if attempts else DONE.format(name)


if __name__ == "__main__":
    main()
