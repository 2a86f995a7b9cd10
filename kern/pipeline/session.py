"""What a run and a plan have in common: the repository made sure of, the lock, one caller."""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kern.agents.protocol import Agent, Program
from kern.config import Settings
from kern.errors import KernError
from kern.events import Sink, Warned
from kern.git import in_place, refs, repository
from kern.git.repository import Repo
from kern.journal import store
from kern.person import Person
from kern.pipeline import agents, attempt, isolation, preflight, recover, site, trust
from kern.pipeline.options import Leave, Options
from kern.pipeline.rooms import Rooms
from kern.pipeline.site import Site
from kern.sandbox import wall
from kern.sandbox.confine import Sandbox
from kern.spec.parse import Spec
from kern.stages.call import Caller
from kern.system import awake, control, lock, notify, process, workspace
from kern.system.control import Steering
from kern.system.workspace import Scope


@dataclass(frozen=True, slots=True)
class Session:
    site: Site
    steered: Steering
    payer: str
    sandbox: Sandbox
    awake: str = ""  # what keeps the machine so


@contextlib.contextmanager
def begin(
    folder: Path,
    options: Options,
    sink: Sink,
    *,
    empty: bool = False,
    commits: bool = True,
    paid: bool = True,
    lands: bool = False,
) -> Iterator[Session]:
    """Raises KernError for what a person must settle first. `empty`: a SPEC.md without a task is
    fine. Unless it `commits` or writes, it needs no branch. Unless it is `paid`, no agent is
    called, nothing written down, and nobody notified. `lands`: it commits to the branch in use.
    """
    found, papers, parsed, settings = preflight.prepare(folder, empty=empty)
    bounds = settings.budget.within(options.max_cost)
    settings = replace(settings, budget=bounds, on_red=options.on_red, picked=options.models)
    templates = agents.foreseen(found.root, settings)
    crew = agents.chosen(templates.values())
    own = preflight.person_settings(found.root)
    first = _consent(found, settings, parsed, crew, own, options.leave)
    preflight.demand(preflight.of_repository(found, commits=commits))
    programs = agents.ready(crew, found.root) if paid else {}
    name = found.head().name
    scope, run_id = workspace.scope(found.root, name), secrets.token_hex(8)
    scope = replace(scope, copies=found.common_dir / "kern" / "run" / found.worktree / name)
    wanted = isolation.wanted(found, scope, programs.values(), own)
    if paid:
        sink = store.beside(sink, found.common_dir, name, run_id)
        tried = lands and options.watched
        where = found.root, name, scope, run_id, wanted.grants.env
        sink = notify.beside(sink, settings.notify, *where, tried=tried)
    steered = Steering(found.git_dir, run_id, sink, options.sleep, options.clock, options.until)
    caller = _caller(found, scope, sink, programs, settings, steered, options)
    killed = lock.holder(found.git_dir)  # it takes its note away as it ends
    with (
        isolation.ready(wanted, isolation.mode(own), sink) as held,
        control.signals(),
        lock.hold(scope, found.git_dir, run_id),
        _leaving(caller),
        contextlib.closing(steered),
        contextlib.closing(found.store),
        awake.kept(found.root, wanted=lands and own.awake) as keeper,
    ):
        isolation.apply(held, caller)
        isolation.promised(templates if paid else {}, caller, held)
        here = _in_rooms(found, caller, held, lands)
        for notice in filter(None, (scope.notice, first, *isolation.notices(held, own, settings))):
            here.warn(notice)
        recover.tidy(here, killed)
        preflight.tasks(found, papers, empty=empty)
        workspace.empty(found.scratch)  # a hook's private index lies there, until it has ended
        yield Session(site.with_prompts(here), steered, agents.paid(crew), held, keeper)


def _caller(
    found: Repo,
    scope: Scope,
    sink: Sink,
    programs: Mapping[str, Program],
    settings: Settings,
    steered: Steering,
    options: Options,
) -> Caller:
    """With what the journal tells of the costs before this run, and beside it."""

    def tick(seconds: float, silent: float) -> None:
        options.tick(seconds, silent)
        steered.look()

    journal = store.place(found.common_dir)
    return Caller(
        *(found.root, scope, steered.run, sink, programs, settings, steered.sleep, options.clock),
        *(tick, steered.heed, found.scratch, options.watched),
        earlier=store.costs(journal, lambda text: sink(Warned(text))),
        beside=store.beside_me(journal, steered.run),
    )


def home_of(found: Repo) -> Repo:
    """Whose worker works there; itself where it is none's."""
    if of := os.environ.get(process.OF):
        with contextlib.suppress(KernError):
            home = repository.open_at(Path(of))
            if home.common_dir == found.common_dir:
                return home
    return found


def _in_rooms(found: Repo, caller: Caller, held: Sandbox, lands: bool) -> Site:
    """Where its agents work and its gates run. Raises KernError where the task in progress was
    begun in a room, and there can be none now.
    """
    mounted = isolation.rooms(held, found, caller.settings)
    begun, home = refs.start(found, found.head().name), home_of(found)
    if lands and not mounted and begun and begun.mounted:
        raise KernError(
            "the task in progress was begun in a sandbox, and there is none now",
            hint="KERN_SANDBOX=bwrap kern goes on with it; to begin it anew: set its marker in "
            f"SPEC.md to [ ], then git update-ref -d {begun.ref}",
        )
    rooms = Rooms(found, isolation.proves(held), mounted, lands, home)
    here = site.prepared(found, caller, home, rooms)
    if mounted and home.root != found.root:
        caller.named = partial(wall.named, places={found.root: home.root})
    if rooms.place:
        rooms.place.save = partial(attempt.save, here)
        if begun:  # a killed hook had the task's change staged
            in_place.restore_index(found, None)
    return here


def _consent(
    found: Repo,
    settings: Settings,
    parsed: Spec,
    crew: Sequence[Agent],
    own: Person,
    leave: Leave,
) -> str:
    """See `trust.settle`."""
    if leave.trusted:
        return ""
    holds = partial(isolation.holds, found, own)
    return trust.settle(found, trust.started(found, settings, parsed, crew), leave.ask, holds)


@contextlib.contextmanager
def _leaving(caller: Caller) -> Iterator[None]:
    """No process of the run is left, nor what its agents were told."""
    try:
        yield
    finally:
        process.sweep(caller.mark)
        for place in caller.laid:
            with contextlib.suppress(OSError):
                place.unlink()
