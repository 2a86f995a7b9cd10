"""How gates end on a merged tree: in a worktree of the landing's own, with all that holds gates
elsewhere. It is made when it is first needed.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kern import config
from kern.checks import result
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.events import Event, GateEnded, GateStarted, Sink
from kern.fleet import child, outfit, worktrees
from kern.fleet.landing import Checked
from kern.fleet.worktrees import Yard
from kern.git.repository import Repo
from kern.many import Many
from kern.model import LEARNINGS, SPEC, OnRed, Result
from kern.pipeline import baseline, session
from kern.pipeline.options import Options
from kern.pipeline.site import Site
from kern.spec.file import Documents

NUMBER = 0  # of its worktree; the workers' begin at 1
_SEEN = (SPEC, LEARNINGS, config.FILE)  # as they stand in the person's tree when it is made


@dataclass
class Proving:
    """Callable as `landing.Checks`; to be closed. All of it in one thread."""

    yard: Yard
    home: Repo
    many: Many
    options: Options  # of the run
    sink: Sink
    shown: bool = False  # see `outfit.equip`
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _site: Site | None = None
    _blamed: bool = False

    def __call__(self, tree: str, head: str, gates: Sequence[Gate]) -> Checked:
        """Raises KernError where that says nothing about the tree."""
        results = list[Result]()
        for gate in gates:
            ended = self._run(gate, tree, head)
            if ended.red:
                ended = self._beside(gate, ended, head)
            if ended.blocks:
                self._blamed = True
                return Checked(red=ended)
            results.append(ended)
        return Checked(proved=result.proved(results) if results else "")

    def close(self) -> None:
        """The worktree goes, too."""
        site, self._site = self._site, None
        self._open.close()
        if site and not self._blamed:  # else a person was told where all that it printed is
            worktrees.forget_runs(site.scope.base, site.repo.root)

    def _run(self, gate: Gate, tree: str, head: str) -> Result:
        """Asked again for the same files, it is remembered."""
        site = self._site or self._begun(head)
        commit = head
        if tree != head:
            commit = site.repo.commit_object(tree, (head,), "merged, to be checked\n")
        self._go_to(site.repo, commit)
        (ended,) = baseline.now(site, [gate])
        return ended

    def _beside(self, gate: Gate, ended: Result, head: str) -> Result:
        """A task's own gate says what done means; of the others it counts how they are without the
        merged tasks: where one is red all the same, none of these is to blame.
        """
        if ended.cannot_run:
            self._blamed = True
            message, hint = result.refusal([ended])
            raise UsageError(
                f"{message}\nin the worktree where merged tasks are checked", hint=hint
            )
        if not gate.name:
            return ended
        before = self._run(gate, head, head)
        allowed = gate.known_red or self.options.on_red is not OnRed.STOP
        if before.red and not allowed:
            self._blamed = True
            said, _ = result.refusal([before])
            raise KernError(
                f"{said}\nthat is {head[:7]}, without any task that waits to land",
                hint="fix it, or say in [worktree] of kern.toml what a worktree needs (copy, link, "
                "setup), then run kern again: finished tasks land then",
            )
        return ended.against(before.red)

    def _begun(self, head: str) -> Site:
        """The worktree, equipped and set up, with a session on it."""
        made = worktrees.at(self.yard, NUMBER, head)
        self._open.callback(worktrees.remove, self.yard, NUMBER)
        outfit.equip(made, self.home, self.many, shown=self.shown)
        ours = ((name, Documents(self.home.root).read(name)) for name in _SEEN)
        outfit.write(made, ((name, text) for name, text in ours if text is not None))
        child.set_up(self.yard, made, self.many)
        own = self.options
        options = Options(on_red=own.on_red, leave=own.leave, tick=own.tick)
        begun = self._open.enter_context(
            session.begin(made.root, options, self._told, empty=True, commits=False, paid=False)
        )
        begun.site.caller.heed = lambda: None  # what a person asks is heeded between two turns
        self._site = begun.site
        return begun.site

    def _told(self, event: Event) -> None:
        """No gate of a merged tree is one before a task."""
        if isinstance(event, GateStarted | GateEnded):
            event = replace(event, before=False)
        self.sink(event)

    def _go_to(self, repo: Repo, commit: str) -> None:
        worktrees.at(self.yard, NUMBER, commit)
        # `mods/` in .gitignore is no link of that name: git's clean has taken it.
        outfit.equip(repo, self.home, self.many, shown=self.shown)
        spec = Documents(repo.root)
        if spec.read(SPEC) is None and (text := Documents(self.home.root).read(SPEC)) is not None:
            spec.write(SPEC, text)
