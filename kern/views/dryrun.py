"""What a run would do, in words; reads and computes, writes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kern import plain
from kern.agents import protocol
from kern.config import Settings
from kern.fleet.run import told
from kern.journal import store
from kern.model import Stage, Tier
from kern.models import Choice
from kern.pipeline import isolation, preflight, table
from kern.pipeline.facts import Place
from kern.pipeline.site import Options
from kern.spec import notes, order
from kern.spec.parse import Task, is_experiment
from kern.stages import briefs, prompts
from kern.stages.prompts import Prompt
from kern.views import status


def describe(folder: Path, options: Options, *, with_prompts: bool) -> str:
    repo, _, parsed, settings = preflight.prepare(folder)
    preflight.demand(preflight.of_repository(repo))
    forms = prompts.templates(repo.root, replace(settings, picked=options.models))
    here, at, _ = status.look(repo)
    key = at.wanted(parsed, options.task) if options.task else None
    task = parsed.find(key) if key else order.select(parsed)
    lines = [*_place(here, settings, options)]
    if task:
        first, checks = at.files.get(Stage.RESEARCH), notes.checks(parsed, task, settings)
        alone, experiment = task.parent is None, is_experiment(task.text)
        spent = task.spent(table.ATTEMPTS)
        mode = table.due(table.Facts(attempts=spent, subtask=not alone, experiment=experiment))
        lines += _task(task, mode, table.resume(at.facts), checks.shown)
        for stage in Stage if mode is not Tier.CONCLUDE else ():
            answer = first.answer.body if first and stage is Stage.IMPLEMENT else ""
            known = here.repo, here.documents, forms[stage], task, checks, (), mode, answer
            prompt = None if stage is Stage.COMMIT else briefs.brief(*known)
            lines += _stage(forms[stage].by, stage, prompt, with_text=with_prompts)
    elif order.still(parsed):
        lines.append("nothing to run now; kern status says what the open tasks wait for")
    else:
        lines.append("nothing to do: every task is done")
    ahead = min(options.iterations, order.ahead(parsed))
    if forecast := store.forecast(store.place(repo.common_dir), ahead):
        lines += ["", f"forecast: {forecast}"]
    return plain.block("\n".join(lines))


def _place(here: Place, settings: Settings, options: Options) -> Iterator[str]:
    """Where it would work. Raises UsageError where a run would."""
    repo, several = here.repo, bool(options.jobs or options.scheduler)
    yield f"{repo.root}, branch {repo.head().name}"
    yield f"run files: {here.scope.folder}"
    yield preflight.lands(repo, repo.head().name)
    if several:
        yield f"at once: {told(options.jobs, options.scheduler)}"
    sandbox = isolation.chosen(repo)
    apart = several or isolation.rooms(sandbox, repo, settings)
    yield preflight.yours(repo, apart=apart)


def _task(task: Task, mode: Tier, do: table.Do, gates: Sequence[str]) -> Iterator[str]:
    yield f"task:   {plain.line(task.text)}  (SPEC.md line {task.line})"
    attempt = f"attempt {task.spent(table.ATTEMPTS) + 1} of {table.ATTEMPTS}"
    yield f"next:   {attempt if mode is Tier.IMPLEMENT else f'all attempts failed: {mode}'}"
    if do is not table.Do.SELECT:
        yield f"        it goes on with: {do}"
    for number, gate in enumerate(gates or ["none; commits will be unverified"]):
        yield f"{'' if number else 'gates:':<8}{plain.line(gate, 160)}"


def _stage(by: Choice, stage: Stage, prompt: Prompt | None, *, with_text: bool) -> Iterator[str]:
    """The prompt as far as it is known now; the commit stage's is the change."""
    model = f"model {by.label(by.agent)}" if by.model else "its model"
    size = f", prompt of {prompt.tokens} tokens" if prompt else ""
    yield f"stage {stage.number} {stage}: {by.agent}, {plain.line(model, 60)}{size}"
    yield f"  tools: {', '.join(protocol.find(by.agent).offers(stage))}"
    if prompt and with_text:
        text = f"[system prompt]\n{prompt.contract}\n\n[prompt]\n{prompt.text}"
        yield from (f"  | {line}" for line in plain.block(text).splitlines())
