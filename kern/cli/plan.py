"""`kern plan` and `kern learn --tidy`: one agent that reads, a change of a file shown, a person
asked; and `kern learn`.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from kern import plain
from kern.cli import asking
from kern.cli.asking import check_terminal, difference
from kern.errors import Asked, Exit, UsageError
from kern.git import repository
from kern.memory import capture
from kern.memory.entries import LONGEST, Entry, appended, numbers
from kern.memory.entries import parse as parse_learnings
from kern.model import LEARNINGS, SPEC, Marker
from kern.pipeline import facts, session
from kern.pipeline.site import Options
from kern.stages.plan import Mode, Plan, Planner, goal_of
from kern.views.live import Console


def plan(folder: Path, words: str, mode: Mode, *, trust: bool, yes: bool) -> int:
    """`words`: nothing for the goal that SPEC.md states."""
    goal = stated = words.strip()
    if mode is Mode.IMPROVE:
        stated = ""
    elif not goal:  # said before anything else that may be missing
        repo = repository.open_at(folder)
        goal = goal_of(repo.root, facts.documents(repo).read(SPEC) or "")
    return _consulted(folder, mode, goal, stated, trust=trust, yes=yes)


def tidy(folder: Path, *, trust: bool, yes: bool) -> int:
    """One read-only run of the planner; nothing is written without a yes."""
    documents = facts.documents(repository.open_at(folder))
    there = parse_learnings(documents.read(LEARNINGS) or "")
    if there.faults:
        hint = "mend that by hand first: it would be lost"
        raise UsageError(f"{LEARNINGS}: {there.faults[0]}", hint=hint)
    done = any(task.marker is Marker.DONE for task in documents.spec()[1].tasks)
    if not (there.entries or done):
        print(f"{LEARNINGS} has no entry and no task is finished: there is nothing to look at")
        return Exit.OK
    return _consulted(folder, Mode.TIDY, trust=trust, yes=yes)


def _consulted(
    folder: Path, mode: Mode, goal: str = "", stated: str = "", *, trust: bool, yes: bool
) -> int:
    """A session for one agent that reads, and a person who decides about the file that it is of."""
    if not yes:
        check_terminal()
    name = LEARNINGS if mode is Mode.TIDY else SPEC
    console = Console(out=sys.stderr)  # the change of the file is what goes to standard output
    options = Options(watched=console.watched, tick=console.tick, leave=asking.leave(trust))
    try:
        with session.begin(folder, options, console) as site:
            if site.payer:
                print(f"billing: {plain.line(site.payer)}", file=sys.stderr)
            planner = Planner(site.repo, site.documents, site.templates, site.caller)
            plan = planner.ask(mode, goal)
            change, take = _proposal(planner, plan, mode, stated)
            site.steered.check_requests()
            console.close()
            why = plain.line(plan.done) or "all that is proposed stands there already"
            print(change or f"nothing to change in {name}: {why}", flush=True)
            if change and not (yes or asking.yes(f"Change {name} like this? [y/N]")):
                print(f"{name} is unchanged; the answer: {plan.answer}")
            elif change:
                take()
                print(f"changed {name}; review it and commit it")
    except Asked:
        print(f"stopped, as asked: {name} is unchanged", file=sys.stderr)
    finally:
        console.close()
    return Exit.OK


def _proposal(
    planner: Planner, plan: Plan, mode: Mode, stated: str
) -> tuple[str, Callable[[], None]]:
    """The file's change, as `diff -u` shows it, and what writes it."""
    if mode is Mode.TIDY:
        return difference(LEARNINGS, plan.before, plan.text), partial(planner.relearn, plan)
    old = planner.documents.spec_text()
    new = old if plan.done else planner.planned(old, plan, stated).text
    return difference(SPEC, old, new), partial(planner.take, plan, stated)


def learn(folder: Path, text: str, when: str) -> None:
    """What a person teaches."""
    new = Entry("", plain.line(text, LONGEST), when=capture.when(when))
    if len(new.words) < 3 or len(new.text) > LONGEST // 2:
        what = f"an entry is a sentence of at most {LONGEST // 2} characters"
        raise UsageError(what, hint='kern learn "Run make db before the tests."')
    documents = facts.documents(repository.open_at(folder))
    with documents.alone():
        there = documents.read(LEARNINGS) or ""
        entries = parse_learnings(there).entries
        name = next(numbers(entries))
        documents.write(LEARNINGS, appended(there, [replace(new, id=name)]))
    print(f"{name} in {LEARNINGS}; review it and commit it")
