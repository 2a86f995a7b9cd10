"""GitHub's runner and gh, as far as the workflows of `kern ci init` use them: each step's block by
bash, with what the steps before it left. As a program, `actions.py FOLDER ARGV…` is gh; jq is real.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAY = {"ann": "admin", "bob": "read"}  # of nobody else gh knows anything
FILES = {"pr list": "prs.json", "api --paginate": "issues.json"}  # what it answers with


class Runner:
    """`place`: holds what GitHub hands a step, and programs on PATH beside kern."""

    def __init__(self, repo: Path, place: Path, programs: Path) -> None:
        self.repo, self.place = repo, place
        package = Path(__file__).parents[2]
        gh = shlex.join([sys.executable, __file__, str(place)])
        lines = {"gh": f'{gh} "$@"', **dict.fromkeys(("sudo", "npm", "pipx"), "true")}
        lines["kern"] = f'PYTHONPATH={package} {sys.executable} -m kern "$@"'
        for name, line in lines.items():
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)

    def run(self, steps: list[dict[str, Any]], event: Mapping[str, Any]) -> dict[str, int]:
        """Each step's exit code, by its name."""
        for name in ("env", "summary", "gh.log"):
            (self.place / name).write_text("")
        (self.place / "event").write_text(json.dumps(event))
        sha = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=self.repo, text=True)
        given = {"SHA": sha.strip(), "REPOSITORY": "o/r", "REF_NAME": "main", "RUN_NUMBER": "7"}
        files = {"ENV": "env", "STEP_SUMMARY": "summary", "EVENT_PATH": "event"}
        given |= {name: str(self.place / file) for name, file in files.items()}
        env = {**os.environ, **{f"GITHUB_{name}": value for name, value in given.items()}}
        ended = dict[str, int]()
        for step in steps:
            left = dict(line.split("=", 1) for line in self.text("env").splitlines())
            wanted = str(step.get("if", ""))
            lost = any(ended.values()) and "always()" not in wanted
            if "run" in step and not lost and ("BRANCH" in left or "BRANCH" not in wanted):
                bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
                all_of_it = env | left | {"RUNNER_TEMP": str(self.place)}
                ended[step["name"]] = subprocess.run(bash, cwd=self.repo, env=all_of_it).returncode
        return ended

    def text(self, name: str) -> str:
        return (self.place / name).read_text()

    def drafts(self) -> list[list[str]]:
        """How gh was asked for pull requests."""
        asked = [json.loads(line) for line in self.text("gh.log").splitlines()]
        return [argv for argv in asked if argv[:3] == ["pr", "create", "--draft"]]


def main(place: Path, argv: list[str]) -> int:
    with (place / "gh.log").open("a") as log:
        log.write(json.dumps(argv) + "\n")
    file = place / FILES.get(" ".join(argv[:2]), "none")
    data = file.read_text() if file.exists() else "[]"
    if "/collaborators/" in argv[1]:
        if (may := MAY.get(argv[1].split("/")[4])) is None:
            print('{"message": "Not Found"}')  # gh prints an error's body there, too
            return 1
        data = json.dumps({"permission": may})
    if "--jq" in argv:
        subprocess.run(["jq", "-rc", argv[argv.index("--jq") + 1]], input=data, text=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
