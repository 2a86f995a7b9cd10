"""Where a run works and with what: one frozen value, handed to each step."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kern.checks.gates import Gates
from kern.config import Settings
from kern.events import Sink
from kern.frozen import frozen
from kern.git import refs
from kern.git.repository import Entry, Repo
from kern.git.restore import Keeper
from kern.git.room import Room
from kern.memory import changes
from kern.model import LEARNINGS, Key, Role, Stage
from kern.pipeline import place
from kern.pipeline.facts import BY_ITSELF, Situation
from kern.pipeline.place import Place
from kern.sandbox import wall
from kern.spec import edit
from kern.stages import prompts, record
from kern.stages.call import Caller, Said
from kern.stages.prompts import Template
from kern.stages.record import StageRecord

# Of a fence or comment in SPEC.md that hides what follows.
CLOSE = "close it, then run kern again: it resumes"


@dataclass(slots=True)
class Memory:
    """What this process alone knows; nothing of it is needed after a kill."""

    settings: tuple[str, Settings]  # of kern.toml, by the tree that holds it
    checked: bool = False  # whether the gates were seen on a tree without an agent's work
    proved: str = ""  # stage2.json as this process wrote it when it proved the change
    unheard: bool = False  # whether it was said that the agent runs no Stop hook
    again: bool = False  # whether the last gate rewrote files of the task: all run once more
    flaky: set[str] = field(default_factory=set)  # gates that were, in this run
    # What commit hooks changed and let pass: by the tree with that, its parent, and the
    # message, the message as they left it.
    passed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)  # what is said once
    looked: set[Key] = field(default_factory=set)  # tasks whose tree was looked at before a commit


@frozen
class Site(Place):
    caller: Caller
    sink: Sink
    keeper: Keeper
    gates: Gates
    templates: Mapping[Role, Template]
    hooks_folder: Path  # of git's hooks, before any agent can name another
    memory: Memory
    room: Room | None = None  # where gates prove what is to be committed
    rooms: Any = None  # of a run whose agents work in one

    @property
    def commit_stage(self) -> dict[str, str]:
        """The environment by which a reflog tells what its agent and the commit hooks moved."""
        return {"GIT_REFLOG_ACTION": f"kern {self.caller.run} {BY_ITSELF}"}

    def warn(self, text: str, *, kept: bool = False) -> None:
        self.keeper.warn(text, kept=kept)


def prepared(repo: Repo, caller: Caller, room: Room | None = None) -> Site:
    """Still without prompts: a killed agent may have left some."""
    here = place.of(
        repo,
        caller.scope,
        place.documents(repo, bare=caller.settings.bare),
        caller.settings.large_file,
    )
    return Site(
        *(here.repo, here.scope, here.papers, here.snapshots, here.witness),
        caller,
        caller.sink,
        Keeper(repo, here.snapshots, caller.sink, _replayed),
        Gates(
            *(repo.root, caller.scope, caller.run, caller.mark, caller.tick, caller.hold),
            furnish=furnish(room) if room else None,
        ),
        {},
        Path(os.devnull) if caller.settings.bare else repo.hooks_folder(),
        Memory(("", caller.settings)),
        room,
    )


def in_rooms(site: Site, rooms: Any) -> Site:
    """The same for a run whose agents work in a room, too."""

    def filled(tree: str) -> wall.Room:
        found: wall.Room = rooms.for_proof(tree, site.repo.head())
        return found

    site.gates.furnish = filled
    return replace(site, rooms=rooms)


def furnish(room: Room) -> Callable[[str], wall.Room]:
    def filled(tree: str) -> wall.Room:
        room.fill(tree)
        return wall.Room(room.tree, room.index, room.over, room.mounts)

    return filled


def _replayed(path: str, text: str, came: str, key: Key) -> str:
    """What a commit says of the task once more, in what a person has staged of the same file."""
    if path != LEARNINGS:
        return edit.replayed(text, came, key)
    voted, added = changes.merged("", text, came)
    return voted + edit.appended(voted, added)


def with_prompts(site: Site) -> Site:
    root, settings = site.repo.root, site.caller.settings
    return replace(site, templates=prompts.templates(root, settings))


# ---------------------------------------------------------------- what steps have in common


def put_back(
    site: Site,
    at: Situation,
    wanted: Mapping[str, Entry | None],
    *,
    known: str,
    by: str = "you",
    whole: bool = False,
) -> None:
    """The keeper's, with what the attempt under way says of itself."""
    site.keeper.put_back(
        at.opened[0],
        wanted,
        start=at.second.start,
        known=known,
        base=at.start.base if at.start else at.second.base,
        name=f"{at.attempt}-edited",
        by=by,
        whole=whole,
    )


def keep(site: Site, at: Situation, name: str, tree: str) -> str:
    """The ref under which a tree is saved, as one of the attempt under way on HEAD."""
    return site.keeper.keep(at.opened[0], f"{at.attempt}-{name}", tree, at.head.commit)


def drop_start(site: Site, at: Situation) -> None:
    if at.start:
        refs.delete(site.repo, at.start.ref, at.start.commit)


def save(
    site: Site, said: Said, key: Key, stage: Stage, attempt: int, **facts: object
) -> StageRecord:
    """The stage's file: what the agent said, and what kern noted."""
    fault = {"fault": said.fault} if said.fault else {}
    run = site.caller.run
    made = record.new(stage, said.reply.result, key, attempt, run=run, **facts, **fault)
    record.save(site.scope, made)
    return made
