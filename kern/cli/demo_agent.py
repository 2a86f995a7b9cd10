"""The demo's agent: a program that speaks claude's dialect (prompt on stdin, one JSON array out)
from a script.

It works on the sample repository of `kern demo` alone. Nothing of kern is imported: it is a child
like any other.
"""

import json
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
TRIED = ("one awk program", "one sed program", "one shell loop")  # then the task is split


def main() -> None:
    prompt = sys.stdin.read().lstrip("\n")
    heading = re.match(r"kern stage \d of 3: (\w+)", prompt)
    task = re.search(r"^<task(?:-\d+)?>\n(.*?)\n</task", prompt, re.M | re.S)
    if heading is None or task is None:
        sys.exit("error: this agent plays the demo alone")
    time.sleep(0.15)  # slow enough to be watched
    answers = {"research": _research, "implement": _implement, "commit": _commit}
    work = answers[heading[1]]
    wanted = task[1].splitlines()[-1]
    text, told = work(wanted, prompt), []
    if feedback := _sent_back(text):
        told.append({"type": "text", "text": f"Stop hook feedback:\n{feedback}"})
        text = work(wanted, f"{prompt}\nAttempt 0: {feedback}")
    _print(text, told)


def _sent_back(answer: str) -> str:
    """What the Stop hook of its settings says, as claude would run it; empty where it may end."""
    if "--settings" not in sys.argv:
        return ""
    settings = json.loads(sys.argv[sys.argv.index("--settings") + 1])
    (hook,) = settings["hooks"]["Stop"][0]["hooks"]
    asked = json.dumps({"last_assistant_message": answer})
    done = subprocess.run(hook["command"], shell=True, input=asked, capture_output=True, text=True)
    return str(json.loads(done.stdout)["reason"]) if done.stdout else ""


def _print(text: str, told: list[dict[str, str]]) -> None:
    back = {"type": "user", "isSynthetic": True, "message": {"content": told}}
    result = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 2,
        "result": text,
        "total_cost_usd": 0.0,
    }
    json.dump([{"type": "system", "subtype": "init", "model": "demo"}, back, result], sys.stdout)


def _research(task: str, prompt: str) -> str:
    return (
        "- Files: greet.sh:1-2, check.sh:1-9\n"
        "- Pattern: greet.sh:1-2, a small script that prints one line\n"
        "- Constraint: plain sh; ./check.sh validates\n\nREADY"
    )


def _implement(task: str, prompt: str) -> str:
    attempts = len(re.findall(r"^Attempt \d+:", prompt, re.M))
    if attempts == len(TRIED):
        return (
            "Too much at once; the parts stand alone.\n\n## Subtasks\n"
            "- [ ] lines.sh FILE prints the number of lines\n"
            "- [ ] report.sh FILE prints words and lines on one line\n\nDECOMPOSED"
        )
    name = task.split()[0]
    if name == "words.sh" and not attempts:
        return _wrote(name, 'wc -w "$1"', "One line does it.")
    if name in SCRIPTS:
        return _wrote(name, *SCRIPTS[name])
    _wrote("summary.sh", f"# {TRIED[attempts]}", "")
    return f"FAILED: summary.sh as {TRIED[attempts]} did not pass ./check.sh"


def _wrote(name: str, text: str, told: str) -> str:
    place = Path(name)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return f"Wrote {name}. {told}\n\nSUCCESS"


def _commit(task: str, prompt: str) -> str:
    return f"Add {task.split()[0]}" if not task.startswith("greet") else "Greet by name"


if __name__ == "__main__":
    main()
