"""`kern plan` and what belongs to it: a goal in, a change of SPEC.md shown, a person asked."""

import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TextIO, TypeVar

from kern import plain
from kern.cli.asking import answered, difference, someone
from kern.errors import Asked, Exit, KernError, UsageError
from kern.events import Event, Planned, Sink, StageFinished
from kern.git import repository
from kern.model import SPEC
from kern.models import Choices
from kern.pipeline import place, session
from kern.pipeline.review import Reviews
from kern.pipeline.review import goal as goal_of
from kern.pipeline.site import Leave, Options, Site
from kern.stages import proposal
from kern.stages.plan import Planner
from kern.stages.proposal import Mode, Plan
from kern.system import process
from kern.views.live import Console

T = TypeVar("T")
LONGEST_GOAL = 100_000  # characters
_ASKED = "Add these tasks to SPEC.md? [y]es, [n]o, [e]dit:"
_NO_GOAL = 'type kern plan "what you want", kern plan FILE.md, or kern plan - with it on stdin'


def main(
    folder: Path,
    words: str | None,
    leave: Leave,
    models: Choices,
    mode: Mode,
    *,
    yes: bool,
    dry: bool,
) -> int:
    """One planner's run: its tasks are shown as a change of SPEC.md and taken after a yes.
    `words`: None for the goal that SPEC.md states.
    """
    wanted = _goal(folder, words) if words is not None else ""
    if words is None and mode is not Mode.IMPROVE:  # said before anything else that may be missing
        repo = repository.open_at(folder)
        goal_of(repo.root, place.documents(repo).read(SPEC) or "")
    person = None if yes or dry else someone("kern plan --yes takes the tasks, -n only shows them")

    def ask(site: Site, console: Console) -> int:
        reviews = Reviews(site)
        goal = wanted or ("" if mode is Mode.IMPROVE else reviews.goal())
        asked = reviews.planner
        stated = "" if mode is Mode.IMPROVE else wanted
        if stated and set(proposal.goals(asked.known())) - {stated}:
            print(f"{SPEC} also states another goal; reviews will look at both", file=sys.stderr)
        found = heard(site, console, lambda: asked.ask(mode, goal))
        console.close()
        if found.wrong:
            raise asked.refusal(found.wrong)
        if found.done:
            red = "" if dry else heard(site, console, reviews.red_at_the_end)
            return _nothing(found, red)
        return _decided(asked, found, stated, person, mode, yes=yes)

    return consulted(folder, leave, models, SPEC, ask, writes=not dry)


def consulted(
    folder: Path,
    leave: Leave,
    models: Choices,
    name: str,
    ask: Callable[[Site, Console], int],
    *,
    writes: bool,
) -> int:
    """A session for one agent that reads, and a person who decides about the file of that name."""
    console = Console(out=sys.stderr)  # the change of the file is what goes to standard output
    options = Options(watched=console.watched, tick=console.tick, models=models)
    options.leave = leave
    try:
        with session.begin(folder, options, _brief(console), empty=True, commits=writes) as site:
            if site.payer:
                print(f"billing: {plain.line(site.payer)}", file=sys.stderr)
            return ask(site, console)
    except Asked:
        print(f"stopped, as asked: {name} is unchanged", file=sys.stderr)
        return Exit.OK
    finally:
        console.close()


def _brief(console: Console) -> Sink:
    """Without what the change of the file shows once more."""

    def sink(event: Event) -> None:
        if isinstance(event, StageFinished):
            event = replace(event, text="")
        if not isinstance(event, Planned):
            console(event)

    return sink


def heard(site: Site, console: Console, ask: Callable[[], T]) -> T:
    """What is asked for; raises `Asked` where it is to end."""
    told = ask()
    site.steered.heed()
    return told


def _goal(folder: Path, words: str) -> str:
    """What a person wants: a text, `-` for standard input, or the name of a Markdown file."""
    text = words
    if words == "-":
        text = sys.stdin.buffer.read(4 * LONGEST_GOAL + 1).decode("utf-8", "replace")
    elif words.endswith(".md") and "\n" not in words:
        try:
            text = (folder / words).read_text("utf-8", "replace")
        except OSError as exc:
            why = f"cannot read the goal from {words}: {exc.strerror}"
            raise UsageError(why, hint=_NO_GOAL) from None
    if not text.strip():
        raise UsageError("the goal is empty", hint=_NO_GOAL)
    if len(text) > LONGEST_GOAL:
        raise UsageError(
            f"a goal of more than {LONGEST_GOAL} characters", hint="put it into files below specs/"
        )
    return text.strip()


def _nothing(found: Plan, red: str) -> int:
    """The planner says that the goal is reached: believed where the final gates say so as well."""
    if red:
        raise KernError(
            f"the planner says that nothing is missing, but {red}",
            hint="fix it, or add a task for it to SPEC.md",
        )
    print(f"nothing is missing: {plain.line(found.done)}")
    return Exit.OK


def _decided(
    asked: Planner, found: Plan, goal: str, person: TextIO | None, mode: Mode, *, yes: bool
) -> int:
    """Show the change of SPEC.md and take it, or not; without a person as `yes` says."""
    if found.known:
        print(f"already in {SPEC}: {found.known} of its tasks", file=sys.stderr)
    while change := _change(asked, found, goal):
        print(change, flush=True)
        answer = answered(person, _ASKED, "yne") if person else "y" if yes else "n"
        if answer == "y":
            asked.take(found, goal)
            print(f"added to {SPEC}; review it, commit it, then: kern -n")
            return Exit.OK
        if answer == "n" or person is None:
            print(f"{SPEC} is unchanged; the planner's answer: {asked.answer}")
            return Exit.OK
        found = _edited(asked, found, person, mode)
    print(f"nothing to add to {SPEC}")
    return Exit.OK


def _change(asked: Planner, found: Plan, goal: str) -> str:
    """The difference that it makes to SPEC.md, as `diff -u` shows it."""
    old = asked.papers.spec_text()
    return difference(SPEC, old, asked.planned(old, found, goal).text)


def _edited(asked: Planner, found: Plan, person: TextIO, mode: Mode) -> Plan:
    """The list as the person leaves it in an editor; asked again while it cannot be read."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tasks.md"
        place.write_text(found.listed + "\n", "utf-8")
        code = process.attended([*shlex.split(editor), str(place)], person, os.environ)
        text = place.read_text("utf-8", "replace")
    changed = proposal.tasks(text, asked.known(), mode)
    why = f"{editor} ended with {code}" if code else changed.wrong
    if why:
        print(f"kern: the list was not accepted: {why}", file=sys.stderr)
        return found
    return changed
