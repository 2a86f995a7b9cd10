"""What a worker wrote under its task comes into the SPEC.md of the person."""

from kern.fleet.notes import carried
from kern.spec.checklist import parse

BEFORE = "# T\n\n- [ ] one\n- [ ] two\n  > **After:** one\n- [x] three\n"
ONE = parse(BEFORE).tasks[0].key
TWO = parse(BEFORE).tasks[1].key


def test_notes_and_subtasks_come_and_nothing_else_moves() -> None:
    after = BEFORE.replace("- [ ] one\n", "- [~] one\n  > **Skipped:** no server\n")
    assert carried(BEFORE, ONE, BEFORE, after) == after.replace("[~]", "[ ]")
    split = BEFORE.replace("- [ ] one\n", "- [ ] one\n  - [ ] a\n  - [ ] b\n")
    assert carried(BEFORE, ONE, BEFORE, split) == split
    assert carried(BEFORE, ONE, BEFORE, BEFORE) == BEFORE


def test_what_others_wrote_meanwhile_stays() -> None:
    meanwhile = BEFORE.replace("- [x] three", "- [ ] three\n- [ ] four").replace("# T", "# Tasks")
    after = BEFORE.replace("- [ ] one\n", "- [ ] one\n  > **Skipped:** no\n").replace("three", "3")
    assert carried(meanwhile, ONE, BEFORE, after) == meanwhile.replace(
        "- [ ] one\n", "- [ ] one\n  > **Skipped:** no\n"
    )


def test_a_persons_own_edit_of_that_task_stays_and_what_is_new_is_added() -> None:
    mine = BEFORE.replace("- [ ] two\n", "- [ ] two\n  > my hint\n  > **Held:** until Friday\n")
    after = BEFORE.replace(
        "  > **After:** one\n",
        "  > **After:** one\n  > **Attempt 1:** red (kept: r)\n  - [ ] sub\n",
    )
    came = carried(mine, TWO, BEFORE, after)
    assert "  > my hint\n" in came and "**Held:** until Friday" in came
    assert came.count("**Attempt 1:** red (kept: r)") == 1
    assert came.count("**After:** one") == 1
    assert [task.text for task in parse(came).tasks] == ["one", "two", "sub", "three"]
    assert carried(came, TWO, BEFORE, after) == came  # again changes nothing


def test_a_task_that_is_gone_gets_nothing() -> None:
    gone = BEFORE.replace("- [ ] one\n", "")
    after = BEFORE.replace("- [ ] one\n", "- [ ] one\n  > **Skipped:** no\n")
    assert carried(gone, ONE, BEFORE, after) == gone
    assert carried(BEFORE, ONE, BEFORE, gone) == BEFORE
