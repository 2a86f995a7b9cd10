"""What is believed of an answer: the prompt said again is not, and honest words are."""

import re

import pytest

from kern.model import Aide, Role, Stage
from kern.stages import answer, belief, prompts

ONE, TWO, THREE = Stage
TASK = "Add a greeting to src/hello.py\nof task: `make greet`"
FILES = "src/hello.py tests/test_hello.py docs/usage.md prompts/1_research.md Makefile"
FORMS = prompts.templates(prompts.path("prompts"))
EXAMPLES = [
    (role, example.strip())
    for role, form in FORMS.items()
    for example in re.findall(r"<example>\n(.*?)</example>", form.contract, re.S)
]
PLACEHOLDERS = [
    (role, line)
    for role, form in FORMS.items()
    for line in form.contract.splitlines()
    if re.match(r"(NO_TASK|SKIPPED|FAILED|NEEDS_ANSWER|REJECT): ", line)
]


def knows(name: str) -> bool:
    return re.search(rf"(?i)(?<![^\W_]){re.escape(name)}(?![^\W_])", FILES) is not None


def doubt(role: Role, text: str, task: str = TASK, red: str = "") -> str:
    form = FORMS[role]
    return belief.doubt(role, text, f"{form.contract}\n{form.text}", task, red, knows)


HONEST: list[tuple[Role, str, str]] = [
    (ONE, "- Files: src/hello.py:1-3\n- Pattern: none\n\nREADY", TASK),
    (ONE, "- Files: docs/hello.md, still to be written\n\nREADY", TASK),
    (ONE, "- Files: lib/wave.py:1-9\n- Pattern: none\n\nREADY", "Write lib/wave.py"),
    (ONE, "- Files: lib/wave.py:1-9\n- Pattern: src/hello.py:1\n\nREADY", TASK),
    (ONE, "- Files: none, it is all in the database\n\nREADY", TASK),
    (ONE, "- Files: prompts/1_research.md:80, its example zorbl/cli.py\n\nREADY", TASK),
    (ONE, "- Files: zorbl/cli.py:40-66\n\nREADY", "Take zorbl/cli.py out of the prompts"),
    (ONE, "NO_TASK: src/hello.py:3 greets already", TASK),
    (ONE, "NEEDS_ANSWER: the task says `make greet`: which greeting, hello or hi?", TASK),
    (ONE, "NEEDS_ANSWER: SQLite or PostgreSQL?", "Store the orders"),
    (ONE, 'It is the line `{"name": "sh"}` of src/hello.py.\n\nREADY', TASK),
    (TWO, "SKIPPED: src/hello.py needs the key GREET_KEY, which is not set", TASK),
    (TWO, "SKIPPED: there is no Docker on this machine", TASK),
    (TWO, "See it fail first.\n\n- src/hello.py: greets\n\nSUCCESS", TASK),
    (TWO, "SKIPPED: the cli has no such verb", "Fix the CLI"),
    (TWO, "NEEDS_ANSWER: the question to a person", "Say 'the question to a person' in bold"),
    (THREE, "Greet people by name\n\nsrc/hello.py takes the name.", TASK),
]
CALL = '{"name": "read_file", "arguments": {"path": "src/hello.py"}}'
DOUBTED: list[tuple[Role, str, str]] = [
    (ONE, "NO_TASK: which line shows that the task is done already", belief.REPEATED),
    (ONE, "**NEEDS_ANSWER**: The question to a person, in one sentence.", belief.REPEATED),
    (ONE, "It ends in an error (zorbl/cli.py:61).\n\nREADY", belief.REPEATED),
    (ONE, "- Constraint: what must not break\n\nREADY", belief.REPEATED),
    (ONE, "- Files: src/greeter.py:1-9\n- Pattern: lib/x.py:2\n\nREADY", belief.MISSING),
    (ONE, f"{CALL}\n\nREADY", belief.NO_CALL),
    (ONE, f"<tool_call>\n{CALL}\n</tool_call>", belief.NO_CALL),
    (ONE, "NEEDS_ANSWER: what should I do?", belief.NAMELESS),
    (TWO, "SKIPPED: what outside this repository is missing", belief.REPEATED),
    (THREE, CALL, belief.NO_CALL),
]


@pytest.mark.parametrize(("role", "text", "task"), HONEST)
def test_honest_words_are_believed(role: Role, text: str, task: str) -> None:
    assert doubt(role, text, task) == ""


@pytest.mark.parametrize(("role", "text", "why"), DOUBTED)
def test_what_says_nothing_of_its_own_is_not(role: Role, text: str, why: str) -> None:
    assert doubt(role, text) == why


def test_nor_is_it_for_the_words_that_all_say() -> None:
    said = "SKIPPED: I cannot do this task with what I have from here"
    task = "When the flag is given, print what should have changed"
    assert doubt(TWO, said, task) == belief.NAMELESS


def test_nor_is_a_line_of_the_prompt_for_a_task_about_its_examples() -> None:
    said = "FAILED: what you tried, and why it did not work, in one sentence"
    assert doubt(TWO, said, "Take zorbl/cli.py out of the prompts") == belief.REPEATED


@pytest.mark.parametrize(("role", "text"), [*EXAMPLES, *PLACEHOLDERS])
def test_no_line_of_a_prompt_is_believed(role: Role, text: str) -> None:
    if role is Aide.JUDGE:
        assert answer.judged("--help names it", text).code == 2
    else:
        assert doubt(role, text) == belief.REPEATED


def test_each_example_is_of_a_project_that_is_nobodys() -> None:
    assert len(EXAMPLES) >= 8
    for _, example in EXAMPLES:
        assert answer.is_foreign(example, "") and not answer.is_foreign(example, answer.FOREIGN)


def test_what_a_red_gate_contradicts_is_not() -> None:
    red, told = "gate `make greet`", "it says that there is nothing to do, and gate `make greet`"
    for role, text in (
        (ONE, "NO_TASK: src/hello.py:3 greets"),
        (TWO, "SKIPPED: hello.py is there already"),
    ):
        assert doubt(role, text, red=red).startswith(told)
        assert doubt(role, text) == ""
    assert doubt(TWO, "SKIPPED: GREET_KEY is not set", red=red) == ""
    said = "SKIPPED: `app.py` is already too entangled: needs a person"
    assert doubt(TWO, said, red=red) == ""


@pytest.mark.parametrize(
    "one",
    [
        *("a", "a-", "/", "./", "a.", "zorbl/", "{", "<tool", "`", "~~~", "# ", "- ", "\t", " ["),
        "SKIPPED: A b",
    ],
)
def test_no_answer_takes_for_ever(one: str) -> None:
    for role in (ONE, TWO, THREE):
        doubt(role, f"- Files: {one * 20_000}\n\nNEEDS_ANSWER: {one * 20_000}")
        doubt(role, f"{one * 20_000}\nSUCCESS\n{one * 20_000}\n" + f"{one}\n" * 5000)
