"""`kern doctor`: what a run needs, checked one by one: ok, a warning or a problem, with its fix."""

import contextlib
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypedDict

from kern import __version__, models, person, plain
from kern.agents import protocol
from kern.agents.protocol import Agent, Program
from kern.config import FILE
from kern.errors import KernError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import SPEC
from kern.pipeline import agents, inside, isolation, place, preflight, trust
from kern.pipeline.preflight import Check, tried
from kern.pipeline.trust import Started
from kern.sandbox.confine import Means, Sandbox
from kern.spec import notes
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.stages import prompts
from kern.system import workspace

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_WIDTH = len(WARNING)
_MEANT = "see that this is what you mean: kern help safety"


class Row(TypedDict):
    name: str
    mark: str
    ok: bool  # no problem: a run begins
    detail: str
    fix: str


def examine(folder: Path) -> list[Row]:
    checks = [
        Check("kern", f"{__version__}, Python {platform.python_version()} ({sys.executable})"),
        *_git(folder),
        *(check for agent in needed(folder) for check in _agent(folder, agent)),
        *map(_limits, needed(folder)),
        *_sandbox(folder),
        _payer(folder),
        *_others(folder),
        _jq(),
    ]
    return [
        {
            "name": check.name,
            "mark": PROBLEM if check.fault else WARNING if check.advice else OK,
            "ok": check.fault is None,
            "detail": check.detail,
            "fix": check.fault.hint if check.fault else check.advice,
        }
        for check in _each_once(checks)
    ]


def _each_once(checks: Sequence[Check]) -> Iterator[Check]:
    """A fault that several of them met is told by the first."""
    told: set[str] = set()
    for check in checks:
        if not (check.fault and check.detail in told):
            yield check
        if check.fault:
            told.add(check.detail)


def text(checks: list[Row]) -> str:
    lines = []
    for check in checks:
        first, *rest = plain.block(check["detail"]).splitlines() or [""]
        lines.append(f"{check['mark']:<{_WIDTH}}  {check['name']}: {first}")
        lines += [f"{'':<{_WIDTH}}    {line}" for line in rest]
        if check["fix"]:
            lines.append(f"{'':<{_WIDTH}}  fix: {check['fix']}")
    return plain.block("\n".join([*lines, _summary([check["mark"] for check in checks])]))


def _summary(marks: Sequence[str]) -> str:
    if PROBLEM not in marks and WARNING not in marks:
        return "all is well"
    counts = [plain.count(marks.count(mark), mark) for mark in (PROBLEM, WARNING) if mark in marks]
    return f"{', '.join(counts)}{'' if PROBLEM in marks else ': a run can begin'}"


def _git(folder: Path) -> Iterator[Check]:
    yield tried("git", preflight.git_version)
    try:
        found = repository.open_at(folder)
    except KernError as exc:
        yield Check("repository", str(exc), exc)
        return
    yield Check("repository", str(found.root))
    yield from preflight.of_repository(found)
    papers = place.documents(found)
    yield tried(SPEC, lambda: plain.count(len(preflight.tasks(found, papers).tasks), "task"))
    yield _advised(FILE, lambda: _gates(found, papers))
    with contextlib.suppress(KernError):  # told by the check before it
        notify = preflight.person_settings(found.root).notify  # running it would show what it does
        yield Check("notify", notify or f"nobody: notify in {person.FILE} names a command")
    yield tried("prompts", lambda: _prompts(found, papers))
    yield _advised("output folder", lambda: _folder(found))


def _gates(found: Repo, papers: Documents) -> tuple[str, str]:
    """What this repository makes kern run."""
    settings = preflight.settings(found, papers)
    parsed = parse(papers.read(SPEC) or "")
    shown = notes.commands(parsed, settings)
    lines, advice = list[str](), ""
    if not settings.gates:
        own = "but for tasks with gates of their own " if notes.open_gates(parsed) else ""
        lines.append(f"no gates: {own}commits are unverified")
        advice = "kern init finds this project's checks: kern help settings"
    lines += ["this repository makes kern run:", *shown] if shown else []
    return "\n".join(lines), advice


def _prompts(found: Repo, papers: Documents) -> str:
    forms = prompts.templates(found.root, preflight.settings(found, papers))
    return models.told({role: form.by.said(protocol.DEFAULT) for role, form in forms.items()})


def _folder(found: Repo) -> tuple[str, str]:
    scope = workspace.scope(found.root, found.head().name)
    if not scope.notice:
        return str(scope.folder), ""
    advice = "remove what is in the way, or set KERN_DIR to a folder of your own"
    return f"{scope.folder} ({scope.notice})", advice


def needed(folder: Path) -> list[Agent]:
    """The agents that a run would start here."""
    with contextlib.suppress(KernError):  # told by an earlier check
        found = repository.open_at(folder)
        settings = preflight.settings(found, place.documents(found))
        return agents.chosen(prompts.templates(found.root, settings).values())
    return [protocol.find(protocol.DEFAULT)]


def _agent(folder: Path, agent: Agent) -> Iterator[Check]:
    found = None
    with contextlib.suppress(KernError):  # told by an earlier check
        found = repository.open_at(folder)
    there, user = agents.checks(agent, found.root if found else None)
    if there.fault or not agent.OLDEST:  # who knows what a command does that is asked for a version
        yield there
        return
    code, said = agents.version(there.detail)
    yield tried("agent", lambda: agents.running(agent, there.detail, code, said))
    yield user
    if code == 0:
        yield _login(folder, found, agent, there.detail)


def _login(folder: Path, found: Repo | None, agent: Agent, program: str) -> Check:
    """A repository may have named who is asked: not before the person has seen whom."""
    try:
        new = trust.unseen(found, agent.started({})) if found else []
    except KernError as exc:
        return Check("login", str(exc), exc)
    if new:
        return Check("login", f"not looked at before you agree: {new[0]}", advice="kern trust")
    said = agents.login(agent, program)
    # Where there is no CLI that has a login of its own, the endpoint itself was asked.
    payer = agents.payer(agent, folder).who if said.fault and agent.PROGRAM else ""
    return Check("login", f"not needed: {payer}") if payer else said


def _limits(agent: Agent) -> Check:
    """What it may do in each role."""
    roles: dict[str, list[str]] = {}
    for role in models.ROLES:
        roles.setdefault(isolation.allowed(agent, role), []).append(role)
    lines = [f"{', '.join(named)}: {what}" for what, named in roles.items()]
    return Check("limits", "\n".join([f"{agent.NAME}, by role", *lines]))


def _logged_in(program: Program) -> str:
    found = agents.login(program.agent, program.command)
    return "not logged in" if found.fault else found.detail.partition(":")[0]


def _others(folder: Path) -> Iterator[Check]:
    """Other agents that could run here, or stand in."""
    known = {agent.NAME for agent in needed(folder)}
    if others := [one for one in agents.installed() if one.agent.NAME not in known]:
        named = ", ".join(f"{one.agent.NAME} (login: {_logged_in(one)})" for one in others)
        yield Check("other agents", f"{named}; kern --agent NAME, kern help settings")


def _sandbox(folder: Path) -> Iterator[Check]:
    """What holds agents and gates here, and whether this repository's may start."""
    crew = needed(folder)
    found, started = None, None
    with contextlib.suppress(KernError):  # told by an earlier check
        found = repository.open_at(folder)
        papers = place.documents(found)
        settings, parsed = (
            preflight.settings(found, papers),
            parse(papers.read(SPEC) or ""),
        )
        started = trust.started(found, settings, parsed, crew)
    if found is None:
        return

    try:
        yield from _inside(found, crew)
    except KernError as exc:
        yield Check("sandbox", str(exc), exc)
    if started is not None:
        yield _advised("trust", lambda: _trusted(found, started))


def _inside(found: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    """Which sandbox there is, and what an agent has in it. Raises KernError."""
    programs = [Program(agent, agents.command(agent)) for agent in crew]
    own = preflight.person_settings(found.root)
    scope = workspace.scope(found.root, found.head().name, create=False)
    wanted = isolation.wanted(found, scope, programs, own)
    with isolation.ready(wanted, isolation.mode("", own), lambda event: None) as held:
        yield from _changes(found, held)
        if held.means is Means.NONE:
            lacking = isolation.lacking(held)
            yield Check(
                "sandbox", lacking or str(held.means), advice="kern help safety" * bool(lacking)
            )
            return
        yield Check("sandbox", f"{held.means}; the homes of its children: {held.own}")
        for program in programs:
            yield from inside.checks(held, program)
            if not trust.unseen(found, program.agent.started({})):
                yield from filter(None, [inside.login(held, program)])


def _changes(found: Repo, held: Sandbox) -> Iterator[Check]:
    """What is not committed, where there is something."""
    with contextlib.suppress(KernError):  # told by an earlier check
        apart = isolation.rooms(held, found, preflight.settings(found, place.documents(found)))
        told = tried("changes", lambda: preflight.yours(found, apart=apart))
        if told.detail:
            yield replace(told, advice="git status shows them; git commit, or git stash")


def _advised(name: str, attempt: Callable[[], tuple[str, str]]) -> Check:
    """Of a detail and, where it is a warning, what to do about it."""
    try:
        detail, advice = attempt()
    except KernError as exc:
        return Check(name, str(exc), exc)
    return Check(name, detail, advice=advice)


def _trusted(found: Repo, started: Started) -> tuple[str, str]:
    holds = partial(isolation.holds, found, preflight.person_settings(found.root))
    if new := trust.questions(found, started, holds):
        return f"kern will show {plain.count(len(new), 'line')} and ask", "kern trust"
    return "nothing is started outside of a sandbox that you have not seen", ""


def _jq() -> Check:
    there = "installed" if shutil.which("jq") else "not installed; it reads run files and --json"
    return Check("jq", there)


def _payer(folder: Path) -> Check:
    """A warning is no fault: the person may mean it."""
    crew = needed(folder)
    found = agents.paid({agent.NAME: agents.payer(agent, folder) for agent in crew})
    said = "\n".join(filter(None, (found.who, found.warning)))
    if not found.who:
        said = said or f"unknown: {agents.command(crew[0])} decides, and does not tell"
        return Check("billing", said, advice=crew[0].LOGIN)
    return Check("billing", said, advice=_MEANT if found.warning else "")
