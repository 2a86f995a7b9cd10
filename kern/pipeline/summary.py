"""What a run says as it begins and as it ends: counted from SPEC.md and from how its tasks were
settled.
"""

from collections.abc import Sequence

from kern import plain
from kern.agents import protocol
from kern.events import RunEnded, RunStarted
from kern.journal import store
from kern.model import Cost, Marker, Outcome, unverified
from kern.pipeline.options import Options
from kern.pipeline.session import Session
from kern.pipeline.table import Settled
from kern.spec import dependencies, questions, required
from kern.spec.checklist import Kind, Spec, Task


def begun(session: Session, options: Options) -> RunStarted:
    """What a person sees first."""
    site, count = session.site, options.iterations
    _, parsed = site.papers.spec()
    tasks = count if options.improve else min(count, dependencies.ahead(parsed))
    branch = site.repo.head().name
    return RunStarted(
        *(site.caller.run, str(site.repo.root), branch, str(site.scope.folder)),
        required.commands(parsed, site.caller.settings),
        session.payer,
        sum(task.marker is not Marker.DONE for task in parsed.tasks),
        count,
        store.forecast(store.place(site.repo.common_dir), tasks),
        {role: form.by.said(protocol.DEFAULT) for role, form in site.templates.items()},
    )


def of(
    settled: Sequence[Settled],
    parsed: Spec | None,
    error: BaseException | None,
    *,
    seconds: float,
    cost: Cost,
    tokens: int,
    stopped: str = "",
) -> RunEnded:
    """`parsed` is None where SPEC.md cannot be read any more; `error` ended the run early. A stop
    that was asked for is none: the exit code is that of a run whose iterations are used up.
    """
    tasks = parsed.tasks if parsed else ()
    done = {task.key for task in tasks if task.marker is Marker.DONE}
    last = {one.key: one for one in settled}
    lost = {
        key: one
        for key, one in last.items()
        if one.outcome in (Outcome.SKIPPED, Outcome.BLOCKED) and key not in done
    }
    needs = tuple((one.task, one.detail) for one in lost.values())
    asked = questions.waiting(parsed) if parsed else ()
    stuck = _stuck(parsed) if parsed and not error and not dependencies.select(parsed) else ()
    helpless = {*lost, *(task.key for task, _ in stuck)}
    numbers = [n for n, task in enumerate(tasks, 1) if task.key in helpless]
    blocked = [n for n in numbers if tasks[n - 1].of(Kind.BLOCKED)]
    held = [] if lost or blocked else [n for n in numbers if tasks[n - 1].of(Kind.HELD)]
    failed = 1 if needs or stuck or asked else 0
    committed = [one for one in settled if one.outcome is Outcome.DONE]
    return RunEnded(
        done=tuple((one.task, one.detail, one.proved) for one in committed),
        concluded=tuple(
            (one.task, one.commit[:7]) for one in settled if one.outcome is Outcome.CONCLUDED
        ),
        decomposed=tuple(
            (one.task, one.key in done) for one in settled if one.outcome is Outcome.DECOMPOSED
        ),
        needs_help=needs,
        stuck=tuple((task.text, why) for task, why in stuck),
        questions=asked,
        open_tasks=len(tasks) - len(done) if parsed else None,
        seconds=seconds,
        cost=cost,
        tokens=tokens,
        interrupted=str(error) if error else "",
        exit_code=int(getattr(error, "exit_code", 1)) if error else failed,
        stopped=stopped,
        commits=tuple(one.commit for one in committed),
        look=next(iter(blocked or held or numbers), 0),
        blocked=bool(blocked),
        held=bool(held),
    )


def last(ended: RunEnded) -> tuple[str, bool]:
    """The summary's last line: what to type next; and whether it is a warning."""
    words = _next(ended)
    unproven = [proved for _, _, proved in ended.done if unverified(proved)]
    if not unproven:
        return words, False
    of = plain.count(len(ended.done), "commit")
    red = "fix those that are red, or " if any(unproven) else ""
    do = f"{red}name your checks under [gates] in kern.toml"
    said = f"UNVERIFIED: no gate passed for {len(unproven)} of {of}: {do}"
    return f"{said}; {words}" if words else said, True


def _next(ended: RunEnded) -> str:
    if ended.stopped:
        return f"stopped, as asked; the next kern goes on with: {ended.stopped}"
    if ended.interrupted:  # the error says it
        return ""
    if ended.questions and not ended.needs_help:  # what waits for those tasks is stuck as well
        return "next: answer what is asked, then: kern"
    if ended.needs_help or ended.stuck:
        look = f"kern show {ended.look}" if ended.look else "read the notes in SPEC.md"
        if ended.held:
            return f"next: kern unhold {ended.look}, then: kern"
        unblock = f"kern unblock {ended.look}, " if ended.blocked else ""
        return f"next: {look}, edit the task, {unblock}then: kern"
    if ended.open_tasks:
        return f"next: kern {ended.open_tasks} takes the other open tasks"
    return "all tasks are done: git log shows them"


def _stuck(parsed: Spec) -> tuple[tuple[Task, str], ...]:
    """Open tasks of which none is ready, each with what it waits for; a question is not among it,
    and told by itself.
    """
    blocker = dependencies.blockers(parsed)
    return tuple(
        (task, why)
        for task in parsed.tasks
        if task.marker is not Marker.DONE
        and (why := blocker(task))
        and why != dependencies.OPEN_SUBTASKS
        and (task.of(Kind.BLOCKED) or not questions.pending(task))
    )
