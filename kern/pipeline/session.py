"""What a run and a plan have in common: the repository made sure of, the lock, one caller."""

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kern import plain
from kern.agents.protocol import Agent, Payer
from kern.config import Settings
from kern.errors import KernError
from kern.events import Sink, Warned
from kern.git import branches, refs, repository
from kern.git.in_place import InPlace
from kern.git.repository import Repo
from kern.journal import store, writer
from kern.person import Person
from kern.pipeline import agents, isolation, preflight, recover, rooms, site, trust
from kern.pipeline.options import Leave, Options
from kern.pipeline.rooms import Rooms
from kern.pipeline.site import Site
from kern.sandbox import wall
from kern.sandbox.confine import Sandbox
from kern.spec.parse import Spec
from kern.stages.call import Caller
from kern.system import control, lock, notify, process, workspace
from kern.system.control import Steering
from kern.system.workspace import Scope


@dataclass(frozen=True, slots=True)
class Session:
    site: Site
    steered: Steering
    payer: str
    sandbox: Sandbox
    begun_from: str = ""  # the branch that the run's own, a new one, was begun from
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
    called, nothing written down, and nobody notified. `lands`: on the branch that is wanted.
    """
    found, papers, parsed, settings = preflight.prepare(
        folder, empty=empty, bare=not options.leave.project
    )
    settings = _chosen(settings, options)
    templates = agents.foreseen(found.root, settings)
    crew = agents.chosen(templates.values())
    own = preflight.person_settings(found.root)
    first = _consent(found, settings, parsed, crew, own, options.leave)
    preflight.demand(preflight.of_repository(found, commits=commits))
    programs, payer = agents.ready(crew, found.root) if paid else ({}, Payer(""))
    before = found.head().name
    name = preflight.branch(found, options.branch or settings.branch, parsed) if lands else before
    scope, run_id = _scope(found, name), secrets.token_hex(8)
    wanted = isolation.wanted(found, scope, programs.values(), own, settings.holding)
    where = found.root, name, scope, run_id
    if paid:
        sink = writer.beside(sink, found.common_dir, name, run_id)
        tried = lands and options.watched
        sink = notify.beside(sink, settings.notify, *where, wanted.grants.env, tried=tried)
    by = options.sleep, options.clock, options.until
    steered = Steering(found.git_dir, run_id, sink, *by)
    caller = Caller(
        *(found.root, scope, run_id, sink, programs, settings, steered.sleep, options.clock),
        *(_ticking(options.tick, steered), steered.heed, found.scratch, options.watched),
    )
    _known(caller, found)
    killed = lock.holder(found.git_dir)  # it takes its note away as it ends
    with (
        isolation.ready(wanted, isolation.mode(options.leave.sandbox, own), sink) as held,
        control.signals(),
        lock.hold(scope, found.git_dir, run_id),
        _leaving(caller),
        contextlib.closing(steered),
        contextlib.closing(found.store),
    ):
        isolation.apply(held, caller)
        isolation.promised(templates if paid else {}, caller, held)
        if name != before:
            branches.begin(found, name)
        here = _in_rooms(site.prepared(found, caller, home_of(found)), held, lands)
        notices = (scope.notice, payer.warning, *settings.remarks, first)
        _settle_in(found, scope, sink, (*notices, *isolation.notices(held, own, settings)))
        recover.tidy(here, killed)
        preflight.tasks(found, papers, empty=empty)
        workspace.empty(found.scratch)  # a hook's private index lies there, until it has ended
        yield Session(site.with_prompts(here), steered, payer.who, held, before * (name != before))


def home_of(found: Repo) -> Repo:
    """Whose worker works there; itself where it is none's."""
    if of := os.environ.get(process.OF):
        with contextlib.suppress(KernError):
            home = repository.open_at(Path(of))
            if home.common_dir == found.common_dir:
                return home
    return found


def _in_rooms(here: Site, held: Sandbox, lands: bool) -> Site:
    """Where its agents work and its gates run. Raises KernError where the task in progress was
    begun in a room, and there can be none now.
    """
    mounted = isolation.rooms(held, here.repo, here.caller.settings)
    if not (lands or isolation.proves(held)):  # what commits nothing looks at the tree as it is
        return here
    own = Rooms(here.repo, isolation.proves(held), mounted, lands, here.home)
    here = site.in_rooms(here, own)
    if mounted and here.home.root != here.repo.root:
        here.caller.named = partial(wall.named, places={here.repo.root: here.home.root})
    if isinstance(own.work, InPlace):
        own.work.save = partial(rooms.save, here)
    begun = dict(refs.starts(here.repo)).get(here.repo.head().name)
    if lands and not mounted and begun and refs.is_of_room(here.repo, begun):
        raise KernError(
            "the task in progress was begun in a sandbox, and there is none now",
            hint="kern --sandbox bwrap goes on with it; to begin it anew: set its marker in "
            f"SPEC.md to [ ], then git update-ref -d {begun.ref}",
        )
    return here


def _known(caller: Caller, found: Repo) -> None:
    """What the journal tells of the costs before this run, and beside it."""
    place, sink = store.place(found.common_dir), caller.sink
    caller.earlier = store.costs(place, lambda text: sink(Warned(text)))
    caller.beside = store.beside_me(place, caller.run)


def _chosen(settings: Settings, options: Options) -> Settings:
    """With what the command line says."""
    bounds = settings.budget.within(options.max_cost, options.max_minutes)
    return replace(settings, budget=bounds, on_red=options.on_red, picked=options.models)


def _consent(
    found: Repo,
    settings: Settings,
    parsed: Spec,
    crew: Sequence[Agent],
    own: Person,
    leave: Leave,
) -> str:
    """See `trust.settle`."""
    if settings.bare or leave.trusted:
        return ""
    holds = partial(isolation.holds, found, own, leave.sandbox)
    return trust.settle(found, trust.started(found, settings, parsed, crew), leave.ask, holds)


def _scope(found: Repo, branch: str) -> Scope:
    scope = workspace.scope(found.root, branch)
    return replace(scope, copies=found.common_dir / "kern" / "run" / found.worktree / branch)


def _settle_in(found: Repo, scope: Scope, sink: Sink, notices: Sequence[str]) -> None:
    """What a person should know; what a reboot took. An agent that outlived a killed kern would go
    on editing.
    """
    for notice in filter(None, notices):
        sink(Warned(notice))
    workspace.restore(scope)
    if ended := process.sweep(("KERN_ROOT", str(found.root))):
        sink(Warned(f"ended {plain.count(ended, 'process')} that an earlier run left behind"))


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


def _ticking(tick: process.Tick, steered: Steering) -> process.Tick:
    def both(seconds: float, silent: float) -> None:
        tick(seconds, silent)
        steered.look()

    return both
