"""What needs a person, and how much there is, counted in one place; which task is meant for a run,
and what to type where it cannot be taken.
"""

import pytest

from kern.errors import UsageError
from kern.model import Key
from kern.spec import needs
from kern.spec.checklist import parse

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
    found = [(need.number, need.why, need.do) for need in needs.you(parse(SPEC))]
    again = "edit the task; left alone, it is tried again last"
    assert found == [
        (4, "skipped: 3 attempts failed", f"kern show 4, {again}"),
        (5, "asks: which?", 'kern answer 5 "…"'),
        (7, "no key", "kern show 7, edit the task, kern unblock 7"),
        (
            *(9, "waits for a task that is not in SPEC.md: nobody"),
            "kern show 9, correct its After note in SPEC.md",
        ),
    ]
    assert [(one.number, one.why, one.do) for one in needs.held(parse(SPEC))] == [
        (8, "not yet", "kern unhold 8")
    ]


def test_a_parent_is_counted_apart() -> None:
    parsed = parse(SPEC)
    assert needs.counts(parsed) == needs.Counts(
        done=3, active=1, pending=6, parents=2, parents_done=1
    )
    assert needs.still(parsed) == 7
    assert needs.still(parse("- [ ] whole\n  - [x] part\n")) == 1, "its own work is left"


# -------------------------------------------------------------------- the one that is wanted

WANTED = """\
- [x] begun
- [ ] first thing
- [ ] second thing
  > **After:** first thing
- [ ] whole
  > **After:** second thing
  - [ ] part
  - [x] done part
- [ ] stuck
  > **Blocked:** no key
- [ ] asks
  > **Question:** which?
- [ ] free whole
  - [ ] free part
"""


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("2", Key("", "first thing")),
        ("FIRST", Key("", "first thing")),
        ("free part", Key("free whole", "free part")),
    ],
)
def test_a_number_or_a_part_of_its_text_names_it(words: str, key: Key) -> None:
    assert needs.can_begin(parse(WANTED), words) == key


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("1", "it is done: 1: begun", "kern reopen 1, then: kern --task 1"),
        ("3", "waits for 2 (first thing): 3: second thing", "kern --task 2"),
        ("5", "waits for 3", "kern --task 3"),
        ("4", "it is done with its last subtask: 4: whole", "say: kern --task 5"),
        ("stuck", "it needs you first: 7: stuck", "kern unblock 7, then: kern --task 7"),
        ("8", "it waits for your answer: 8: asks", 'kern answer 8 "…", then: kern --task 8'),
        ("nobody", "no task is named by 'nobody'", "kern status"),
        ("99", "no task is named by '99'", "kern status"),
        ("thing", "2 tasks are named by 'thing'", "name it by its number"),
    ],
)
def test_what_cannot_be_taken_is_told_with_what_to_type(words: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        needs.can_begin(parse(WANTED), words)
    assert said in str(caught.value)
    assert hint in caught.value.hint


def test_the_task_in_progress_is_gone_on_with_and_no_other_is_begun_beside_it() -> None:
    text = WANTED.replace("- [ ] second", "- [~] second")
    assert needs.can_begin(parse(text), "3", Key("", "second thing")) == Key("", "second thing")
    with pytest.raises(UsageError, match="another task is in progress: second thing") as caught:
        needs.can_begin(parse(text), "2", Key("", "second thing"))
    assert caught.value.hint == (
        "kern 1 goes on with that one, or kern reopen 3 gives it back; then: kern --task 2"
    )
