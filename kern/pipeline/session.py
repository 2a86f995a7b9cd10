"""A run from its first look to its end: the repository made sure of, the lock, one caller; what an
earlier run has left; and what would end a night that nobody watches, tried while a person is there.
"""

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from kern import plain
from kern.config import FILE
from kern.errors import KernError, UsageError
from kern.events import Sink, StageStarted, Warned
from kern.git import history, in_place, refs, repository
from kern.git.in_place import InPlace
from kern.git.refs import StartRef
from kern.git.repository import Repo
from kern.git.room import Room, outermost
from kern.journal import store
from kern.model import Marker, Stage
from kern.models import ROLES
from kern.pipeline import agents, attempt, isolation, landing, preflight, project, site, trust
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
    empty: bool = False,
    commits: bool = True,
    paid: bool = True,
    lands: bool = False,
) -> Iterator[Site]:
    """Raises KernError for what a person must settle first. `empty`: a SPEC.md without a task is
    fine. Unless it `commits` or writes, it needs no branch. Unless it is `paid`, no agent is
    called, nothing written down, and nobody notified. `lands`: it commits to the branch in use.
    """
    found, papers, parsed, settings = preflight.prepare(folder, empty=empty)
    bounds = settings.budget.within(options.max_cost)
    settings = replace(settings, budget=bounds, allow_red=options.allow_red, picked=options.models)
    templates = agents.foreseen(found.root, settings)
    crew = agents.chosen(templates.values())
    own, first = preflight.person_settings(found.root), ""
    if not options.leave.trusted:
        new = trust.started(found, settings, parsed, crew)
        first = trust.settle(found, new, options.leave.ask, partial(isolation.holds, found, own))
    preflight.demand(preflight.of_repository(found, commits=commits))
    programs = agents.ready(crew, found.root) if paid else {}
    name, run = found.head().name, secrets.token_hex(8)
    copies = found.common_dir / "kern" / "run" / found.worktree / name
    scope = replace(workspace.scope(found.root, name), copies=copies)
    wanted = isolation.wanted(found, scope, programs.values(), own)
    if paid:
        sink = store.beside(sink, found.common_dir, name, run)
        where = found.root, name, scope, run, wanted.grants.env
        sink = notify.beside(sink, settings.notify, *where, tried=lands and options.watched)
    steered = Steering(found.git_dir, run, sink, options.sleep, options.clock, options.until)
    caller = Caller(found.root, scope, run, sink, programs, settings)
    killed = lock.holder(found.git_dir)  # it takes its note away as it ends
    with (
        isolation.ready(wanted, isolation.mode(), sink) as held,
        control.signals(),
        lock.hold(scope, found.git_dir, run),
        _leaving(caller),
        contextlib.closing(steered),
        contextlib.closing(found.store),
        notify.awake(found.root, wanted=lands and own.awake) as keeper,
    ):
        _equip(caller, found, steered, options)
        # With its agents its gates and commits are held.
        caller.hold, caller.nests = isolation.hold(held), held.means is Means.NONE
        isolation.promised(templates if paid else {}, caller, held)
        here = _in_rooms(found, caller, held, steered, options, lands=lands)
        for notice in filter(None, (scope.notice, first, *isolation.notices(held, own, settings))):
            here.warn(notice)
        _tidy(here, killed.run if killed else "")
        preflight.tasks(found, papers, empty=empty)
        # A hook's private index lies there, until it has ended.
        shutil.rmtree(found.scratch, ignore_errors=True)
        with workspace.reported(found.scratch):
            found.scratch.mkdir(parents=True, exist_ok=True)
        forms = prompts.templates(found.root, settings)
        yield replace(here, templates=forms, payer=agents.paid(crew), sandbox=held, awake=keeper)


def _equip(caller: Caller, found: Repo, steered: Steering, options: Options) -> None:
    """With a person's requests, and what the journal tells of costs before this run and beside."""

    def tick(seconds: float, silent: float) -> None:
        options.tick(seconds, silent)
        steered.look()

    caller.sleep, caller.clock = steered.sleep, options.clock
    caller.tick, caller.heed, caller.scratch = tick, steered.heed, found.scratch
    journal = store.place(found.common_dir)
    caller.earlier = store.costs(journal, lambda text: caller.sink(Warned(text)))
    caller.beside = store.beside_me(journal, steered.run)


def _in_rooms(
    found: Repo,
    caller: Caller,
    held: Sandbox,
    steered: Steering,
    options: Options,
    *,
    lands: bool,
) -> Site:
    """Where its agents work and its gates run. Raises KernError where the task in progress was
    begun in a room, and there can be none now.
    """
    mounted = isolation.rooms(held, found, caller.settings)
    begun, home = refs.start(found, found.head().name), _home(found)
    if lands and not mounted and begun and begun.mounted:
        raise KernError(
            "the task in progress was begun in a sandbox, and there is none now",
            hint="KERN_SANDBOX=bwrap kern goes on with it; to begin it anew: set its marker in "
            f"SPEC.md to [ ], then git update-ref -d {begun.ref}",
        )
    place = InPlace(found, _apart(found, begun)) if lands and not mounted else None
    seen = home if mounted else found
    ignored = place.ignored if place else outermost(seen)
    # What a killed agent has left `kern check` leaves alone.
    room = Room(found, "work" if lands and mounted else "room", seen, ignored)
    rooms = Rooms(found, room, held.means is Means.BWRAP, mounted, place)
    here = site.prepared(found, caller, home, rooms, steered, options)
    if mounted and home.root != found.root:
        caller.named = partial(wall.named, places={found.root: home.root})
    if place:
        place.save = partial(attempt.save, here)
        if begun:  # a killed hook had the task's change staged
            in_place.restore_index(found, None)
    return here


def _apart(found: Repo, begun: StartRef | None) -> list[str]:
    """What is no task's: kern.toml, where it is not committed, since kern goes by it."""
    # A killed agent may have changed one that is committed.
    task = begun and found.entry(found.head().commit, FILE)
    return [FILE] if not task and FILE in preflight.uncommitted(found) else []


def _home(found: Repo) -> Repo:
    """Whose worker works there; itself where it is none's."""
    if of := os.environ.get(process.OF):
        with contextlib.suppress(KernError):
            home = repository.open_at(Path(of))
            return home if home.common_dir == found.common_dir else found
    return found


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


# ---------------------------------------------------------------- what earlier runs have left


def _tidy(site: Site, killed: str) -> None:
    """What a killed run has begun, and no look at the facts would finish; what a reboot took."""
    workspace.restore(site.scope)
    # An agent that outlived a killed kern would go on editing.
    if ended := process.sweep(("KERN_ROOT", str(site.repo.root))):
        site.warn(f"ended {plain.count(ended, 'process')} that an earlier run left behind")
    if killed:
        _count(site, killed)
    landing.follow(site.repo, site.papers)


def _count(site: Site, run: str) -> None:
    """The call in which that run was killed cost something, and its journal says nothing of it."""
    place, named = store.place(site.repo.common_dir), json.dumps(run).encode()
    found = store.load(place, having=named, size=store.NIGHT)
    last = next((one for one in found[::-1] if one["kind"] == "stage" and one["run"] == run), {})
    role = next((role for role in ROLES if role == last.get("stage")), None)
    if role and last.get("did") == "start":
        task, model, agent = (str(last.get(name)) for name in ("task", "model", "agent"))
        attempt = int(last.get("attempt") or 1)
        site.caller.cut_off(StageStarted(role, task, model, attempt, agent=agent))


def drop_old(site: Site) -> None:
    """At its end, records of a month ago; and of tasks that are done the saved attempts and what
    was moved aside.
    """
    _, parsed = site.papers.spec()
    before = time.time() - AGE_S
    done = {refs.slug(task.key) for task in parsed.tasks if task.marker is Marker.DONE}
    for ref, when in refs.kept(site.repo):
        if when < before and ref.split("/")[3] in done:
            refs.delete(site.repo, ref)
    places = _folders(site.scope.folder / "history")
    places += (one for one in _folders(site.repo.aside) if one.name.rpartition("-")[0] in done)
    for place in places:
        with workspace.reported(place):
            if place.lstat().st_mtime < before:
                shutil.rmtree(place)


def _folders(above: Path) -> list[Path]:
    there = above.iterdir() if above.is_dir() else ()
    return [place for place in there if place.is_dir() and not place.is_symlink()]


# ---------------------------------------------------------------- before the first paid stage


def look_ahead(site: Site) -> None:
    """Raises KernError for what would end the run later; what may is a warning. What could ask is
    tried only where a person is there to answer.
    """
    if os.environ.get(process.FLEET):  # the run that started it has looked
        return
    for hook in filter(Path.is_file, (site.hooks_folder / name for name in project.HOOKS)):
        _require_program(site, hook)
    for place in dict.fromkeys((site.repo.root, site.scope.folder)):
        if (free := shutil.disk_usage(place).free) < _ROOM:
            site.warn(f"{free >> 20} MB are free for {place}: a full disk ends the run")
    if site.options.watched and history.signs(site.repo):
        _sign(site)


def _require_program(site: Site, hook: Path) -> None:
    if not os.access(hook, os.X_OK):
        site.warn(f"git passes over {hook}, which is not executable: chmod +x, if it is meant")
        return
    with hook.open("rb") as file:
        first = os.fsdecode(file.readline(400)).strip()
    program, *more = first.removeprefix("#!").split() or [""]
    if Path(program).name == "env" and more and not more[0].startswith("-"):
        program = more[0]
    if first.startswith("#!") and program and not shutil.which(program):
        raise UsageError(
            f"no commit could be made: the {hook.name} hook needs {program}, which is not there",
            hint=f"install it, or correct the first line of {hook}",
        )


def _sign(site: Site) -> None:
    """Which may ask the person."""
    began = time.monotonic()
    empty = site.repo.text("hash-object", "-t", "tree", "--stdin")
    history.create(site.repo, empty, "", "", site.caller.settings.total(Stage.COMMIT))
    if (took := time.monotonic() - began) > _SLOW_S:
        site.warn(
            f"signing took {took:.0f} s: if it asks each time, the night stops there; --no-sign "
            "leaves these commits unsigned, and the morning says how to sign them"
        )
