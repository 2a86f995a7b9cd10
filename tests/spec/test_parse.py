"""SPEC.md read as data: what is a task, whose note a line is, what is broken, what comes next."""

import random
from collections.abc import Iterator

import pytest

from kern.model import Key
from kern.spec.order import select
from kern.spec.parse import Kind, Spec, Task, parse

PIECES = (
    *("- [ ] plain task", "- [~] begun", "* [x] done with a star", "+ [X] done in capitals"),
    *("1. [ ] numbered", "12) [ ] numbered with a bracket", "-\t[ ]\ttabs between"),
    *("- [ ] plain task", "- [ ] ünïcödé — 日本語 🎉", "- [ ]    many blanks   "),
    *("- [ ] form\x0cfeed and\u2028separator", "- [ ] a \\ backslash, `code`, **bold**, {TASK} &"),
    *("- [ ]", "- [x] [link](https://example.org)", "- [](empty)", "- [a](b)", "- [[wiki]] page"),
    *("- [2024-01-31] a date", "- ordinary", "10. ordinary", "> - [ ] quoted"),
    *("> **Attempt 1:** tried", "> **Attempt 22:** tried again", "> **Skipped:** no use"),
    *("> **Blocked:** ask someone", "> **After:** plain task", "> **Research:**"),
    *(">   - Files: a.py:1-2", ">   - Pattern: b.py", "> **Note:** a person's", "some text"),
    *("# heading", "---", "", "   ", "\t", "```", "```python", "~~~", "`````"),
    *("``` not a fence ```", "<!-- one line -->", "<!--", "-->", "\x00\x1b[31m\x7f"),
    *("\udcff\udc80 broken bytes", "- [ ] broken \udcfe bytes"),
)
INDENTS = ("", "", "", " ", "  ", "  ", "   ", "    ", "\t", "\t  ", "        ")
BROKEN = ("- []", "- [ x] a", "- [-] a", "- [~ ] a", "- [xx] a", "- [\u00a0] a", "- [\t] a")
SEEDS = range(400)


def nasty(seed: int) -> str:
    """A document of up to 40 lines, the same for the same seed; every eighth has broken markers,
    every fifth random bytes.
    """
    chance = random.Random(seed)
    pieces = PIECES + BROKEN if seed % 8 == 0 else PIECES
    ends = chance.choice((("\n",), ("\r\n",), ("\n", "\r\n")))
    lines = []
    for _ in range(chance.randrange(40)):
        line = chance.choice(INDENTS) + chance.choice(pieces)
        if seed % 5 == 0 and chance.random() < 0.3:
            line += chance.randbytes(chance.randrange(12)).decode("utf-8", "surrogateescape")
        lines.append(line + chance.choice(ends))
    text = "".join(lines)
    if chance.random() < 0.3:
        text = text.removesuffix("\n").removesuffix("\r")
    return ("\ufeff" if chance.random() < 0.2 else "") + text


def documents() -> Iterator[tuple[int, str, Spec]]:
    for seed in SEEDS:
        text = nasty(seed)
        yield seed, text, parse(text)


def offset(text: str, task: Task) -> int:
    """Where in the text the task's marker stands."""
    return sum(len(line) + 1 for line in text.split("\n")[: task.line - 1]) + task.column


def only(text: str) -> Task:
    (task,) = parse(text).tasks
    return task


def shape(text: str) -> list[tuple[str, str]]:
    """Each task with its parent's text."""
    return [(task.text, task.key.parent) for task in parse(text).tasks]


# -------------------------------------------------------------------- what is a task


@pytest.mark.parametrize("bullet", ["-", "*", "+", "2)", "123456789.", "0."])
def test_every_bullet_of_markdown_carries_a_task(bullet: str) -> None:
    assert only(f"{bullet} [ ] do it\n").text == "do it"
    assert only(f" {bullet}\t[ ] do it").below == " " * (len(bullet) + 2)


@pytest.mark.parametrize(
    "text",
    [
        *("\ufeff", "- ordinary item", "- [ ](url)", "- [x](url)", "- [](url)", "- [[wiki]]"),
        *(
            "- [2024-01-31] a date",
            "- [ ]",
            "[ ] none",
            "- 2024 [x] late bracket",
            "> - [ ] quoted",
        ),
        *("1234567890. [ ] ten digits", "\u2013 [ ] a dash", "- a\n  [ ] wrapped", "- [x]: y"),
    ],
)
def test_what_is_neither_a_task_nor_a_fault(text: str) -> None:
    assert parse(text) == Spec((), ())


@pytest.mark.parametrize(
    "fenced",
    [
        *("```\n- [ ] a\n```", "````\n```\n- [ ] a\n```\n````", "~~~~ text\n~~~\n- [ ] a\n~~~~"),
        *("```\n```python\n- [ ] a\n```", "```\r\n- [ ] a\r\n```\r", "~~~ `tick` ~\n- [ ] a\n~~~"),
        *("- ```sh\n  - [ ] a\n  ```", "<!--\n- [ ] a\n-->", "<!-- note\n- [ ] a\n- [ ] b -->"),
        *("  <!--\n- [ ] a\n  -->", "- <!--\n  - [ ] a\n  -->"),
    ],
)
def test_fences_and_comments_hide_task_lines_and_end_where_they_should(fenced: str) -> None:
    parsed = parse(f"- [ ] before\n\n{fenced}\n- [ ] behind\n")
    assert [task.text for task in parsed.tasks] == ["before", "behind"]
    assert parsed.diagnostics == ()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- [ ] a\n\n```\n- [ ] b\n- [x] c\n", 3, "the code fence opened here is never closed"),
        ("- [ ] a\n  ~~~\n  code\n", 2, "the code fence"),
        ("- [ ] a\n<!-- note\n- [ ] b\n", 2, "the comment opened here"),
        *((f"- [ ] a\n{one}\n", 2, "needs a space") for one in ("- [ ]T", "- [~]t", "-[ ] t")),
        ("- [ ] a\n  > Gate: `x`\n", 2, "this is no check"),
        ("- [ ] a\n> **Gate:** `x`\n", 2, "this is no check"),
        *(
            (f"- [ ] a\n- [{mark}]{rest}\n", 2, f"malformed task marker [{mark}]")
            for mark in ("", " x", "-", "xx", "✓")
            for rest in (" do it", "\r")
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, line: int, said: str) -> None:
    parsed = parse(text)
    assert [task.text for task in parsed.tasks] == ["a"]
    (fault,) = parsed.diagnostics
    assert fault.line == line and said in fault.message


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("final", [True, False])
def test_line_ends_and_a_byte_order_mark_change_nothing(end: str, bom: str, final: bool) -> None:
    lines = ["- [ ] a", "  > **Attempt 1:** no", "  - [x] b", "- [~] c"]
    text = bom + end.join(lines) + (end if final else "")
    parsed = parse(text)
    assert parsed.diagnostics == ()
    rows = [(task.text, task.line, task.key.parent) for task in parsed.tasks]
    assert rows == [("a", 1, ""), ("b", 3, "a"), ("c", 4, "")]
    assert [note.text for note in parsed.tasks[0].notes] == ["no"]
    assert all(text[offset(text, task)] == task.marker for task in parsed.tasks)


# -------------------------------------------------------------------- subtasks and identity


def test_indentation_decides_the_parent_however_uneven_it_is() -> None:
    text = "- [ ] a\n    - [ ] b\n  - [ ] c\n     - [ ] d\n- [ ] e\n  - [ ] f\n"
    assert shape(text) == [("a", ""), ("b", "a"), ("c", "a"), ("d", "c"), ("e", ""), ("f", "e")]


def test_an_item_or_heading_at_the_margin_ends_a_tasks_block() -> None:
    for between in ("- ordinary", "## Next", "text", "> quote"):
        text = f"- [ ] a\n{between}\n  - [ ] b\n  > **Blocked:** no\n"
        a, b = parse(text).tasks
        assert b.key.parent == ""
        assert a.notes == []
        assert b.indent == 2


def test_equal_texts_are_told_apart_by_their_parent_and_their_order() -> None:
    text = "- [ ] a\n  - [ ] x\n- [ ] b\n  - [ ] x\n  - [ ] x\n- [ ] a\n"
    keys = [task.key for task in parse(text).tasks]
    assert keys == [
        *(Key("", "a"), Key("a", "x"), Key("", "b"), Key("b", "x"), Key("b", "x", 2)),
        Key("", "a", 2),
    ]
    assert [parse(text).find(key).key for key in keys] == keys  # type: ignore[union-attr]


# -------------------------------------------------------------------- notes


@pytest.mark.parametrize(
    "line",
    [
        *("  > **attempt 1:** lower case", "  > **Attempt 1** no colon", "  > Attempt 1: not bold"),
        *("  **Attempt 1:** no quote", "  > **Remark:** x", "  > text **Attempt 1:** in it"),
        "  > **Attempt one:** no number",
    ],
)
def test_what_is_no_note_is_the_persons_text(line: str) -> None:
    task = only(f"- [ ] a\n{line}\n")
    assert task.notes == []
    assert task.body == [line.strip()]


def test_a_note_belongs_to_the_task_that_it_is_indented_under() -> None:
    text = (
        "- [ ] a\n  > **After:** z\n  - [ ] b\n    > **Attempt 1:** b's\n  > **Blocked:** a's\n"
        "> **Skipped:** nobody's\n- [ ] c\n"
    )
    a, b, c = parse(text).tasks
    assert [note.kind for note in a.notes] == [Kind.AFTER, Kind.BLOCKED]
    assert [note.text for note in b.notes] == ["b's"]
    assert c.notes == []
    assert (a.end, a.block_end, b.end) == (2, 5, 4)


def test_attempts_count_for_the_tier_since_the_last_skip() -> None:
    notes = "".join(
        f"  > **{label}:** why\n"
        for label in ("Attempt 1", "Attempt 2", "Attempt 3", "Skipped", "Attempt 4", "Research")
    )
    task = only("- [ ] a\n" + notes)
    assert (task.attempts, task.spent(0)) == (4, 1)
    assert task.full_failures(3) == 1
    assert task.full_failures(4) == 0


# -------------------------------------------------------------------- selection


def chosen(text: str, *passed: str) -> str | None:
    parsed = parse(text)
    task = select(parsed, {task.key for task in parsed.tasks if task.text in passed})
    return task.text if task else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [x] a\n", None),
        ("- [x] a\n- [ ] b\n- [ ] c\n", "b"),
        ("- [ ] a\n- [~] b\n", "b"),
        ("- [ ] a\n  - [x] b\n  - [ ] c\n", "c"),
        ("- [ ] a\n  - [x] b\n", "a"),
        ("- [x] a\n  - [ ] b\n", "b"),
        ("- [ ] a\n  > **Blocked:** x\n", None),
        ("- [~] a\n  > **Blocked:** x\n", "a"),
        ("- [ ] a\n  > **Held:** x\n  - [ ] b\n- [ ] c\n  > **After:** b\n", None),
        ("- [ ] a\n  > **Skipped:** x\n- [ ] b\n", "b"),
        ("- [ ] a\n  > **Skipped:** x\n", "a"),
        ("- [ ] a\n  > **Skipped:** x\n  > **Skipped:** x\n- [ ] b\n  > **Skipped:** x\n", "b"),
        ("- [ ] a\n  > **After:** b\n- [~] b\n", "b"),
        ("- [ ] a\n  > **After:** two   WORDS\n- [X] two words\n", "a"),
        ("- [ ] a\n  > **After:** b\n- [x] b\n- [ ] b\n", "b"),
    ],
)
def test_which_task_is_next(text: str, expected: str | None) -> None:
    assert chosen(text) == expected


def test_what_this_run_skipped_comes_last_but_comes() -> None:
    text = "- [ ] a\n- [ ] b\n  > **Skipped:** x\n  > **Skipped:** x\n"
    assert chosen(text) == "a"
    assert chosen(text, "a") == "b"
    assert chosen(text, "a", "b") == "a"
    assert chosen(text.replace("- [ ] b", "- [x] b"), "a") == "a"


# -------------------------------------------------------------------- random documents


def test_parsing_never_raises_and_its_values_fit_the_text() -> None:
    found = 0
    for seed, text, parsed in documents():
        lines = text.split("\n")
        found += len(parsed.tasks)
        keys = [task.key for task in parsed.tasks]
        assert len(set(keys)) == len(keys), seed
        for index, task in enumerate(parsed.tasks):
            assert lines[task.line - 1][task.column].lower() == task.marker, seed
            assert task.text in lines[task.line - 1], seed
            assert task.line <= task.end <= task.block_end <= len(lines), seed
            assert all(task.line < note.line <= task.block_end for note in task.notes), seed
            if task.parent is not None:
                above = parsed.tasks[task.parent]
                assert task.parent < index, seed
                assert above.indent < task.indent, seed
                assert above.end < task.line <= task.block_end <= above.block_end, seed
                assert above.text == task.key.parent, seed
        assert all(0 < fault.line <= len(lines) for fault in parsed.diagnostics), seed
    assert found > 1000  # the documents are worth the name
