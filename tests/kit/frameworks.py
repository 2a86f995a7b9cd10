"""Hook frameworks as people have them, lint-staged by husky: while its task runs, each has what is
not staged taken out of the working tree. And a small one that needs no installing.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HOOKS = os.environ.get("KERN_TEST_HOOKS", "")  # holds bin/pre-commit and node_modules
REAL = ("pre-commit", "lint-staged", "lefthook")
# What a sandbox has to show of it where it lies below /tmp, its packages perhaps behind a link.
PLACES = sorted({HOOKS, os.path.realpath(f"{HOOKS}/node_modules/..")}) if HOOKS else []
PATH = os.pathsep.join((f"{HOOKS}/bin", f"{HOOKS}/node_modules/.bin")) if HOOKS else ""

# As pre-commit does it, but for SPEC.md.
_STAND_IN = f"""#!{sys.executable} -IS
import os, subprocess, sys, time
files = subprocess.check_output(["git", "diff", "--binary", "--", ".", ":!SPEC.md"])
home = os.path.expanduser("~/.cache/pre-commit")
os.makedirs(home, exist_ok=True)
patch = f"{{home}}/patch{{int(time.time())}}-{{os.getpid()}}"
with open(patch, "wb") as file:
    file.write(files)
if files:
    subprocess.run(["git", "checkout", "-q", "--", ".", ":!SPEC.md"], check=True)
try:
    sys.exit(subprocess.call([TASK]))
finally:
    if files:
        subprocess.run(["git", "apply", patch], check=True)
"""
# As husky 9 lays it beside what the project holds.
_HUSKY = """#!/usr/bin/env sh
script=$(dirname "$(dirname "$0")")/$(basename "$0")
[ ! -f "$script" ] || sh -e "$script" "$@"
"""


def files(name: str, task: Path) -> dict[str, str]:
    """What the project holds of it."""
    run = shlex.quote(str(task))
    match name:
        case "pre-commit":
            hook = f'{{id: t, name: t, entry: "{run}", language: system, pass_filenames: false}}'
            repos = f"repos:\n- repo: local\n  hooks:\n  - {hook}\n"
            return {".pre-commit-config.yaml": repos}
        case "lint-staged":
            rules = f'{{"*.txt": "{run}"}}\n'
            return {".lintstagedrc.json": rules, ".husky/pre-commit": "lint-staged\n"}
        case "lefthook":
            return {
                "lefthook.yml": f"pre-commit:\n  jobs:\n  - run: {run}\n    stage_fixed: true\n"
            }
        case _:
            return {".pre-commit-config.yaml": "repos: []\n"}


def install(name: str, root: Path, task: Path, env: Mapping[str, str]) -> None:
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    match name:
        case "pre-commit" | "lefthook":
            subprocess.run([name, "install"], cwd=root, env=env, check=True, capture_output=True)
            return
        case "lint-staged":
            hook = root / ".husky" / "_" / "pre-commit"
            hook.parent.mkdir()
            hook.with_name(".gitignore").write_text("*\n")
            hook.write_text(_HUSKY)
            subprocess.run(["git", "config", "core.hooksPath", ".husky/_"], cwd=root, check=True)
        case _:
            hook.write_text(_STAND_IN.replace("TASK", repr(str(task))))
    hook.chmod(0o755)
