"""What goes to a worker and what comes back, over any `concurrent.futures.Executor`: threads that
each own a child process, or a cluster's workers. Both values can be pickled, and hold nothing of
the caller's environment.
"""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from kern.frozen import frozen
from kern.model import Key


@frozen
class Job:
    """One task for one ordinary kern."""

    key: Key
    number: int  # of the task in the SPEC.md that goes along, as `kern --task` takes it
    base: str  # the commit to begin on
    branch: str  # the work branch, see `work.branch`
    worker: int  # 1 and up; KERN_WORKER of agents and gates
    run: str  # the id of the run that hands it out
    papers: tuple[tuple[str, str], ...]  # path and text: SPEC.md and what else HEAD has otherwise
    options: tuple[str, ...] = ()  # of `kern 1 0`, as on a command line
    variables: tuple[tuple[str, str], ...] = ()  # KERN_… that stand for options
    setup: str = ""  # for sh, once per worktree; empty: none
    setup_s: float = 0.0  # its time-out, seconds; 0: none
    tree: int = 0  # the worktree's number; 0: the worker's
    again: bool = False  # the task is in progress there: it is resumed
    kept: str = ""  # the commit with the work that is to be mended; empty: there is none
    before: tuple[str, ...] = ()  # run files of what this attempt is to mend

    @property
    def needed(self) -> tuple[str, ...]:
        """The commits that a machine has to have for it."""
        return (self.base, self.kept) if self.kept else (self.base,)

    @property
    def place(self) -> int:
        return self.tree or self.worker


@frozen
class Outcome:
    """What became of it. Without a `commit` the task is not done."""

    job: Job
    code: int  # the child's exit code; negative: the signal that ended it
    commit: str = ""  # the newest of the work branch, which finishes the task
    under_way: bool = False  # the task is in progress there: handed out `again`, it is resumed
    papers: tuple[tuple[str, str], ...] = ()  # SPEC.md and LEARNINGS.md as the child left them
    fault: str = ""  # why the child could not work or ended badly, in its own words
    hint: str = ""
    unfit: bool = False  # the fault is the worktree's or the worker's, none of the task's
    journal: tuple[bytes, ...] = ()  # lines that the caller's journal lacks
    files: tuple[tuple[str, bytes], ...] = ()  # run files below history/, by path
    bundle: bytes = b""  # git objects that the caller lacks, with the work branch

    def paper(self, name: str) -> str | None:
        return dict(self.papers).get(name)


Carry = Callable[[Job], Outcome]  # called where the executor calls; it raises nothing of a child's


def local(count: int) -> Executor:
    """Each thread waits for a child process."""
    return ThreadPoolExecutor(count, thread_name_prefix="kern-worker")
