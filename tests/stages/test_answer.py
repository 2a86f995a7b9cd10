"""What a stage says in the form that it is asked for, and what kern takes out of the rest."""

import pytest

from kern.model import Stage
from kern.stages import answer


def implemented(text: str) -> answer.Answer:
    return answer.parse(Stage.IMPLEMENT, text)


def researched(text: str) -> dict[str, str]:
    return dict(answer.parse(Stage.RESEARCH, text).findings)


# -------------------------------------------------------------------- stage 1: findings

EXPECTED = {"Files": "a.py:1-9, b.py:3-4", "Pattern": "c.py:5", "Constraint": "run make test"}


@pytest.mark.parametrize(
    "text",
    [
        "- Files: a.py:1-9, b.py:3-4\n- Pattern: c.py:5\n- Constraint: run make test",
        "* **Files:** a.py:1-9, b.py:3-4\n* **Pattern:** c.py:5\n* **Constraint:** run make test",
        "> - Files: a.py:1-9, b.py:3-4\n> - Pattern: c.py:5\n> - Constraint: run make test",
        "## Files\n\na.py:1-9, b.py:3-4\n\n## Pattern\nc.py:5\n## Constraints:\n\n- run make test",
        "So:\n- Files: a.py:1-9, b.py:3-4\n- Pattern: c.py:5\n- Constraint: run make test\n\nMore",
        "- Files: a.py:1-9, b.py:3-4\r\n- Pattern: c.py:5\r\n- Constraint: run make test\r\n",
    ],
)
def test_findings_in_the_forms_that_agents_use(text: str) -> None:
    assert researched(f"{text}\n\nREADY") == EXPECTED


# -------------------------------------------------------------------- stage 2: subtasks


@pytest.mark.parametrize(
    "items",
    [
        "- [ ] a\n- [ ] b",
        "* [ ] a\n* [x] b",
        "1. a\n2) [ ] b",
        "- [ ] a\n  - a detail\n  more\n- [ ] b\n  1. a detail",
        "First:\n- [ ] a\r\nthen:\r\n- [ ] a\r\n- [ ] b\r",
        "- [ ] a\n- [ ]\n- \n- ---\n- [ ] b",
    ],
)
def test_subtasks_in_the_forms_that_agents_use(items: str) -> None:
    assert implemented(f"Too much.\n\n## Subtasks\n\n{items}\n\nDECOMPOSED").subtasks == ("a", "b")


@pytest.mark.parametrize(("count", "usable"), [(1, 1), (6, 6), (20, 20), (500, 0)])
def test_too_many_subtasks_are_no_decomposition(count: int, usable: int) -> None:
    items = "\n".join(f"- [ ] part {number}" for number in range(count))
    assert len(implemented(f"## Subtasks\n{items}\n\nDECOMPOSED").subtasks) == usable


# -------------------------------------------------------------------- any text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\nAdd b\n\nIt was missing.  \n", "Add b\n\nIt was missing."),
        ("I looked.\n\nHere it is:\n```text\nAdd b\n\nWhy.\n```\nDone.", "Add b\n\nWhy."),
        ("```\nAdd b\n\n~~~\na\n~~~\n\nWhy.\n```", "Add b\n\n~~~\na\n~~~\n\nWhy."),
        ("Add b\n\nSo it reads:\n```\na\n```\nWhy.", "Add b\n\nSo it reads:\n```\na\n```\nWhy."),
        ("Add b\n\n  kern-task: something else", "Add b"),
        (f"Add b\n\n{'x' * 20_000}", f"Add b\n\n{'x' * 9_993}"),
        ("Add b\n\n```\na\n```\n\n```\nb\n```", "Add b\n\n```\na\n```\n\n```\nb\n```"),
        *((nothing, "") for nothing in ("", "```\n```", "\x00\x1b[31m\u200b", "SUCCESS")),
        ("\x1b[1mAdd b\x1b[0m", "Add b"),
        ("I could not.\n\nFAILED: a hook", ""),
        ("Add b\n\nWhy.\n\nSUCCESS", "Add b\n\nWhy."),
    ],
)
def test_the_commit_message_that_an_answer_is(text: str, expected: str) -> None:
    assert answer.message(text) == expected
