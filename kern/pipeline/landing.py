"""Where the commits of a run land: on the branch that it is started on, or on a new one from there.
kern never pushes.
"""

import re
import time

from kern import plain
from kern.errors import UsageError
from kern.git import branches, refs
from kern.git.repository import Repo
from kern.spec.checklist import Spec

DATE = "{date}"


def branch(repo: Repo, wanted: str, parsed: Spec) -> str:
    """The branch of the run; one that is not there yet is begun once kern holds the lock. `wanted`:
    of the command line or of kern.toml, `{date}` in it stands for today; empty: the one in use.
    On a branch of that name, or of that name with another date, the run goes on.
    """
    here = repo.head().branch
    if not wanted or _form(wanted).fullmatch(here):
        return here
    name = wanted.replace(DATE, time.strftime("%Y-%m-%d"))
    if not branches.valid(repo, name):
        raise UsageError(
            f"{plain.line(name, 80)!r} is no name for a branch", hint="kern --branch kern/tonight"
        )
    if branches.exists(repo, name):
        raise UsageError(
            f"the branch {name} is there already",
            hint=f"git switch {name}, then kern: it goes on there; or another: kern --branch NAME",
        )
    if parsed.active or any(begun == here for begun, _ in refs.starts(repo)):
        tasks = [f": {plain.line(task.text, 100)}" for task in parsed.active[:1]]
        raise UsageError(
            f"a task is in progress on {here}{''.join(tasks)}",
            hint=f"kern 1 --branch {here} finishes it there; then kern begins {name}",
        )
    return name


def foretold(repo: Repo, wanted: str, parsed: Spec) -> list[str]:
    """The same of a run that would be started now; nothing where it would refuse to start."""
    here = repo.head().branch
    if not here:
        return []
    name = branch(repo, wanted, parsed)
    return [said(repo, name, here if name != here else "")]


def _form(wanted: str) -> re.Pattern[str]:
    """The names that it stands for, on whatever day."""
    return re.compile(re.escape(wanted).replace(re.escape(DATE), r"\d{4}-\d\d-\d\d"))


def said(repo: Repo, name: str, begun_from: str) -> str:
    """What a run says first of it."""
    follows = branches.upstream(repo, name)
    how = f"follows {follows}" if follows else "follows no upstream"
    new = f"a new branch from {begun_from}" if begun_from else f"which {how}"
    return f"commits go to {name}, {new}; nothing is pushed"
