"""What a person does to the tasks by a command: the edits, and what they refuse."""

import re
from collections.abc import Callable

import pytest

from kern.errors import UsageError
from kern.model import Marker
from kern.spec import commands, edit, notes
from kern.spec.commands import New
from kern.spec.parse import Kind, parse
from tests.spec.test_edit import closed, inserted
from tests.spec.test_parse import documents, nasty, offset

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


@pytest.mark.parametrize("words", WORDS)
def test_words_under_a_task_say_only_themselves(words: str) -> None:
    for seed in range(0, 400, 7):
        text = nasty(seed)
        parsed = parse(text)
        if not closed(parsed):
            continue
        for index, task in enumerate(parsed.tasks):
            edited = commands.note(text, parsed, str(index + 1), words)
            assert len(inserted(text, edited.text)) == len(commands.as_body(words)), seed
            again = parse(edited.text)
            kept = [(one.key, one.marker) for one in parsed.tasks]
            assert [(one.key, one.marker) for one in again.tasks] == kept, seed
            told = [[(n.kind, n.text) for n in one.notes] for one in again.tasks]
            assert told == [[(n.kind, n.text) for n in one.notes] for one in parsed.tasks], seed
            assert len(again.diagnostics) == len(parsed.diagnostics), seed
            assert len(again.tasks[index].body) > len(task.body), seed


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


# ---------------------------------------------------------------- markers


def test_done_and_reopened_change_markers_alone_and_come_back() -> None:
    for seed, text, parsed in documents():
        for index, task in enumerate(parsed.tasks):
            if task.marker is not Marker.PENDING or task.open_subtasks:
                continue
            edited = commands.done(text, parsed, str(index + 1))
            assert edited.text == edit.tick(text, parsed, task), seed
            again = parse(edited.text)
            back = commands.reopen(edited.text, again, str(index + 1)).text
            places = {offset(text, one) for one in parsed.tasks}
            changed = {i for i, (a, b) in enumerate(zip(text, back, strict=True)) if a != b}
            assert changed <= places, seed
            now = parse(back).tasks
            assert now[index].marker is Marker.PENDING, seed
            at = now[index].parent
            while at is not None:
                assert now[at].marker is not Marker.DONE, seed
                at = now[at].parent


def test_a_reopened_experiment_is_tried_again_and_not_concluded_by_its_old_attempts() -> None:
    text = (
        "- [x] Experiment: b\r\n  > **Research:**\r\n  > **Attempt 1:** no\r\n  > **Judge:** j\r\n"
    )
    edited = commands.reopen(text, parse(text), "1").text
    assert edited == "- [ ] Experiment: b\r\n  > **Research:**\r\n  > **Judge:** j\r\n"
    other = text.replace("Experiment: ", "")
    assert "Attempt 1" in commands.reopen(other, parse(other), "1").text, "it counts for its tier"
    active = text.replace("[x]", "[~]")
    assert "Attempt 1" in commands.reopen(active, parse(active), "1").text


def test_the_last_subtask_takes_its_parent_along_and_that_is_said() -> None:
    text = "- [ ] a\n  - [x] b\n  - [ ] c\n"
    edited = commands.done(text, parse(text), "c")
    assert edited == ("- [x] a\n  - [x] b\n  - [x] c\n", "done 3: c, and with it 1: a")


# ---------------------------------------------------------------- refused, or nothing to do

LIST = "- [ ] a\n  - [x] b\n  - [ ] c\n- [~] d\n- [x] e\n- [ ] f\n  > **After:** a\n"


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (New("A"), "there already: 1: a"),
        (New(" c ", under="a"), "there already: 3: c"),
        (New("E"), "there already: 5: e"),
        (New("  "), "says nothing"),
        (New("- [ ] "), "says nothing"),
        (New("x", after=["zzz"]), "no task is named"),
        (New("x", under="d"), "in progress: 4: d"),
        (New("x", under="e"), "it is done: 5: e"),
        (New("x", gates=[" `` "]), "the gate says nothing"),
        (New("x", gates=["a\nb"]), "one line"),
        (New("x", gates=["a\x07b"]), "one line"),
        (New("x", judges=["\n"]), "asked nothing"),
        (New("x", after=["f"], under="a"), r"(?s)never begin.*a \(line 1\) -> x .*-> f .*-> a;"),
        (New("x", after=["1"], under="a"), r"never begin"),
    ],
)
def test_what_is_not_added(new: New, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        commands.add(LIST, parse(LIST), new)
    assert raised.value.hint


@pytest.mark.parametrize("verb", [commands.done, commands.defer])
@pytest.mark.parametrize(
    ("wanted", "said"), [("1", "its last subtask: 1: a"), ("d", "in progress: 4: d")]
)
def test_what_is_not_a_persons_to_mark(
    verb: Callable[..., commands.Edited], wanted: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        verb(LIST, parse(LIST), wanted)
    assert raised.value.hint


def test_where_nothing_is_to_be_done_that_is_said() -> None:
    parsed = parse(LIST)
    assert commands.done(LIST, parsed, "e") == (LIST, "done already: 5: e")
    assert commands.reopen(LIST, parsed, "f") == (LIST, "open already: 6: f")
    assert commands.retry(LIST, parsed, "f") == (LIST, "no attempt counts: 6: f")


def test_a_skipped_task_comes_after_the_others() -> None:
    text = "- [ ] a\n- [ ] b\n"
    edited = commands.defer(text, parse(text), "a", "no\ntime")
    assert edited.text == "- [ ] a\n  > **Skipped:** by a person: no time\n- [ ] b\n"
    edited = commands.defer(text, parse(text), "b", "")
    assert edited.text == "- [ ] a\n- [ ] b\n  > **Skipped:** by a person\n"
