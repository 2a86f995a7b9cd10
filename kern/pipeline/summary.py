"""What a run says as it begins and as it ends: counted from SPEC.md and from how its tasks were
settled.
"""

import contextlib
import time
from collections.abc import Sequence

from kern import events, plain
from kern.agents import protocol
from kern.errors import KernError
from kern.events import Event, RunEnded
from kern.journal import store
from kern.model import Marker, Need, Outcome
from kern.models import format_models
from kern.pipeline import isolation, preflight
from kern.pipeline.site import Site
from kern.pipeline.table import Settled
from kern.spec import notes, order
from kern.spec.parse import Spec, parse


def begun(site: Site, at_once: str = "", setup: Sequence[str] = ()) -> Event:
    """What a person sees first, and what the repository makes kern run. `at_once`: how many tasks,
    and where; `setup`: of their worktrees.
    """
    count, (_, parsed) = site.options.iterations, site.documents.spec()
    settings, branch = site.caller.settings, site.repo.head().name
    tasks = min(count, order.ahead(parsed))
    until = time.strftime("%a %d %b %H:%M", time.localtime(site.options.until))
    models = {role: form.by.label(protocol.DEFAULT) for role, form in site.templates.items()}
    facts = {
        "at once": at_once,
        "run files": str(site.scope.folder),
        "sandbox": isolation.described(site.sandbox) if site.sandbox else "",
        "awake": site.awake and f"the machine does not sleep while this run is on ({site.awake})",
        "billing": site.payer,
        "models": format_models(models),
        "forecast": store.forecast(store.place(site.repo.common_dir), tasks),
        "until": f"no task and no stage is begun after {until}" * bool(site.options.until),
    }
    yours = preflight.yours(site.repo) if site.rooms.mounted or at_once else ""
    named = (f"{name}: {plain.line(text)}" for name, text in facts.items() if text)
    lines = [preflight.lands(site.repo, branch), *named, *filter(None, [yours])]
    commands = (*setup, *notes.commands(parsed, settings))
    where = {"run": site.caller.run, "root": str(site.repo.root), "branch": branch}
    figures = {"open": order.still(parsed), "iterations": count, "max_cost": settings.max_cost.run}
    record = events.row("run", "start", payer=site.payer, **where, **figures)
    return Event(record, [*lines, *(plain.line(command, 160) for command in commands)])


def ended(
    site: Site,
    settled: Sequence[Settled],
    error: BaseException | None,
    seconds: float,
    stopped: str,
) -> RunEnded:
    """`error` ended the run early. A stop that was asked for is none: the exit code is that of a
    run whose iterations are used up.
    """
    caller, parsed = site.caller, None
    with contextlib.suppress(KernError):  # where SPEC.md cannot be read any more
        parsed = site.documents.spec()[1]
    spec = parsed or parse("")
    ticked = {task.key for task in spec.tasks if task.marker is Marker.DONE}
    done = [one for one in settled if one.outcome is Outcome.DONE]
    last = {one.key: one for one in settled if one.key not in ticked}.values()
    failed = [one for one in last if one.outcome in (Outcome.SKIPPED, Outcome.BLOCKED)]
    questions, needs = notes.waiting(spec), order.needs(spec)
    stuck = not error and order.select(spec) is None and order.still(spec) > 0
    tasks = {one.task for one in needs}
    unfinished = bool(failed or stuck or questions)
    exit_code = getattr(error, "exit_code", 1) if error else int(unfinished)
    why = "the time of --until has come" if site.steered.late else "stopped, as asked"
    figures = {"seconds": seconds, "open": order.still(spec) if parsed else None}
    figures |= {"ahead": 0 if stuck else order.ahead(spec, again=False)}  # for the next run
    return RunEnded(
        events.row("run", "end", exit=exit_code, **figures, done=len(done)),
        done=tuple((one.task, one.commit) for one in done),
        needs_help=tuple((one.task, one.detail) for one in failed),
        needs=(*needs, *(_lost(spec, one) for one in failed if one.task not in tasks)),
        questions=questions,
        cost=caller.cost,
        tokens=caller.tokens,
        interrupted=str(error) if error else "",
        stopped=stopped and f"{why}; the next {site.options.called} goes on with: {stopped}",
        called=site.options.called,
    )


def _lost(spec: Spec, one: Settled) -> Need:
    """What came to nothing in this run, and SPEC.md does not tell of."""
    if not (task := spec.find(one.key)):
        return Need(0, 0, one.task, one.detail, "kern report: it is not in SPEC.md any more")
    number = spec.tasks.index(task) + 1
    return Need(number, task.line, one.task, one.detail, f"kern show {number}, edit the task")


def name_unsigned(site: Site, settled: Sequence[Settled]) -> None:
    """The commits that --no-sign left so, where the person signs."""
    commits = [one.commit for one in settled if one.commit]
    if commits and not site.repo.signs and site.repo.is_set("commit.gpgsign"):
        what = f"{plain.count(len(commits), 'commit')} of this run not signed"
        site.warn(f"{what}: git rebase --force-rebase -S {commits[0][:10]}^ signs", kept=True)
