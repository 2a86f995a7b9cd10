"""`kern learn`: LEARNINGS.md by commands, also beside a run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.memory import capture, changes, entries
from kern.memory.entries import Entry, Kind
from kern.model import LEARNINGS
from kern.pipeline import place
from kern.spec import edit
from kern.stages import record
from kern.views import learnings

_TOPIC = 50  # characters of it as its heading
_LONGEST = 2000  # characters of an entry: a person may say more than an agent


def add(folder: Path, text: str, kind: str, when: str) -> None:
    """What a person teaches; what an entry says already is not written twice."""
    if kind and kind not in [*Kind]:
        raise UsageError(f"no such kind: {kind}", hint=f"known: {', '.join(Kind)}")
    said = plain.block(text).strip()
    if not capture.tokens(said) or len(said) > _LONGEST:
        raise UsageError(
            f"an entry is a sentence of at most {_LONGEST} characters",
            hint='kern learn "Run make db before the tests."',
        )
    papers = place.documents(repository.open_at(folder))
    with papers.alone():
        there = papers.read(LEARNINGS) or ""
        known = entries.parse(there)
        if twin := capture.alike(said, known):
            raise UsageError(
                f"{twin.id} says so already: {plain.line(twin.text, 160)}",
                hint=f"kern learn vote {twin.id} --helpful",
            )
        name = next(changes.numbers(known))
        lesson = capture.Lesson(said, Kind(kind or Kind.INSIGHT), capture.when(when))
        body, topic = changes.body(lesson, name, ""), plain.line(said, _TOPIC)
        papers.write(LEARNINGS, there + edit.learning(there, record.now()[:10], topic, body))
    print(f"{name} in {LEARNINGS}; review it and commit it")


def vote(folder: Path, wanted: str, *, helpful: bool, harmful: bool, why: str) -> None:
    if helpful == harmful:
        raise UsageError(
            "a vote is --helpful or --harmful",
            hint=f"kern learn vote {wanted} --helpful --why WORDS",
        )

    def change(entry: Entry) -> Entry:
        return replace(changes.voted(entry, helpful=helpful), why=why or entry.why)

    new = _noted(folder, wanted, change)
    print(f"{new.id}: {new.votes}, score {new.score:.2f}")
    if new.unwanted:
        print(f"it is told to no stage any more ({new.unwanted})")


def retire(folder: Path, wanted: str, why: str) -> None:
    """It stays in the file."""
    new = _noted(folder, wanted, lambda entry: replace(entry, retired=why or "by hand"))
    print(f"{new.id} is retired: it stays in {LEARNINGS} and is told to no stage")


def _noted(folder: Path, wanted: str, change: Callable[[Entry], Entry]) -> Entry:
    papers = place.documents(repository.open_at(folder))
    with papers.alone():
        text = papers.read(LEARNINGS) or ""
        entry = learnings.named(text, wanted)
        if entry.id == "L0":
            raise UsageError(
                f"what stands before the first heading of {LEARNINGS} cannot be voted on",
                hint="give it a heading: ## topic",
            )
        new = change(entry)
        swap = entry.raw, entries.renoted(new)
        papers.write(LEARNINGS, changes.applied(text, [swap]))
    return new
