"""`kern doctor`: what a run needs, checked one by one: ok, a warning or a problem, with its fix. A
check is a function that yields what it looked at, or raises what is wrong.
"""

import contextlib
import platform
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kern import __version__, models, plain
from kern.agents import protocol
from kern.agents.protocol import Agent, Program
from kern.config import FILE, Settings
from kern.errors import KernError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import SPEC
from kern.pipeline import agents, facts, isolation, preflight, trust
from kern.pipeline.preflight import Check, tried
from kern.sandbox.means import Means
from kern.spec import notes
from kern.stages import prompts

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
        return preflight.settings(self.repo, facts.documents(self.repo))

    @cached_property
    def forms(self) -> dict[Any, prompts.Template]:
        return prompts.templates(self.repo.root, self.settings)

    @property
    def crew(self) -> Sequence[Agent]:
        """The agents that a run would start: the usual one where none is named."""
        with contextlib.suppress(KernError):
            return agents.chosen(self.forms.values())
        return [protocol.find(protocol.DEFAULT)]


def examine(folder: Path) -> list[dict[str, Any]]:
    """Each group as far as to its first fault."""
    here, version = Here(folder), f"{__version__}, Python {platform.python_version()}"
    rows = [_row(Check("kern", f"{version} ({sys.executable})"))]
    for name, look in (("project", _project), ("agent", _agents), ("sandbox", _sandbox)):
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


def lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for one in rows:
        detail = one["detail"].replace("\n", f"\n{'':{_WIDTH}}    ")
        yield f"{one['mark']:<{_WIDTH}}  {one['name']}: {detail}"
        yield from [f"{'':<{_WIDTH}}  fix: {one['fix']}"] if one["fix"] else []
    marks = {one["mark"] for one in rows}
    end = "all is well" if marks == {OK} else "a run can begin, with these warnings"
    yield "no run can begin" if PROBLEM in marks else end


def _project(here: Here) -> Iterator[Check]:
    """Where it is, what this repository makes kern run, and its tasks."""
    repo = here.repo
    yield Check("repository", str(repo.root))
    yield from preflight.of_repository(repo)
    documents, settings = facts.documents(repo), here.settings
    commands, advice = notes.commands(documents.spec()[1], settings), ""
    lines = ["this repository makes kern run:", *commands] if commands else []
    if not settings.gates:
        lines.insert(0, "no gates: commits are unverified, but for tasks with gates of their own")
        advice = "kern init finds this project's checks: kern help settings"
    yield Check(FILE, "\n".join(lines), advice=advice)
    if settings.hidden is not None:
        yield Check("hidden gate", "there is one")
    by = {role: form.by.label(protocol.DEFAULT) for role, form in here.forms.items()}
    yield Check("prompts", models.format_models(by))
    yield Check(SPEC, plain.count(len(preflight.tasks(repo, documents).tasks), "task"))


def _agents(here: Here) -> Iterator[Check]:
    repo = None
    with contextlib.suppress(KernError):
        repo = here.repo
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


def _sandbox(here: Here) -> Iterator[Check]:
    """Which sandbox there is, and what an agent has in it."""
    repo = here.repo
    programs = [Program(agent, agents.command(agent)) for agent in here.crew]
    plan = isolation.chosen(repo)
    with isolation.ready(plan, programs, lambda event: None) as sandbox:
        apart = isolation.rooms(sandbox, repo, here.settings)
        changes = tried("changes", lambda: preflight.yours(repo, apart=apart))
        yield from [changes] if changes.detail else []
        if sandbox.means is Means.NONE:
            lacking = isolation.lacking(sandbox)
            advice = "kern help safety" if lacking else ""
            yield Check("sandbox", lacking or str(sandbox.means), advice=advice)
            return
        yield Check("sandbox", f"{sandbox.means}; the homes of its children: {sandbox.own}")
        for program in programs:
            yield from agents.inside(sandbox, program)
            if not trust.unseen(repo, program.agent.asks):
                yield from agents.login_inside(sandbox, program)
