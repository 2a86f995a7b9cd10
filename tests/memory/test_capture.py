"""What of `## Learned` becomes an entry, and which entry says the same already."""

import pytest

from kern.memory import capture
from kern.memory.entries import Entry
from tests.conftest import assert_linear


def kept(learned: str) -> list[str]:
    return [one.text for one in capture.lessons(learned) if not one.wrong]


@pytest.mark.parametrize(
    ("learned", "lines"),
    [
        ("- Run make db first.\n- Ports below 1024\n  are taken.", 2),
        ("Run make db first.\nPorts below 1024 are taken.", 2),
        ("tests/conftest.py unsets HOME: a test that needs\na configuration writes its own.", 1),
        ("Start it so:\n\n```sh\n# first\nmake db\n```", 2),
        ("", 0),
        ("\x1b[31m \x00", 0),
    ],
)
def test_each_line_is_a_lesson_of_its_own(learned: str, lines: int | list[str]) -> None:
    found = kept(learned)
    assert found == lines if isinstance(lines, list) else len(found) == lines


@pytest.mark.parametrize(
    ("learned", "whens"),
    [
        (
            "- Run make db\n  When: tests;\n  a new table\n- Ports below 1024 fail.",
            ["tests; a new table", ""],
        ),
        ("Run make db first.\nWhen: tests.\nWhen: ports.", ["tests"]),
        (
            "- Run make db\n  When: a table, a view of\n  the shop\n  When: ports\n- Ports fail.",
            ["a table, a view of the shop", ""],
        ),
        ("When you add a table, run make db.", [""]),
        ("Nothing.\nWhen: never", []),
    ],
)
def test_a_line_below_a_lesson_says_which_work_needs_it(learned: str, whens: list[str]) -> None:
    found = [one for one in capture.lessons(learned) if not one.wrong]
    assert [lesson.when for lesson in found] == whens
    assert not any(lesson.text.count("When:") for lesson in found if lesson.when)


def test_an_experiment_has_one_result_whatever_it_says() -> None:
    (result,) = capture.lessons("I ran it.\nAll tests pass.\nWhen: caches.\n", "Try it")
    assert result == ("Try it: I ran it. All tests pass.", "caches", "")
    assert capture.lessons(" ", "Try it") == []


@pytest.mark.parametrize(
    ("learned", "why"),
    [
        ("None.", "says nothing, or asks"),
        ("Nothing new was learned here.", "says nothing, or asks"),
        ("I added a test for the parser.", "what was done"),
        ("Added a `--version` flag to the parser.", "what was done"),
        ("Should the parser be strict?", "says nothing, or asks"),
        ("word " * 80, "longer than"),
    ],
)
def test_what_no_later_task_would_get_wrong_is_refused_with_a_reason(
    learned: str, why: str
) -> None:
    (found,) = capture.lessons(learned)
    assert why in found.wrong and found.text == learned.strip()


@pytest.mark.parametrize(
    "learned",
    [
        "tests/conftest.py unsets HOME: a test that needs a configuration writes its own.",
        "Added files must be listed in MANIFEST.in.",
        "Nothing below src/gen may be edited by hand: `make gen` writes it from api.yaml.",
        "All checks run on Python 3.9 as well: no `match`.",
    ],
)
def test_a_sentence_that_says_what_to_do_is_kept(learned: str) -> None:
    assert kept(learned) == [learned]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("tests/conftest.py unsets HOME, so tests that need a configuration write their own", True),
        ("A test that needs configuration writes its own: tests/conftest.py unsets HOME.", True),
        ("tests/conftest.py sets TZ to UTC: a test that needs another zone sets it.", False),
        ("The configuration is read before the options are.", False),
        ("tests/conftest.py never unsets HOME: a test that needs one writes its own.", False),
        ("tests/setup.py unsets HOME: a test that needs a configuration writes its own.", False),
    ],
)
def test_a_near_duplicate_is_found_and_a_neighbour_is_none(text: str, same: bool) -> None:
    said = "tests/conftest.py unsets HOME: a test that needs a configuration writes its own."
    found = capture.alike(text, [Entry("L1", "Run make db first."), Entry("L2", said)])
    assert (found.id if found else None) == ("L2" if same else None)


@pytest.mark.parametrize("sprawl", ["\n.", "\n \n", " .\n"])
def test_lines_that_say_nothing_take_no_time(sprawl: str) -> None:
    assert_linear(lambda n: kept(f"Run make first.\n{sprawl * n}"), 10_000)
