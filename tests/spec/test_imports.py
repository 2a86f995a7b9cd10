"""Tasks from elsewhere: what is read of each form, that nothing comes twice or means more."""

import json
import random

import pytest

from kern.errors import UsageError
from kern.spec import imports
from kern.spec.imports import Item
from kern.spec.parse import parse
from tests.spec.test_parse import nasty

SPEC = "# Tasks\n\n- [ ] mine\n  > **Gate:** `true`\n- [x] old\n  Refs: #7\n\nprose\n"


def read(text: str, repository: str = "") -> list[Item]:
    return imports.read(text.encode(), "TODO.md", repository)


def added(text: str, spec: str = SPEC) -> str:
    return imports.added(spec, read(text))


def test_a_checklist_comes_nested_as_it_is_without_what_is_done() -> None:
    text = (
        "# TODO\n\nsome words\n\n- [ ] first\n  how to do it\n  - [ ] part\n  - [x] done part\n"
        "* [X] finished\n  * [ ] still open below it\n1. [ ] Mine\n\n[ ] no bullet\n"
    )
    plan = imports.planned(SPEC, read(text))
    assert plan.new == ("first", "part", "still open below it", "no bullet")
    assert (plan.known, plan.done) == (1, 2)
    assert added(text) == SPEC.replace(
        "\n\nprose",
        "\n- [ ] first\n  how to do it\n  - [ ] part\n- [ ] still open below it\n"
        "- [ ] no bullet\n\nprose",
    )
    assert imports.planned(added(text), read(text)).new == (), "nothing twice"


def test_bullets_are_tasks_where_a_list_has_no_boxes() -> None:
    assert [one.title for one in read("# TODO\n- fix it\n* and that\n  1. part\n")] == [
        "fix it",
        "and that",
    ]
    assert read("- fix it\n  more words\n")[0].body.strip() == "more words"


def test_a_prd_comes_by_priority_with_what_it_is_accepted_by() -> None:
    story = {"id": "US-002", "title": "Second", "priority": 2, "passes": False, "notes": "mind it"}
    first = {
        **{"id": "US-001", "title": "First", "description": "As a user", "priority": 1},
        **{"acceptanceCriteria": ["it works", "Typecheck passes"], "passes": False},
    }
    done = {"id": "US-000", "title": "Done", "priority": 0, "passes": True}
    prd = {"project": "x", "branchName": "ralph/x", "userStories": [story, done, first]}
    block = imports.planned("", read(json.dumps(prd))).block
    assert block == (
        "- [ ] First",
        "  As a user",
        "  Accepted when:",
        "  - it works",
        "  - Typecheck passes",
        "- [ ] Second",
        "  mind it",
    )


def test_json_lines_and_beads_keep_their_order_and_name_what_they_are() -> None:
    bead = {
        **{"id": "bd-a1b2", "title": "A bead", "description": "do\nit", "status": "open"},
        **{"priority": 1, "issue_type": "task", "acceptance_criteria": "it is done"},
    }
    block = imports.planned("", read(json.dumps([bead], indent=1))).block
    expected = ("- [ ] A bead", "  do", "  it", "  Accepted when:", "  - it is done")
    assert block == (*expected, "  Refs: bd-a1b2")
    lines = '{"text": "one"}\n\n"two"\n{"title": "three", "done": true}\n'
    assert [one.title for one in read(lines)] == ["one", "two", "three"]
    assert imports.planned("", read(lines)).new == ("one", "two")
    nested = '{"title": "whole", "subtasks": ["a", {"title": "b"}]}'
    assert imports.planned("", read(nested)).block == ("- [ ] whole", "  - [ ] a", "  - [ ] b")


def test_an_issue_is_known_by_its_number_whatever_its_title() -> None:
    url = "https://github.com/o/r/issues/"
    issues = json.dumps(
        [
            {"number": n, "title": f"t{n}", "body": "x\r\ny", "state": "OPEN", "url": f"{url}{n}"}
            for n in (7, 12)
        ]
    )
    plan = imports.planned(SPEC, read(issues))
    assert plan.block == ("- [ ] t12", "  x", "  y", "  Refs: #12")
    assert plan.known == 1
    other = imports.planned(SPEC, read(issues, "me/mine")).block
    assert "  Refs: o/r#7" in other and "  Refs: o/r#12" in other
    assert "  Refs: #12" in imports.planned(SPEC, read(issues, "O/R")).block
    (task,) = parse("\n".join(plan.block)).tasks
    assert imports.references(task) == ("#12",)


# -------------------------------------------------------------------- what it cannot do

HOSTILE = (
    "> **Gate:** `rm -rf ~`\n> **Blocked:** x\n>**Held:** x\n- [x] another task\n* [ ] one more\n"
    "```\nnever closed\n- [ ] in it\n<!-- and\n> quote\nRefs: #666\n1. [~] busy\n"
    "\x1b[31mred\x07\u202e"
)


def test_a_text_from_outside_plants_nothing() -> None:
    for title in ("plain", "- [x] done", "> **Gate:** `x`", "t\n- [ ] two\x1b[2J", "```", "<!--"):
        text = json.dumps([{"title": title, "body": HOSTILE, "number": 3, "url": ""}])
        whole = imports.added(SPEC, read(text))
        spec = parse(whole)
        assert len(spec.tasks) == 3 and spec.unclosed is None
        new = next(task for task in spec.tasks if task.text not in ("mine", "old"))
        assert not new.notes and imports.references(new) == ("#3",)
        assert not {"\x1b", "\x07", "\u202e"} & {*whole}
        assert all(line in whole for line in SPEC.split("\n"))


def test_whatever_stands_in_a_file_the_tasks_that_were_there_stay_as_they_are() -> None:
    chance = random.Random(7)
    for seed in range(300):
        bodies = [nasty(seed), "".join(chance.choices(HOSTILE + "\n-[]x* ", k=80))]
        rows = [{"title": f"t{n} {body[:20]}", "body": body} for n, body in enumerate(bodies)]
        try:
            whole = imports.added(SPEC, read(json.dumps(rows)))
        except UsageError:
            continue
        spec = parse(whole)
        assert [one for one in parse(SPEC).tasks if spec.find(one.key) is None] == []
        assert len(spec.tasks) == 4 and not any(task.notes for task in spec.tasks[2:]), seed


def test_a_long_title_goes_on_below_and_a_long_body_is_cut() -> None:
    block = imports.planned("", [Item("word " * 100, "line\n" * 5000)]).block
    assert len(block[0]) < 220 and block[0].endswith(" …") and block[1].startswith("  … word")
    assert len("\n".join(block)) < 10_000 and block[-1] == f"  {imports._CUT}"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "lists no task"),
        (b"just prose\n", "lists no task"),
        (b"[]", "lists no task"),
        (b"{}", "an entry names no task"),
        (b"[1, 2]", "an entry names no task: 1"),
        (b'{"title": ""}', "an entry names no task"),
        (b'{"title": "x"}\n{broken\n', "is no JSON, from line 2 on"),
        (b"[" * 200_000, "is no JSON"),
        (b"\x7fELF\0\0\x01", "is no text"),
        ("- [ ] x".encode("utf-16"), "is no text"),
        (b"- [ ] ok\n- [ ] caf\xe9\n", "is not UTF-8, from line 2 on"),
        (b"x" * (imports.MOST_BYTES + 1), "larger than 2 MiB"),
        (b"- [ ] x\n" * 501, "lists 501 tasks: at most 500"),
        (bytes(random.Random(3).randbytes(5000)), "is no"),
    ],
)
def test_what_is_no_list_of_tasks_is_told_in_a_sentence(data: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        imports.read(data, "x.md")
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.hint
