"""A task's repository: made alike each time, and what git tells of it later."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.eval.task import Change, Task

BRANCH = "main"
PAPERS = (":(exclude)SPEC.md", ":(exclude)LEARNINGS.md")  # kern's own part of a commit
_MOMENT = "2024-01-01T12:00:00+0000"
# Nothing of the machine's settings: commit ids are equal everywhere, and nothing is signed.
SEALED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_DATE": _MOMENT,
    "GIT_COMMITTER_DATE": _MOMENT,
}
_PERSON = {"user.name": "A Person", "user.email": "person@example.com", "gc.auto": "0"}
_CHECK_S = 300
_KNOWN = ("PATH", "LANG", "LC_ALL", "TMPDIR", "EVAL_")


def build(task: Task, root: Path) -> str:
    """The first commit, whose id is returned."""
    lay(root, task.tree)
    git(root, "init", "--quiet", f"--initial-branch={BRANCH}", "--template=")
    for name, value in _PERSON.items():
        git(root, "config", name, value)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Begin")
    return git(root, "rev-parse", "HEAD")


def lay(root: Path, change: Change) -> None:
    """Files over those that are there, whatever lies at their place."""
    for name, text in change.items():
        path = root / name
        path.unlink(missing_ok=True)
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def git(root: Path, *argv: str) -> str:
    """No hook runs: an agent may have planted one."""
    done = subprocess.run(
        ["git", "-c", f"core.hooksPath={os.devnull}", *argv],
        cwd=root,
        env={**os.environ, **SEALED},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@contextmanager
def worktree(root: Path, commit: str) -> Iterator[Path]:
    """The commit, clean, beside the repository."""
    with tempfile.TemporaryDirectory(dir=root.parent, prefix="tree-") as folder:
        place = Path(folder) / "tree"
        git(root, "worktree", "add", "--quiet", "--detach", str(place), commit)
        try:
            yield place
        finally:
            git(root, "worktree", "remove", "--force", str(place))


def passes(task: Task, root: Path, commit: str) -> bool:
    """Whether the hidden tests pass on the commit."""
    with worktree(root, commit) as place:
        return _graded(task, place)


def attempt_passes(task: Task, root: Path, start: str, attempt: str) -> bool:
    """The same for an attempt that kern keeps, as if it had been committed."""
    with worktree(root, start) as place:
        git(place, "read-tree", "--reset", "-u", attempt)
        git(place, "add", "--all")
        git(place, "commit", "--quiet", "--allow-empty", "--message=Attempt")
        return _graded(task, place)


def _graded(task: Task, place: Path) -> bool:
    lay(place, task.hidden)
    return runs(task.check, place)


def runs(command: str, folder: Path) -> bool:
    """Whether a command succeeds. It runs what an agent wrote: it is told no secret, and ends."""
    told = {name: value for name, value in os.environ.items() if name.startswith(_KNOWN)}
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env={**told, **SEALED, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(_CHECK_S) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """What it has left behind as well."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def changed_lines(root: Path, start: str, end: str) -> dict[str, int]:
    """Lines added and removed by file, without kern's own documents."""
    rows = git(root, "diff", "--numstat", "--no-renames", start, end, "--", ".", *PAPERS)
    found = (row.split("\t") for row in rows.splitlines())
    return {name: sum(int(n) for n in (more, less) if n != "-") for more, less, name in found}


def reference_lines(task: Task, root: Path, start: str) -> int:
    """What the reference solution changes."""
    with worktree(root, start) as place:
        lay(place, task.solution)
        git(place, "add", "--all")
        return sum(changed_lines(place, start, git(place, "write-tree")).values())


def environment(**more: str) -> Mapping[str, str]:
    """kern's: the person's own, with their login, but none of their git settings and no leftover
    of another run. The dates are the clock's again.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    sealed = {name: SEALED[name] for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL")}
    return {**kept, **sealed, **more}
