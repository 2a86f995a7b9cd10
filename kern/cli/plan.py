"""`kern plan` and `kern learn --tidy`: one agent that reads, a change of a file shown, a person
asked; and `kern learn`.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kern import plain
from kern.cli.asking import agreed, difference, terminal
from kern.errors import Asked, Exit, KernError, UsageError
from kern.git import repository
from kern.memory import capture
from kern.memory.entries import LONGEST, Entry, appended, numbers
from kern.memory.entries import parse as parse_learnings
from kern.model import LEARNINGS, SPEC, Marker
from kern.models import Choices
from kern.pipeline import place, session
from kern.pipeline.review import goal as goal_of
from kern.pipeline.site import Leave, Options
from kern.stages.plan import Planner
from kern.stages.proposal import Mode
from kern.views.live import Console

LONGEST_GOAL = 100_000  # characters


class Proposal(NamedTuple):
    """What an agent would change in a file."""

    change: str  # as `diff -u` shows it
    unchanged: str  # what is said where it changes nothing
    answer: Path
    take: Callable[[], None]


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
    purpose = _goal(folder, words) if words is not None else ""
    stated = "" if mode is Mode.IMPROVE else purpose
    if words is None and mode is not Mode.IMPROVE:  # said before anything else that may be missing
        repo = repository.open_at(folder)
        purpose = goal_of(repo.root, place.documents(repo).read(SPEC) or "")

    def ask(planner: Planner) -> Proposal:
        proposal = planner.ask(mode, purpose)
        if proposal.wrong:
            raise planner.refusal(proposal.wrong)
        old, unchanged = planner.documents.spec_text(), f"nothing to add to {SPEC}"
        new = old if proposal.done else planner.planned(old, proposal, stated).text
        if proposal.done:
            unchanged = f"nothing is missing: {plain.line(proposal.done)}"
        take = partial(planner.take, proposal, stated)
        return Proposal(difference(SPEC, old, new), unchanged, planner.answer, take)

    return _consulted(folder, leave, models, SPEC, ask, yes=yes, dry=dry)


def tidy(folder: Path, leave: Leave, *, yes: bool, dry: bool) -> int:
    """One read-only run of the planner; nothing is written without a yes."""
    documents = place.documents(repository.open_at(folder))
    there = parse_learnings(documents.read(LEARNINGS) or "")
    if there.faults:
        hint = "mend that by hand first: it would be lost"
        raise UsageError(f"{LEARNINGS}: {there.faults[0]}", hint=hint)
    done = any(task.marker is Marker.DONE for task in documents.spec()[1].tasks)
    if not (there.entries or done):
        print(f"{LEARNINGS} has no entry and no task is finished: there is nothing to look at")
        return Exit.OK

    def ask(planner: Planner) -> Proposal:
        proposal = planner.tidy()
        if proposal.wrong:
            hint = f"{LEARNINGS} is untouched; the answer: {planner.tidied}"
            raise KernError(f"the answer is refused: {proposal.wrong}", hint=hint)
        why = proposal.done or "all that is proposed stands there already"
        unchanged = f"nothing to change in {LEARNINGS}: {plain.line(why)}"
        change = difference(LEARNINGS, proposal.before, proposal.text)
        return Proposal(change, unchanged, planner.tidied, partial(planner.relearn, proposal))

    return _consulted(folder, leave, {}, LEARNINGS, ask, yes=yes, dry=dry)


def _consulted(
    folder: Path,
    leave: Leave,
    models: Choices,
    name: str,
    ask: Callable[[Planner], Proposal],
    *,
    yes: bool,
    dry: bool,
) -> int:
    """A session for one agent that reads, and a person who decides about the file of that name."""
    person = None if yes or dry else terminal("--yes takes what is proposed, -n only shows it")
    console = Console(out=sys.stderr)  # the change of the file is what goes to standard output
    options = Options(watched=console.watched, tick=console.tick, models=models, leave=leave)
    try:
        with session.begin(folder, options, console, empty=True, commits=not dry) as site:
            if site.payer:
                print(f"billing: {plain.line(site.payer)}", file=sys.stderr)
            proposal = ask(Planner(site.repo, site.documents, site.templates, site.caller))
            site.steered.check_requests()
            console.close()
            print(proposal.change or proposal.unchanged, flush=True)
            if proposal.change:
                if not (yes or (person and agreed(person, f"Change {name} like this?"))):
                    print(f"{name} is unchanged; the answer: {proposal.answer}")
                    return Exit.OK
                proposal.take()
                print(f"changed {name}; review it and commit it")
    except Asked:
        print(f"stopped, as asked: {name} is unchanged", file=sys.stderr)
    finally:
        console.close()
    return Exit.OK


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


def learn(folder: Path, text: str, when: str) -> None:
    """What a person teaches; what an entry says already is not written twice."""
    new = Entry("", plain.line(text, LONGEST), when=capture.when(when))
    if len(new.words) < 3 or len(new.text) > LONGEST // 2:
        raise UsageError(
            f"an entry is a sentence of at most {LONGEST // 2} characters",
            hint=f'kern learn "Run make db before the tests."; what there is stands in {LEARNINGS}',
        )
    documents = place.documents(repository.open_at(folder))
    with documents.alone():
        there = documents.read(LEARNINGS) or ""
        entries = parse_learnings(there).entries
        if twin := capture.alike(new.text, entries):
            raise UsageError(
                f"{twin.id} says so already: {plain.line(twin.text, 160)}",
                hint=f"{LEARNINGS} is a file that you can edit: a line for each entry",
            )
        name = next(numbers(entries))
        documents.write(LEARNINGS, appended(there, [replace(new, id=name)]))
    print(f"{name} in {LEARNINGS}; review it and commit it")
