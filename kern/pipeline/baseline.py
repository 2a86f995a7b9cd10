"""How the gates end before a task: what was red then is not the task's fault."""

from collections.abc import Sequence
from dataclasses import replace

from kern.checks import result
from kern.config import Gate, Settings
from kern.errors import UsageError
from kern.git.repository import Head
from kern.model import Result
from kern.pipeline import project
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.spec import notes
from kern.spec.notes import Checks
from kern.spec.parse import Task


def checks(site: Site, task: Task, settings: Settings) -> Checks:
    """Of the task as SPEC.md has it now."""
    _, parsed = site.papers.spec()
    fresh = parsed.find(task.key)
    return notes.checks(parsed, fresh, settings) if fresh else Checks(settings.gates)


def known(site: Site, gate: Gate, commit: str) -> Result | None:
    """How it ended on that commit, or tree, in this run."""
    return site.gates.known(gate, project.subject(site, commit))


def check(site: Site) -> None:
    """Before the first task: nothing is paid where no task could be proven."""
    if wanted := project.settings(site).gates:
        gates(site, site.repo.head(), wanted)
    site.memory.checked = True


def now(site: Site, wanted: Sequence[Gate]) -> list[Result]:
    """How they end on what is committed, for a person who asks, without a task."""
    head = site.repo.head()
    project.gates_before(site, head, wanted)
    ends = (known(site, gate, head.commit) for gate in wanted)
    return [ended for ended in ends if ended]


def gates(site: Site, head: Head, wanted: Sequence[Gate]) -> None:
    """The project's gates before the task. Raises UsageError where these stop a run."""
    unknown = project.gates_before(site, head, wanted)
    on_red = site.caller.settings.on_red
    ends = {gate: known(site, gate, head.commit) for gate in wanted}
    red = {gate: was for gate, was in ends.items() if was and was.red}
    if stop := [r for r in red.values() if r.stops(on_red, first=not site.memory.checked)]:
        message, hint = result.refusal(stop)
        raise UsageError(message, hint=hint)
    site.memory.checked = True
    for gate in unknown:
        if gate in red:
            site.warn(result.regard(red[gate]))


def own(site: Site, at: Situation, wanted: Checks) -> list[str]:
    """How the task's own gates end before it, a text each for the stages. They ought to fail."""
    mine = [replace(gate, strict=False, known_red=True) for gate in wanted.gates if not gate.name]
    fresh = project.gates_before(site, at.head, mine)
    found = []
    for gate in mine:
        was = known(site, gate, at.head.commit)
        assert was is not None
        found.append(result.state(replace(was, name="gate of the task"), gate.command))
        if gate in fresh and not was.red:
            site.warn(f"{gate.label} is green before the task: it proves nothing of it")
    return found


def seen(site: Site, wanted: Checks, commit: str) -> Checks:
    """With what is known to be red there."""
    red = (g for g in wanted.gates if (was := known(site, g, commit)) and was.red)
    return replace(wanted, red=frozenset(red))


def at_the_end(wanted: Checks) -> list[Gate]:
    """Those that send an agent back: what was red before the task is not its fault."""
    excused = {gate for gate in wanted.gates if gate in wanted.red or gate.known_red}
    return [gate for gate in wanted.gates if gate.strict or gate not in excused]
