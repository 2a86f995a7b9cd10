"""`kern pr`: the text of a pull request, from the report of this branch; after a yes the push and
the pull request themselves, by the very commands that it shows.
"""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kern import plain
from kern.cli.asking import agreed
from kern.errors import Exit, KernError
from kern.git import branches, repository
from kern.git.repository import Repo
from kern.journal.history import History
from kern.system import process
from kern.views import report

_TITLE = 100  # characters


def main(folder: Path, *, yes: bool) -> int:
    """The body on standard output; where it goes, and what is asked, on standard error."""
    found = repository.open_at(folder, reading=True)
    head = found.head()
    if not head.branch:
        raise KernError(
            f"HEAD is detached at {head.commit[:7]}, on no branch", hint="git switch -c NAME"
        )
    past, body = report.of_branch(found, head.branch)
    if not past.done:
        raise KernError(
            f"the journal knows of no task that was done on {head.branch}",
            hint="git switch BRANCH, if it was on another; kern report",
        )
    print(body, flush=True)
    steps = commands(found, head.branch, title(past))
    if (why := _lacking(found, head.branch)) or not (yes or _asked(steps)):
        _say(why or "nothing was pushed or opened; to do it yourself:")
        _say(*(f"  {_shown(argv)}" for argv in steps))
        return Exit.OK
    return _run(steps, body)


def title(past: History) -> str:
    """Of one task its own text; of several the first and how many more."""
    done = [task.task for task in past.done]
    more = f" and {len(done) - 1} more" if len(done) > 1 else ""
    return f"{plain.line(done[0], _TITLE - len(more))}{more}"


def commands(found: Repo, branch: str, named: str) -> list[list[str]]:
    """What pushes the branch under its own name, whatever it follows: that may be what the request
    goes into. And what opens the request; the body comes from standard input.
    """
    push = ["git", "push", "--set-upstream", _remote(found, branch), f"HEAD:{branch}"]
    return [push, ["gh", "pr", "create", "--title", named, "--body-file", "-"]]


def _remote(found: Repo, branch: str) -> str:
    """Where git itself would push it."""
    names = found.text("remote").splitlines()
    told = branches.pushed_to(found, branch)
    first = "origin" if "origin" in names or not names else names[0]
    return told if told in names else first


def _lacking(found: Repo, branch: str) -> str:
    """Why it cannot be opened here; empty where it can."""
    if not found.text("remote").split():
        return "there is no remote to open a pull request at; with one:"
    if branch in branches.bases(found, _remote(found, branch)):
        return f"{branch} is what a pull request would go into; on a branch of its own:"
    if not shutil.which("gh"):
        return "gh, GitHub's command, is not installed; push, then open it with this text:"
    return ""


def _asked(steps: Sequence[Sequence[str]]) -> bool:
    """The person's word on these very commands; without a person at a terminal it is no."""
    lines = plain.block("\n".join(["", "This runs:", *(f"  {_shown(argv)}" for argv in steps)]))
    question = f"{lines}\nPush and open the pull request?"
    return agreed(question, sys.stdout, sys.stderr)


def _run(steps: Sequence[Sequence[str]], body: str) -> int:
    for argv in steps:
        with tempfile.TemporaryFile("w+") as text:
            text.write(body)
            text.seek(0)
            code = process.attended(argv, text, os.environ)
        if code:
            raise KernError(
                f"{argv[0]} failed (exit {code}): {_shown(argv)}",
                hint="what it says stands above; kern pr tries again",
            )
    return Exit.OK


def _shown(argv: Sequence[str]) -> str:
    return shlex.join(plain.line(word, 300) for word in argv)


def _say(*lines: str) -> None:
    print(*map(plain.block, lines), sep="\n", file=sys.stderr, flush=True)
