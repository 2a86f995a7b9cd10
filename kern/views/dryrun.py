"""What a run would do, in words; reads and computes, writes nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kern import plain
from kern.agents import protocol
from kern.config import Settings
from kern.fleet.run import told
from kern.git.repository import Repo
from kern.journal import store
from kern.model import Marker, Stage, Tier
from kern.pipeline import agents, isolation, preflight
from kern.pipeline.preflight import tried
from kern.pipeline.site import Options
from kern.pipeline.table import ATTEMPTS, Do, resume
from kern.spec import notes, order
from kern.spec.parse import Spec, Task, is_experiment
from kern.stages import briefs, prompts
from kern.stages.prompts import Prompt, Template
from kern.views import status
from kern.views.status import Project

_AFTER_ALL = {
    Tier.DECOMPOSE: "all attempts failed, so the task is split into subtasks",
    Tier.SKIP: "all attempts failed, so the task is skipped",
    Tier.CONCLUDE: "all attempts failed, so the experiment ends and its lesson is kept",
}
_RED = ("ends the run", "is not held against the tasks; a red strict one ends the run")


def describe(folder: Path, options: Options, *, with_prompts: bool) -> str:
    repo, _, _, settings = preflight.prepare(folder, reading=True)
    forms = prompts.templates(repo.root, replace(settings, picked=options.models))
    project = status.look(repo)
    parsed = project.parsed
    key = project.at.wanted(parsed, options.task) if options.task else None
    task = parsed.find(key) if key else order.select(parsed)
    lines = [*_place(project, settings, options, busy=task is not None)]
    if task is None:
        lines.append(_nothing(parsed))
    else:
        lines += _task(project, task, settings, options.allow_red)
        mode = status.tier(task)
        for stage in () if mode is Tier.CONCLUDE else Stage:
            lines += _stage(project, forms[stage], task, settings, mode, with_prompts=with_prompts)
        ahead = min(options.iterations, order.ahead(parsed))
        if forecast := store.forecast(store.place(repo.common_dir), ahead):
            lines += ["", f"forecast: {forecast}"]
    return plain.block("\n".join(lines))


def _place(project: Project, settings: Settings, options: Options, *, busy: bool) -> Iterator[str]:
    """Where it would work. `busy`: it has something to do."""
    repo, where = project.repo, options.scheduler
    yield f"{repo.root}, branch {repo.head().name}"
    yield f"run files: {project.scope.folder}"
    if branch := repo.head().branch:
        yield preflight.lands(repo, branch)
    several = bool(options.jobs or where) and not options.until_done
    if several:
        yield told(options.jobs, where)
    changes = tried("changes", lambda: _changes(repo, settings, workers=several))
    yield from filter(None, ["" if changes.fault else changes.detail])
    yield ""
    needed = (*preflight.of_repository(repo), *[changes] * busy)
    if refusal := next((one.fault for one in needed if one.fault), None):
        yield f"a run would refuse to start: {refusal}"
        yield f"  hint: {refusal.hint}"


def _changes(repo: Repo, settings: Settings, *, workers: bool) -> str:
    """What the run would say of what is not committed. Raises UsageError where it would not
    begin.
    """
    if workers:
        return preflight.yours(repo, "workers")
    sandbox = isolation.foreseen(repo, preflight.person_settings(repo.root))
    return preflight.yours(repo, apart=isolation.rooms(sandbox, repo, settings))


def _task(project: Project, task: Task, settings: Settings, allow_red: bool) -> Iterator[str]:
    yield f"task:   {plain.line(task.text)}  (SPEC.md line {task.line})"
    attempt = f"attempt {task.spent(ATTEMPTS) + 1} of {ATTEMPTS}"
    yield f"next:   {_AFTER_ALL.get(status.tier(task)) or attempt}"
    if is_experiment(task.text):
        yield "        an experiment: what works is kept, and its lesson in any case"
    do = resume(project.at.facts)
    if do is not Do.SELECT:
        yield f"        it goes on with: {do}"
    checks = notes.checks(project.parsed, task, settings).shown
    for number, text in enumerate(checks or ["none; commits will be unverified"]):
        yield f"{'' if number else 'gates:':<8}{plain.line(text, 160)}"
    if settings.gates:
        yield f"        [gates] also run before the first task; a red one {_RED[allow_red]}"


def _stage(
    project: Project,
    form: Template,
    task: Task,
    settings: Settings,
    mode: Tier,
    *,
    with_prompts: bool,
) -> Iterator[str]:
    stage, agent = form.stage, protocol.find(form.by.agent)
    command, choice = agents.command(agent), plain.line(form.by.said(form.by.agent), 60)
    who = command if agent.program == agent.name else f"{agent.name} ({command})"
    model = f"model {choice}" if form.by.model else f"its model {choice}".strip()
    prompt = _prompt(project, form, task, settings, mode)
    size = f", prompt of {prompt.tokens} tokens" if prompt else ""
    later = f"{size} and what research finds" if stage is Stage.IMPLEMENT else size
    number = stage.number if isinstance(stage, Stage) else 0
    yield from ("", f"stage {number} {stage}: {who}, {model}{later}")
    yield f"  tools: {', '.join(agent.offers(stage))}"
    if with_prompts and prompt:
        parts = [f"[system prompt]\n{prompt.contract}\n\n[prompt]\n" * bool(prompt.contract)]
        text = plain.block("".join([*parts, prompt.text]))
        yield from (f"  | {line}" for line in text.splitlines())


def _prompt(
    project: Project, form: Template, task: Task, settings: Settings, mode: Tier
) -> Prompt | None:
    """As far as it is known now; the commit stage's is the change."""
    if form.stage is Stage.COMMIT:
        return None
    checks = notes.checks(project.parsed, task, settings)
    first = project.at.files.get(Stage.RESEARCH) if form.stage is Stage.IMPLEMENT else None
    answer = first.answer.body if first else ""
    return briefs.brief(project.repo, project.documents, form, task, checks, (), mode, answer)


def _nothing(parsed: Spec) -> str:
    if all(task.marker is Marker.DONE for task in parsed.tasks):
        return "nothing to do: every task is done"
    return "nothing to run now; kern status says what the open tasks wait for"
