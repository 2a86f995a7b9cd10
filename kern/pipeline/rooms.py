"""Where a run's agents work and where what they left is proven: two rooms, or the person's own tree
where none can be mounted in its place.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kern.config import FILE
from kern.git import in_place, refs, shadow
from kern.git.in_place import InPlace
from kern.git.repository import Head, Repo
from kern.git.room import Room
from kern.model import LEARNINGS, SPEC
from kern.pipeline import preflight
from kern.plain import some
from kern.sandbox import wall
from kern.system import process

_LAYER = "layer"  # what agents of this run put into ignored folders, of tasks that have landed


@dataclass(slots=True)
class Rooms:
    """`held`: rooms can be mounted for what proves; `mounted`: for agents, too."""

    repo: Repo
    held: bool
    mounted: bool
    lands: bool = True  # a run, which may change the person's tree
    home: Repo | None = None  # the person's tree, in whose place they are seen, beside a worker's
    work: Room = field(init=False)
    proof: Room = field(init=False)
    place: InPlace | None = None  # the person's tree, where a run works in it
    layers: list[Path] = field(default_factory=list)  # the newest first

    def __post_init__(self) -> None:
        if self.lands and not self.mounted:
            self.place = InPlace(self.repo, _apart(self.repo))
        home = self.home if self.mounted else None
        self.work = self.place or Room(self.repo, "work", home)
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
            self.put_back(tree)
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
        self.repo.update_index({name: one for name, one in apart.items() if one}, named_index)
        in_place.stage(self.repo, tree)
        return Hooked(folder, str(folder / "COMMIT_EDITMSG"), env, None)

    def put_back(self, tree: str) -> None:
        """In place: as it was, after what was to look only."""
        if self.place:
            self.place.fill(tree)

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

    def held_beside(self, *, mounted: bool) -> str:
        """What lay beside the change where it was proven in the person's tree, to follow that word:
        what git ignores and was not there when the run began, so that a clone has none of it.
        """
        made = [] if mounted and self.held else self.made()
        return f" in your tree, which also held {some(made)}" if made else ""

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
