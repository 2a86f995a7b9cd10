"""git's testimony: what the task's commit must hold, and whether a commit is the task's."""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar, cast

from kern import plain
from kern.git import filters, index
from kern.git.history import Commit
from kern.git.repository import Change, Entry, Repo
from kern.git.snapshot import Snapshots, left_out
from kern.model import SPEC, Key, Marker, Stage
from kern.spec.parse import parse
from kern.stages import record
from kern.stages.briefs import task_name
from kern.system.workspace import Scope

T = TypeVar("T")


class Witness:
    def __init__(self, repo: Repo, snapshots: Snapshots, scope: Scope) -> None:
        self.repo = repo
        self.snapshots = snapshots
        self.scope = scope
        # Untracked files that are nobody's work as long as they hold what a gate of this run made
        # and left. In no file, where an agent could name a person's.
        self.made: dict[str, Entry] = {}
        # Functions of immutable objects, asked for again at each step.
        self._known: dict[Hashable, object] = {}
        self._of: tuple[int, Mapping[str, Change]] = 0, {}

    def staged(self, start: str, tree: str) -> Mapping[str, Change]:
        """What the task did to the index alone, beside the change between the two snapshots."""
        second = record.load(self.scope, Stage.IMPLEMENT)
        return second.index if second and second.change == (start, tree) else {}

    def ticks(self, commit: Commit, key: Key) -> bool:
        """Whether the commit is the witness of the task: its SPEC.md ticks it; where git does not
        track SPEC.md, its trailer names it.
        """
        now = self.repo.content(commit.sha, SPEC)
        if now is None:
            return commit.trailer == task_name(key)
        if not ticked(now, key):
            return False
        before = (self.repo.content(parent, SPEC) for parent in commit.parents)
        there = any(ticked(text, key) for text in before if text is not None)
        return not there or commit.trailer == task_name(key)

    def whole(self, tree: str, staged: Mapping[str, Change]) -> str:
        """The tree as stage 2 left it, with what it did to the index alone."""
        return self.repo.tree_with(tree, {path: new for path, (_, new) in staged.items()})

    def expected(self, start: str, tree: str, onto: str) -> tuple[str, list[str]]:
        """HEAD plus exactly what changed between the snapshots, merged three-way; or the paths in
        conflict. SPEC.md and LEARNINGS.md are as in `onto`.
        """
        return self._once(start, tree, onto, lambda: self._merge(start, tree, onto))

    def _once(self, start: str, tree: str, asked: Hashable, ask: Callable[[], T]) -> T:
        """What was told before; not of another change, nor of objects that are gone."""
        of = self.repo.losses, self.staged(start, tree)
        if self._of != of:
            self._of = of
            self._known.clear()
        if (start, tree, asked) not in self._known:
            self._known[start, tree, asked] = ask()
        return cast(T, self._known[start, tree, asked])

    def _merge(self, start: str, tree: str, onto: str) -> tuple[str, list[str]]:
        head = f"{onto}^{{tree}}"
        clean = self._clean(start, tree)
        theirs = self.repo.tree_with(head, {path: new for path, (_, new) in clean.items()})
        dirty = self.repo.changed(onto, start)
        if not clean.keys() & dirty.keys():  # the person has nothing uncommitted in these paths
            return theirs, []
        base = self.repo.tree_with(head, {path: old for path, (old, _) in clean.items()})
        return index.merge(self.repo, base, self.repo.tree(head), theirs)

    def taken_away(self, start: str, tree: str, onto: str) -> list[str]:
        """The paths in which the change removed what a person had not committed: what is to be
        committed plus what the person had must give what the agent left.
        """
        clean = self._clean(start, tree)
        if not clean.keys() & self.repo.changed(onto, start).keys():
            return []
        head = self.repo.tree(onto)
        had = self.repo.tree_with(head, {path: old for path, (old, _) in clean.items()})
        left = self.repo.tree_with(head, {path: new for path, (_, new) in clean.items()})
        merged, _ = self.expected(start, tree, onto)
        again, conflicts = index.merge(self.repo, head, had, merged)
        return conflicts or sorted(self.repo.changed(again, left))

    def _clean(self, start: str, tree: str) -> dict[str, Change]:
        def clean() -> dict[str, Change]:
            return filters.cleaned(self.repo, self.task_change(start, tree))

        return self._once(start, tree, "clean", clean)

    def uncommitted(self, onto: str, tree: str) -> list[str]:
        """The paths in which a snapshot differs from a commit, as git would see it."""
        change = {
            path: entries
            for path, entries in self.repo.changed(onto, tree).items()
            if not left_out(path)
        }
        clean = filters.cleaned(self.repo, change)
        return sorted(path for path, (old, new) in clean.items() if old != new)

    def task_change(self, start: str, tree: str) -> dict[str, Change]:
        """What the task changed, without new files that its own .gitignore hides. What a gate had
        left there before is no person's: an agent's version of it is new.
        """
        change = self.repo.changed(start, tree)
        if made := {
            path for path in change.keys() & self.made if change[path][0] == self.made[path]
        }:
            head = self.repo.head().commit
            for path in (path for path in made if self.repo.entry(head, path) is None):
                _, left = change.pop(path)
                change |= {path: (None, left)} if left else {}
        if any(path.split("/")[-1] == ".gitignore" for path in change):
            new = [path for path, (old, _) in change.items() if old is None]
            hidden = self.snapshots.ignored_by(tree, new)
            change = {path: entries for path, entries in change.items() if path not in hidden}
        return {**change, **self.staged(start, tree)}

    def rejection(
        self, altered: Mapping[str, Entry | None], parent: str, start: str, tree: str
    ) -> str:
        """Why what a hook altered cannot be the task's: it may not undo the task's paths, or let in
        what is the person's. Empty where it can.
        """
        own = self.task_change(start, tree)
        before = self.repo.changed(parent, start)
        for path, got in altered.items():
            if path in before:
                return f"it holds uncommitted changes of yours in {path}"
            if path in own and got == self.repo.entry(parent, path):
                return f"it leaves out {path}"
        return ""


def ticked(data: bytes, key: Key) -> bool:
    """Whether that SPEC.md has the task done."""
    found = parse(plain.decode(data)).find(key)
    return found is not None and found.marker is Marker.DONE
