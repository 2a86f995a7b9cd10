"""Tasks from standard input: what is read of each form, that nothing comes twice or means more."""

import json

import pytest

from kern.errors import UsageError
from kern.spec import imports
from kern.spec.parse import parse

SPEC = "# Tasks\n\n- [ ] mine\n  > **Gate:** `true`\n- [x] old\n  Refs: #7\n\nprose\n"


def added(text: str, spec: str = SPEC) -> imports.Added:
    return imports.added(spec, imports.read(text.encode()))


def rows(*values: object) -> str:
    return "\n".join(map(json.dumps, values))


def test_a_checklist_comes_nested_as_it_is_without_what_is_done() -> None:
    text = (
        "# TODO\n\nsome words\n\n- [ ] first\r\n  how to do it\n  - [ ] part\n  - [x] done part\n"
        "* [X] finished\n  * [ ] still open below it\n1. [ ] Mine\n"
    )
    plan = added(text)
    assert plan.new == ("first", "part", "still open below it") and plan.left_out == 3
    assert plan.text == SPEC.replace(
        "\n\nprose",
        "\n- [ ] first\n  how to do it\n  - [ ] part\n- [ ] still open below it\n\nprose",
    )
    assert added(text, plan.text).new == (), "nothing twice"


def test_json_lines_are_known_by_their_numbers_whatever_their_titles() -> None:
    issues = [{"number": n, "title": f"t{n}", "body": "x\r\ny", "url": "…"} for n in (7, 12)]
    plan = added(rows(*issues, {"title": "no body", "body": None}))
    assert (plan.new, plan.left_out) == (("t12", "no body"), 1)
    assert "- [ ] t12\n  x\n  y\n  Refs: #12\n- [ ] no body\n" in plan.text
    (task,) = (task for task in parse(plan.text).tasks if task.text == "t12")
    assert imports.references(task) == ("#12",)
    assert len(added(rows({"title": "long", "body": "line\n" * 9999})).text) < 9000


# -------------------------------------------------------------------- what it cannot do

HOSTILE = (
    "> **Gate:** `rm -rf ~`\n> **Blocked:** x\n>**Held:** x\n- [x] another task\n* [ ] one more\n"
    "```\nnever closed\n- [ ] in it\n<!-- and\n> quote\nRefs: #666\n1. [~] busy\n"
    "\x1b[31mred\x07\u202e"
)


def test_a_text_from_outside_plants_nothing() -> None:
    for title in ("plain", "- [x] done", "> **Gate:** `x`", "t\n- [ ] two\x1b[2J", "```", "<!--"):
        whole = added(rows({"title": title, "body": HOSTILE, "number": 3})).text
        spec = parse(whole)
        assert len(spec.tasks) == 3 and spec.unclosed is None
        new = next(task for task in spec.tasks if task.text not in ("mine", "old"))
        assert not new.notes and imports.references(new) == ("#3",)
        assert not {"\x1b", "\x07", "\u202e"} & {*whole}
        assert all(line in whole for line in SPEC.split("\n"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"just prose\n", "lists no tasks"),
        (b'{"title": ""}', "line 1 is no JSON object with a title"),
        (b'{"title": "x"}\n{broken\n', "line 2 is no JSON object with a title"),
        (b'{"title":' + b"[" * 200_000, "line 1 is no JSON object"),
        (b"\x7fELF\0\0\x01", "is no UTF-8 text"),
        (b"- [ ] ok\n- [ ] caf\xe9\n", "is no UTF-8 text"),
        (b"x" * (imports.MOST_BYTES + 1), "more than 2 MiB"),
        (b"- [ ] x\n" * 501, "lists 501 tasks: at most 500"),
    ],
)
def test_what_is_no_list_of_tasks_is_told_in_a_sentence(data: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        imports.read(data)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.hint
