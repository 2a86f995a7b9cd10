"""git's testimony: what the task's commit must hold, and whether a commit is the task's."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar, cast

from kern import plain
from kern.git import filters, history, index
from kern.git.history import Commit
from kern.git.repository import Change, Entry, Repo
from kern.git.snapshot import Snapshots, left_out
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.spec import checklist
from kern.stages import record
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
            return commit.trailer == trailer(key)
        if not ticked(now, key):
            return False
        before = (self.repo.content(parent, SPEC) for parent in commit.parents)
        there = any(ticked(text, key) for text in before if text is not None)
        return not there or commit.trailer == trailer(key)

    def ticked(self, revision: str, key: Key) -> bool:
        """Whether SPEC.md has the task done there."""
        return ticked(self.repo.content(revision, SPEC) or b"", key)

    def carries(self, commit: Commit, snapshot: str) -> bool:
        """Whether it holds what the snapshot has uncommitted on top of the commit before."""
        own = filters.cleaned(self.repo, self.repo.changed(commit.parents[0], snapshot))
        holds = history.changed_by(self.repo, commit)
        return any(holds[path][1] == own[path][1] for path in holds.keys() & own.keys())

    def proves(self, commit: Commit, key: Key, change: tuple[str, str] | None) -> bool:
        """Whether it ticks the task as the task's commit, and does not merely carry the `[x]` that
        stands on the disk for a stage 3 at work; `change`: the snapshots before and after.
        """
        if not self.ticks(commit, key):
            return False
        if commit.trailer == trailer(key) or commit.sha in history.marked(self.repo, "stage 3"):
            return True
        if change is None or not self._clean(*change):  # what changes nothing is in every commit
            return False
        return self.expected(*change, commit.sha)[0] == commit.tree

    def among(self, commits: Sequence[Commit], key: Key, change: tuple[str, str]) -> bool:
        """Whether one of the commits is the task's, where not all of them are stage 3's."""
        ours = history.marked(self.repo, "stage 3")
        own = [commit for commit in commits if self.proves(commit, key, change)]
        return any(one.sha not in ours or not self.objection(one, key, *change) for one in own)

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

    def objection(self, commit: Commit, key: Key, start: str, tree: str) -> str:
        """Why the commit is not the task's; empty when it is."""
        asked = commit.sha, key
        return self._once(start, tree, asked, lambda: self._object(commit, key, start, tree))

    def _object(self, commit: Commit, key: Key, start: str, tree: str) -> str:
        if len(commit.parents) != 1:
            return "it is not one commit on top of the one before"
        parent = commit.parents[0]
        _, conflicts = self.expected(start, tree, parent)
        if conflicts:
            return f"it conflicts in {', '.join(conflicts[:3])}"
        if why := self._strays(self.altered(commit, start, tree), parent, start, tree):
            return why
        if not self.ticks(commit, key):
            if self.repo.content(commit.sha, SPEC) is None:
                return "its message lacks the trailer Kern-Task"
            return "its SPEC.md does not tick the task"
        return ""

    def altered(self, commit: Commit, start: str, tree: str) -> dict[str, Entry | None]:
        """What the commit holds otherwise than the task's change has it, its documents aside."""
        merged, _ = self.expected(start, tree, commit.parents[0])
        strayed = self.repo.changed(merged, commit.tree)
        return {path: new for path, (_, new) in strayed.items() if path not in (SPEC, LEARNINGS)}

    def _strays(
        self, strayed: Mapping[str, Entry | None], parent: str, start: str, tree: str
    ) -> str:
        """A hook may alter the task's paths, never add others, undo them, or let in what is the
        person's.
        """
        if not strayed:
            return ""
        own = self.task_change(start, tree)
        if foreign := sorted(strayed.keys() - own.keys()):
            return f"it holds more than the task: {', '.join(foreign[:3])}"
        before = self.repo.changed(parent, start)
        for path, got in strayed.items():
            if path in before:
                return f"it holds uncommitted changes of yours in {path}"
            if got == self.repo.entry(parent, path):
                return f"it leaves out {path}"
        if not self.repo.hooks("pre-commit"):  # those after it come too late for the tree
            return f"it differs from the task's change in {sorted(strayed)[0]}"
        return ""


def trailer(key: Key) -> str:
    """What stands behind `Kern-Task:` in the task's commit."""
    return plain.line(key.text, 10_000)


def ticked(data: bytes, key: Key) -> bool:
    """Whether that SPEC.md has the task done."""
    found = checklist.parse(plain.decode(data)).find(key)
    return found is not None and found.marker is Marker.DONE
