"""Where a run's agents work and where what they left is proven: in one room, in turn, or in the
person's own tree, where none can be mounted in its place.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kern.git import in_place, shadow
from kern.git.in_place import InPlace
from kern.git.repository import DOCUMENTS, Head, Repo, outermost
from kern.git.room import Room
from kern.sandbox import wall
from kern.system import workspace

_LAYER = "layer"  # what agents of this run put into ignored folders, of tasks that have landed


@dataclass(slots=True)
class Rooms:
    """What an agent leaves is a tree of git's before the same room is filled to prove that. In
    place only gates have it, where it is `held`: where something can be mounted.
    """

    repo: Repo
    room: Room
    held: bool
    mounted: bool  # for agents, too
    place: InPlace | None = None  # the person's tree, where a run works in it
    layers: list[Path] = field(default_factory=list)  # the newest first
    _installed: Path = field(init=False)  # by the task's agent, into ignored folders
    _pristine: str = ""  # what it holds beside kern's documents, where no child could write since
    _left: Path = field(init=False)  # a list of what else it made that git ignores

    def __post_init__(self) -> None:
        self._installed, self._left = (self.room.place / one for one in ("installed", "left"))
        for old in self.room.place.glob(f"{_LAYER}*"):
            workspace.remove(old)

    @property
    def work(self) -> Room:
        """Where agents work."""
        return self.place or self.room

    def proven(self, *, mounted: bool = True) -> Room:
        """The one that `for_proof` has filled."""
        return self.room if self.held and mounted else self.work

    def for_agent(self, tree: str, head: Head, *, writes: bool = True) -> wall.Room | None:
        """With that tree and nothing of an earlier attempt; None: in place."""
        bare = self.repo.bare(tree)
        if bare == self._pristine:
            self.room.follow(tree)  # of the documents an agent sees the person's
        else:
            self.work.fill(tree, proves=False)
        if not self.mounted:
            return None
        self._pristine = "" if writes else bare
        workspace.remove(self._installed)
        self._left.unlink(missing_ok=True)
        for name in DOCUMENTS:
            if (self.repo.root / name).is_file():
                self.room.make_place(name)
        return self._seen(head, self._installed, *self.layers)

    def for_proof(
        self, tree: str, head: Head, *, mounted: bool = True, writes: bool = True
    ) -> wall.Room | None:
        """With exactly that tree, and what the agent put into ignored folders; None: in place,
        where a gate must run that may not be `mounted`.
        """
        self._pristine = ""
        if not (self.held and mounted):
            if self.place:
                self.place.fill(tree)
            return None
        room, left = self.room, self.room.fill(tree)
        if not self.mounted:  # git's folder is the worker's own
            return wall.Room(room.tree, room.index, room.over, room.mounts)
        self._pristine = "" if writes else self.repo.bare(tree)
        if not self._left.exists():  # since then it is a gate's
            self._left.write_bytes(os.fsencode("\0".join(left)))
        return self._seen(head, room.over, self._installed, *self.layers)

    def for_hooks(self, tree: str, head: Head) -> "Hooked":
        """With that tree staged, in a git folder of which nothing stays."""
        room = self.for_proof(tree, head) if self.mounted else None
        if room and room.git:
            env = {"GIT_INDEX_FILE": str(self.room.home.git_dir / "index")}
            return Hooked(room.git, ".git/COMMIT_EDITMSG", env, room)
        self.work.fill(tree)
        folder = self.repo.scratch / "shadow"
        shadow.lay(self.repo, folder, head, self.work.index)
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        self.repo.git("read-tree", "-i", "-m", tree, env=index)
        self.repo.run("update-index", "-q", "--refresh", env=index)
        for name in DOCUMENTS:  # as they were committed: none that lies there is unstaged
            self.repo.run("update-index", "--skip-worktree", name, env=index)
        in_place.stage(self.repo, tree)
        env = {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(self.repo.root), **index}
        return Hooked(folder, str(folder / "COMMIT_EDITMSG"), env, None)

    def put_back(self, tree: str) -> None:
        """In place: as it was, after what was to look only."""
        if self.place and self.place.save:  # else the next to look fills it
            self.place.fill(tree)

    def _seen(self, head: Head, over: Path, *under: Path) -> wall.Room:
        room, home, git = self.room, self.room.home, self.room.place / "git"
        with workspace.reported(git):
            shadow.lay(self.repo, git, head, room.index, home.git_dir)
        shared = tuple(shadow.shared(self.repo, home.git_dir))
        documents = tuple(home.root / name for name in DOCUMENTS)
        tree = wall.Tree(home.root, home.git_dir, home.common_dir, documents=documents)
        return wall.Room(room.tree, room.index, over, room.mounts, under, git, shared, tree)

    def made(self) -> list[str]:
        """What git ignores and was not there when the run began: where the agent worked, and in the
        person's tree.
        """
        data = self._left.read_bytes() if self._left.exists() else b""
        paths = (*os.fsdecode(data).split("\0"), *outermost(self.room.home))
        return sorted({*paths} - {*self.room.ignored, *DOCUMENTS, ""})

    def landed(self) -> list[str]:
        """What the task's agent put into ignored folders is there for the next one; which those
        are: the person's are as they were.
        """
        uppers = {name: self._installed / wall.part(name) / "upper" for name in self.room.mounts}
        if changed := [name for name, upper in uppers.items() if any(upper.glob("*"))]:
            self.layers.insert(0, self.room.place / f"{_LAYER}{len(self.layers)}")
            self._installed.rename(self.layers[0])
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
