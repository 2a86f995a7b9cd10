"""The person's index: as it was before an attempt, and on to the task's commit."""

from collections.abc import Callable, Collection, Sequence

from kern.frozen import frozen
from kern.git import history, index
from kern.git.history import Commit
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Entry, Repo
from kern.git.snapshot import left_out
from kern.model import LEARNINGS, SPEC, Key
from kern.plain import decode, encode

# kern's edits once more: path, the staged text, the committed text, the task.
Replay = Callable[[str, str, str, Key], str]


@frozen
class Lost:
    """What is to go out of the index: it as a whole, and the paths that hold something else."""

    tree: str
    paths: Collection[str]

    def __bool__(self) -> bool:
        return bool(self.paths)


class Staged:
    def __init__(self, repo: Repo, replay: Replay) -> None:
        self.repo = repo
        self.replay = replay

    def lost(self, start: StartRef, touched: Collection[str]) -> Lost:
        """What is not in the index as it was before stage 2."""
        now = index.tree(self.repo)
        change = self.repo.changed(f"{start.index}^{{tree}}", now)
        return Lost(
            now,
            {
                path
                for path, (_, new) in change.items()
                if path not in touched and new and new.mode != SUBMODULE
            },
        )

    def to(self, tree: str, touched: Collection[str]) -> str:
        """The index holds what that tree does, but where HEAD's move touched it; the tree of what
        it held instead, empty where nothing had changed.
        """
        now = index.tree(self.repo)
        change = self.repo.changed(tree, now)
        old = {path: entries[0] for path, entries in change.items() if path not in touched}
        index.update(self.repo, old)
        return now if old else ""

    def alone(self, lost: Lost, held: Sequence[str]) -> list[str]:
        """The paths whose staged contents neither HEAD nor one of those trees holds; the two
        documents, which no tree holds, stand on the disk.
        """
        paths = {*lost.paths}
        for tree in ("HEAD^{tree}", *held):
            paths &= self.repo.changed(tree, lost.tree).keys()
        documents = {path for path in paths if left_out(path)}
        return sorted(paths - {path for path in documents if self._stands(path, lost.tree)})

    def _stands(self, path: str, tree: str) -> bool:
        try:
            data = (self.repo.root / path).read_bytes()
        except OSError:
            return False
        entry = self.repo.entry(tree, path)
        return entry is not None and entry.blob == self.repo.blob(data, path=path)

    # ---------------------------------------------------------------- on to the commit

    def forward(self, commit: Commit, key: Key | None) -> list[str]:
        """Lines that the person staged stay staged on top of it; the paths where they cannot."""
        if not commit.parents:
            return []
        parent = f"{commit.parents[0]}^{{tree}}"
        staged = self.repo.changed(parent, index.tree(self.repo))
        changes: dict[str, Entry | None] = {}
        behind = []
        for path, (_, new) in history.changed_by(self.repo, commit).items():
            if path not in staged:
                changes[path] = new
            elif (had := staged[path][1]) != new:
                ours = index.tree_with(self.repo, parent, {path: had})
                theirs = index.tree_with(self.repo, parent, {path: new})
                merged, conflicts = index.merge(self.repo, parent, ours, theirs)
                if not conflicts:
                    changes[path] = self.repo.entry(merged, path)
                elif had and new and key and path in (SPEC, LEARNINGS):
                    changes[path] = self._written(path, had, new, key)
                else:
                    behind.append(path)
        index.update(self.repo, changes)
        return behind

    def _written(self, path: str, had: Entry, new: Entry, key: Key) -> Entry:
        """kern's edits, which are pure, once more in the staged text."""
        text, came = (decode(self.repo.data(one.blob)) for one in (had, new))
        told = self.replay(path, text, came, key)
        return Entry(had.mode, self.repo.blob(encode(told)))
