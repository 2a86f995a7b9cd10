"""`kern learn`: an entry of a person's in LEARNINGS.md, also beside a run; and `--tidy`: one look
of an agent at the file, its change shown, a person asked.
"""

from collections.abc import Callable
from pathlib import Path

from kern import plain
from kern.cli.asking import answered, difference, someone
from kern.cli.plan import consulted, heard
from kern.errors import Exit, KernError, UsageError
from kern.git import repository
from kern.memory import capture
from kern.memory.entries import LONGEST, Entry, appended, numbers, parse
from kern.model import LEARNINGS, Marker
from kern.models import Choices
from kern.pipeline import place
from kern.pipeline.review import Reviews
from kern.pipeline.site import Leave, Site
from kern.stages.plan import Planner
from kern.views.live import Console

_ASKED = f"Change {LEARNINGS} like this? [y]es, [n]o:"


def add(folder: Path, text: str, when: str) -> None:
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
        known = parse(there).entries
        if twin := capture.alike(new.text, known):
            raise UsageError(
                f"{twin.id} says so already: {plain.line(twin.text, 160)}",
                hint=f"{LEARNINGS} is a file that you can edit: a line for each entry",
            )
        name = next(numbers(known))
        entry = Entry(name, new.text, when=new.when)
        papers.write(LEARNINGS, appended(there, [entry]))
    print(f"{name} in {LEARNINGS}; review it and commit it")


# ---------------------------------------------------------------- kern learn --tidy


def tidy(folder: Path, leave: Leave, models: Choices, *, yes: bool, dry: bool) -> int:
    """One read-only run of the planner; nothing is written without a yes."""
    papers = place.documents(repository.open_at(folder))
    found = parse(papers.read(LEARNINGS) or "")
    if found.faults:
        raise UsageError(
            f"{LEARNINGS}: {found.faults[0]}", hint="mend that by hand first: it would be lost"
        )
    done = any(task.marker is Marker.DONE for task in papers.spec()[1].tasks)
    if not (found.entries or done):
        print(f"{LEARNINGS} has no entry and no task is finished: there is nothing to look at")
        return Exit.OK
    hint = "kern learn --tidy --yes takes what is proposed, -n only shows it"
    person = None if yes or dry else someone(hint)

    def decide() -> str:
        return answered(person, _ASKED, "yn") if person else "y" if yes else "n"

    def ask(site: Site, console: Console) -> int:
        return _tidied(Reviews(site).planner, site, console, decide)

    return consulted(folder, leave, models, LEARNINGS, ask, writes=not dry)


def _tidied(asked: Planner, site: Site, console: Console, decide: Callable[[], str]) -> int:
    found = heard(site, console, asked.tidy)
    console.close()
    if found.wrong:
        raise KernError(
            f"the answer is refused: {found.wrong}",
            hint=f"{LEARNINGS} is untouched; the answer: {asked.tidied}",
        )
    change = difference(LEARNINGS, found.before, found.text)
    if not change:
        why = found.done or "all that is proposed stands there already"
        print(f"nothing to change in {LEARNINGS}: {plain.line(why)}")
        return Exit.OK
    print(change, flush=True)
    if decide() != "y":
        print(f"{LEARNINGS} is unchanged; the answer: {asked.tidied}")
        return Exit.OK
    asked.relearn(found)
    print(f"changed {LEARNINGS}; review it and commit it")
    return Exit.OK
