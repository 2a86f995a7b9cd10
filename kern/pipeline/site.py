"""What a run is: what the person asked for, where it works and with what. One frozen value, handed
to each step.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kern import plain
from kern.checks.gates import Gates
from kern.events import Sink, warning
from kern.git import refs
from kern.git.repository import Entry
from kern.model import Key, Role, Stage
from kern.models import Choices
from kern.pipeline.facts import Place, Situation
from kern.pipeline.rooms import Rooms
from kern.sandbox.confine import Sandbox
from kern.stages import record
from kern.stages.call import Caller, Said
from kern.stages.prompts import Template
from kern.stages.record import StageRecord
from kern.system import process, waits
from kern.system.control import Steering

# Of a fence or comment in SPEC.md that hides what follows.
CLOSE = "close it, then run kern again: it resumes"


@dataclass(frozen=True, slots=True)
class Leave:
    """What a person lets a repository start in this run, and where."""

    trusted: bool = False
    ask: Callable[[Sequence[str], bool], bool] = lambda lines, first: False  # see pipeline.trust


@dataclass(slots=True)
class Options:
    """What a person has chosen for a run."""

    iterations: int = 5
    delay: float = 10.0
    wait: bool = True  # for a usage limit's reset
    max_cost: float = 0.0  # US dollars; 0: what kern.toml says
    until_done: bool = False  # where no task is left, ask whether the goal is reached
    allow_red: bool = False  # gates that are red before are not held against the tasks
    task: str = ""  # the only one that is to be taken, as a person names it
    models: Choices = field(default_factory=dict)  # with their efforts
    leave: Leave = field(default_factory=Leave)
    sleep: Callable[[float], None] = waits.sleep
    watched: bool = False  # a person looks at what agents do
    tick: process.Tick = process.unwatched
    countdown: Callable[[float], None] = lambda seconds: None
    clock: Callable[[], float] = time.time
    until: float = 0.0  # epoch seconds from which nothing is begun; 0: no bound
    jobs: int = 0  # so many tasks at once; 0: one, or as many as a cluster can bear
    # Another way to carry out the tasks of a site, once all is made sure of: its exit code; None:
    # this one.
    instead: Callable[[Any], int | None] = lambda site: None
    scheduler: str = ""  # of the cluster that works for it
    sign: bool = True  # where the person does

    @property
    def called(self) -> str:
        """How a person begins the like of this run, but for how many tasks."""
        words = ["kern", *(["-j", str(self.jobs)] if self.jobs else [])]
        return " ".join([*words, *(["--scheduler", self.scheduler] if self.scheduler else [])])

    @property
    def words(self) -> tuple[str, ...]:
        """What a worker's kern is begun with, so that it does as this run."""
        found = [] if self.wait else ["--no-wait"]
        found += [] if self.sign else ["--no-sign"]
        found += ["--allow-red"] if self.allow_red else []
        found += ["--max-cost", f"{self.max_cost:g}"] if self.max_cost else []
        for role, choice in self.models.items():
            found += ["--model", f"{role}={choice.model}"] if choice.model else []
            found += ["--agent", f"{role}={choice.agent}"] if choice.agent else []
        return tuple(found)


@dataclass(slots=True)
class Memory:
    """What this process alone knows; nothing of it is needed after a kill."""

    checked: bool = False  # whether the gates were seen on a tree without an agent's work
    proved: str = ""  # stage2.json as this process wrote it when it proved the change
    # The message that hooks made of one, by HEAD and by the tree that they made.
    passed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    flaky: set[str] = field(default_factory=set)  # gates that were, in this run
    told: set[str] = field(default_factory=set)  # what is said once


@dataclass(frozen=True, slots=True)
class Site(Place):
    caller: Caller
    gates: Gates
    hooks_folder: Path  # of git's hooks, before any agent can name another
    rooms: Rooms
    steered: Steering
    options: Options
    memory: Memory = field(default_factory=Memory)
    templates: Mapping[Role, Template] = field(default_factory=dict)
    sandbox: Sandbox | None = None
    payer: str = ""
    awake: str = ""  # what keeps the machine so

    @property
    def sink(self) -> Sink:
        return self.caller.sink

    def warn(self, text: str, *, kept: bool = False, once: bool = False) -> None:
        if not (once and text in self.memory.told):
            self.sink(warning(text, kept))
        self.memory.told |= {text} if once else set()

    def keep(self, key: Key, name: str, tree: str, parent: str) -> str:
        """A commit of the whole tree under the task's attempts; its short ref name. With what was
        there before as its parent, `git show` shows what the attempt changed and nothing else.
        """
        text = plain.line(key.text)
        message = f"kern attempt {name}: {plain.line(text, 60)}\n\nKern-Task: {text}\n"
        return refs.keep(self.repo, refs.slug(key), name, tree, message, parent)

    def keep_document(self, name: str, text: str) -> str:
        """Keep a text of SPEC.md or LEARNINGS.md, which no tree holds; how to see it."""
        blob, head = self.repo.blob(plain.encode(text)), self.repo.head().commit
        tree = self.repo.tree_with("", {name: Entry("100644", blob)})
        ref = refs.keep(self.repo, plain.slug(name), "left", tree, f"{name} as it was\n", head)
        return f"git show {ref}:{name}"


def drop_start(site: Site, at: Situation) -> None:
    if at.start:
        refs.delete(site.repo, at.start.ref, at.start.commit)


def save(
    site: Site, reply: Said, key: Key, stage: Stage, attempt: int, **facts: object
) -> StageRecord:
    """The stage's file: what the agent said, and what kern noted."""
    new = StageRecord(stage, reply.reply.result, key.text, key.parent, key.nth, attempt)
    new = new.noting(run=site.caller.run, fault=reply.fault, **facts)
    record.save(site.scope, new)
    return new
