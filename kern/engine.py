"""The loop: look at what is true, ask the pipeline what is next, have the walk do it, tell the
sinks.
"""

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kern import bundle, choice, lock, operations, process, repo, spec, summary, workspace
from kern.agents import claude
from kern.documents import LEARNINGS, SPEC, Documents
from kern.errors import Interrupted, KernError, UsageError
from kern.events import (
    RunStarted,
    Sink,
    TaskSettled,
    TaskStarted,
    Traced,
    Waiting,
    Warned,
)
from kern.observe import Situation
from kern.pipeline import Do, Outcome, resume
from kern.repo import Repo
from kern.spec import Diagnostic, Key, Marker, Spec
from kern.stages import Caller
from kern.summary import Settled
from kern.walk import Walk

MOST_SELECTED = 2  # in one iteration: a task, and another where a person took that one away
MOST_STEPS = (
    200  # of one walk; the table's longest is far below, so more means a fault of kern's own
)


@dataclass(slots=True)
class Options:
    iterations: int = 5
    delay: float = 10.0
    command: str = claude.COMMAND
    sleep: Callable[[float], None] = time.sleep
    tick: Callable[[float], None] = lambda seconds: None


def prepare(folder: Path) -> tuple[Repo, Documents, Spec]:
    """What must be right before anything begins; each fault with its remedy."""
    found = repo.open_at(folder)
    head = found.head()
    papers = Documents(found.root)
    papers.read(LEARNINGS)
    for name in (SPEC, LEARNINGS):
        entry = found.entries(head.commit).get(name) if papers.form(name) else None
        if entry and entry.mode == "120000":
            raise UsageError(
                f"{name} is a link in git: kern would commit it as a file",
                hint=f"git rm --cached {name}, then put the file itself there",
            )
    _, parsed = papers.spec()
    if parsed.diagnostics:
        raise UsageError(
            _listed(parsed.diagnostics), hint="kern never guesses what a marker means: edit SPEC.md"
        )
    if not parsed.tasks:
        raise UsageError(
            f"no task line in {found.root / SPEC}", hint=f"a task is a line like:  {spec.EXAMPLE}"
        )
    return found, papers, parsed


def _listed(faults: tuple[Diagnostic, ...]) -> str:
    shown = [f"SPEC.md line {fault.line}: {fault.message}" for fault in faults[:50]]
    more = [f"and {len(faults) - 50} more"] if len(faults) > 50 else []
    return "\n".join([*shown, *more])


def run(folder: Path, options: Options, sink: Sink) -> int:
    """One run of kern; the exit code. Raises KernError for what a person must settle."""
    found, _, parsed = prepare(folder)
    if busy := operations.under_way(found):
        raise UsageError(
            f"{busy} in {found.root}", hint="finish or abort it first: git status tells how"
        )
    if complaint := found.identity():
        raise UsageError(
            f"git does not know who commits: {complaint}",
            hint="git config --global user.name YOU; git config --global user.email YOU@EXAMPLE",
        )
    templates = bundle.templates(found.root)
    _require(options.command)
    scope = workspace.scope(found.root, found.head().name)
    run_id = secrets.token_hex(8)
    caller = Caller(found.root, scope, run_id, sink, options.command, options.sleep, options.tick)
    with process.signals(), lock.hold(scope, found.git_dir):
        workspace.empty(found.git_dir / "kern")
        loop = Loop(Walk(found, scope, caller, templates, sink), options, sink)
        if scope.notice:
            sink(Warned(scope.notice))
        sink(
            RunStarted(
                run_id,
                str(found.root),
                found.head().name,
                str(scope.folder),
                sum(task.marker is not Marker.DONE for task in parsed.tasks),
                options.iterations,
            )
        )
        try:
            return loop.run()
        except Interrupted:
            process.sweep(caller.mark)
            raise


def _require(command: str) -> None:
    """The agent is there, and will not refuse root: said before the first token is spent."""
    if shutil.which(command) is None:
        there = any(
            Path(part, command).exists() for part in os.environ.get("PATH", "").split(os.pathsep)
        )
        what = (
            "is not executable"
            if there or Path(command).exists()
            else "is not installed, or not on PATH"
        )
        raise UsageError(f"{command} {what}", hint=_agent_hint(command))
    if (
        os.path.basename(command) == claude.COMMAND
        and os.getuid() == 0
        and not os.environ.get("IS_SANDBOX")
    ):
        raise KernError(
            "claude refuses to work unattended as root",
            hint="run kern as an ordinary user; in a container, set IS_SANDBOX=1",
        )


class Loop:
    """Iterations: each carries one task to an outcome."""

    def __init__(self, walk: Walk, options: Options, sink: Sink) -> None:
        self.walk = walk
        self.options = options
        self.sink = sink
        self.branch = walk.repo.head().branch
        self.taken: Key | None = None
        self.settled: list[Settled] = []
        self.passed_over: set[Key] = set()
        self.began = time.monotonic()

    def run(self) -> int:
        # Step 0: an agent that outlived a killed kern would go on editing the tree.
        if ended := process.sweep(("KERN_ROOT", str(self.walk.repo.root))):
            self.sink(Warned(f"ended {ended} process(es) that an earlier run left behind"))
        if note := self._ignored():
            self.sink(Warned(note))
        error: BaseException | None = None
        try:
            for number in range(1, self.options.iterations + 1):
                if number > 1:
                    self._pause()
                if not self._iterate(number):
                    break
        except BaseException as exc:
            error = exc
            raise
        finally:
            code = self._end(error)
        return code

    def _ignored(self) -> str:
        if self.walk.repo.ignored(SPEC):
            return (
                f"git ignores {SPEC}: commits leave it out and name the task in a Kern-Task trailer"
            )
        return ""

    def _pause(self) -> None:
        _, parsed = self.walk.papers.spec()
        if self.options.delay and (parsed.active or choice.select(parsed, self.passed_over)):
            self.sink(Waiting(self.options.delay))
            self.options.sleep(self.options.delay)

    def _iterate(self, number: int) -> bool:
        """One task to its outcome; False where nothing is ready."""
        told = False
        selected = 0
        for step in range(MOST_STEPS):
            at = self.walk.look()
            if at.head.branch != self.branch:
                raise KernError(
                    f"the branch was switched under the run: {self.branch} to {at.head.name}",
                    hint=f"git switch {self.branch}, then run kern again: it resumes",
                )
            # What this run selected is not in progress elsewhere, whatever refs another branch has.
            facts = replace(at.facts, elsewhere=at.facts.elsewhere and at.key != self.taken)
            do = resume(facts)
            self.sink(Traced(f"next: {str(do).partition(': ')[2]}"))
            if not told and do is not Do.SELECT and at.key is not None and do is not Do.ABANDON:
                self.sink(
                    TaskStarted(at.key.text, number, "" if step else str(do).partition(": ")[2])
                )
                told = True
            if do is Do.SELECT:
                selected += 1
                if selected > MOST_SELECTED:
                    raise KernError(
                        "the task is taken out of progress again and again: does a hook stash?",
                        hint="git status, git stash list; then run kern again",
                    )
                task = self.walk.take_next(self.passed_over)
                if task is None:
                    return False
                self.taken = task.key
                self.sink(TaskStarted(task.text, number))
                told = True
            elif settled := self._perform(do, at):
                self.settled.append(settled)
                if settled.outcome is not Outcome.DONE:
                    self.passed_over.add(settled.key)
                self.sink(TaskSettled(settled.task, settled.outcome, settled.detail))
                return True
        raise KernError(
            f"no end after {MOST_STEPS} steps: this is a fault in kern",
            hint="kern -v shows the steps",
        )

    def _perform(self, do: Do, at: Situation) -> Settled | None:
        walk = self.walk
        match do:
            case Do.STOP:
                text = at.key.text if at.key else ""
                raise KernError(
                    f"the task in progress was begun on branch {at.other_branch}: {text}",
                    hint=f"{_back(at.other_branch)}, or set its marker in SPEC.md to [ ] here",
                )
            case Do.UNDO_COMMIT:
                walk.recovery.undo_commit(at)
            case Do.FINISH:
                return walk.settling.finish(at)
            case Do.TAKE_OVER:
                walk.recovery.take_over(at)
            case Do.REMARK:
                walk.recovery.remark(at)
            case Do.ABANDON:
                walk.recovery.abandon(at)
            case Do.BOOK:
                walk.settling.book(at)
            case Do.RELEASE | Do.SKIP_UNFIT:
                return walk.settling.release(at)
            case Do.SKIP:
                return walk.settling.release(at, exhausted=True)
            case Do.COMMIT | Do.COMMIT_SELF:
                walk.commit(at, ask=do is Do.COMMIT)
            case Do.REJECT:
                walk.reject(at)
            case Do.REPROVE:
                walk.reprove(at)
            case Do.PROVE:
                walk.prove(at)
            case Do.UNDO:
                walk.recovery.undo(at)
            case Do.NOTE_RESEARCH:
                walk.note_research(at)
            case Do.IMPLEMENT | Do.DECOMPOSE:
                walk.implement(at)
            case Do.RESEARCH:
                walk.research(at)
            case Do.SELECT:
                raise AssertionError("handled by the caller")
        return None

    def _end(self, error: BaseException | None) -> int:
        """The summary, whatever ended the run."""
        try:
            parsed = self.walk.papers.spec()[1]
        except KernError:
            parsed = None
        caller = self.walk.caller
        ended = summary.of(
            self.settled,
            parsed,
            error,
            seconds=time.monotonic() - self.began,
            cost_usd=caller.cost_usd,
            unpriced=caller.unpriced,
        )
        self.sink(ended)
        return ended.exit_code


def _back(branch: str) -> str:
    """The command that goes back to where a walk was begun."""
    detached = re.fullmatch(r"HEAD-([0-9a-f]{7})", branch)
    return f"git checkout --detach {detached[1]}" if detached else f"git switch {branch}"


def _agent_hint(command: str) -> str:
    if command != claude.COMMAND:
        return "KERN_CLAUDE names it: correct it, or unset it for `claude`"
    return f"{claude.INSTALL}; then run `claude` once and log in"
