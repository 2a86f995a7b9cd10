"""SPEC.md written anew: what a worker says of its task, in the person's text."""

from kern.fleet import work as documents
from kern.model import Key
from kern.spec.parse import parse

SPEC = """# Mine
- [~] one
  > **Gate:** `true`
- [ ] all
  > **Judge:** is it whole?
  - [x] first
  - [~] last
- [ ] sum
  - [ ] part
"""
KEY = Key("", "one")


def came(text: str, key: Key, *notes: str, parent: bool = False) -> str:
    """A worker's SPEC.md: the task is done, with notes below it."""
    out = []
    for line in text.replace("[~]", "[ ]").split("\n"):
        done = line.strip() == f"- [ ] {key.text}" or (parent and line == f"- [ ] {key.parent}")
        out.append(line.replace("[ ]", "[x]") if done else line)
        if line.strip() == f"- [ ] {key.text}":
            margin = line[: len(line) - len(line.lstrip())] + "  "
            out += [f"{margin}> {note}" for note in notes]
    return "\n".join(out)


def test_the_task_is_ticked_with_the_workers_notes_and_all_else_is_the_persons() -> None:
    notes = "**Research:**", "  - Files: a.py:1-2", "**Attempt 1:** no (kept: kern/attempts/x/1)"
    theirs = came("# Old\n" + SPEC.partition("\n")[2], KEY, *notes)
    text = documents.ticked(SPEC + "- [ ] added meanwhile\n", KEY, theirs)
    own = "".join(f"  > {note}\n" for note in notes)
    head = f"# Mine\n- [x] one\n  > **Gate:** `true`\n{own}- [ ] all\n"
    assert text.startswith(head) and text.endswith("- [ ] added meanwhile\n")
    assert documents.ticked(text, KEY, theirs) == text, "a second time changes nothing"


def test_a_parent_is_done_with_its_last_subtask_unless_nobody_checked_it() -> None:
    part, last = Key("sum", "part"), Key("all", "last")
    assert "- [x] sum" in documents.ticked(SPEC, part, came(SPEC, part))
    assert "- [ ] all" in documents.ticked(SPEC, last, came(SPEC, last)), "its judge was not asked"
    assert "- [x] all" in documents.ticked(SPEC, last, came(SPEC, last, parent=True))


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
