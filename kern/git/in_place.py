"""The person's own tree as a run's room, where none can lie in its place: clean when a
task begins, and kern's while it is in progress.
"""

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence

from kern.git import history, index, operations
from kern.git.ignore import DOCUMENTS
from kern.git.repository import Entry, Head, Repo
from kern.git.room import Room


class InPlace(Room):
    """The index is kern's own; the person's follows what lands."""

    def __init__(self, repo: Repo, apart: Sequence[str] = ()) -> None:
        """`apart`: files that stay as they are, as kern's documents do."""
        super().__init__(repo, "place")
        self.tree = repo.root
        self._apart = *DOCUMENTS, *apart
        self.own = *self.own, *apart
        self.save: Callable[[str, str], None] = lambda known, now: None
        self._staged: dict[str, Entry | None] = {}
        self._known = list[str]()  # trees of which nothing is lost, the last one held
        self.place.mkdir(parents=True, exist_ok=True)
        for left in (self.index, self.index.with_name("index.lock")):
            left.unlink(missing_ok=True)
        if (theirs := repo.git_dir / "index").exists():  # a sparse checkout stays sparse
            shutil.copyfile(theirs, self.index)
        self._stage_apart(head := repo.head().commit)
        self.accept(head)

    def accept(self, tree: str) -> None:
        """A tree that it holds, or that is kept elsewhere."""
        self._known.append(self._bare(tree))

    def fill(self, tree: str) -> None:
        """Without a tree, as it is. What nobody has kept is saved first."""
        if not tree:
            return
        self.set_repositories_aside()
        now, wanted = self._bare(self.candidate()), self._bare(tree)
        if now != wanted:
            if now not in self._known:
                self.save(self._known[-1], now)
            self._stage_apart("")
            self._git("read-tree", "--reset", "-u", wanted)
            # What was ignored when the run began is a person's, whatever the rules say by now.
            rules = self.place / "exclude"
            rules.write_bytes(b"".join(_rule(path) for path in (*self.own, *self.ignored)))
            self._git("-c", f"core.excludesFile={rules}", "clean", "-fdq", "--", ":/")
        self._stage_apart(tree)
        self.accept(tree)

    def changed(self) -> list[str]:
        """What is not as HEAD has it, which may have moved since the documents were looked at."""
        bare = self._bare(self.repo.head().commit), self._bare(self.candidate())
        return sorted(self.repo.changed(*bare))

    def _bare(self, tree: str) -> str:
        return self.repo.tree_with(tree, dict.fromkeys(self._apart))

    def make_place(self, name: str) -> None:
        pass

    def _stage_apart(self, tree: str) -> None:
        """In the index alone, as that tree has them; without one, out of it."""
        entries = {name: self.repo.entry(tree, name) if tree else None for name in self._apart}
        if entries != self._staged:
            index.update(self.repo, entries, {"GIT_INDEX_FILE": str(self.index)})
        self._staged = entries

    def set_repositories_aside(self) -> None:
        """Those that a child made: git's clean leaves them, and no commit can hold them."""
        listed = self._git("ls-files", "-z", "--others", "--exclude-standard", "--directory")
        for path in os.fsdecode(listed).split("\0"):
            if path.endswith("/") and (self.tree / path / ".git").exists():
                rooms = (self.repo.aside / f"repository{n or ''}" for n in itertools.count())
                room = next(one for one in rooms if not one.exists()) / path
                room.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(self.tree / path, room)


def _rule(path: str) -> bytes:
    """As a line of .gitignore that means this path alone."""
    return b"/" + re.sub(rb"([\\*?\[ #!])", rb"\\\1", os.fsencode(path)) + b"\n"


def undo_mistakes(repo: Repo, head: Head) -> list[str]:
    """What a child did to git although only kern writes there, but for commits: in words."""
    told = []
    if what := operations.under_way(repo):
        operations.abort(repo)
        told.append(f"it left a mess ({what}); cleared")
    at = repo.plain_head()
    if at is None or at.branch != head.branch:
        if history.restore_branch(repo, head, head.commit):
            told.append(f"it removed the branch {head.branch}; restored")
        if (branch := repo.branch()) != head.branch:
            history.switch_back(repo, head)
            told.append(f"it switched to {branch or 'a detached HEAD'}; switched back")
    unstage(repo)  # agents stage as a matter of course
    return told


@contextlib.contextmanager
def staged(repo: Repo, tree: str) -> Iterator[None]:
    """The person's index with that tree but for kern's documents: a hook may ask for it past the
    environment that names another.
    """
    change = repo.changed(repo.head().commit, tree).items()
    index.update(repo, {path: new for path, (_, new) in change if path not in DOCUMENTS})
    repo.run("update-index", "-q", "--refresh")
    try:
        yield
    finally:
        unstage(repo)


def unstage(repo: Repo) -> None:
    """The index as HEAD has it, but for kern's documents."""
    how = ("diff-index", "--cached", "-z", "--no-renames", "--name-only", "HEAD")
    found = [path for path in repo.paths(*how) if path not in DOCUMENTS]
    if found:
        given = os.fsencode("\0".join(f":(top,literal){path}" for path in found))
        by = ("--pathspec-from-file=-", "--pathspec-file-nul")
        repo.git("reset", "--quiet", *by, given=given)
