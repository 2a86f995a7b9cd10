"""The resume table in every combination of its facts, and every walk that a task can go by it."""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise, product, starmap
from typing import Any

import pytest

from kern.model import Outcome, Saved, Tier
from kern.pipeline.table import (
    ATTEMPTS,
    Do,
    Facts,
    Research,
    Start,
    due,
    resume,
    skipped,
)
from kern.stages import answer
from kern.stages.answer import Answer, Code

# ------------------------------------------------------------ every combination of facts

Decided = list[tuple[Facts, Do]]


@pytest.fixture(scope="module")
def decided() -> Decided:
    """What is decided on each of some 20,000 combinations; attempts below, at the limit."""
    both = (False, True)
    every: Iterable[tuple[Any, ...]] = product(
        *(both, Start, both, Research, both, Saved, both, both),
        *((0, 3), both, both),
    )
    # Of what is not proved nobody asks whose proof it is.
    sensible = (f for f in starmap(Facts, every) if f.saved is Saved.PROVED or not f.own)
    gc.disable()  # a million objects, and none of them garbage
    try:
        return [(facts, resume(facts)) for facts in sensible]
    finally:
        gc.freeze()
        gc.enable()


Row = tuple[Do, Callable[[Facts], bool]]

# The table once more, as conditions from top to bottom: the first that holds names the row.
ROWS: tuple[Row, ...] = (
    (Do.FINISH, lambda f: f.done and (f.active or f.start is not Start.NONE)),
    (Do.SELECT, lambda f: not f.active and f.start is Start.NONE),
    (Do.ABANDON, lambda f: not f.active or f.start is Start.OTHER),
    (Do.BOOK, lambda f: f.saved is Saved.FAILED),
    (Do.RELEASE, lambda f: f.saved in (Saved.DECOMPOSED, Saved.SKIPPED, Saved.ASKED)),
    # A proof belongs to the process that made it.
    (Do.COMMIT, lambda f: f.saved is Saved.PROVED and f.at_base and f.own),
    (Do.PROVE, lambda f: f.saved in (Saved.OPEN, Saved.PROVED)),
    (Do.UNDO, lambda f: f.start is Start.OPEN),
    (Do.CONCLUDE, lambda f: f.experiment and f.attempts >= ATTEMPTS),
    (Do.RELEASE, lambda f: f.research in (Research.NO_TASK, Research.ASKED)),
    (Do.RESEARCH, lambda f: f.research is Research.NONE or not f.noted),
    (Do.RELEASE, lambda f: f.subtask and f.attempts >= ATTEMPTS),
    (Do.IMPLEMENT, lambda f: True),
)


def test_the_first_row_that_matches_decides(decided: Decided) -> None:
    strayed = [
        (facts, do)
        for facts, do in decided
        if do is not next(row for row, holds in ROWS if holds(facts))
    ]
    assert not strayed[:3]


def test_every_row_and_every_action_is_reached(decided: Decided) -> None:
    assert {do for _, do in decided} == set(Do)
    assert set(Do) == {row for row, _ in ROWS}


def test_the_second_full_failure_needs_a_person() -> None:
    assert skipped(0, exhausted=True) is Outcome.SKIPPED
    assert skipped(1, exhausted=True) is Outcome.BLOCKED
    assert skipped(1, exhausted=False) is Outcome.SKIPPED


# ------------------------------------------------------------ every way that one task can go

PARTS = ("first half", "second half")
REPLIES = (
    Answer(Code.SUCCESS),
    Answer(Code.FAILED, "no"),
    Answer(Code.DECOMPOSED, subtasks=PARTS),
    Answer(Code.DECOMPOSED),
    Answer(Code.SKIPPED, "no key"),
    Answer(Code.NEEDS_ANSWER, "which one?"),
    Answer(Code.UNCLEAR, "said something else"),
)
OBJECTIONS = ("", "nothing changed, or asked before")
Step = tuple[Do, str]
ENDS = (Do.FINISH, Do.RELEASE)
DOUBTED = "not believed"  # of research, twice


def walks(facts: Facts, walked: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Every walk from here to the task's end, as the steps and what came of each."""
    assert len(walked) < 60, "it does not end"
    do = resume(facts)
    for said, new in after_step(do, facts):
        so_far = (*walked, (do, said))
        yield from walks(new, so_far) if new else (so_far,)


def after_step(do: Do, facts: Facts) -> list[tuple[str, Facts | None]]:
    """What may come of a step: the word for it and the facts then, None at the task's end."""
    match do:
        case Do.SELECT:
            return [("", replace(facts, active=True))]
        case Do.RESEARCH if facts.research is not Research.NONE:
            return [("", replace(facts, noted=True))]
        case Do.RESEARCH:
            found = (Research.READY, Research.NO_TASK, Research.ASKED)
            ends: list[tuple[str, Facts | None]] = [
                (str(word), replace(facts, research=word)) for word in found
            ]
            if due(facts) is not Tier.SKIP:
                saved = answer.broken("it repeated the prompt", due(facts)).saved
                ends += [(DOUBTED, replace(facts, start=Start.OPEN, saved=saved))]
            return ends
        case Do.IMPLEMENT:
            return [
                (str(due(facts)), replace(facts, start=Start.OPEN, saved=Saved.OPEN, own=False))
            ]
        case Do.PROVE:
            return [
                (word, replace(facts, saved=word, own=word is Saved.PROVED))
                for word in verdicts(facts)
            ]
        case Do.COMMIT:
            return [
                ("committed", replace(facts, done=True, at_base=False)),
                ("refused", replace(facts, saved=Saved.FAILED)),
                ("rejected", replace(facts, saved=Saved.FAILED)),
            ]
        case Do.CONCLUDE:
            return [
                ("committed", replace(facts, done=True, at_base=False)),
                ("refused", None),  # blocked
            ]
        case Do.BOOK:
            fresh = replace(facts, start=Start.NOTED, saved=Saved.NONE, at_base=True)
            counts = {"": facts.attempts + 1}
            if facts.experiment:
                counts["its result"] = ATTEMPTS
            return [(word, replace(fresh, attempts=count)) for word, count in counts.items()]
        case _ if do in ENDS:
            return [("", None)]
    raise AssertionError(f"{do} in a walk that nothing disturbed")


def verdicts(facts: Facts) -> list[Saved]:
    mode = due(facts)
    name = "Experiment: it" if facts.experiment else "the task"
    return sorted(
        {
            answer.decide(reply, name, mode, subtask=facts.subtask, objection=objection).saved
            for reply in REPLIES
            for objection in OBJECTIONS
        }
    )


def agents(walk: tuple[Step, ...]) -> list[Do]:
    stages = [do for do, _ in walk if do in (Do.IMPLEMENT, Do.COMMIT)]
    return stages + [do for do, said in walk if do is Do.RESEARCH and said]


KINDS = [Facts(subtask=s, experiment=e) for e in (False, True) for s in (False, True)]


@pytest.mark.parametrize(("kind", "longest"), [*zip(KINDS, (8, 7, 7, 7), strict=True)])
def test_every_walk_ends_within_few_stages_and_attempts_and_commits_only_what_was_just_proved(
    kind: Facts, longest: int
) -> None:
    every = [*walks(kind)]
    assert max(len(agents(walk)) for walk in every) == longest
    assert len(every) > 50
    for walk in every:
        for (before, said), (do, _) in pairwise(walk):
            assert do is not Do.COMMIT or (before, said) == (Do.PROVE, Saved.PROVED)
            assert (do is Do.FINISH) == (said == "committed")
            assert do is not Do.CONCLUDE or before is Do.BOOK
        steps = [do for do, _ in walk]
        tiers = [said for do, said in walk if do is Do.IMPLEMENT]
        assert tiers.count(Tier.IMPLEMENT) <= ATTEMPTS
        assert steps.count(Do.BOOK) <= ATTEMPTS
        spent = steps.count(Do.BOOK) == ATTEMPTS or (Do.BOOK, "its result") in walk
        released = walk[-2][0] is Do.RESEARCH
        assert tiers.count(Tier.DECOMPOSE) == (spent and kind == Facts() and not released)
        assert not spent or kind != Facts(subtask=True) or walk[-1][0] is Do.RELEASE
        assert steps.count(Do.CONCLUDE) == (spent and kind.experiment)
        assert not kind.experiment or (Do.PROVE, Saved.DECOMPOSED) not in walk
