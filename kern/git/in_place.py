"""The person's own tree as a run's room, where none can lie in its place: clean when a task begins,
and kern's while it is in progress. Of what git ignores there are copies: nobody else has one of an
`.env` or of a development database.
"""

import contextlib
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kern.git import history, refs
from kern.git.environment import GitFailed
from kern.git.repository import DOCUMENTS, Head, Repo, outermost
from kern.git.room import Room
from kern.model import Key
from kern.plain import some
from kern.system import process, workspace

MOST_BYTES, MOST_FILES = 64 << 20, 10_000  # of the copies
# Written anew by whoever needs them: restored without a word.
_CACHES = {"node_modules", ".venv", "venv", "target", "build", "dist", "coverage", ".cache", "tmp"}
_JOURNALS = ("-wal", "-shm", "-journal")  # SQLite applies one to whatever database is there


class InPlace(Room):
    """The index is kern's own, without the documents; the person's follows what lands."""

    def __init__(self, repo: Repo, kept: Iterable[str]) -> None:
        """`kept`: trees, or commits of them, of which nothing is lost."""
        super().__init__(repo, "place", repo, outermost(repo))
        self.tree = repo.root
        self.env["GIT_WORK_TREE"] = str(repo.root)
        self.save: Callable[[str, str], None] | None = None  # what lies there is nobody's
        self.place.mkdir(parents=True, exist_ok=True)
        for stale in (self.index, self.index.with_name("index.lock")):
            stale.unlink(missing_ok=True)
        if (theirs := repo.git_dir / "index").exists():  # a sparse checkout stays sparse
            shutil.copy2(theirs, self.index)
        repo.update_index(dict.fromkeys(DOCUMENTS), {"GIT_INDEX_FILE": str(self.index)})
        self._base = repo.head().commit  # which has the documents as a candidate has it
        self._known = [repo.bare(one) for one in (self._base, *kept)]

    def _open(self, paths: Iterable[str]) -> None:
        """The folders of what is to go: tools leave read-only ones."""
        for folder in {(self.tree / path).parent for path in paths}:
            for above in (folder, *folder.parents):
                if above == self.tree or self._is_behind_link(above / "x"):
                    break
                if above.is_dir() and not os.access(above, os.W_OK):
                    with contextlib.suppress(OSError):
                        above.chmod(above.stat().st_mode | stat.S_IWUSR)

    def accept(self, tree: str) -> None:
        self._known.append(self.repo.bare(tree))

    def candidate(self) -> str:
        """With the documents as they were filled in."""
        apart = {name: self.repo.entry(self._base, name) for name in DOCUMENTS}
        return self.repo.tree_with(super().candidate(), apart)

    def fill(self, tree: str, *, proves: bool = True) -> list[str]:
        """What nobody has kept is saved first. What is ignored stays, by whatever rules."""
        held, target = self._known[-1], self.repo.bare(tree)
        if not self.save:
            self.repo.git("read-tree", "--reset", "-u", target, env=self.env)
            own = (f"--exclude=/{name}" for name in self.own)
            self.repo.run("clean", "-ffdq", *own, env=self.env)
            self._base = tree
            return []
        self.accept(target)
        for _ in range(2):
            if (now := self._look()) == target:
                break
            self._set_repositories_aside()
            if now not in self._known:
                self.save(held, now)
            self._open(self.repo.changed(now, target))
            for reset in (("--reset", now), ("--reset", "-u", target)):
                self.repo.git("read-tree", *reset, env=self.env)
            held = target
            # What rules of an agent's ignored is seen without them.
            if not any(path.endswith(".gitignore") for path in self.repo.changed(now, target)):
                break
        self._base = tree
        return []

    def _look(self) -> str:
        """At what lies there, where need be once what git cannot add is out of the way."""
        try:
            return super().candidate()
        except GitFailed:
            self._set_repositories_aside()
            return super().candidate()

    def _set_repositories_aside(self) -> None:
        """Those that a child made: no commit can hold them."""
        others = ("ls-files", "-z", "--others", "--exclude-standard")
        for path in self.repo.paths(*others, env=self.env):
            if path.endswith("/") and not path.startswith((*self.ignored,)):
                aside = _new(self.repo.aside / "repository") / path
                aside.parent.mkdir(parents=True)
                shutil.move(self.tree / path, aside)


def _new(place: Path) -> Path:
    """With a number, where something lies there."""
    places = (place.with_name(f"{place.name}{number or ''}") for number in itertools.count())
    return next(one for one in places if not one.exists())


# ---------------------------------------------------------------- what a child did to git


def undo_mistakes(repo: Repo, head: Head) -> list[str]:
    """What a child did to git although only kern writes there, but for commits and the index: in
    words.
    """
    mistakes, ref = [], f"refs/heads/{head.branch}"
    if what := history.begun(repo):
        history.abort(repo)
        mistakes.append(f"it left a mess ({what}); cleared")
    if head.branch and not repo.store.id(ref):
        repo.git("update-ref", "-m", "kern: branch back", ref, head.commit)
        mistakes.append(f"it removed the branch {head.branch}; restored")
    if head.branch != (branch := repo.branch()):
        why = ("-m", "kern: switch back")
        if head.branch:
            repo.git("symbolic-ref", *why, "HEAD", ref)
        else:
            repo.git("update-ref", "--no-deref", *why, "HEAD", head.commit)
        mistakes.append(f"it switched to {branch or 'a detached HEAD'}; switched back")
    return mistakes


def stage(repo: Repo, tree: str) -> None:
    """The person's index with that tree but for kern's documents: a hook may ask for it past the
    environment that names another.
    """
    change = repo.changed(repo.head().commit, tree).items()
    repo.update_index({path: new for path, (_, new) in change if path not in DOCUMENTS})
    repo.run("update-index", "-q", "--refresh")


def restore_index(repo: Repo, before: bytes | None) -> None:
    """As it was, where it is known: agents stage as a matter of course. Else as HEAD has it, but
    for kern's documents.
    """
    if before is None:
        head = repo.head().commit
        paths = repo.paths("diff-index", "--cached", "-z", "--no-renames", "--name-only", head)
        repo.update_index({p: repo.entry(head, p) for p in paths if p not in DOCUMENTS})
    elif workspace.read(place := repo.git_dir / "index") != before:
        workspace.replace(place, before, private=False)


# ---------------------------------------------------------------- what git ignores


@dataclass(frozen=True, slots=True)
class Ignored:
    """Copies of the ignored files, taken before an attempt, restored after one that failed, named
    after one that succeeded. They count once their folder has its name: a kill leaves a whole copy
    or none. No link is followed.
    """

    repo: Repo
    warn: Callable[[str], None]  # takes a sentence for the person
    told: set[str]  # what a run says once

    def take(self, key: Key, attempt: int) -> None:
        """Copy them, the largest left out where there is more than fits, and named once. Raises
        KernError where the disk is full.
        """
        if process.FLEET in os.environ:  # a worker's tree holds copies already
            return
        folder, left_out, room = self._folder(key, attempt), list[str](), [MOST_BYTES, MOST_FILES]
        needed = {self._folder(one.task, one.attempt) for _, one in refs.starts(self.repo)}
        for old in {*folder.parent.glob("*")} - (needed - {folder}):
            workspace.remove(old)
        new = folder.with_name("new")
        with workspace.reported(folder), contextlib.ExitStack() as stack:
            new.mkdir(mode=0o700, parents=True)
            stack.callback(workspace.remove, new)  # where it has that name still
            for bytes_, paths, unit in sorted(map(self._measured, outermost(self.repo))):
                room = [room[0] - bytes_, room[1] - len(paths)]
                if min(room) < 0:
                    left_out.append(unit)
                    continue
                for path in paths:
                    _copy(self.repo.root / path, new / path)
            new.rename(folder)
        if not self.told.issuperset(left_out):
            self.told.update(left_out)
            most = f"beyond {MOST_BYTES >> 20} MB or {MOST_FILES:,} files"
            what = "ignored by git, and not restored if an attempt fails"
            self.warn(f"{what}: {some(left_out)} ({most})")

    def _measured(self, unit: str) -> tuple[int, list[str], str]:
        """Its bytes and its files, of which no more are looked at than fit."""
        paths = [*itertools.islice(_files(self.repo.root, unit), MOST_FILES + 1)]
        return sum(os.lstat(self.repo.root / path).st_size for path in paths), paths, unit

    def restore(self, key: Key, attempt: int, *, again: bool = False) -> None:
        """What an attempt that failed has changed or removed; what it has made stays. Can be
        repeated. `again`: the attempt begins again and needs the copies.
        """
        root, aside = self.repo.root, self._aside(key, attempt)
        with workspace.reported(root):
            for path in (changed := self._changed(folder := self._folder(key, attempt))):
                for stands in _in_the_way(root, path):  # it may be a person's
                    (aside / stands).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    shutil.move(root / stands, aside / stands)
                _copy(folder / path, root / path)
        kept = f"; what stood there is kept in {aside}" if aside.exists() else ""
        self._tell(changed, f"changed during the attempt by the agent or by you; restored{kept}")
        if not again:
            workspace.remove(folder)

    def name_changed(self, key: Key, attempt: int) -> None:
        """What an attempt that succeeded has changed or removed, and where its copy is."""
        folder, aside = self._folder(key, attempt), self._aside(key, attempt)
        what = f"changed while the task was carried out; as before: {aside}"
        for path in self._tell(self._changed(folder), what):
            _copy(folder / path, aside / path)
        workspace.remove(folder)

    def _tell(self, changed: Sequence[str], what: str) -> list[str]:
        """Of what changed that which no tool makes anew."""
        if names := [path for path in changed if _CACHES.isdisjoint(path.split("/"))]:
            self.warn(f"{some(names)}: ignored by git, {what}")
        return names

    def _changed(self, folder: Path) -> list[str]:
        there, root = _files(folder, ""), self.repo.root
        return sorted(path for path in there if _state(root / path) != _state(folder / path))

    def _folder(self, key: Key, attempt: int) -> Path:
        return self.repo.git_dir / "kern" / "ignored" / f"{refs.slug(key)}-{attempt}"

    def _aside(self, key: Key, attempt: int) -> Path:
        return _new(self.repo.aside / f"{refs.slug(key)}-{attempt}+ignored")


def _files(root: Path, unit: str) -> Iterator[str]:
    """The files and links of it, relative to the root."""
    top = root / unit
    for place in itertools.chain((top,), () if top.is_symlink() else top.rglob("*")):
        if place.is_symlink() or place.is_file():  # no pipe
            yield str(place.relative_to(root))


def _copy(source: Path, target: Path) -> None:
    """But one that cannot be read, which nobody changes either."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):
        shutil.copy2(source, target, follow_symlinks=False)


def _state(place: Path) -> tuple[int, ...]:
    """What tells that a file is another; behind a link lies something else."""
    with contextlib.suppress(OSError):
        if os.path.realpath(place.parent) == str(place.parent):
            info = os.lstat(place)
            return info.st_mode, info.st_size, info.st_mtime_ns
    return ()


def _in_the_way(root: Path, path: str) -> Iterator[str]:
    """Of what is to be restored there, one after the other moved away: a link or file in the place
    of a folder, then what there is.
    """
    above = [str(one) for one in [*Path(path).parents][-2::-1]]
    others = [one for one in above if os.path.islink(root / one) or (root / one).is_file()]
    for place in (*others[:1], path, *(path + end for end in _JOURNALS)):
        if os.path.lexists(root / place):
            yield place
