"""What comes back after an agent had its hands on SPEC.md and LEARNINGS.md, what a person keeps."""

import random
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from kern.model import Key, Marker
from kern.spec import edit, reconcile
from kern.spec.checklist import Kind, Task, directives, parse
from tests.conftest import Fake, Inline
from tests.spec.test_checklist import nasty

BEFORE = (
    "# Tasks\n"
    "\n"
    "- [x] first\n"
    "  > **Research:**\n"
    "  >   - Files: a.py\n"
    "- [~] second\n"
    "  how to do it\n"
    "  > **Research:**\n"
    "  >   - Files: b.py\n"
    "  >   - Pattern: c.py\n"
    "  >   - Constraint: none\n"
    "  > **Attempt 1:** no\n"
    "  > **Attempt 2:** no again\n"
    "- [ ] third\n"
    "  > **After:** second\n"
    "  - [x] part one\n"
    "  - [ ] part two\n"
    "    > **Skipped:** later\n"
    "\n"
    "Some words.\n"
)


def mended(after: str | None, before: str = BEFORE, *, trusted: bool = False) -> str:
    return reconcile.spec(before, after, trusted=trusted)[0]


def warned(after: str | None, before: str = BEFORE, *, trusted: bool = False) -> str:
    return "\n".join(reconcile.spec(before, after, trusted=trusted)[1])


def state(text: str) -> list[tuple[str, Marker, str, list[tuple[Kind, int, str]]]]:
    """All that matters of the tasks, whatever else stands in the file."""
    return [
        (
            task.text,
            task.marker,
            task.key.parent,
            [(note.kind, note.number, note.text) for note in task.notes],
        )
        for task in parse(text).tasks
    ]


def bare(text: str) -> list[str]:
    """The lines, whatever their markers say."""
    for marker in "~xX":
        text = text.replace(f"[{marker}]", "[ ]")
    return text.split("\n")


def within(few: list[str], many: list[str]) -> bool:
    """All of `few` stand in `many`, in the same order."""
    rest = iter(many)
    return all(line in rest for line in few)


# -------------------------------------------------------------------- nothing to do


@pytest.mark.parametrize("trusted", [True, False])
def test_what_did_not_change_is_left_alone(trusted: bool) -> None:
    assert reconcile.spec(BEFORE, BEFORE, trusted=trusted) == (BEFORE, [])


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Some words.\n", "Other words.\n"),
        ("Some words.\n", ""),
        ("Some words.\n", "Some words."),
        ("# Tasks\n", "# Tasks\n\nan introduction\n"),
        ("- [ ] third\n", "- [ ] third\n  a hint\n"),
        ("  how to do it\n", "  how to do it better\n"),
        ("Some words.\n", "Some words.\n- [ ] fourth\n"),
        ("- [ ] third\n", "- [ ] in between\n  - [ ] with a part\n- [ ] third\n"),
        ("  - [ ] part two\n", "  - [ ] between\n  - [ ] part two\n"),
        ("  > **After:** second\n", "  > **After:** second\n  > **Blocked:** ask me first\n"),
        ("  >   - Files: b.py\n", "  >   - Files: b.py:7\n"),
        ("- [ ] third", "* [ ] third"),
        ("- [ ] third", "- [ ] third  "),
    ],
)
def test_a_persons_edits_made_meanwhile_survive(old: str, new: str, trusted: bool) -> None:
    after = BEFORE.replace(old, new, 1)
    assert after != BEFORE
    assert reconcile.spec(BEFORE, after, trusted=trusted) == (after, [])


# -------------------------------------------------------------------- tasks that vanished


def test_a_deleted_file_comes_back() -> None:
    assert mended(None) == BEFORE
    assert "restored" in warned(None)


@pytest.mark.parametrize("after", ["", "\n", "# Nothing left\n"])
def test_an_emptied_file_gets_its_tasks_and_notes_back(after: str) -> None:
    assert state(mended(after)) == state(BEFORE)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("text", ["first", "second", "third", "part one", "part two"])
def test_a_vanished_task_comes_back_with_its_notes_to_its_place(text: str, trusted: bool) -> None:
    task = next(task for task in parse(BEFORE).tasks if task.text == text)
    lines = BEFORE.split("\n")
    del lines[task.line - 1 : task.end]
    after = "\n".join(lines)
    assert mended(after, trusted=trusted) == BEFORE
    assert text in warned(after, trusted=trusted)


def test_a_vanished_line_comes_back_although_its_notes_stayed() -> None:
    after = BEFORE.replace("- [~] second\n", "")
    assert state(mended(after)) == state(BEFORE)


def test_a_whole_block_comes_back() -> None:
    head, _, rest = BEFORE.partition("- [ ] third")
    after = head + "\nSome words.\n"
    assert state(mended(after)) == state(BEFORE)
    assert rest


def test_all_tasks_but_one_come_back_in_their_order() -> None:
    for keep in parse(BEFORE).tasks:
        after = BEFORE.split("\n")[keep.line - 1] + "\n"
        texts = [task.text for task in parse(mended(after)).tasks]
        assert sorted(texts) == sorted(task.text for task in parse(BEFORE).tasks)


def test_the_agents_new_tasks_stay_beside_what_it_deleted() -> None:
    after = BEFORE.replace("- [x] first\n", "- [ ] an idea of the agent\n")
    again = mended(after)
    assert {"an idea of the agent", "first"} <= {task.text for task in parse(again).tasks}
    first = next(task for task in parse(again).tasks if task.text == "first")
    assert first.marker is Marker.DONE
    assert first.of(Kind.RESEARCH)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_vanished_twin_comes_back_whichever_it_was(which: int) -> None:
    lines = ["- [x] twin", "- [ ] other", "- [ ] twin", "- [ ] more", "- [ ] twin", ""]
    gone = [line for index, line in enumerate(lines) if index != which * 2]
    before, after = "\n".join(lines), "\n".join(gone)
    found = [task for task in parse(mended(after, before)).tasks if task.text == "twin"]
    assert Counter(task.marker for task in found) == {Marker.DONE: 1, Marker.PENDING: 2}


def test_the_twins_that_stayed_keep_their_notes_and_markers() -> None:
    before = "- [x] twin\n  > **Attempt 1:** x\n- [ ] other\n- [ ] twin\n  > **Attempt 1:** y\n"
    after = "- [ ] other\n- [ ] twin\n  > **Attempt 1:** y\n"
    assert mended(after, before) == before


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_line_ends_do_not_matter(end: str, final: bool, gone: int) -> None:
    lines = ["- [~] a", "- [ ] b", "- [ ] c"]
    before = end.join(lines) + (end if final else "")
    left = [line for index, line in enumerate(lines) if index != gone]
    for after in (end.join(left) + (end if final else ""), end.join(left)):
        assert [task.text for task in parse(mended(after, before)).tasks] == ["a", "b", "c"]


def test_an_editor_that_turned_the_line_ends_lost_no_order() -> None:
    before = BEFORE.replace("\n", "\r\n")
    after = BEFORE.replace("  > **Attempt 2:** no again\n", "").replace("- [x] first\n", "")
    assert state(mended(after, before)) == state(BEFORE)


@pytest.mark.parametrize(
    "after",
    [
        f"```\n{BEFORE}",
        f"<!--\n{BEFORE}",
        f"```\n{BEFORE}```\n",
        f"<!--\n{BEFORE}-->\n",
        BEFORE.replace("- [ ] third\n", "```\n- [ ] third\n```\n"),
        BEFORE.replace("- [x] first\n", "<!--\n- [x] first\n-->\n"),
        BEFORE.replace("    > **Skipped:** later\n", "    > **Skipped:** later\n    ~~~\n"),
    ],
)
def test_an_agent_cannot_hide_tasks(after: str) -> None:
    again = mended(after)
    assert state(again) == state(BEFORE)
    assert parse(again).diagnostics == ()
    assert warned(after)


def test_a_task_that_a_person_commented_out_is_not_put_back() -> None:
    after = BEFORE.replace("- [x] first\n", "<!--\n- [x] first\n").replace(
        "  >   - Files: a.py\n", "  >   - Files: a.py\n-->\n"
    )
    assert reconcile.spec(BEFORE, after, trusted=True) == (after, [])


@pytest.mark.unheld
@pytest.mark.parametrize("half", ["  ```\n  code\n", "```\n", "<!--\n"])
def test_a_fence_that_a_person_has_half_written_stops_the_run_and_is_left_alone(
    repo: Path, fake: Fake, inline: Inline, half: str
) -> None:
    spec = repo / "SPEC.md"
    first = half.startswith(" ")
    order = "cat SPEC.md half" if first else "cat half SPEC.md"
    (repo / "half").write_text(half)
    fake.script(research=[{"run": [f"{order} > new; mv new SPEC.md"], "result": "a\n\nREADY"}])
    heard = inline(1)
    assert heard.code in (1, 2)
    assert "never closed" in heard.err.rpartition("kern: ")[2]
    task = "- [~] add a greeting\n"
    assert spec.read_text() == (task + half if first else half + task)
    spec.write_text(task)
    assert inline(1).code == 0
    assert fake.stages == ["research", "implement", "commit"]


# -------------------------------------------------------------------- notes that vanished


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "gone",
    [
        ["  > **Attempt 1:** no\n"],
        ["  > **Attempt 2:** no again\n"],
        ["  > **Attempt 1:** no\n", "  > **Attempt 2:** no again\n"],
        ["    > **Skipped:** later\n"],
        ["  > **After:** second\n"],
        [
            "  > **Research:**\n",
            "  >   - Files: b.py\n",
            "  >   - Pattern: c.py\n",
            "  >   - Constraint: none\n",
        ],
        ["  > **Research:**\n  >   - Files: a.py\n", "  > **Attempt 1:** no\n"],
    ],
)
def test_a_vanished_note_comes_back_under_its_task(gone: list[str], trusted: bool) -> None:
    after = BEFORE
    for line in gone:
        at = after.rindex(line) if "Research:**\n" in line and len(gone) == 4 else after.index(line)
        after = after[:at] + after[at + len(line) :]
    again = mended(after, trusted=trusted)
    assert sorted(map(str, state(again)[1][3])) == sorted(map(str, state(BEFORE)[1][3]))
    assert [(text, marker, parent, len(notes)) for text, marker, parent, notes in state(again)] == [
        (text, marker, parent, len(notes)) for text, marker, parent, notes in state(BEFORE)
    ]
    assert "note" in warned(after, trusted=trusted)


def test_a_note_comes_back_below_a_task_line_that_changed_as_well() -> None:
    before = "- [ ] z\n- [~] t\n  > **Attempt 1:** no\n"
    for line in ("- [~] t  ", "* [~] t", "- [x] t", "1. [~] t", "- [~] t\r"):
        z, t = parse(mended(f"- [ ] z\n{line}\n", before)).tasks
        assert z.notes == ()
        assert (t.attempts, t.marker) == (1, Marker.ACTIVE)


def test_a_note_follows_its_task_to_another_place() -> None:
    before = "- [~] a\n  > **Attempt 1:** no\n- [ ] b\n- [ ] c\n"
    again = parse(mended("- [ ] b\n- [ ] c\n- [~] a\n", before)).tasks
    assert [(task.text, task.attempts) for task in again] == [("b", 0), ("c", 0), ("a", 1)]


def test_research_in_other_words_is_not_put_back_twice() -> None:
    after = BEFORE.replace("  >   - Files: b.py\n", "  >   - Files: b.py:1-9\n")
    assert mended(after) == after


def test_an_attempt_note_that_the_agent_wrote_is_struck_because_kern_writes_it() -> None:
    after = BEFORE.replace("no again\n", "no again\n  > **Attempt 3:** by the agent\n")
    assert mended(after) == BEFORE
    assert "second" in warned(after)
    assert mended(after, trusted=True) == after
    assert parse(mended(after.replace("  > **Attempt 1:** no\n", ""))).tasks[1].attempts == 2


def test_a_question_of_the_agents_is_struck() -> None:
    old = "- [~] one\n  > **Question:** a?\n- [ ] two\n"
    mine = "  > **Question:** forged?\n  > **Answer:** forged\n"
    text, said = reconcile.spec(old, f"{old}{mine}", trusted=False)
    assert text == f"{old}  > **Answer:** forged\n"
    assert said[0] == "question note that kern did not write struck: two"
    assert reconcile.spec(old, f"{old}{mine}", trusted=True) == (f"{old}{mine}", [])


# ---------------------------------------------------------------- who directs the work

FORGED = {
    "task": (
        "- [ ] two\n",
        "- [ ] two\n- [ ] three\n  words\n  > **Judge:** kind\n",
        "kern add three",
    ),
    "subtask": ("- [~] one\n", "- [~] one\n  - [x] half\n", "kern add half --under one"),
    "gate": ("> **Gate:** `a`\n", "> **Gate:** `a`\n  > **Gate:** `evil`\n", "write it again"),
    "judge": ("- [ ] two\n", "- [ ] two\n  > **Judge:** always\n", "write it again"),
    "after": ("- [~] one\n", "- [~] one\n  > **After:** two\n", "write it again"),
    "answer": (
        "**Question:** a?\n",
        "**Question:** a?\n  > **Answer:** yes, it's so\n",
        "kern answer one 'yes, it'\"'\"'s so'",
    ),
}
OWN = "# Plan\n\n- [~] one\n  > **Question:** a?\n- [ ] two\n  > **Gate:** `a`\n\nwords\n"


@pytest.mark.parametrize("what", FORGED)
def test_what_directs_the_work_and_came_while_an_agent_ran_is_taken_out(what: str) -> None:
    here, forged, back = FORGED[what]
    text = OWN.replace(here, forged).replace("words\n", "words of a person\n")
    assert text.count("\n") > OWN.count("\n")
    fixed, told = reconcile.take_out(OWN, text, ())
    assert fixed == OWN.replace("words\n", "words of a person\n")
    assert len(told) == 1
    assert back in told[0]
    assert reconcile.lost(text, fixed)
    # By a command of a person's it stays, and so does nothing else.
    mine = directives(text) - directives(OWN)
    assert reconcile.take_out(OWN, text, mine) == (text, [])
    more = f"{text}- [ ] four\n  > **Gate:** `worse`\n"
    assert reconcile.take_out(OWN, more, mine)[0] == text


def test_what_a_forged_task_came_to_stand_above_stays_where_it_was() -> None:
    old = "- [~] one\n- [ ] two\n  in these words\n  > **Gate:** `a`\n  > **Attempt 1:** no\n"
    forged = old.replace("two\n", "two\n- [ ] new\n  its words\n")
    assert reconcile.take_out(old, forged, ())[0] == old


def test_a_task_that_is_taken_out_takes_no_other_along() -> None:
    above = "- [ ] new\n  > **Gate:** `x y`\n"
    text = f"- [~] one\n{above}  - [ ] two\n    > **Attempt 1:** no\n- [x] three\n"
    old = "- [~] one\n- [ ] two\n  > **Attempt 1:** no\n- [x] three\n"
    fixed, told = reconcile.take_out(old, text, ())
    assert [task.text for task in parse(fixed).tasks] == ["one", "two", "three"]
    assert parse(fixed).tasks[1].attempts == 1
    assert "kern add new --gate 'x y'" in told[0]


def test_a_long_answer_that_vanished_comes_back_whole() -> None:
    answer = "b " * 400
    old = f"- [~] one\n  > **Question:** a?\n  > **Answer:** {answer.strip()}\n"
    text, _ = reconcile.spec(old, "- [~] one\n", trusted=False)
    assert text == old


# -------------------------------------------------------------------- markers


@pytest.mark.parametrize("marker", ["[ ]", "[x]", "[X]", "[~]"])
@pytest.mark.parametrize("line", ["[x] first", "[~] second", "[ ] third", "[x] part one"])
def test_a_marker_that_the_agent_set_is_put_back(line: str, marker: str) -> None:
    after = BEFORE.replace(line, marker + line[3:])
    again = mended(after)
    assert state(again) == state(BEFORE)
    if after.lower() != BEFORE.lower():
        assert line[4:] in warned(after)
        assert again == BEFORE


def test_a_marker_that_a_person_set_during_a_reading_stage_stays() -> None:
    after = BEFORE.replace("[ ] third", "[x] third").replace("[~] second", "[ ] second")
    assert reconcile.spec(BEFORE, after, trusted=True) == (after, [])


@pytest.mark.parametrize("marker", ["[x]", "[~]", "[X]"])
def test_a_new_task_of_an_agent_is_pending(marker: str) -> None:
    for before in (BEFORE, BEFORE.replace("[~]", "[ ]")):
        after = f"{before}- {marker} a new one\n"
        assert mended(after, before) == f"{before}- [ ] a new one\n"
        assert "a new one" in warned(after, before)


def test_a_malformed_marker_costs_no_task() -> None:
    after = BEFORE.replace("- [ ] third", "- [] third").replace("- [x] first", "- [ x] first")
    texts = [task.text for task in parse(mended(after)).tasks]
    assert sorted(texts) == sorted(task.text for task in parse(BEFORE).tasks)


# -------------------------------------------------------------------- moved and reworded


def test_moved_tasks_are_not_doubled() -> None:
    head, second, third = "# Tasks\n", "- [~] b\n  > **Attempt 1:** no\n", "- [x] c\n  - [x] d\n"
    before = head + "- [ ] a\n" + second + third
    for after in (
        head + third + second + "- [ ] a\n",
        head + second + third + "- [ ] a\n",
        head + second + "- [ ] a\n" + third,
    ):
        assert reconcile.spec(before, after, trusted=False) == (after, [])


def test_a_task_moved_under_another_keeps_its_marker() -> None:
    before = "- [~] a\n- [ ] b\n- [x] c\n  > **Research:** r\n"
    after = "- [~] a\n- [ ] b\n  - [x] c\n    > **Research:** r\n"
    assert reconcile.spec(before, after, trusted=False) == (after, [])
    assert reconcile.spec(after, before, trusted=False) == (before, [])


def test_the_active_task_in_other_words_is_still_the_active_task() -> None:
    after = BEFORE.replace("[~] second", "[~] the second, said better")
    for trusted in (True, False):
        again, said = reconcile.spec(BEFORE, after, trusted=trusted)
        assert (again, said) == (after, [])
    assert parse(again).active[0].attempts == 2


def test_a_parent_in_other_words_keeps_its_subtasks_as_they_were() -> None:
    after = BEFORE.replace("[ ] third", "[ ] the third")
    again, said = reconcile.spec(BEFORE, after, trusted=False)
    found = {task.text: task for task in parse(again).tasks}
    assert found["part one"].marker is Marker.DONE
    assert found["part two"].of(Kind.SKIPPED)
    assert Counter(task.text for task in parse(again).tasks)["part one"] == 1
    assert not any("part one" in line for line in said)


def test_a_reworded_active_parent_keeps_its_subtasks_as_they_were() -> None:
    before = "- [~] p\n  - [x] one\n  - [x] two\n- [ ] q\n"
    after = before.replace("] p", "] the p")
    assert reconcile.spec(before, after, trusted=False) == (after, [])


# -------------------------------------------------------------------- several in progress


def single(text: str, preferred: Key | None = None) -> tuple[list[str], list[str]]:
    again, said = reconcile.single_active(text, preferred)
    return [task.text for task in parse(again).active], said


def test_of_several_tasks_in_progress_the_preferred_one_stays_else_the_first() -> None:
    text = "- [~] a\n- [ ] b\n  - [~] c\n- [~] c\n  > **Attempt 1:** no\n"
    assert single(text)[0] == ["a"]
    assert single(text, Key("", "c"))[0] == ["c"]
    assert single(text, Key("b", "c"))[0] == ["c"]
    assert single(text, Key("", "gone"))[0] == ["a"]
    again, said = reconcile.single_active(text, Key("b", "c"))
    assert again == "- [ ] a\n- [ ] b\n  - [~] c\n- [ ] c\n  > **Attempt 1:** no\n"
    assert len(said) == 2
    assert all(word in "\n".join(said) for word in ("line 1", "line 4", "a", "c"))


@pytest.mark.parametrize("text", ["", "- [ ] a\n", "- [~] a\n- [x] b\n"])
def test_one_task_in_progress_or_none_is_no_matter(text: str) -> None:
    assert reconcile.single_active(text, Key("", "b")) == (text, [])


# -------------------------------------------------------------------- random edits


def tidy(chance: random.Random) -> str:
    """A document as kern and a person keep it: tasks, subtasks, notes, text; a few twins."""
    lines = ["# Tasks", ""]
    for number in range(chance.randrange(1, 9)):
        for depth in range(chance.choice((1, 1, 2, 4))):
            margin = "" if depth == 0 else "  "
            name = f"task {number}.{depth}" if chance.random() < 0.9 else "twin"
            lines.append(f"{margin}- [{chance.choice('  xx')}] {name}")
            lines += [
                f"{margin}  > **Attempt {n + 1}:** {name} failed {n}"
                for n in range(chance.choice((0, 0, 1, 3)))
            ]
            if chance.random() < 0.3:
                lines.append(f"{margin}  text about {name}")
        if chance.random() < 0.3:
            lines.append("")
    text = "\n".join([*lines, ""])
    tasks = parse(text).tasks
    return edit.mark(text, chance.choice(tasks), Marker.ACTIVE)


def shaken(text: str, chance: random.Random) -> str:
    """The document after an agent and a person had it."""
    lines = text.split("\n")
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(lines))
        match chance.randrange(9):
            case 0 | 1:
                del lines[at : at + chance.randrange(1, 4)]
            case 2:
                lines.insert(at, f"- [{chance.choice(' ~x')}] new {chance.random()}")
            case 3:
                lines.insert(at, "a person's words")
            case 4:
                lines[at] = lines[at].replace("[ ]", "[x]")
            case 5:
                lines[at] = lines[at].replace("[~]", chance.choice(("[ ]", "[x]")))
            case 6:
                lines[at] += "  "
            case 7:
                lines.insert(chance.randrange(len(lines)), lines.pop(at))
            case 8:
                lines[at] = lines[at].replace("task", "reworded")
        lines = lines or [""]
    return ("\r\n" if chance.random() < 0.1 else "\n").join(lines)


@cache
def pairs() -> list[tuple[int, str, str]]:
    made = []
    for seed in range(400):
        chance = random.Random(seed)
        before = tidy(chance)
        made.append((seed, before, shaken(before, chance)))
    return made


@cache
def again(trusted: bool) -> list[tuple[str, list[str]]]:
    """What comes back of each pair, and what is said of it."""
    return [reconcile.spec(before, after, trusted=trusted) for _, before, after in pairs()]


@pytest.mark.parametrize("trusted", [True, False])
def test_no_task_is_lost_whatever_happened(trusted: bool) -> None:
    for (seed, before, _), (text, _) in zip(pairs(), again(trusted), strict=True):
        old, new = parse(before), parse(text)
        lost = Counter(task.text for task in old.tasks)
        lost.subtract(task.text for task in new.tasks)
        missing = {text for text, count in lost.items() if count > 0}
        reworded = {task.text for task in old.active} if new.active else set()
        assert missing <= reworded, seed


@pytest.mark.parametrize("trusted", [True, False])
def test_no_attempt_is_lost_whatever_happened(trusted: bool) -> None:
    def noted(tasks: tuple[Task, ...]) -> set[tuple[str, int, str]]:
        return {(t.text, note.number, note.text) for t in tasks for note in t.notes}

    for (seed, before, _), (text, _) in zip(pairs(), again(trusted), strict=True):
        old, new = parse(before), parse(text)
        reworded = {t.text for t in old.tasks} - {t.text for t in new.tasks}
        kept = {note for note in noted(old.tasks) if note[0] not in reworded}
        assert kept <= noted(new.tasks), seed


@pytest.mark.parametrize("trusted", [True, False])
def test_every_line_of_the_edited_file_is_still_there_in_its_order(trusted: bool) -> None:
    for (seed, _, after), (text, _) in zip(pairs(), again(trusted), strict=True):
        new, kept = bare(after.replace("\r", "")), bare(text.replace("\r", ""))
        theirs = [line for line in new if line and (trusted or "**Attempt" not in line)]
        assert within(theirs, kept), seed


def test_an_agent_settles_no_task_whatever_it_did() -> None:
    for (seed, before, _), (text, _) in zip(pairs(), again(False), strict=True):
        old, new = parse(before), parse(text)
        done = Counter(task.text for task in old.tasks if task.marker is Marker.DONE)
        now = Counter(task.text for task in new.tasks if task.marker is Marker.DONE)
        assert now <= done, seed
        assert len(new.active) == 1, seed


def test_taking_out_leaves_every_task_that_was_there_and_no_other() -> None:
    for seed, before, after in pairs():
        left, told = reconcile.take_out(before, after, ())
        assert bool(told) == (left != after), seed
        assert reconcile.take_out(before, left, ()) == (left, []), seed
        fixed = mended(left, before)
        old = Counter(task.text for task in parse(before).tasks)
        now = Counter(task.text for task in parse(fixed).tasks)
        assert (old - now).total() == (now - old).total() <= 1, (
            seed
        )  # the one in progress, reworded


@pytest.mark.parametrize("trusted", [True, False])
def test_what_is_mended_needs_no_more_mending(trusted: bool) -> None:
    for (seed, before, after), (text, said) in zip(pairs(), again(trusted), strict=True):
        assert reconcile.spec(before, text, trusted=trusted) == (text, []), seed
        assert said or text == after, seed


def test_any_bytes_are_reconciled_without_a_fall() -> None:
    for seed in range(200):
        before, after = nasty(seed), nasty(seed + 1)
        for trusted in (True, False):
            again, _ = reconcile.spec(before, after, trusted=trusted)
            again.encode("utf-8", "surrogateescape")
            reconcile.take_out(before, again, ())
            reconcile.learnings(before, after)


@pytest.mark.slow
def test_ten_thousand_tasks_are_reconciled_in_seconds() -> None:
    lines = [f"- [ ] task {i}\n  > **Attempt 1:** no {i}\n" for i in range(10_000)]
    before = "- [~] mine\n" + "".join(lines)
    chance = random.Random(0)
    few = [line for line in lines if chance.random() < 0.95]
    began = time.process_time()
    assert len(parse(mended("# new\n" + "".join(few), before)).tasks) == 10_001
    assert time.process_time() - began < 20


# -------------------------------------------------------------------- LEARNINGS.md

LEARNED = "# Learnings\n\n## 2024-01-01 - a\n\nx\n\n## 2024-01-02 - b\n\ny\n"


@pytest.mark.parametrize(
    "after",
    [
        LEARNED,
        LEARNED + "\n## 2024-01-03 - c\n\nz\n",
        LEARNED.replace("x\n", "x\nmore\n"),
        "preface\n" + LEARNED,
        LEARNED.replace("\n\n", "\n"),
    ],
)
def test_additions_to_the_learnings_stay(after: str) -> None:
    assert reconcile.learnings(LEARNED, after) == (after, [])


@pytest.mark.parametrize(
    "after",
    [None, "", "other\n", LEARNED.replace("x\n", ""), LEARNED.partition("## 2024-01-02")[0]],
)
def test_vanished_learnings_come_back(after: str | None) -> None:
    again, said = reconcile.learnings(LEARNED, after)
    assert set(LEARNED.split("\n")) <= set(again.split("\n"))
    assert within([line for line in LEARNED.split("\n") if line], again.split("\n"))
    assert set((after or "").split("\n")) <= set(again.split("\n"))
    assert said


def test_no_learnings_before_and_none_after_is_no_matter() -> None:
    assert reconcile.learnings("", None) == ("", [])
    assert reconcile.learnings("", "new\n") == ("new\n", [])


def test_long_learnings_are_reconciled_in_seconds() -> None:
    text = "\n\n".join(f"## 2025-01-01 - topic {i}\n\nline {i}" for i in range(6000)) + "\n"
    began = time.process_time()
    again, _ = reconcile.learnings(text, "# top\n" + text.replace("line 5999\n", ""))
    assert time.process_time() - began < 5
    assert again.startswith("# top\n")
    assert "line 5999\n" in again
