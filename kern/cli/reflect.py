"""`kern reflect`: one look at LEARNINGS.md, its change shown, a person asked."""

from collections.abc import Callable
from pathlib import Path

from kern import plain
from kern.cli.asking import answered, difference, someone
from kern.cli.plan import consulted, heard
from kern.errors import Exit, KernError
from kern.git import repository
from kern.memory import entries
from kern.model import LEARNINGS, Marker
from kern.models import Choices
from kern.pipeline import place
from kern.pipeline.options import Leave
from kern.pipeline.review import Reviews
from kern.pipeline.session import Session
from kern.stages import reflection
from kern.stages.plan import Planner
from kern.views.console import Console

_ASKED = f"Change {LEARNINGS} like this? [y]es, [n]o:"


def main(folder: Path, leave: Leave, models: Choices, *, yes: bool, dry: bool) -> int:
    """One read-only run of the planner; nothing is written without a yes."""
    if not _anything(folder):
        print(f"{LEARNINGS} has no entry and no task is finished: there is nothing to look at")
        return Exit.OK
    hint = "kern reflect --yes takes what is proposed, -n only shows it"
    person = None if yes or dry else someone(hint)

    def decide() -> str:
        return answered(person, _ASKED, "yn") if person else "y" if yes else "n"

    def ask(begun: Session, console: Console) -> int:
        asked = Reviews(begun).planner
        return _reflected(asked, begun, console, decide)

    return consulted(folder, leave, models, LEARNINGS, ask, writes=not dry)


def _anything(folder: Path) -> bool:
    papers = place.documents(repository.open_at(folder))
    if any(map(reflection.usable, entries.parse(papers.read(LEARNINGS) or ""))):
        return True
    return any(task.marker is Marker.DONE for task in papers.spec()[1].tasks)


def _reflected(asked: Planner, begun: Session, console: Console, decide: Callable[[], str]) -> int:
    found = heard(begun, console, asked.reflect)
    console.close()
    if found.wrong:
        raise KernError(
            f"the answer is refused: {found.wrong}",
            hint=f"{LEARNINGS} is untouched; the answer: {asked.reflected}",
        )
    change = difference(LEARNINGS, found.before, found.text)
    if not change:
        why = found.done or "all that is proposed stands there already"
        print(f"nothing to change in {LEARNINGS}: {plain.line(why)}")
        return Exit.OK
    print(change, flush=True)
    if decide() != "y":
        print(f"{LEARNINGS} is unchanged; the answer: {asked.reflected}")
        return Exit.OK
    asked.relearn(found)
    print(f"changed {LEARNINGS}; review it and commit it")
    return Exit.OK
