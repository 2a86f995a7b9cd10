"""`kern doctor`: what a run needs, checked one by one: ok, a warning or a problem, with its fix. A
check is a function that yields what it looked at, or raises what is wrong.
"""

import contextlib
import platform
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
from kern.sandbox.confine import Means
from kern.spec import notes
from kern.spec.parse import Spec, parse
from kern.stages import prompts
from kern.system import process, workspace

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_WIDTH = len(WARNING)


class Row(TypedDict):
    name: str
    mark: str
    ok: bool  # no problem: a run begins
    detail: str
    fix: str


def row(check: Check) -> Row:
    mark = PROBLEM if check.fault else WARNING if check.advice else OK
    fix = check.fault.hint if check.fault else check.advice
    return Row(name=check.name, mark=mark, ok=not check.fault, detail=check.detail, fix=fix)


def examine(folder: Path) -> list[Row]:
    repo, crew = opened(folder), needed(folder)
    on_machine = [(name, partial(check, folder, crew)) for name, check in MACHINE.items()]
    of_project = [(name, partial(check, repo, crew)) for name, check in PROJECT.items() if repo]
    rows: list[Row] = []
    for name, look in [*on_machine, *of_project]:
        found: list[Check] = []
        try:
            found.extend(look())
        except KernError as exc:
            found.append(Check(name, str(exc), exc))
        said = {one["detail"] for one in rows if not one["ok"]}  # the first that meets a fault
        rows += [row(one) for one in found if not (one.fault and one.detail in said)]
    return rows


def text(rows: Sequence[Row]) -> str:
    lines, marks = [], [one["mark"] for one in rows]
    for one in rows:
        first, *rest = plain.block(one["detail"]).splitlines() or [""]
        lines.append(f"{one['mark']:<{_WIDTH}}  {one['name']}: {first}")
        lines += [f"{'':<{_WIDTH}}    {line}" for line in rest]
        lines += [f"{'':<{_WIDTH}}  fix: {one['fix']}"] if one["fix"] else []
    counts = [plain.count(marks.count(mark), mark) for mark in (PROBLEM, WARNING) if mark in marks]
    can = "" if PROBLEM in marks else ": a run can begin"
    return plain.block(
        "\n".join([*lines, f"{', '.join(counts)}{can}" if counts else "all is well"])
    )


def opened(folder: Path) -> Repo | None:
    with contextlib.suppress(KernError):  # its check says why
        return repository.open_at(folder)
    return None


def needed(folder: Path) -> list[Agent]:
    """The agents that a run would start here."""
    with contextlib.suppress(KernError):  # its check says why
        repo = repository.open_at(folder)
        settings = preflight.settings(repo, place.documents(repo))
        return agents.chosen(prompts.templates(repo.root, settings).values())
    return [protocol.find(protocol.DEFAULT)]


# ---------------------------------------------------------------- the machine


def _kern(folder: Path, crew: Sequence[Agent]) -> Iterator[Check]:
    yield Check("kern", f"{__version__}, Python {platform.python_version()} ({sys.executable})")


def _git(folder: Path, crew: Sequence[Agent]) -> Iterator[Check]:
    code, said = process.capture(["git", "--version"], 10)
    yield Check("git", "not installed, or not on PATH" if code else plain.line(said, 100))


def _repository(folder: Path, crew: Sequence[Agent]) -> Iterator[Check]:
    repo = repository.open_at(folder)
    yield Check("repository", str(repo.root))
    yield from preflight.of_repository(repo)


def _agents(folder: Path, crew: Sequence[Agent]) -> Iterator[Check]:
    repo = opened(folder)
    for agent in crew:
        there, user = agents.checks(agent, repo.root if repo else None)
        if there.fault or not agent.oldest:  # what would a command do that is asked for a version
            yield there
            continue
        runs = tried("agent", partial(agents.version, agent, there.detail))
        yield from (runs, user)
        if not runs.fault:
            yield _login(repo, agent, there.detail)


def _login(repo: Repo | None, agent: Agent, program: str) -> Check:
    """A repository may have named who is asked: not before the person has seen whom."""
    if new := trust.unseen(repo, agent.asks) if repo else []:
        return Check("login", f"not looked at before you agree: {new[0]}", advice="kern --trust")
    return agents.login(agent, program)


def _billing(folder: Path, crew: Sequence[Agent]) -> Iterator[Check]:
    said = (f"{one.name}: {agents.key(one) or 'its login'}" for one in crew)
    yield Check("billing", "\n".join(said))


def _others(folder: Path, crew: Sequence[Agent]) -> Iterator[Check]:
    """Agents that could run here as well, or stand in."""
    if others := [one.agent.name for one in agents.installed() if one.agent not in crew]:
        yield Check("other agents", f"{', '.join(others)}; kern --agent NAME, kern help settings")


# ---------------------------------------------------------------- the project


def _spec(repo: Repo) -> Spec:
    return parse(place.documents(repo).read(SPEC) or "")


def _tasks(repo: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    tasks = preflight.tasks(repo, place.documents(repo)).tasks
    yield Check(SPEC, plain.count(len(tasks), "task"))


def _gates(repo: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    """What this repository makes kern run."""
    settings, parsed = preflight.settings(repo, place.documents(repo)), _spec(repo)
    lines, advice = list[str](), ""
    if not settings.gates:
        own = "but for tasks with gates of their own " if notes.open_gates(parsed) else ""
        lines.append(f"no gates: {own}commits are unverified")
        advice = "kern init finds this project's checks: kern help settings"
    shown = notes.commands(parsed, settings)
    lines += ["this repository makes kern run:", *shown] if shown else []
    yield Check(FILE, "\n".join(lines), advice=advice)


def _prompts(repo: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    forms = prompts.templates(repo.root, preflight.settings(repo, place.documents(repo)))
    said = {role: form.by.said(protocol.DEFAULT) for role, form in forms.items()}
    yield Check("prompts", models.told(said))


def _notify(repo: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    notify = preflight.person_settings(repo.root).notify  # running it would show what it does
    yield Check("notify", notify or f"nobody: notify in {person.FILE} names a command")


def _folder(repo: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    scope = workspace.scope(repo.root, repo.head().name)
    why = f" ({scope.notice})" if scope.notice else ""
    advice = "remove what is in the way, or set KERN_DIR to a folder of your own"
    yield Check("output folder", f"{scope.folder}{why}", advice=advice if why else "")


def _sandbox(repo: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    """Which sandbox there is, and what an agent has in it."""
    programs = [Program(agent, agents.command(agent)) for agent in crew]
    own = preflight.person_settings(repo.root)
    scope = workspace.scope(repo.root, repo.head().name, create=False)
    wanted = isolation.wanted(repo, scope, programs, own)
    with isolation.ready(wanted, isolation.mode(own), lambda event: None) as held:
        with contextlib.suppress(KernError):  # that of kern.toml
            settings = preflight.settings(repo, place.documents(repo))
            apart = isolation.rooms(held, repo, settings)
            changes = tried("changes", lambda: preflight.yours(repo, apart=apart))
            if changes.detail:
                yield replace(changes, advice="git status shows them; git commit, or git stash")
        if held.means is Means.NONE:
            lacking = isolation.lacking(held)
            advice = "kern help safety" if lacking else ""
            yield Check("sandbox", lacking or str(held.means), advice=advice)
            return
        yield Check("sandbox", f"{held.means}; the homes of its children: {held.own}")
        for program in programs:
            yield from inside.checks(held, program)
            if not trust.unseen(repo, program.agent.asks):
                yield from filter(None, [inside.login(held, program)])


def _trust(repo: Repo, crew: Sequence[Agent]) -> Iterator[Check]:
    settings = preflight.settings(repo, place.documents(repo))
    started = trust.started(repo, settings, _spec(repo), crew)
    holds = partial(isolation.holds, repo, preflight.person_settings(repo.root))
    if new := trust.questions(repo, started, holds):
        said = f"kern will show {plain.count(len(new), 'line')} and ask"
        yield Check("trust", said, advice="kern, which asks")
    else:
        yield Check("trust", "nothing is started outside of a sandbox that you have not seen")


MACHINE: dict[str, Callable[[Path, Sequence[Agent]], Iterator[Check]]] = {
    "kern": _kern,
    "git": _git,
    "repository": _repository,
    "agent": _agents,
    "billing": _billing,
    "other agents": _others,
}
PROJECT: dict[str, Callable[[Repo, Sequence[Agent]], Iterator[Check]]] = {
    SPEC: _tasks,
    FILE: _gates,
    "prompts": _prompts,
    "notify": _notify,
    "output folder": _folder,
    "sandbox": _sandbox,
    "trust": _trust,
}
