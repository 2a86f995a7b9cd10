"""SPEC.md written anew: what a worker says of its task, in the person's text."""

from kern.fleet import work as documents
from kern.model import Key
from kern.spec.parse import parse

SPEC = """# Mine
- [ ] all
  > **Judge:** is it whole?
  - [x] first
  - [ ] last
- [ ] sum
  - [ ] part
"""


def test_a_parent_is_done_with_its_last_subtask_unless_nobody_checked_it() -> None:
    part, last = Key("sum", "part"), Key("all", "last")
    whole = SPEC.replace("[ ] part", "[x] part").replace("[ ] last", "[x] last")
    assert "- [x] sum" in documents.ticked(SPEC, part, whole)
    assert "- [ ] all" in documents.ticked(SPEC, last, whole), "its judge was not asked"
    assert "- [x] all" in documents.ticked(SPEC, last, whole.replace("[ ] all", "[x] all"))


# ---------------------------------------------------------------- of a task that does not land

BEFORE = "# T\n\n- [ ] one\n- [ ] two\n  > **After:** one\n- [x] three\n"
TWO = parse(BEFORE).tasks[1].key


def test_notes_and_subtasks_come_once_and_what_a_person_wrote_meanwhile_stays() -> None:
    mine = BEFORE.replace("- [ ] two\n", "- [ ] two\n  > my hint\n  > **Held:** until Friday\n")
    theirs = BEFORE.replace("three", "3").replace(
        "  > **After:** one\n",
        "  > **After:** one\n  > **Attempt 1:** red (kept: r)\n  - [ ] sub\n",
    )
    text = documents.noted(mine, TWO, theirs)
    assert "  > my hint\n" in text and "**Held:** until Friday" in text and "three" in text
    assert text.count("**Attempt 1:** red (kept: r)") == text.count("**After:** one") == 1
    assert [task.text for task in parse(text).tasks] == ["one", "two", "sub", "three"]
    assert documents.noted(text, TWO, theirs) == text, "a second time changes nothing"
    gone = BEFORE.replace("- [ ] two\n", "")
    assert documents.noted(gone, TWO, theirs) == gone
