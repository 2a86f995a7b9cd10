"""What waits for what: faults with their lines, before a run; and the drawing of it."""

import random

import pytest

from kern.model import Key, Marker
from kern.spec import order
from kern.spec.order import blockers, select
from kern.spec.parse import Kind, parse


def faults(text: str) -> list[tuple[int, str]]:
    return [(fault.line, fault.message) for fault in order.faults(parse(text))]


A_B = "- [ ] a\n  > **After:** b\n- [ ] b\n  > **After:** a\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (A_B, 1, "a circle: a (line 1), b (line 3)"),
        ("- [x] z\n- [ ] a\n  > **After:** A\n", 2, "a circle: a (line 2)"),
        ("- [ ] p\n  - [ ] s\n    > **After:** p\n", 1, "a circle: p (line 1), s (line 2)"),
        ("- [ ] p\n  > **After:** s\n  - [ ] s\n", 1, "a circle: p (line 1), s (line 3)"),
        (
            "- [ ] x\n- [ ] b\n  > **After:** x\n- [ ] x\n  > **After:** b\n",
            *(2, "a circle: b (line 2), x (line 4)"),
        ),
        (
            "- [ ] p\n  > **After:** q\n  - [ ] s\n- [ ] q\n  > **After:** s\n",
            *(1, "a circle: p (line 1), s (line 3), q (line 4)"),
        ),
        ("- [ ] a\n  > **After:**\n", 2, "After names no task in SPEC.md: ''"),
        ("- [x] p\n  > **After:** gone\n  - [ ] s\n", 2, "names no task in SPEC.md: 'gone'"),
    ],
)
def test_what_can_never_begin_is_told_with_its_lines(text: str, line: int, said: str) -> None:
    ((at, why),) = faults(text)
    assert at == line and why.endswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "- [ ] a\n- [ ] b\n  > **After:** a\n  > **After:** A \n",
        "- [x] a\n  > **After:** b\n- [ ] b\n  > **After:** a\n",
        "- [x] a\n  > **After:** gone\n- [ ] b\n",
        "- [ ] p\n  - [ ] s\n  - [ ] t\n    > **After:** s\n",
        "- [ ] p\n  > **After:** q\n  - [ ] s\n    > **After:** q\n- [ ] q\n",
        "- [ ] a\n- [x] a\n- [ ] b\n  > **After:** a\n  > **Blocked:** x\n",
    ],
)
def test_what_will_be_met_one_day_is_no_fault(text: str) -> None:
    assert faults(text) == []


def test_a_task_waits_exactly_for_what_is_open_by_its_notes_and_those_above_it() -> None:
    """400 lists of up to 9 tasks, nested, with random notes."""
    waiting = 0
    for seed in range(400):
        chance, lines, depth = random.Random(seed), list[str](), 0
        count = chance.randrange(1, 10)
        for i in range(count):
            depth = chance.randrange(min(depth + 1, 3) + 1) if i else 0
            lines.append(f"{'  ' * depth}- [{chance.choice('  x')}] t{i}")
            after = [chance.randrange(count + 1) for _ in range(chance.choice((0, 0, 1, 2)))]
            lines += [f"{'  ' * depth}  > **After:** t{other}" for other in after]
        parsed = parse("\n".join(lines))
        done = {task.text for task in parsed.tasks if task.marker is Marker.DONE}
        for task in parsed.tasks:
            chain = [task, *(parsed.tasks[index] for index in parsed.above(task))]
            late = {
                note.text
                for one in chain
                for note in one.of(Kind.AFTER)
                if one.marker is not Marker.DONE or one.open_subtasks
            } - done
            if task.marker is Marker.PENDING and not task.open_subtasks:
                assert bool(blockers(parsed)(task)) == bool(late), lines
                waiting += bool(late)
        nothing = select(parsed) is None and done != {task.text for task in parsed.tasks}
        assert not nothing or order.faults(parsed), lines
    assert waiting > 300


# ---------------------------------------------------------------- what needs a person

SPEC = """\
- [x] done
- [ ] whole
  - [x] part
  - [ ] other part
    > **Skipped:** 3 attempts failed (no progress; kept: kern/attempts/other-part-1a2b3c/3)
- [ ] asks
  > **Question:** which? (kept: kern/attempts/asks-1a2b3c/1-asked)
- [ ] answered
  > **Question:** which?
  > **Answer:** that
- [ ] blocked
  > **Blocked:** no key (kept: kern/attempts/blocked-1a2b3c/2)
- [ ] held
  > **Held:** not yet
- [ ] lost
  > **After:** nobody
- [~] at work
  > **Skipped:** once
- [x] parent
  - [x] child
"""


def test_each_task_that_needs_a_person_is_told_once_with_what_to_type() -> None:
    found = [(need.number, need.why, need.do) for need in order.needs(parse(SPEC))]
    again = "edit the task; left alone, it is tried again last"
    assert found == [
        (4, "skipped: 3 attempts failed", f"kern show 4, {again}"),
        (5, "asks: which?", 'kern answer 5 "…"'),
        (7, "no key", "kern show 7, kern edit, kern retry 7"),
        (
            *(9, "waits for a task that is not in SPEC.md: nobody"),
            "kern show 9, correct its After note in SPEC.md",
        ),
    ]


def test_what_belongs_to_a_held_task_is_held_with_it() -> None:
    text = "- [ ] whole\n  > **Held:** no\n  - [ ] part\n- [ ] later\n  > **After:** part\n"
    why = order.blockers(spec := parse(text))
    waits = ["held: no", "held with 1 (whole)", "waits for 2 (part)"]
    assert [why(task) for task in spec.tasks] == waits


def test_a_parent_is_counted_apart() -> None:
    parsed = parse(SPEC)
    assert order.counts(parsed) == {"done": 3, "active": 1, "pending": 6}
    assert order.still(parsed) == 7
    assert order.still(parse("- [ ] whole\n  - [x] part\n")) == 1, "its own work is left"


def test_a_task_is_named_whatever_the_case_of_its_letters() -> None:
    assert order.can_begin(parse("- [ ] First thing\n"), "FIRST") == Key("", "First thing")
