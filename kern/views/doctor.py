"""`kern doctor`: what a run needs, checked one by one: ok, a warning or a problem, with its fix. A
check is a function that yields what it looked at, or raises what is wrong.
"""

import contextlib
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kern import __version__, models, person, plain
from kern.agents import protocol
from kern.agents.protocol import Agent, Program
from kern.config import FILE, Settings
from kern.errors import KernError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import SPEC
from kern.pipeline import agents, inside, isolation, place, preflight, trust
from kern.pipeline.preflight import Check, tried
from kern.sandbox.means import Means
from kern.spec import notes
from kern.spec.parse import Spec, parse
from kern.stages import prompts
from kern.system import process, workspace

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_WIDTH = len(WARNING)


class Here:
    """Where it is asked; what cannot be read raises KernError, and its check says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def repo(self) -> Repo:
        return repository.open_at(self.folder)

    @property
    def settings(self) -> Settings:
        return preflight.settings(self.repo, place.documents(self.repo))

    @cached_property
    def spec(self) -> Spec:
        return parse(place.documents(self.repo).read(SPEC) or "")

    @cached_property
    def crew(self) -> Sequence[Agent]:
        """The agents that a run would start."""
        with contextlib.suppress(KernError):
            forms = prompts.templates(self.repo.root, self.settings)
            return agents.chosen(forms.values())
        return [protocol.find(protocol.DEFAULT)]

    @property
    def opened(self) -> Repo | None:
        with contextlib.suppress(KernError):
            return self.repo
        return None


def examine(folder: Path) -> list[dict[str, Any]]:
    here = Here(folder)
    rows: list[dict[str, Any]] = []
    for name, look in {**_MACHINE, **(_PROJECT if here.opened else {})}.items():
        checks: list[Check] = []
        try:
            checks.extend(look(here))
        except KernError as exc:
            checks.append(Check(name, str(exc), exc))
        faults = {one["detail"] for one in rows if not one["ok"]}  # the first that meets a fault
        rows += [_row(one) for one in checks if not (one.fault and one.detail in faults)]
    return rows


def _row(check: Check) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. `ok`: no problem, a run begins."""
    mark = PROBLEM if check.fault else WARNING if check.advice else OK
    fix = check.fault.hint if check.fault else check.advice
    row = {"name": check.name, "mark": mark, "ok": not check.fault}
    return {**row, "detail": check.detail, "fix": fix}


def text(rows: Sequence[dict[str, Any]]) -> str:
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


# ---------------------------------------------------------------- the machine


def _kern(here: Here) -> Iterator[Check]:
    yield Check("kern", f"{__version__}, Python {platform.python_version()} ({sys.executable})")


def _git(here: Here) -> Iterator[Check]:
    code, version = process.capture(["git", "--version"], 10)
    yield Check("git", "not installed, or not on PATH" if code else plain.line(version, 100))


def _repository(here: Here) -> Iterator[Check]:
    yield Check("repository", str(here.repo.root))
    yield from preflight.of_repository(here.repo)


def _agents(here: Here) -> Iterator[Check]:
    repo = here.opened
    for agent in here.crew:
        there, user = agents.checks(agent, repo.root if repo else None)
        if there.fault or not agent.oldest:  # what would a command do that is asked for a version
            yield there
            continue
        yield tried("agent", partial(agents.version, agent, there.detail))
        yield user
        if repo and (new := trust.unseen(repo, agent.asks)):
            # A repository may have named who is asked: not before the person has seen whom.
            what = f"not looked at before you agree: {new[0]}"
            yield Check("login", what, advice="kern --trust")
        else:
            yield agents.login(agent, there.detail)


# ---------------------------------------------------------------- the project


def _tasks(here: Here) -> Iterator[Check]:
    tasks = preflight.tasks(here.repo, place.documents(here.repo)).tasks
    yield Check(SPEC, plain.count(len(tasks), "task"))


def _gates(here: Here) -> Iterator[Check]:
    """What this repository makes kern run."""
    commands = notes.commands(here.spec, here.settings)
    lines = ["this repository makes kern run:", *commands] if commands else []
    advice = ""
    if not here.settings.gates:
        own = "but for tasks with gates of their own " if notes.open_gates(here.spec) else ""
        lines.insert(0, f"no gates: {own}commits are unverified")
        advice = "kern init finds this project's checks: kern help settings"
    yield Check(FILE, "\n".join(lines), advice=advice)


def _hidden(here: Here) -> Iterator[Check]:
    """That there is one, and not what it holds."""
    there = here.settings.hidden is not None
    if there or preflight.person_settings(here.repo.root).hidden:
        advice = "" if there else f"see that {person.FILE} names it: {here.repo.root}"
        state = "there is one" if there else "none for this repository"
        yield Check("hidden gate", state, advice=advice)


def _prompts(here: Here) -> Iterator[Check]:
    forms = prompts.templates(here.repo.root, here.settings)
    named = {role: form.by.said(protocol.DEFAULT) for role, form in forms.items()}
    yield Check("prompts", models.told(named))


def _sandbox(here: Here) -> Iterator[Check]:
    """Which sandbox there is, and what an agent has in it."""
    repo = here.repo
    programs = [Program(agent, agents.command(agent)) for agent in here.crew]
    own = preflight.person_settings(repo.root)
    scope = workspace.scope(repo.root, repo.head().name, create=False)
    wanted = isolation.wanted(repo, scope, programs, own)
    with isolation.ready(wanted, isolation.mode(), lambda event: None) as sandbox:
        with contextlib.suppress(KernError):  # that of kern.toml
            apart = isolation.rooms(sandbox, repo, here.settings)
            changes = tried("changes", lambda: preflight.yours(repo, apart=apart))
            if changes.detail:
                yield replace(changes, advice="git status shows them; git commit, or git stash")
        if sandbox.means is Means.NONE:
            lacking = isolation.lacking(sandbox)
            advice = "kern help safety" if lacking else ""
            yield Check("sandbox", lacking or str(sandbox.means), advice=advice)
            return
        yield Check("sandbox", f"{sandbox.means}; the homes of its children: {sandbox.own}")
        for program in programs:
            yield from inside.checks(sandbox, program)
            if not trust.unseen(repo, program.agent.asks):
                yield from filter(None, [inside.login(sandbox, program)])


def _trust(here: Here) -> Iterator[Check]:
    started = trust.started(here.repo, here.settings, here.spec, here.crew)
    holds = partial(isolation.holds, here.repo, preflight.person_settings(here.repo.root))
    if new := trust.questions(here.repo, started, holds):
        detail = f"kern will show {plain.count(len(new), 'line')} and ask"
        yield Check("trust", detail, advice="kern, which asks")
    else:
        yield Check("trust", "nothing is started outside of a sandbox that you have not seen")


_Checks = dict[str, Callable[[Here], Iterator[Check]]]
_MACHINE: _Checks = {"kern": _kern, "git": _git, "repository": _repository, "agent": _agents}
_PROJECT: _Checks = {SPEC: _tasks, FILE: _gates, "hidden gate": _hidden, "prompts": _prompts}
_PROJECT |= {"sandbox": _sandbox, "trust": _trust}
