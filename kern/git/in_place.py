"""The person's own tree as a run's room, where none can lie in its place: clean when a
task begins, and kern's while it is in progress.
"""

import itertools
import os
import re
import shutil
from collections.abc import Callable, Sequence

from kern.git import history, index, operations
from kern.git.faults import GitFailed
from kern.git.ignore import DOCUMENTS
from kern.git.repository import Head, Repo
from kern.git.room import Room
from kern.system import process, workspace


class InPlace(Room):
    """The index is kern's own, without the documents; the person's follows what lands."""

    def __init__(self, repo: Repo, apart: Sequence[str] = ()) -> None:
        """`apart`: files that stay as they are, as kern's documents do."""
        super().__init__(repo, "place")
        self.tree = repo.root
        self._apart = *DOCUMENTS, *apart
        self.own = *self.own, *apart
        self.save: Callable[[str, str], None] = lambda known, now: None
        self.place.mkdir(parents=True, exist_ok=True)
        for left in (self.index, self.index.with_name("index.lock")):
            left.unlink(missing_ok=True)
        if (theirs := repo.git_dir / "index").exists():  # a sparse checkout stays sparse
            shutil.copyfile(theirs, self.index)
        index.update(repo, dict.fromkeys(self._apart), {"GIT_INDEX_FILE": str(self.index)})
        self._base = repo.head().commit  # which has what is apart as a candidate has it
        self._seen = ("", -1)  # the tree of the last look, and what had run by then
        self._known = [self._bare(self._base)]  # trees of which nothing is lost, the last one held

    def accept(self, tree: str) -> None:
        self._known.append(self._bare(tree))

    def candidate(self) -> str:
        """With what is apart as it was filled in."""
        bare = super().candidate()
        self._seen = bare, process.RAN.total()
        apart = {name: self.repo.entry(self._base, name) for name in self._apart}
        return self.repo.tree_with(bare, apart)

    def fill(self, tree: str) -> None:
        """Without a tree, as it is. What nobody has kept is saved first."""
        if not tree:
            return
        self._base, wanted = tree, self._bare(tree)
        # Nothing has run since the last look: what a person changes meanwhile the next one finds.
        if self._seen != (wanted, process.RAN.total()) and (now := self._look()) != wanted:
            if self.set_repositories_aside():
                now = self._look()
            if now not in self._known:
                self.save(self._known[-1], now)
            self._git("read-tree", "--reset", "-u", wanted)
            # What was ignored when the run began is a person's, whatever the rules say by now.
            rules = self.place / "exclude"
            rules.write_bytes(b"".join(_rule(path) for path in (*self.own, *self.ignored)))
            self._git("-c", f"core.excludesFile={rules}", "clean", "-fdq", "--", ":/")
            self._seen = wanted, process.RAN.total()
        self.accept(tree)

    def _look(self) -> str:
        """The tree as it is, where git can add what lies there."""
        try:
            return self._bare(self.candidate())
        except GitFailed:
            if not self.set_repositories_aside():
                raise
            return self._bare(self.candidate())

    def changed(self) -> list[str]:
        """What is not as HEAD has it, which may have moved since the documents were looked at."""
        bare = self._bare(self.repo.head().commit), self._bare(self.candidate())
        return sorted(self.repo.changed(*bare))

    def _bare(self, tree: str) -> str:
        return self.repo.tree_with(self.repo.tree(tree), dict.fromkeys(self._apart))

    def make_place(self, name: str) -> None:
        pass

    def set_repositories_aside(self) -> bool:
        """Those that a child made: git's clean leaves them, and no commit can hold them. Whether
        there was one.
        """
        found = False
        listed = self._git("ls-files", "-z", "--others", "--exclude-standard", "--directory")
        for path in os.fsdecode(listed).split("\0"):
            if path.endswith("/") and (self.tree / path / ".git").exists():
                rooms = (self.repo.aside / f"repository{n or ''}" for n in itertools.count())
                room = next(one for one in rooms if not one.exists()) / path
                room.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(self.tree / path, room)
                found = True
        return found


def _rule(path: str) -> bytes:
    """As a line of .gitignore that means this path alone."""
    return b"/" + re.sub(rb"([\\*?\[ #!])", rb"\\\1", os.fsencode(path)) + b"\n"


def undo_mistakes(repo: Repo, head: Head) -> list[str]:
    """What a child did to git although only kern writes there, but for commits and the index: in
    words.
    """
    told = []
    if what := operations.begun(repo):
        operations.abort(repo)
        told.append(f"it left a mess ({what}); cleared")
    at = repo.plain_head()
    if at is None or at.branch != head.branch:
        if history.restore_branch(repo, head, head.commit):
            told.append(f"it removed the branch {head.branch}; restored")
        if (branch := repo.branch()) != head.branch:
            history.switch_back(repo, head)
            told.append(f"it switched to {branch or 'a detached HEAD'}; switched back")
    return told


def stage(repo: Repo, tree: str) -> None:
    """The person's index with that tree but for kern's documents: a hook may ask for it past the
    environment that names another.
    """
    change = repo.changed(repo.head().commit, tree).items()
    index.update(repo, {path: new for path, (_, new) in change if path not in DOCUMENTS})
    repo.run("update-index", "-q", "--refresh")


def restore_index(repo: Repo, before: bytes | None) -> None:
    """As it was, where it is known: agents stage as a matter of course. Else as HEAD has it, but
    for kern's documents.
    """
    place = repo.git_dir / "index"
    if before is not None:
        if workspace.read(place) != before:
            workspace.replace(place, before, mode=0o644)
        return
    how = ("diff-index", "--cached", "-z", "--no-renames", "--name-only", "HEAD")
    found = [path for path in repo.paths(*how) if path not in DOCUMENTS]
    if found:
        given = os.fsencode("\0".join(f":(top,literal){path}" for path in found))
        by = ("--pathspec-from-file=-", "--pathspec-file-nul")
        repo.git("reset", "--quiet", *by, given=given)
