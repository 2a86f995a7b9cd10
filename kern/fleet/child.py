"""One task in one worktree: an ordinary kern is started there and waited for, and what it left is
read. What it has done is told by git and its files, not by its exit code.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import kern
from kern import plain
from kern.errors import Exit, KernError
from kern.fleet import land, worktree
from kern.fleet.work import Carry, Job, Outcome
from kern.fleet.worktree import Yard
from kern.git import refs
from kern.git.repository import Repo
from kern.many import Many
from kern.model import LEARNINGS, SPEC, Marker
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import control, lock, process, waits

_SAID = re.compile(r"^kern: (.+(?:\n      .+)*)(?:\n  hint: (.+))?", re.M)
_NO_FAULT = (Exit.HELP_NEEDED, Exit.LIMIT)  # what it says then is in SPEC.md and the journal
_FAULTY = "Traceback (most recent call last)"
_STEP_S = 0.2
_TAIL = 1 << 16  # bytes of what a child printed


@dataclass(slots=True)
class Children:
    """The kerns that are at work, by their work branches."""

    at_work: dict[str, tuple[Popen[bytes], Repo]] = field(default_factory=dict)
    closed: bool = False  # none is to begin any more
    guard: threading.Lock = field(default_factory=threading.Lock)
    # Ends those on other machines, `True` at once; None where all are here.
    afar: Callable[[bool], None] | None = None

    def stop(self) -> None:
        """Before the next stage begins."""
        if self.afar:
            self.afar(False)
        for _, repo in list(self.at_work.values()):
            holder = lock.holder(repo.git_dir)
            if holder and holder.run and not control.asked(repo.git_dir, holder.run):
                control.ask(repo.git_dir, holder.run)

    def end(self) -> None:
        """At once: each leaves its task to be resumed."""
        with self.guard:
            self.closed = True
            found = [child for child, _ in self.at_work.values()]
        if self.afar:
            self.afar(True)
        for child in found:
            if child.poll() is None:
                child.terminate()


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where jobs are carried out. `home`: the person's tree, None where there is none; `repo`: the
    other worktrees' as well.
    """

    yard: Yard
    many: Many
    home: Repo | None = None
    roomy: bool = False  # whether a worker's agents see what git ignores in `home`
    children: Children = field(default_factory=Children)


def unhurried(carry: Carry, seconds: float, children: Children) -> Carry:
    """Between two tasks of a worker so many seconds pass."""
    known: set[int] = set()  # workers that had a task

    def carried(job: Job) -> Outcome:
        left = seconds if job.worker in known else 0.0
        known.add(job.worker)
        while left > 0 and not children.closed:
            waits.sleep(min(left, _STEP_S))
            left -= _STEP_S
        return carry(job)

    return carried


def carry(shop: Workshop, job: Job) -> Outcome:
    """What became of the job; raises nothing that a worktree or a child can be to blame for."""
    try:
        made = _made(shop, job)
        code, said = _run(shop, job, made)
    except (KernError, OSError) as exc:
        hint = exc.hint if isinstance(exc, KernError) else "fix it, then run kern again"
        return Outcome(job, 1, fault=str(exc), hint=hint, unfit=True, under_way=job.again)
    return read(made, job, code, said)


def _made(shop: Workshop, job: Job) -> Repo:
    if job.again:
        return worktree.again(shop.yard, job.place, job.branch)
    made = worktree.make(shop.yard, job.place, job.branch, job.base)
    if shop.home and not shop.roomy:
        worktree.equip(made, shop.home, shop.many)
    worktree.write(made, job.papers)
    land.lay(made, job.before)
    return made


def _run(shop: Workshop, job: Job, made: Repo) -> tuple[int, str]:
    """Exit code and what it printed last."""
    log, place = shop.yard.log(job.worker), made.root
    before = log.stat().st_size if log.exists() else 0
    with shop.children.guard:
        if shop.children.closed:
            return -2, ""
        child = process.another(_argv(job), place, _environment(job), log)
        shop.children.at_work[job.branch] = child, made
    try:
        code = child.wait()
    finally:
        shop.children.at_work.pop(job.branch, None)
    with log.open("rb") as printed:
        printed.seek(max(before, log.stat().st_size - _TAIL))
        return code, printed.read().decode("utf-8", "replace")


def _argv(job: Job) -> list[str]:
    """This kern, whatever the worktree's folder holds."""
    ours = str(Path(kern.__file__).resolve().parent.parent)
    path = f"sys.path.insert(0, {ours!r}); " if ours in sys.path or "" in sys.path else ""
    begin = f"import sys; {path}from kern.cli.main import main; main()"
    argv = ("1", "0", "--task", str(job.number), *job.options)
    return [sys.executable, "-P", "-c", begin, *argv]


def _environment(job: Job) -> Mapping[str, str]:
    own = {process.WORKER: str(job.worker), process.FLEET: job.run}
    return {**os.environ, **own, **dict(job.variables)}


def _told(said: str) -> tuple[str, str]:
    """The fault that a kern named last, and its hint; empty where it named none."""
    found = list(_SAID.finditer(plain.block(said)))
    return (found[-1][1], found[-1][2] or "") if found else ("", "")


def read(made: Repo, job: Job, code: int, said: str = "") -> Outcome:
    """What the worktree holds after its kern has ended. Its text is a stranger's to the caller."""
    if not made.root.is_dir():
        gone = f"its worktree is gone: {made.root}"
        return Outcome(job, code, fault=gone, hint="run kern again", unfit=True)
    try:
        papers = Documents(made.root)
        found = ((name, papers.read(name)) for name in (SPEC, LEARNINGS))
        kept = tuple((name, text) for name, text in found if text is not None)
        begun = refs.start(made, job.branch) is not None
        head = made.plain_head()
    except (KernError, OSError) as exc:
        return Outcome(job, code, fault=str(exc), hint=getattr(exc, "hint", ""), unfit=True)
    task = parse(dict(kept).get(SPEC, "")).find(job.key)
    marker = task.marker if task else None
    under_way = begun or marker is Marker.ACTIVE
    ours = head is not None and head.branch == job.branch and head.commit != job.base
    commit = head.commit if ours and head and not under_way and marker is Marker.DONE else ""
    fault, hint = _told(said) if code else ("", "")
    if code and not fault:
        last = f"ended with exit {code}: {plain.last(said)}"
        how = f"was ended by signal {-code}" if code < 0 else last
        fault = f"its kern {how}" if code not in _NO_FAULT or _FAULTY in said else ""
    unfit = bool(fault) and not begun and marker is Marker.PENDING
    return Outcome(job, code, commit, under_way, kept, fault, hint, unfit)
