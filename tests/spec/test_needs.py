"""What needs a person, and how much there is: counted in one place."""

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
