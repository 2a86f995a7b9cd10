"""How gates end on a merged tree: in the run's own room, or where agents have none in a worktree of
the landing's own, which is made when it is first needed.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from kern import config
from kern.checks import result
from kern.config import Gate
from kern.errors import KernError, UsageError
from kern.events import GateEnded
from kern.fleet import worktree
from kern.fleet.worktree import Yard
from kern.model import LEARNINGS, SPEC, OnRed, Result
from kern.pipeline import project, session
from kern.pipeline.options import Options
from kern.pipeline.site import Site
from kern.spec.file import Documents

NUMBER = 0  # of its worktree; the workers' begin at 1
_SEEN = (SPEC, LEARNINGS, config.FILE)  # as they stand in the person's tree, where git has none


@dataclass
class Proving:
    """Callable as `land.Check`; to be closed. All of it in one thread."""

    site: Site  # the person's own tree
    yard: Yard
    options: Options  # of the run
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _apart: Site | None = None
    _blamed: bool = False

    def __call__(self, tree: str, head: str, gates: Sequence[Gate]) -> tuple[Result | None, str]:
        """Raises KernError where that says nothing about the tree."""
        results = list[Result]()
        for gate in gates:
            ended = self._run(gate, tree, head)
            if ended.red:
                ended = self._beside(gate, ended, head)
            if ended.blocks:
                self._blamed = True
                return ended, ""
            results.append(ended)
        return None, result.proved(results) if results else ""

    def close(self) -> None:
        """The worktree goes, too."""
        site, self._apart = self._apart, None
        self._open.close()
        if site and not self._blamed:  # else a person was told where all that it printed is
            worktree.forget_runs(site.scope.base, site.repo.root)

    def _run(self, gate: Gate, tree: str, head: str) -> Result:
        """Asked again for the same files, it is remembered."""
        site = self.site
        if not site.rooms.mounted:
            site = self._beside_the_tree(tree, head)
        if known := site.gates.known(gate, project.subject(site, tree)):
            return known
        ended = project.run_gate(site, gate, tree)
        self.site.sink(GateEnded(ended))
        return ended

    def _beside(self, gate: Gate, ended: Result, head: str) -> Result:
        """A task's own gate says what done means; of the others it counts how they are without the
        merged task: where one is red all the same, the task is not to blame.
        """
        if ended.cannot_run:
            self._blamed = True
            message, hint = result.refusal([ended])
            raise UsageError(f"{message}\nwhere merged tasks are checked", hint=hint)
        if not gate.name:
            return ended
        before = self._run(gate, self.site.repo.tree(head), head)
        allowed = gate.known_red or self.options.on_red is not OnRed.STOP
        if before.red and not allowed:
            self._blamed = True
            said, _ = result.refusal([before])
            raise KernError(
                f"{said}\nthat is {head[:7]}, without any task that waits to land",
                hint="fix it, or say in [worktree] of kern.toml what a worktree needs (copy, "
                "setup), then run kern again: finished tasks land then",
            )
        return ended.against(before.red)

    def _beside_the_tree(self, tree: str, head: str) -> Site:
        """With the files of that tree; equipped, set up, and with a session on it."""
        repo = self.site.repo
        commit = head
        if tree != repo.tree(head):
            commit = repo.commit_object(tree, (head,), "merged, to be checked\n")
        made = worktree.at(self.yard, NUMBER, commit)
        ours = ((name, Documents(repo.root).read(name)) for name in _SEEN)
        new = ((name, text) for name, text in ours if text and repo.entry(commit, name) is None)
        worktree.write(made, new)
        if self._apart is None:
            self._open.callback(worktree.remove, self.yard, NUMBER)
            worktree.equip(made, repo, self.site.caller.settings.fleet)
            own = self.options
            options = Options(on_red=own.on_red, leave=own.leave, tick=own.tick)
            begun = self._open.enter_context(
                session.begin(
                    made.root, options, self.site.sink, empty=True, commits=False, paid=False
                )
            )
            begun.site.caller.heed = lambda: None  # a person is heeded between two turns
            self._apart = begun.site
            worktree.set_up(begun.site)
        return self._apart
