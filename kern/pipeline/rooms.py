"""The rooms of a run: one for its agents, one where what they left is proven. The person's tree
changes only when proven work lands.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kern.checks import result
from kern.config import Gate, Probe, Settings
from kern.events import GateEnded, GateStarted, ProbeStarted
from kern.git import index, landing, refs, room, shadow
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Entry, Head, Repo
from kern.git.room import Room
from kern.model import LEARNINGS, SPEC, Key, Result
from kern.pipeline import baseline, limits, preflight
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import some
from kern.sandbox import wall
from kern.system import process

NAMES = ("room", "work")
_LAYER = "layer"  # what agents of this run put into ignored folders, of tasks that have landed


@dataclass(slots=True)
class Rooms:
    repo: Repo
    proof: Room = field(init=False)
    work: Room = field(init=False)
    layers: list[Path] = field(default_factory=list)  # the newest first

    def __post_init__(self) -> None:
        self.proof, self.work = (Room(self.repo, name) for name in NAMES)
        for old in self._layer_folders():
            shutil.rmtree(old, ignore_errors=True)

    def _layer_folders(self) -> list[Path]:
        return sorted(self.work.place.glob(f"{_LAYER}*"))

    def for_agent(self, tree: str, head: Head) -> wall.Room:
        """The agent's, with that tree and nothing of an earlier attempt."""
        self.work.fill(tree)
        for name in (SPEC, LEARNINGS):
            if (self.repo.root / name).is_file():
                self.work.make_place(name)
        return self._seen(self.work, head, *self.layers)

    def as_left(self, head: Head) -> wall.Room:
        """The agent's, as an earlier stage left it."""
        return self._seen(self.work, head, *self.layers)

    def for_proof(self, tree: str, head: Head) -> wall.Room:
        """With exactly that tree, and what the agent put into ignored folders."""
        self.proof.fill(tree)
        return self._seen(self.proof, head, self.work.over, *self.layers)

    def _seen(self, room: Room, head: Head, *under: Path) -> wall.Room:
        onto = os.environ.get(process.ONTO)  # a worker's: hooks see where its work lands
        seen = replace(head, branch=onto) if onto else head
        shadow.lay(self.repo, room.git, seen, room.index)
        return wall.Room(
            *(room.tree, room.index, room.over, room.mounts),
            under=under,
            git=room.git,
            shared=tuple(shadow.shared(self.repo)),
        )

    def made(self) -> list[str]:
        """What is ignored in the agent's room and was not there when the run began."""
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


def of(site: Site) -> Rooms:
    assert site.rooms is not None
    found: Rooms = site.rooms
    return found


# ---------------------------------------------------------------- trees


def base(site: Site, head: Head) -> str:
    """What an attempt begins with: the commit, and nothing that is not committed."""
    return site.repo.tree(head.commit)


def candidate(site: Site, at: Situation) -> tuple[str, list[str]]:
    """What is to be committed on HEAD, or the paths in which a commit of the person's collides."""
    start, tree = at.second.change
    onto = base(site, at.head)
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
    tree = base(site, at.head)
    none = site.repo.commit_object(site.repo.tree_with("", {}), (), "in a room\n")
    start = refs.begun(site.repo, at.head, tree, tree, none, key, attempt or at.attempt)
    return refs.write_start(site.repo, start)


def unfinished(site: Site, start: StartRef, name: str = "killed") -> str:
    """What an agent whose end kern did not see has left, under a ref; empty where nothing."""
    work = of(site).work
    if not work.index.exists():
        return ""
    tree = work.candidate()
    if not site.repo.changed(start.tree, tree):
        return ""
    return site.keeper.keep(
        start.task, f"{start.attempt}-{name}", tree, refs.before(site.repo, start)
    )


def follow(site: Site, key: Key | None) -> None:
    """The person's index and files, where a landing got no further than the branch."""

    def replay(name: str, text: str, came: str) -> str:
        return site.keeper.replay(name, text, came, key) if key else text

    landing.follow(site.repo, replay)


# ---------------------------------------------------------------- the project's commands


def settings(site: Site) -> Settings:
    """kern.toml as the person has it: no agent can write that one."""
    return site.caller.settings if site.caller.settings.bare else site.papers.settings()


def gates_before(site: Site, head: Head, wanted: Sequence[Gate]) -> list[Gate]:
    """Those of the gates of which this run did not know how they end before the task."""
    tree = base(site, head)
    unknown = [gate for gate in wanted if not baseline.known(site, gate, head.commit, tree)]
    for gate in unknown:
        ended = run_gate(site, gate, tree, before=True)
        site.memory.flaky |= {gate.label} if ended.flaky else set()
        site.sink(GateEnded(ended, before=True))
    return unknown


def run_gate(site: Site, gate: Gate, tree: str, *, before: bool = False) -> Result:
    """How it ends on exactly that tree; a red one once more, and with what it may lack."""
    known_by = limits.subject(site, gate, tree, tree)

    def once() -> Result:
        site.caller.heed()
        site.sink(GateStarted(gate.label, gate.command, before=before))
        return site.gates.run(gate, known_by, before=before, exact=tree)

    ended = site.gates.counted(gate, known_by, once(), once)
    return site.gates.remember(gate, known_by, explained(site, gate, tree, ended))


def explained(site: Site, gate: Gate, tree: str, ended: Result) -> Result:
    """A red end, where it is green beside what the person has not committed, or where it names
    something that git ignores and that came since the run began.
    """
    mine = preflight.uncommitted(site.repo) if ended.red else []
    told = ""
    if mine:
        seen = room.visible(site.repo)
        beside = site.repo.tree_with(tree, {path: site.repo.entry(seen, path) for path in mine})
        if not site.gates.trial(gate, beside).red:
            named = [path for path in mine if _stem(path) in ended.output] or mine
            told = f"green in your tree: it needs {some(named)}, which is not committed"
    if ended.red and not told:
        told = _lacking(of(site), ended.output)
    if not told:
        return ended
    site.warn(f"{ended.name}: {told}")
    return replace(ended, output=f"{ended.output.rstrip()}\nerror: {told}")


def _lacking(rooms: Rooms, output: str) -> str:
    """What a room does not have and the gate may need."""
    new = [*rooms.made(), *rooms.proof.new()]
    named = [path for path in new if _stem(path) in output] or rooms.proof.uncommitted
    if named:
        return f"it needs {some(named)}, which is not committed"
    absent = rooms.proof.absent
    return f"its room has no place for {some(absent)} (kern help checks)" if absent else ""


def _stem(path: str) -> str:
    """As an import has it."""
    name = path.rstrip("/").rpartition("/")[2]
    return name.lstrip(".").partition(".")[0]


def state(site: Site, head: Head, probes: Sequence[Probe]) -> list[str]:
    """What the project's probes say, in order; one that fails says that."""
    found = []
    for probe in probes:
        site.sink(ProbeStarted(probe.label, probe.command))
        ended = site.gates.look(probe, exact=base(site, head))
        if ended.red:
            last = result.telling(ended.output, result.TELLING)
            why = f"{ended.how}: {last}" if last else ended.how
            site.warn(f"{probe.label} failed ({why}); the stage is told so")
        found.append(result.state(ended, probe.command))
    return found
