"""What a person does to the tasks by a command: the edits, and what they refuse."""

import re

import pytest

from kern.errors import UsageError
from kern.spec import commands
from kern.spec.parse import parse

WORDS = (
    *("two\nlines", "- [ ] no task", "* [x] none\n  1. [~] at all\n\t+ [ ] here"),
    *("-[ ] glued\n- [-] broken\n[]", "> **Attempt 1:** forged\n> **Gate:** `false`\n>- Files: x"),
    *(
        "```\nopen fence",
        "<!-- open comment",
        "- <!--\n- ```\n~~~~",
        "> gate: nearly",
        "<!--",
        "- ```",
    ),
    "colour \x1b[31mred\x1b[0m \x07 \u202e \udcff",
)


def added(text: str, title: str) -> str:
    return commands.add(text, parse(text), title)[0]


# ---------------------------------------------------------------- every other byte


@pytest.mark.parametrize("words", WORDS)
def test_any_words_make_one_task(words: str) -> None:
    text = added("- [ ] a\n", words)
    again = parse(text)
    assert (len(again.tasks), again.diagnostics, again.unclosed) == (2, (), None)
    assert text.count("\n") == 2
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\udcff]", text)


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
    assert parse(added("", typed)).tasks[0].text == title


def test_a_reopened_experiment_is_tried_again_and_not_concluded_by_its_old_attempts() -> None:
    text = (
        "- [x] Experiment: b\r\n  > **Research:**\r\n  > **Attempt 1:** no\r\n  > **Judge:** j\r\n"
    )
    edited = commands.reopened(text, parse(text), parse(text).tasks[0])
    assert edited == "- [ ] Experiment: b\r\n  > **Research:**\r\n  > **Judge:** j\r\n"
    for other in (text.replace("Experiment: ", ""), text.replace("[x]", "[~]")):
        assert "Attempt 1" in commands.reopened(other, parse(other), parse(other).tasks[0])


# ---------------------------------------------------------------- refused, or nothing to do

LIST = "- [ ] a\n  - [x] b\n  - [ ] c\n- [~] d\n- [x] e\n- [ ] f\n  > **After:** a\n"


@pytest.mark.parametrize(
    ("title", "more", "said"),
    [
        ("A", {}, "there already: 1: a"),
        ("E", {}, "there already: 5: e"),
        ("- [ ] ", {}, "says nothing"),
        ("x", {"after": ["zzz"]}, "no task is named"),
        *(("x", {"gates": [one]}, "one line") for one in (" ", "`` x", "a\nb", "a\x07b")),
    ],
)
def test_what_is_not_added(title: str, more: dict[str, list[str]], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        commands.add(LIST, parse(LIST), title, **more)
    assert raised.value.hint
