"""What is handed out next, and what keeps anything from it."""

import itertools
from collections.abc import Collection

import pytest

from kern.config import Budget, Spent, Tokens
from kern.fleet import handout
from kern.fleet.handout import Hold
from kern.model import Key, Marker
from kern.spec import edit
from kern.spec.parse import Spec, parse


def key(spec: Spec, text: str) -> Key:
    return next(task.key for task in spec.tasks if task.text == text)


def order(text: str, busy: Collection[str] = (), passed_over: Collection[str] = ()) -> list[str]:
    """All that can be handed out while nothing ends, in order."""
    spec = parse(text)
    taken = {key(spec, one) for one in busy}
    over = {key(spec, one) for one in passed_over}
    found = []
    while choice := handout.choose(spec, taken, over):
        number, task = choice
        found.append(task.text)
        assert spec.tasks[number - 1] == task
        taken.add(task.key)
    return found


@pytest.mark.parametrize(
    ("text", "busy", "found"),
    [
        ("- [ ] a\n- [ ] b\n- [x] c\n", (), ["a", "b"]),
        ("- [ ] a\n- [ ] b\n", ("a",), ["b"]),
        ("- [ ] a\n- [ ] b\n  > **After:** a\n", (), ["a"]),
        ("- [x] a\n- [ ] b\n  > **After:** a\n", (), ["b"]),
        ("- [ ] a\n  - [ ] a1\n  - [ ] a2\n- [ ] b\n", (), ["a1", "b"]),
        ("- [ ] a\n  - [x] a1\n  - [ ] a2\n- [ ] b\n", (), ["a2", "b"]),
        ("- [ ] a\n  - [ ] a1\n    - [ ] a11\n  - [ ] a2\n", ("a2",), []),
        ("- [ ] a\n  > **Skipped:** x\n- [ ] b\n", (), ["b", "a"]),
        ("- [ ] a\n  - [ ] a1\n    > **Skipped:** x\n  - [ ] a2\n", (), ["a2"]),
        ("- [ ] a\n  > **Held:** x\n- [ ] b\n  > **Question:** y?\n- [ ] c\n", (), ["c"]),
        ("- [~] a\n- [ ] b\n", (), ["b"]),  # in progress in the person's own tree
        ("", (), []),
    ],
)
def test_in_order_and_what_waits_waits(text: str, busy: Collection[str], found: list[str]) -> None:
    assert order(text, busy) == found


def test_what_this_run_has_passed_over_comes_last() -> None:
    assert order("- [ ] a\n- [ ] b\n- [ ] c\n", (), ("a", "b")) == ["c", "a", "b"]


def test_only_the_task_that_is_wanted() -> None:
    spec = parse("- [ ] a\n- [ ] b\n")
    choice = handout.choose(spec, (), (), key(spec, "b"))
    assert choice is not None and choice[1].text == "b"
    assert handout.choose(spec, {key(spec, "b")}, (), key(spec, "b")) is None


def test_every_order_of_ends_takes_each_task_once_and_never_two_of_one_parent() -> None:
    """Walked over small documents: whatever is done in whatever order, nothing is taken twice, and
    what comes after something begins after it.
    """
    pieces = ["- [ ] a", "- [ ] b\n  > **After:** a", "- [ ] c\n  - [ ] c1\n  - [ ] c2", "- [ ] d"]
    for some in itertools.permutations(pieces):
        text = "\n".join(some) + "\n"
        for last_first in (False, True):
            now = text
            taken: list[str] = []
            under: list[Key] = []
            while True:
                spec = parse(now)
                while len(under) < 2 and (found := handout.choose(spec, under)):
                    under.append(found[1].key)
                    taken.append(found[1].text)
                    assert not ({"c1", "c2"} <= {one.text for one in under})
                    if found[1].text == "b":
                        assert next(t for t in spec.tasks if t.text == "a").marker is Marker.DONE
                if not under:
                    break
                ended = under.pop(-1 if last_first else 0)
                task = spec.find(ended)
                assert task is not None
                now = edit.tick(now, spec, task)
            assert sorted(taken) == ["a", "b", "c1", "c2", "d"]


# ---------------------------------------------------------------- what holds for all


@pytest.mark.parametrize("asked", [False, True])
def test_nothing_begins_while_anything_holds(asked: bool) -> None:
    for limited, spent, long in itertools.product((False, True), repeat=3):
        budget = Budget(run=5, tokens=Tokens(run=60))
        so_far = Spent(5.0 if spent else 1.0, 0.0, 61 if long else 3)
        held, why = handout.hold(100.0 if limited else 0.0, budget, so_far, 50.0, asked=asked)
        assert (held is Hold.NO) is not (asked or limited or spent or long)
        assert bool(why) is (held is Hold.BUDGET)
        if asked:
            assert held is Hold.STOP
        elif spent or long:
            assert held is Hold.BUDGET
    assert handout.hold(100.0, Budget(), Spent(), 100.0, asked=False)[0] is Hold.NO
