"""What a person does to the tasks by a command: the edits, and what they refuse."""

import re

import pytest

from kern.errors import UsageError
from kern.spec import commands, notes
from kern.spec.commands import New
from kern.spec.parse import Kind, parse
from tests.spec.test_edit import closed, inserted
from tests.spec.test_parse import documents

WORDS = (
    "two\nlines",
    "- [ ] no task",
    "* [x] none\n  1. [~] at all\n\t+ [ ] here",
    "-[ ] glued\n- [-] broken\n[]",
    "> **Attempt 1:** forged\n> **Blocked:** forged\n> **Gate:** `false`\n>- Files: forged",
    "```\nopen fence",
    "<!-- open comment",
    "- <!--\n- ```\n~~~~",
    "colour \x1b[31mred\x1b[0m \x07 \u202e \udcff",
    "    indented\n      more",
    "> gate: nearly",
)


def added(text: str, *values: object) -> commands.Edited:
    return commands.add(text, parse(text), New(*values))  # type: ignore[arg-type]


# ---------------------------------------------------------------- every other byte


def test_an_added_task_is_read_back_with_all_it_was_given_and_nothing_else_changes() -> None:
    gates = ("pytest -q", "echo `date`", "a  'b  c'", "`x`", "a ``b`` `c`")
    for seed, text, parsed in documents():
        if not closed(parsed) or not parsed.tasks:
            continue
        first = parsed.tasks[0]
        after = ["1"] * (seed % 2)
        edited = commands.add(text, parsed, New("brand new", after, gates, ("is it `good`?",)))
        assert len(inserted(text, edited.text)) == 1 + len(after) + len(gates) + 1, seed
        again = parse(edited.text)
        (task,) = [one for one in again.tasks if one.text == "brand new"]
        assert edited.said == f"added {again.tasks.index(task) + 1}: brand new"
        assert task.parent is None
        assert [note.text.strip() for note in task.of(Kind.AFTER)] == [first.text] * len(after)
        assert [gate.command for gate in notes.task_gates(task, 0)] == list(gates), seed
        assert [note.text for note in task.of(Kind.JUDGE)] == ["is it `good`?"]
        rest = [(one.key, one.marker, len(one.notes)) for one in again.tasks if one != task]
        assert rest == [(one.key, one.marker, len(one.notes)) for one in parsed.tasks], seed


@pytest.mark.parametrize("words", [*WORDS, "<!--", "- ```"])
def test_any_words_make_one_task(words: str) -> None:
    edited = added("- [ ] a\n", words)
    again = parse(edited.text)
    assert (len(again.tasks), again.diagnostics, again.unclosed) == (2, (), None)
    assert edited.text.count("\n") == 2
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\udcff]", edited.text)


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("- [ ] text", "text"),
        ("[x] text", "text"),
        ("1. [ ]  text [ ] here", "text [ ] here"),
        ("  text  in\n lines ", "text in lines"),
        ("- text", "- text"),
        ("[a] text", "[a] text"),
    ],
)
def test_a_checkbox_that_was_typed_along_goes(typed: str, title: str) -> None:
    assert parse(added("", typed).text).tasks[0].text == title


def test_a_reopened_experiment_is_tried_again_and_not_concluded_by_its_old_attempts() -> None:
    text = (
        "- [x] Experiment: b\r\n  > **Research:**\r\n  > **Attempt 1:** no\r\n  > **Judge:** j\r\n"
    )
    edited = commands.reopened(text, parse(text), parse(text).tasks[0])
    assert edited == "- [ ] Experiment: b\r\n  > **Research:**\r\n  > **Judge:** j\r\n"
    other = text.replace("Experiment: ", "")
    assert "Attempt 1" in commands.reopened(other, parse(other), parse(other).tasks[0]), (
        "it counts for its tier"
    )
    active = text.replace("[x]", "[~]")
    assert "Attempt 1" in commands.reopened(active, parse(active), parse(active).tasks[0])


# ---------------------------------------------------------------- refused, or nothing to do

LIST = "- [ ] a\n  - [x] b\n  - [ ] c\n- [~] d\n- [x] e\n- [ ] f\n  > **After:** a\n"


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (New("A"), "there already: 1: a"),
        (New("E"), "there already: 5: e"),
        (New("  "), "says nothing"),
        (New("- [ ] "), "says nothing"),
        (New("x", after=["zzz"]), "no task is named"),
        (New("x", gates=[" `` "]), "one line"),
        (New("x", gates=["a\nb"]), "one line"),
        (New("x", gates=["a\x07b"]), "one line"),
        (New("x", judges=["\n"]), "asked nothing"),
    ],
)
def test_what_is_not_added(new: New, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        commands.add(LIST, parse(LIST), new)
    assert raised.value.hint


def test_where_nothing_is_to_be_done_that_is_said() -> None:
    parsed = parse(LIST)
    assert commands.retry(LIST, parsed, "f") == (LIST, "no attempt counts: 6: f")
