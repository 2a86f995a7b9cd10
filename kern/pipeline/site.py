"""Where a run works and with what: one frozen value, handed to each step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kern import plain
from kern.checks.gates import Gates
from kern.events import Sink, Warned
from kern.git import refs
from kern.git.repository import Entry, Repo
from kern.model import Key, Role, Stage
from kern.pipeline import place
from kern.pipeline.facts import BY_ITSELF, Situation
from kern.pipeline.place import Place
from kern.pipeline.rooms import Rooms
from kern.stages import prompts, record
from kern.stages.call import Caller, Said
from kern.stages.prompts import Template
from kern.stages.record import StageRecord

# Of a fence or comment in SPEC.md that hides what follows.
CLOSE = "close it, then run kern again: it resumes"


@dataclass(slots=True)
class Memory:
    """What this process alone knows; nothing of it is needed after a kill."""

    checked: bool = False  # whether the gates were seen on a tree without an agent's work
    proved: str = ""  # stage2.json as this process wrote it when it proved the change
    flaky: set[str] = field(default_factory=set)  # gates that were, in this run
    told: set[str] = field(default_factory=set)  # what is said once


@dataclass(frozen=True, slots=True)
class Site(Place):
    caller: Caller
    gates: Gates
    templates: Mapping[Role, Template]
    home: Repo  # the person's own tree, where this is a worker's
    hooks_folder: Path  # of git's hooks, before any agent can name another
    memory: Memory
    rooms: Rooms

    @property
    def sink(self) -> Sink:
        return self.caller.sink

    @property
    def commit_stage(self) -> dict[str, str]:
        """The environment by which a reflog tells what its agent and the commit hooks moved."""
        return {"GIT_REFLOG_ACTION": f"kern {self.caller.run} {BY_ITSELF}"}

    def warn(self, text: str, *, kept: bool = False) -> None:
        self.sink(Warned(text, kept))

    def keep(self, key: Key, name: str, tree: str, parent: str, more: str = "") -> str:
        """A commit of the whole tree under the task's attempts; its short ref name. With what was
        there before as its parent, `git show` shows what the attempt changed and nothing else.
        `more`: lines for its message.
        """
        text = plain.line(key.text)
        message = f"kern attempt {name}: {plain.line(text, 60)}\n\nKern-Task: {text}\n{more}"
        return refs.keep(self.repo, refs.slug(key), name, tree, message, parent)

    def keep_document(self, name: str, text: str) -> str:
        """Keep a text of SPEC.md or LEARNINGS.md, which no tree holds; how to see it."""
        tree, head = document_tree(self.repo, name, text), self.repo.head().commit
        ref = refs.keep(self.repo, plain.slug(name), "left", tree, f"{name} as it was\n", head)
        return f"git show {ref}:{name}"


def document_tree(repo: Repo, name: str, text: str) -> str:
    return repo.tree_with("", {name: Entry("100644", repo.blob(plain.encode(text)))})


def prepared(repo: Repo, caller: Caller, home: Repo, rooms: Rooms) -> Site:
    """Still without prompts: a killed agent may have left some. `home`: the person's own tree."""
    gates = Gates(repo.root, caller.scope, caller.run, caller.mark, caller.tick, caller.hold)
    hooks = home.hooks_folder()
    papers = place.documents(repo)
    here = Site(repo, caller.scope, papers, caller, gates, {}, home, hooks, Memory(), rooms)
    return in_rooms(here, rooms)


def in_rooms(site: Site, rooms: Rooms) -> Site:
    """The same with those rooms."""
    site.gates.furnish = lambda tree, mounted: rooms.for_proof(
        tree, site.repo.head(), mounted=mounted
    )
    return replace(site, rooms=rooms)


def with_prompts(site: Site) -> Site:
    root, settings = site.repo.root, site.caller.settings
    return replace(site, templates=prompts.templates(root, settings))


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
