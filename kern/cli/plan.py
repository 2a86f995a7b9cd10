"""`kern plan` and `kern learn --tidy`: one agent that reads, a change of a file shown, a person
asked; and `kern learn`.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from kern import plain
from kern.cli.asking import answer, difference, edit, terminal
from kern.errors import Asked, Exit, KernError, UsageError
from kern.events import Event, Planned, Sink, StageFinished
from kern.git import repository
from kern.memory import capture
from kern.memory.entries import LONGEST, Entry, appended, numbers
from kern.memory.entries import parse as parse_learnings
from kern.model import LEARNINGS, SPEC, Marker
from kern.models import Choices
from kern.pipeline import place, session
from kern.pipeline.review import Reviews
from kern.pipeline.review import goal as goal_of
from kern.pipeline.site import Leave, Options, Site
from kern.stages import proposal
from kern.stages.plan import Planner
from kern.stages.proposal import Mode, Plan
from kern.views.live import Console

LONGEST_GOAL = 100_000  # characters


def plan(
    folder: Path,
    words: str | None,
    leave: Leave,
    models: Choices,
    mode: Mode,
    *,
    yes: bool,
    dry: bool,
) -> int:
    """`words`: None for the goal that SPEC.md states."""
    wanted = _goal(folder, words) if words is not None else ""
    if words is None and mode is not Mode.IMPROVE:  # said before anything else that may be missing
        repo = repository.open_at(folder)
        goal_of(repo.root, place.documents(repo).read(SPEC) or "")
    hint = "kern plan --yes takes the tasks, -n only shows them"
    person = None if yes or dry else terminal(hint)

    def ask(site: Site, console: Console) -> int:
        reviews = Reviews(site)
        asked = reviews.planner
        stated = "" if mode is Mode.IMPROVE else wanted
        goal = wanted or ("" if mode is Mode.IMPROVE else reviews.goal())
        if stated and set(proposal.goals(asked.known())) - {stated}:
            print(f"{SPEC} also states another goal; reviews will look at both", file=sys.stderr)
        found = asked.ask(mode, goal)
        site.steered.heed()
        console.close()
        if found.wrong:
            raise asked.refusal(found.wrong)
        if not found.done:
            return _decided(asked, found, stated, person, mode, yes=yes)
        print(f"nothing is missing: {plain.line(found.done)}")
        return Exit.OK

    return _consulted(folder, leave, models, SPEC, ask, writes=not dry)


def _consulted(
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
    options = Options(watched=console.watched, tick=console.tick, models=models, leave=leave)
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


def _goal(folder: Path, words: str) -> str:
    """What a person wants: a text, `-` for standard input, or the name of a Markdown file."""
    text = words
    if words == "-":
        text = sys.stdin.buffer.read(4 * LONGEST_GOAL + 1).decode("utf-8", "replace")
    elif words.endswith(".md") and "\n" not in words:
        try:
            text = (folder / words).read_text("utf-8", "replace")
        except OSError as exc:
            what = f"cannot read {plain.line(words)}: {exc.strerror}"
            raise UsageError(what, hint="kern plan FILE.md; or kern plan - < FILE") from None
    if not text.strip() or len(text) > LONGEST_GOAL:
        why = f"of more than {LONGEST_GOAL} characters" if text.strip() else "that says nothing"
        hint = 'kern plan "what you want"; what is longer goes into files below specs/'
        raise UsageError(f"a goal {why}", hint=hint)
    return text.strip()


def _decided(
    asked: Planner, found: Plan, goal: str, person: TextIO | None, mode: Mode, *, yes: bool
) -> int:
    """Show the change of SPEC.md and take it, or not; without a person as `yes` says."""
    if found.known:
        print(f"already in {SPEC}: {found.known} of its tasks", file=sys.stderr)
    question = "Add these tasks to SPEC.md? [y]es, [n]o, [e]dit:"
    while True:
        old = asked.papers.spec_text()
        if not (change := difference(SPEC, old, asked.planned(old, found, goal).text)):
            print(f"nothing to add to {SPEC}")
            return Exit.OK
        print(change, flush=True)
        word = answer(person, question, "yne") if person else "y" if yes else "n"
        if word == "y":
            asked.take(found, goal)
            print(f"added to {SPEC}; review it, commit it, then: kern -n")
            return Exit.OK
        if word == "n" or person is None:
            print(f"{SPEC} is unchanged; the planner's answer: {asked.answer}")
            return Exit.OK
        found = _edited(asked, found, person, mode)


def _edited(asked: Planner, found: Plan, person: TextIO, mode: Mode) -> Plan:
    """The list as the person leaves it in an editor; as it was where it cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.md"
        file.write_text(found.listed + "\n", "utf-8")
        why = edit(file, person)
        changed = proposal.tasks(file.read_text("utf-8", "replace"), asked.known(), mode)
    if not (why := why or changed.wrong):
        return changed
    print(f"kern: the list was not accepted: {why}", file=sys.stderr)
    return found


# ---------------------------------------------------------------- kern learn


def learn(folder: Path, text: str, when: str) -> None:
    """What a person teaches; what an entry says already is not written twice."""
    new = Entry("", plain.line(text, LONGEST), when=capture.when(when))
    if len(new.words) < 3 or len(new.text) > LONGEST // 2:
        raise UsageError(
            f"an entry is a sentence of at most {LONGEST // 2} characters",
            hint=f'kern learn "Run make db before the tests."; what there is stands in {LEARNINGS}',
        )
    papers = place.documents(repository.open_at(folder))
    with papers.alone():
        there = papers.read(LEARNINGS) or ""
        known = parse_learnings(there).entries
        if twin := capture.alike(new.text, known):
            raise UsageError(
                f"{twin.id} says so already: {plain.line(twin.text, 160)}",
                hint=f"{LEARNINGS} is a file that you can edit: a line for each entry",
            )
        name = next(numbers(known))
        papers.write(LEARNINGS, appended(there, [Entry(name, new.text, when=new.when)]))
    print(f"{name} in {LEARNINGS}; review it and commit it")


def tidy(folder: Path, leave: Leave, *, yes: bool, dry: bool) -> int:
    """One read-only run of the planner; nothing is written without a yes."""
    papers = place.documents(repository.open_at(folder))
    found = parse_learnings(papers.read(LEARNINGS) or "")
    if found.faults:
        hint = "mend that by hand first: it would be lost"
        raise UsageError(f"{LEARNINGS}: {found.faults[0]}", hint=hint)
    done = any(task.marker is Marker.DONE for task in papers.spec()[1].tasks)
    if not (found.entries or done):
        print(f"{LEARNINGS} has no entry and no task is finished: there is nothing to look at")
        return Exit.OK
    hint = "kern learn --tidy --yes takes what is proposed, -n only shows it"
    person = None if yes or dry else terminal(hint)
    question = f"Change {LEARNINGS} like this? [y]es, [n]o:"

    def ask(site: Site, console: Console) -> int:
        asked = Reviews(site).planner
        found = asked.tidy()
        site.steered.heed()
        console.close()
        if found.wrong:
            hint = f"{LEARNINGS} is untouched; the answer: {asked.tidied}"
            raise KernError(f"the answer is refused: {found.wrong}", hint=hint)
        change = difference(LEARNINGS, found.before, found.text)
        if not change:
            why = found.done or "all that is proposed stands there already"
            print(f"nothing to change in {LEARNINGS}: {plain.line(why)}")
            return Exit.OK
        print(change, flush=True)
        if not yes and (person is None or answer(person, question, "yn") == "n"):
            print(f"{LEARNINGS} is unchanged; the answer: {asked.tidied}")
            return Exit.OK
        asked.relearn(found)
        print(f"changed {LEARNINGS}; review it and commit it")
        return Exit.OK

    return _consulted(folder, leave, {}, LEARNINGS, ask, writes=not dry)
