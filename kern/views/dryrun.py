"""What a run would do, in words; reads and computes, writes nothing."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kern import many, plain
from kern.agents import protocol
from kern.agents.protocol import Agent
from kern.config import Settings
from kern.errors import KernError
from kern.git.repository import Repo
from kern.journal import store
from kern.model import Marker, OnRed, Role, Stage, Tier
from kern.models import NO_CHOICES, Choices
from kern.pipeline import agents, isolation, preflight, trust
from kern.pipeline.facts import Situation
from kern.pipeline.preflight import tried
from kern.pipeline.table import ATTEMPTS, Do, resume
from kern.spec import edit, notes, order
from kern.spec.file import Documents
from kern.spec.notes import Checks
from kern.spec.parse import Spec, Task, is_experiment, parse
from kern.stages import briefs
from kern.stages import prompts as context
from kern.stages.prompts import Prompt, Template
from kern.views import project


def describe(
    folder: Path,
    iterations: int,
    *,
    prompts: bool,
    on_red: OnRed = OnRed.STOP,
    models: Choices = NO_CHOICES,
    wanted: str = "",
    branch: str = "",
    jobs: str | None = "",
    scheduler: str = "",
) -> str:
    """`jobs`: so many tasks at once; empty: what kern.toml says; None: one after the other."""
    repo, papers, parsed, settings = preflight.prepare(folder, reading=True)
    templates = context.templates(repo.root, replace(settings, picked=models))
    seen = project.of(repo, papers)
    at, parsed = seen.at, seen.parsed
    key = at.wanted(parsed, wanted) if wanted else None
    task = parsed.find(key) if key else order.select(parsed)
    lines = [f"{repo.root}, branch {repo.head().name}", f"run files: {seen.scope.folder}"]
    lines += preflight.foretold(repo, branch, parsed)
    many_at_once = _many(settings, jobs, scheduler)
    changes = tried("changes", lambda: _changes(repo, settings, workers=bool(many_at_once)))
    lines += [*filter(None, (many_at_once, "" if changes.fault else changes.detail)), ""]
    needed = (*preflight.of_repository(repo), *[changes] * (task is not None))
    if refusal := next((one.fault for one in needed if one.fault), None):
        lines += [f"a run would refuse to start: {refusal}", f"  hint: {refusal.hint}"]
    if task is None:
        return plain.block("\n".join([*lines, *_nothing(parsed)]))
    mode = project.tier(task)
    lines.append(f"task:   {plain.line(task.text)}  (SPEC.md line {task.line})")
    attempt = f"attempt {task.spent(ATTEMPTS) + 1} of {ATTEMPTS}"
    lines.append(f"next:   {_AFTER_ALL.get(mode) or attempt}")
    if is_experiment(task.text):
        lines.append("        an experiment: what works is kept, and its lesson in any case")
    do = resume(at.facts)
    if do is not Do.SELECT:
        lines.append(f"        it goes on with: {str(do).partition(': ')[2]}")
    checks = notes.checks(parsed, task, settings)
    lines += [*_checks(checks), *_asked(repo, settings, papers, templates)]
    if settings.gates:
        lines.append(f"        [gates] also run before the first task; {_RED[on_red]}")
    state = [f"{probe.shown}\n[run before research and implement]" for probe in settings.probes]
    lines += [f"state:  {plain.line(probe.shown, 160)}" for probe in settings.probes]
    for stage in () if mode is Tier.CONCLUDE else Stage:
        form = templates[stage]
        prompt, exact = _prompt(repo, papers, form, task, mode, checks, state, at)
        size = f"{prompt.tokens} tokens" if exact else f"at most {_most(form, task)} tokens"
        agent, who = _by(form)
        lines += [
            "",
            f"stage {stage.number} {stage}: {who}, prompt of {size}",
            f"  tools: {', '.join(agent.tools(stage))}",
        ]
        lines += [f"  | {line}" for line in _shown(prompt)] if prompts else []
    ahead = min(iterations, order.ahead(parsed))
    if forecast := store.forecast(store.place(repo.common_dir), ahead)[0]:
        lines += ["", f"forecast: {forecast}"]
    lines += ["", *_then(papers.spec_text(), task, iterations), *_waiting(parsed)]
    return plain.block("\n".join(lines))


def _shown(prompt: Prompt) -> list[str]:
    shown = plain.block(prompt.text).splitlines()
    if prompt.contract:
        contract = plain.block(prompt.contract).splitlines()
        shown = ["[system prompt]", *contract, "", "[prompt]", *shown]
    return shown


def _by(form: Template) -> tuple[Agent, str]:
    """And what is said of it: `codex, its model (effort high)`."""
    agent = protocol.find(form.by.agent)
    command, said = agents.command(agent), plain.line(form.by.said(form.by.agent), 60)
    model = f"model {said}" if form.by.model else f"its model {said}".strip()
    who = command if agent.PROGRAM == agent.NAME else f"{agent.NAME} ({command})"
    return agent, f"{who}, {model}"


_AFTER_ALL = {
    Tier.DECOMPOSE: "all attempts failed, so the task is split into subtasks",
    Tier.SKIP: "all attempts failed, so the task is skipped",
    Tier.CONCLUDE: "all attempts failed, so the experiment ends and its lesson is kept",
}
_RED = {
    OnRed.STOP: "a red one ends the run",
    OnRed.REPAIR: "a red one must be green after the task; a red strict one ends the run",
    OnRed.ALLOW: "a red one is not held against the tasks; a red strict one ends the run",
}


def _checks(checks: Checks) -> list[str]:
    shown = checks.shown
    if not shown:
        return ["gates:  none; commits will be unverified"]
    margins = ["gates:  ", *["        "] * (len(shown) - 1)]
    return [margin + plain.line(text, 160) for margin, text in zip(margins, shown, strict=True)]


def _asked(
    repo: Repo, settings: Settings, papers: Documents, templates: Mapping[Role, Template]
) -> list[str]:
    """Whether a run would begin with a question."""
    if os.environ.get("KERN_TRUST") == "1":
        return []
    crew = agents.chosen(templates.values())
    started = trust.started(repo, settings, papers.spec()[1], crew)
    with contextlib.suppress(KernError):  # the run says what is wrong with the record
        holds = partial(isolation.holds, repo, preflight.person_settings(repo.root))
        if trust.questions(repo, started, holds):
            return ["        kern will ask once before it starts these: kern trust"]
    return []


def _prompt(
    repo: Repo,
    papers: Documents,
    form: Template,
    task: Task,
    mode: Tier,
    checks: Checks,
    state: Sequence[str],
    at: Situation,
) -> tuple[Prompt, bool]:
    """The prompt as far as it is known now, and whether that is all of it."""
    first, second = at.files.get(Stage.RESEARCH), at.files.get(Stage.IMPLEMENT)
    if form.stage is Stage.RESEARCH:
        known = briefs.known(repo, papers, reading=True)
        return briefs.brief(form, task, known, checks, state), not state
    if form.stage is Stage.IMPLEMENT:
        said = first.answer.body if first else ""
        said_first, by_itself = first.answer if first else None, agents.read_guidance(form)
        known = briefs.known(repo, papers, said_first, by_itself=by_itself, reading=True)
        prompt = briefs.brief(form, task, known, checks, state, mode, said)
        return prompt, first is not None and not state
    head = repo.head().commit
    said = second.answer.body if second else ""
    return briefs.commit(repo, form, task, said, head, head), False


def _most(form: Template, task: Task) -> int:
    length = len(form.contract + form.text) + 2 * len(briefs.task_text(task))
    return -(-length // context.CHARS_PER_TOKEN) + context.BUDGET[form.stage]


def _many(settings: Settings, jobs: str | None, scheduler: str) -> str:
    """How many tasks at once, where these have workers."""
    where = scheduler or settings.fleet.scheduler
    if jobs is not None:
        jobs = jobs or many.AUTO * bool(where)
    return many.told(jobs, where) if jobs else ""


def _changes(repo: Repo, settings: Settings, *, workers: bool) -> str:
    """What the run would say of what is not committed. Raises UsageError where it would not
    begin.
    """
    if workers:
        return preflight.yours(repo, "workers")
    held = isolation.foreseen(repo, preflight.person_settings(repo.root))
    return preflight.yours(repo, apart=isolation.rooms(held, repo, settings))


def _nothing(parsed: Spec) -> list[str]:
    waiting = [task for task in parsed.tasks if task.marker is not Marker.DONE]
    if not waiting:
        return ["nothing to do: every task is done"]
    told = [
        "nothing to run; these tasks need you:" if order.needs(parsed) else "nothing to run now:"
    ]
    why = order.blockers(parsed)
    return [*told, *(f"  {plain.line(t.text, 100)}: {plain.line(why(t), 160)}" for t in waiting)]


def _waiting(parsed: Spec) -> list[str]:
    """Open tasks that are not ready, and why."""
    blocker = order.blockers(parsed)
    told = [
        f"  {plain.line(task.text, 100)}: {plain.line(why, 160)}"
        for task in parsed.tasks
        if task.marker is Marker.PENDING and (why := blocker(task)) and why != order.OPEN_SUBTASKS
    ]
    return ["", "not ready:", *told[:20]] if told else []


_MOST_AHEAD = 50  # tasks that are listed in advance


def _then(text: str, task: Task, iterations: int) -> list[str]:
    """The tasks of the other iterations, if each one succeeds."""
    lines: list[str] = []
    parsed = parse(text)
    current: Task | None = parsed.find(task.key)
    for number in range(2, min(iterations, _MOST_AHEAD) + 1):
        if current is None:
            break
        text = edit.tick(text, parsed, current)
        parsed = parse(text)
        current = order.select(parsed)
        if current is not None:
            lines.append(f"  {number}. {plain.line(current.text)}")
    return ["then, if each one succeeds:", *lines] if lines else ["then: no other task"]
