"""A run from its first look to its end: the repository made sure of, the lock, one caller; what an
earlier run has left; and what would end a night that nobody watches, tried while a person is there.
"""

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from kern import plain
from kern.checks.gates import Gates
from kern.errors import KernError, UsageError
from kern.events import Sink
from kern.git import environment, history, in_place, refs, repository
from kern.git.in_place import InPlace
from kern.git.repository import Repo, outermost
from kern.git.room import Room
from kern.journal import store
from kern.model import Marker
from kern.models import ROLES
from kern.pipeline import agents, attempt, isolation, landing, preflight, project, trust
from kern.pipeline.facts import documents
from kern.pipeline.rooms import Rooms
from kern.pipeline.site import Options, Site
from kern.sandbox import wall
from kern.sandbox.confine import Sandbox
from kern.sandbox.means import Means
from kern.stages import prompts
from kern.stages.call import Caller
from kern.system import control, lock, notify, process, workspace
from kern.system.control import Steering

AGE_S = 30 * 86400.0
_SLOW_S = 3.0  # a signature that takes longer may have been asked for
_ROOM = 300 << 20  # bytes; with less a night may end


@contextlib.contextmanager
def begin(
    folder: Path,
    options: Options,
    sink: Sink,
    *,
    paid: bool = True,
    lands: bool = False,
) -> Iterator[Site]:
    """Raises KernError for what a person must settle first. Unless it is `paid`, no agent is
    called, nothing written down, nobody notified, and no branch needed. `lands`: it commits to the
    branch in use, tasks of SPEC.md.
    """
    empty = options.until_done or not (paid and lands)  # a SPEC.md without a task is fine
    repo, documents, parsed, settings = preflight.prepare(folder, empty=empty)
    repo.start = environment.started
    most = replace(settings.max_cost, run=options.max_cost or settings.max_cost.run)
    settings = replace(settings, max_cost=most, allow_red=options.allow_red, picked=options.models)
    templates = prompts.templates(repo.root, settings)
    crew = agents.chosen(templates.values())
    plan, first = isolation.chosen(repo), ""
    if not options.leave.trusted:
        new, held = trust.started(repo, settings, parsed, crew), plan.means is not Means.NONE
        first = trust.settle(repo, new, options.leave.ask, held=held)
    preflight.demand(preflight.of_repository(repo, commits=paid))
    programs = agents.ready(crew, repo.root) if paid else {}
    name, run = repo.head().name, secrets.token_hex(8)
    copies = repo.git_dir / "kern" / "run" / name  # of a worktree they go with it
    scope = replace(workspace.scope(repo.root, name), copies=copies)
    if paid:
        journal = store.Journal(sink, repo.common_dir, name, run)
        tried = lands and options.watched
        sink = notify.beside(journal, settings.notify, repo.root, scope, run, tried=tried)
    steered = Steering(repo.git_dir, run, sink, options.sleep, options.clock, options.until)
    caller = Caller(repo.root, scope, run, sink, programs, settings)
    killed = lock.holder(repo.git_dir)  # it takes its note away as it ends
    with (
        isolation.ready(plan, programs.values(), sink) as sandbox,
        control.signals(),
        lock.hold(repo.git_dir, run, name, scope.lock),
        _leaving(caller),
        contextlib.closing(steered),
        contextlib.closing(repo.store),
        notify.awake(repo.root, wanted=lands) as keeper,
    ):
        _equip(caller, repo, steered, options)
        # With its agents its gates and commits are held.
        caller.hold, caller.nests = sandbox.hold, sandbox.means is Means.NONE
        isolation.promised(templates if paid else {}, caller, sandbox)
        here = _in_rooms(repo, caller, sandbox, steered, options, lands=lands)
        for notice in (scope.notice, first, *isolation.notices(sandbox, settings)):
            if notice:
                here.warn(notice)
        _tidy(here, killed.run if killed else "")
        preflight.tasks(repo, documents, empty=empty)
        by = agents.paid(crew)
        yield replace(here, payer=by, sandbox=sandbox, awake=keeper, templates=templates)


def _equip(caller: Caller, repo: Repo, steered: Steering, options: Options) -> None:
    """With a person's requests, and what the journal tells of costs before this run and beside."""

    def tick(seconds: float, silent: float) -> None:
        options.tick(seconds, silent)
        steered.look()

    caller.sleep, caller.clock = steered.sleep, options.clock
    caller.tick, caller.check_requests, caller.scratch = tick, steered.check_requests, repo.scratch
    journal = store.place(repo.common_dir)
    caller.earlier = store.earlier(journal, steered.run)
    if fleet := os.environ.get(process.FLEET, ""):
        caller.beside = store.beside(journal, fleet, steered.run)


def _in_rooms(
    repo: Repo,
    caller: Caller,
    sandbox: Sandbox,
    steered: Steering,
    options: Options,
    *,
    lands: bool,
) -> Site:
    """Where its agents work and its gates run. Raises KernError where the task in progress was
    begun in a room, and there can be none now.
    """
    mounted = isolation.rooms(sandbox, repo, caller.settings)
    start, home = refs.start(repo, repo.head().name), _home(repo)
    if lands and not mounted and start and start.mounted:
        raise KernError(
            "the task in progress was begun in a sandbox, and there is none now",
            hint="KERN_SANDBOX=bwrap kern goes on with it; to begin it anew: set its marker in "
            f"SPEC.md to [ ], then git update-ref -d {start.ref}",
        )
    place = InPlace(repo, start.held if start else ()) if lands and not mounted else None
    tree = home if mounted else repo
    ignored = place.ignored if place else outermost(tree)
    # What a killed agent has left `kern check` leaves alone.
    room = Room(repo, "work" if lands and mounted else "room", tree, ignored)
    rooms = Rooms(repo, room, sandbox.means is Means.BWRAP, mounted, place)
    gates = Gates(repo.root, caller.scope, caller.run, caller.tick, caller.hold)
    gates.furnish = lambda tree, mounted: rooms.for_proof(tree, repo.head(), mounted=mounted)
    parts = documents(repo), caller, gates, home.hooks_folder(), rooms, steered, options
    here = Site(repo, caller.scope, *parts)
    if mounted and home.root != repo.root:
        caller.named = partial(wall.named, places={repo.root: home.root})
    if place:
        place.save = partial(attempt.save, here)
        if start:  # a killed hook had the task's change staged
            in_place.restore_index(repo, None)
    return here


def _home(repo: Repo) -> Repo:
    """Whose worker works there; itself where it is none's."""
    if of := os.environ.get(process.OF):
        with contextlib.suppress(KernError):
            home = repository.open_at(Path(of))
            return home if home.common_dir == repo.common_dir else repo
    return repo


@contextlib.contextmanager
def _leaving(caller: Caller) -> Iterator[None]:
    """No process of the run is left, nor what its agents were told."""
    try:
        yield
    finally:
        process.sweep(("KERN_ROOT", str(caller.root)))
        shutil.rmtree(caller.scratch, ignore_errors=True)


# ---------------------------------------------------------------- what earlier runs have left


def _tidy(site: Site, killed: str) -> None:
    """What a killed run has begun, and no look at the facts would finish; what a reboot took."""
    workspace.restore(site.scope)
    # An agent that outlived a killed kern would go on editing.
    if count := process.sweep(("KERN_ROOT", str(site.repo.root))):
        site.warn(f"ended {plain.count(count, 'process')} that an earlier run left behind")
    if killed:
        _count(site, killed)
    landing.follow(site.repo, site.documents)
    scratch = site.repo.scratch  # a hook's private index lies there, until it has ended
    shutil.rmtree(scratch, ignore_errors=True)
    with workspace.reported(scratch):
        scratch.mkdir(parents=True, exist_ok=True)


def _count(site: Site, run: str) -> None:
    """The call in which that run was killed cost something, and its journal says nothing of it."""
    records = store.load(store.place(site.repo.common_dir), size=store.NIGHT)
    last = next((one for one in records[::-1] if one["kind"] == "stage" and one["run"] == run), {})
    role = next((role for role in ROLES if role == last.get("stage")), None)
    if role and last.get("did") == "start":
        about = {name: str(last.get(name)) for name in ("task", "model", "agent")}
        attempt = int(last.get("attempt") or 1)
        site.caller.cut_off({"stage": role, "attempt": attempt, **about})


def drop_old(site: Site) -> None:
    """At its end, records of a month ago, and the saved attempts of tasks that are done."""
    _, parsed = site.documents.spec()
    before = time.time() - AGE_S
    done = {refs.slug(task.key) for task in parsed.tasks if task.marker is Marker.DONE}
    for ref, when in refs.kept(site.repo):
        if when < before and ref.split("/")[3] in done:
            refs.delete(site.repo, ref)
    for place in (site.scope.folder / "history").glob("*"):
        if place.lstat().st_mtime < before:
            workspace.remove(place)


# ---------------------------------------------------------------- before the first paid stage


def look_ahead(site: Site) -> None:
    """Raises KernError for what would end the run later; what may is a warning. What could ask is
    tried only where a person is there to answer.
    """
    if os.environ.get(process.FLEET):  # the run that started it has looked
        return
    for name in site.repo.hooks(*project.HOOKS, folder=site.hooks_folder):
        hook = site.hooks_folder / name
        with hook.open("rb") as file:
            program = re.match(r"#!\s*(?:\S*/env\s+)?([^\s-]\S*)", os.fsdecode(file.readline(400)))
        if program and not shutil.which(program[1]):
            raise UsageError(
                f"no commit could be made: the {name} hook needs {program[1]}, which is not there",
                hint=f"install it, or correct the first line of {hook}",
            )
    for place in dict.fromkeys((site.repo.root, site.scope.folder)):
        if (free := shutil.disk_usage(place).free) < _ROOM:
            site.warn(f"{free >> 20} MB are free for {place}: a full disk ends the run")
    if site.options.watched and history.signs(site.repo):
        _sign(site)


def _sign(site: Site) -> None:
    """Which may ask the person."""
    began = time.monotonic()
    empty = site.repo.text("hash-object", "-t", "tree", "--stdin")
    history.create(site.repo, empty, "", "")
    if (took := time.monotonic() - began) > _SLOW_S:
        site.warn(
            f"signing took {took:.0f} s: if it asks each time, the night stops there; --no-sign "
            "leaves these commits unsigned, and the morning says how to sign them"
        )
