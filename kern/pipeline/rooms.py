"""Where a run's agents work and where what they left is proven: two rooms, or the person's own tree
where none can be mounted in its place.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kern import plain
from kern.config import FILE
from kern.git import history, in_place, index, landing, refs, shadow
from kern.git.faults import GitFailed
from kern.git.history import Commit
from kern.git.ignored import Ignored
from kern.git.in_place import InPlace
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Entry, Head, Repo
from kern.git.room import Room
from kern.model import LEARNINGS, SPEC, Key, Stage
from kern.pipeline import guarded, preflight
from kern.pipeline.facts import BY_ITSELF, Situation
from kern.pipeline.site import Site, replayed
from kern.plain import some
from kern.sandbox import wall
from kern.system import process, workspace

_LAYER = "layer"  # what agents of this run put into ignored folders, of tasks that have landed
_MOST_TOLD = 5  # commits
_OWN = f"(?:stage [23]|{BY_ITSELF})"  # in a reflog: what kern's children moved


@dataclass(slots=True)
class Rooms:
    """`held`: rooms can be mounted for what proves; `mounted`: for agents, too."""

    repo: Repo
    held: bool
    mounted: bool
    lands: bool = True  # a run, which may change the tree
    home: Repo | None = None  # the person's tree, in whose place they are seen, beside a worker's
    work: Room = field(init=False)
    proof: Room = field(init=False)
    layers: list[Path] = field(default_factory=list)  # the newest first

    def __post_init__(self) -> None:
        self.work = (
            Room(self.repo, "work", self.home)
            if self.mounted
            else InPlace(self.repo, _apart(self.repo))
        )
        home = self.home if self.mounted else None
        self.proof = Room(self.repo, home=home) if self.held else self.work
        for old in self.work.place.glob(f"{_LAYER}*"):
            shutil.rmtree(old, ignore_errors=True)

    def for_agent(self, tree: str, head: Head, *, writes: bool = True) -> wall.Room | None:
        """The agent's, with that tree and nothing of an earlier attempt; None: in place."""
        self.work.fill(tree)
        self.work.pristine = not writes
        if not self.mounted:
            return None
        for name in (SPEC, LEARNINGS):
            if (self.repo.root / name).is_file():
                self.work.make_place(name)
        return self._seen(self.work, head, *self.layers)

    def for_proof(self, tree: str, head: Head, *, mounted: bool = True) -> wall.Room | None:
        """With exactly that tree, and what the agent put into ignored folders; None: in place,
        where a gate must run that may not be `mounted`.
        """
        if not (self.held and mounted):
            if self.lands:
                self.work.fill(tree)
            return None
        self.proof.fill(tree)
        above = (self.work.over, *self.layers) if self.mounted else ()
        return self._seen(self.proof, head, *above)

    def for_hooks(self, tree: str, head: Head) -> "Hooked":
        """With that tree staged, in a git folder of which nothing stays."""
        if self.mounted:
            room = self.for_proof(tree, head)
            assert room and room.git
            env = {"GIT_INDEX_FILE": str(self.work.home.git_dir / "index")}
            return Hooked(room.git, ".git/COMMIT_EDITMSG", env, room)
        self.work.fill(tree)
        folder = self.repo.scratch / "shadow"
        shadow.lay(self.repo, folder, seen(head), self.work.index)
        named = {"GIT_DIR": folder, "GIT_WORK_TREE": self.repo.root}
        env = {name: str(path) for name, path in named.items()}
        env["GIT_INDEX_FILE"] = str(folder / "index")
        named_index = {"GIT_INDEX_FILE": env["GIT_INDEX_FILE"]}
        apart = {name: self.repo.entry(tree, name) for name in self.work.own}
        index.update(self.repo, {name: one for name, one in apart.items() if one}, named_index)
        in_place.stage(self.repo, tree)
        return Hooked(folder, str(folder / "COMMIT_EDITMSG"), env, None)

    def proven(self, *, mounted: bool = True) -> Room:
        """The one that `for_proof` has filled."""
        return self.proof if mounted else self.work

    def _seen(self, room: Room, head: Head, *under: Path) -> wall.Room:
        if not self.mounted:  # git's folder is the worker's own
            return wall.Room(room.tree, room.index, room.over, room.mounts)
        home = room.home
        shadow.lay(self.repo, room.git, seen(head), room.index, home.git_dir)
        papers = (home.root / SPEC, home.root / LEARNINGS)
        return wall.Room(
            *(room.tree, room.index, room.over, room.mounts),
            under=under,
            git=room.git,
            shared=tuple(shadow.shared(self.repo, home.git_dir)),
            home=wall.Tree(home.root, home.git_dir, home.common_dir, documents=papers),
        )

    def made(self) -> list[str]:
        """What is ignored where the agent works and was not there when the run began."""
        return self.work.unlisted()

    def landed(self) -> list[str]:
        """What the task's agent put into ignored folders is there for the next one; which those
        are: the person's are as they were.
        """
        changed = []
        for name in self.work.mounts:
            upper = self.work.over / wall.part(name) / "upper"
            if upper.is_dir() and any(upper.iterdir()):
                changed.append(name)
        if changed:
            layer = self.work.place / f"{_LAYER}{len(self.layers)}"
            self.work.over.rename(layer)
            self.layers.insert(0, layer)
        return changed


@dataclass(frozen=True, slots=True)
class Hooked:
    """Where hooks run: the git folder that is thrown away, the file of the message as they see it,
    the room, where they run in one.
    """

    git: Path
    message: str
    env: Mapping[str, str]
    room: wall.Room | None


def _apart(repo: Repo) -> list[str]:
    """What is no task's: kern.toml, where it is not committed, since kern goes by it."""
    head = repo.head()
    # A killed agent may have changed one that is committed.
    task = refs.start(repo, head.name) and repo.entry(head.commit, FILE)
    return [FILE] if not task and FILE in preflight.uncommitted(repo) else []


def seen(head: Head) -> Head:
    """As a hook sees it: a worker's work lands on another branch."""
    onto = os.environ.get(process.ONTO)
    return replace(head, branch=onto) if onto else head


def of(site: Site) -> Rooms:
    assert site.rooms is not None
    found: Rooms = site.rooms
    return found


# ---------------------------------------------------------------- in place


def _place(site: Site) -> InPlace | None:
    """The person's tree, where the run works in it."""
    work = of(site).work if site.rooms else None
    return work if isinstance(work, InPlace) else None


def ignored(site: Site) -> Ignored:
    """The copies of ignored files, which an agent in place works on."""
    return Ignored(site.repo, site.warn, site.memory.told)


def require_clean(site: Site) -> None:
    """Before a task begins. Raises UsageError."""
    if work := _place(site):
        preflight.require_clean(work.changed())


def save(site: Site, known: str, now: str) -> None:
    """In place, before it is undone: what nobody has kept, since it may be a person's."""
    if paths := sorted(site.repo.changed(known, now)):
        ref = site.keep(Key("", "your tree", 1), "changed", now, site.repo.head().commit)
        site.warn(
            f"{some(paths)} changed while kern worked in your tree: undone, and saved: "
            f"git checkout {ref} -- PATH",
            kept=True,
        )


def held_beside(site: Site, *, mounted: bool) -> str:
    """What lay beside the change where it was proven in the person's tree, to follow that word:
    what git ignores and was not there when the run began, so that a clone has none of it.
    """
    made = [] if mounted and of(site).held else of(site).made()
    return f" in your tree, which also held {some(made)}" if made else ""


def put_back(site: Site, tree: str) -> None:
    """In place: as it was, after what was to look only."""
    if (work := _place(site)) and of(site).lands:
        work.fill(tree)


def restore(site: Site, at: Situation, *, again: bool = False) -> None:
    """In place: the tree as it is committed, and what git ignores as it was before the attempt,
    which may begin `again`.
    """
    if not (work := _place(site)):
        return
    if Stage.IMPLEMENT in at.files:
        work.accept(at.second.tree)
    work.fill(site.repo.tree(site.repo.head().commit))
    if at.key:
        attempt = at.start.attempt if at.start else at.attempt
        ignored(site).restore(at.key, attempt, again=again)


@contextlib.contextmanager
def watched(site: Site, head: Head, start: StartRef | None, who: str) -> Iterator[list[str]]:
    """In place: what a child did to kern's documents and to git is undone and said; in words, where
    it was to know better.
    """
    told: list[str] = []
    if not _place(site):
        yield told
        return
    staged, began = workspace.read(site.repo.git_dir / "index"), site.repo.head()
    try:
        with guarded.watched(site):
            yield told
    finally:
        told += undo_mistakes(site, head, start, who)
        in_place.restore_index(site.repo, staged if site.repo.head() == began else None)


def documents_watched(site: Site) -> contextlib.AbstractContextManager[None]:
    """The same of kern's documents alone."""
    return guarded.watched(site) if _place(site) else contextlib.nullcontext()


def undo_mistakes(site: Site, head: Head, start: StartRef | None, who: str) -> list[str]:
    """In place, what a child did to git on top of `head`, its commits kept by a ref; what of that
    breaks limits, in words.
    """
    if not _place(site):
        return []
    told = in_place.undo_mistakes(site.repo, head)
    for line in told:
        site.warn(f"{who} broke its limits: {line}")
    now = site.repo.head()
    if now.commit != head.commit and history.moved_by(site.repo, now, head.commit, _OWN):
        tip = history.commit(site.repo, now.commit)
        key = start.task if start else Key("", who, 1)
        ref = site.keep(key, f"{start.attempt if start else 1}-commit", tip.tree, tip.sha)
        history.move_head(site.repo, head.commit, now.commit, "an agent's commit taken back")
        site.warn(f"{who} committed by itself: the commit was undone and saved as {ref}")
    return told


def commits(made: Sequence[Commit]) -> str:
    """What a person is to know of those that came while an agent worked."""
    if not made:
        return ""
    made = made[-_MOST_TOLD:]
    told = ", ".join(f"{one.sha[:7]} {plain.line(one.subject, 60)!r}" for one in made)
    undo = " ".join(one.sha[:7] for one in reversed(made))
    return f": {told}; if that was not you: git show {made[-1].sha[:7]}, git revert {undo}"


# ---------------------------------------------------------------- trees


def candidate(site: Site, at: Situation) -> tuple[str, list[str]]:
    """What is to be committed on HEAD, or the paths in which a commit of the person's collides."""
    start, tree = at.second.change
    onto = site.repo.tree(at.head.commit)
    return (tree, []) if onto == start else index.merge(site.repo, start, onto, tree)


def strays(change: Mapping[str, tuple[Entry | None, Entry | None]]) -> list[str]:
    """Repositories that an agent made in the tree, which no commit can hold."""
    return sorted(
        path
        for path, (old, new) in change.items()
        if new and new.mode == SUBMODULE and not (old and old.mode == SUBMODULE)
    )


def begin(site: Site, at: Situation, attempt: int = 0) -> StartRef:
    """The start ref: from now on the attempt has begun."""
    key, _ = at.opened
    attempt, mounted = attempt or at.attempt, of(site).mounted
    if not mounted:
        ignored(site).take(key, attempt)
    return refs.begin(site.repo, at.head, key, attempt, mounted=mounted)


def unfinished(site: Site, start: StartRef, name: str = "killed") -> str:
    """What an agent whose end kern did not see has left, under a ref; empty where nothing."""
    work = of(site).work
    if not work.index.exists():
        return ""
    if place := _place(site):
        place.set_repositories_aside()
    try:
        tree = work.candidate()
    except GitFailed as exc:  # a repository without a commit, say
        site.warn(f"git cannot add all that the agent left: {plain.line(exc.stderr, 200)}")
        return ""
    if not site.repo.changed(start.tree, tree):
        return ""
    ref = site.keep(start.task, f"{start.attempt}-{name}", tree, start.base)
    accept(site, tree)
    return ref


def accept(site: Site, tree: str) -> None:
    """In place: that is kept, or is a task's."""
    if work := _place(site):
        work.accept(tree)


def follow(site: Site, key: Key | None) -> None:
    """The person's index and files, where a landing got no further than the branch."""

    def replay(name: str, text: str, came: str) -> str:
        return replayed(name, text, came, key) if key else text

    landing.follow(site.repo, replay)
