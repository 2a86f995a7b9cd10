"""kern's own lines of SPEC.md come back after an agent had its hands on it; all else stays."""

import random
import re
from collections import Counter

import pytest

from kern.model import Marker
from kern.spec import edit
from kern.spec.parse import Kind, Task, parse
from kern.spec.reapply import reapply

BEFORE = """\
# Tasks

- [x] first
- [~] second
  how to do it
  > **Gate:** `make`
  > **Research:**
  >   - Files: b.py
  >   - Pattern: c.py
  > **Attempt 1:** no
- [ ] third
  - [x] part one
  - [ ] part two
    > **Attempt 1:** later

Some words.
"""
SECOND = BEFORE[BEFORE.index("- [~]") : BEFORE.index("- [ ] third")]


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
                lines.append(f"{margin}  words about {name}")
    text = "\n".join(lines) + "\n"
    tasks = [task for task in parse(text).tasks if not task.open_subtasks]
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
                lines.insert(at, f"- [{chance.choice(' x')}] new {chance.random()}")
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
                lines.insert(at, chance.choice(("```", "<!--", "  > **Question:** mine")))
        lines = lines or [""]
    return ("\r\n" if chance.random() < 0.1 else "\n").join(lines)


def own(task: Task) -> list[tuple[Kind, int, str]]:
    return [(note.kind, note.number, note.text.rstrip()) for note in task.notes]


def bare(text: str) -> Counter[str]:
    return Counter(re.sub(r"\[[xX~]\]", "[ ]", line).strip() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# Tasks\n", "# Tasks\n\nan introduction\n"),
        ("  how to do it\n", "  how to do it better\n"),
        ("Some words.\n", "Some words.\n- [ ] fourth\n  > **Gate:** `make x`\n"),
        ("- [ ] third\n", "- [ ] third, in other words\n"),
        ("- [x] first\n", ""),
        ("    > **Attempt 1:** later\n", ""),
        ("  - [x] part one\n", "  - [x] part one\n  - [ ] between\n"),
        ("  > **Gate:** `make`\n", "  > **Gate:** `make`\n  > **Blocked:** ask me first\n"),
        ("  >   - Files: b.py\n", "  >   - Files: b.py:7\n"),
        ("- [~] second\n", "- [~] second, said better\n"),
    ],
)
def test_what_is_not_kerns_stays(old: str, new: str) -> None:
    after = BEFORE.replace(old, new, 1)
    assert reapply(BEFORE, after) == (after, [])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "gone",
    [
        SECOND,
        "- [~] second\n",
        "  > **Gate:** `make`\n",
        "  > **Attempt 1:** no\n",
        SECOND[SECOND.index("  > **Research") : SECOND.index("  > **Att")],
    ],
)
def test_the_task_in_progress_comes_back_with_its_notes(gone: str, end: str) -> None:
    before, after = BEFORE.replace("\n", end), BEFORE.replace(gone, "", 1).replace("\n", end)
    text, warnings = reapply(before, after)
    old, new = parse(before).active[0], parse(text).active[0]
    assert (old.key, {*own(old)}) == (new.key, {*own(new)})
    assert {task.key for task in parse(text).tasks} == {task.key for task in parse(before).tasks}
    assert "vanished" in warnings[0] and ("\n" in text.replace("\r\n", "")) == (end == "\n")


@pytest.mark.parametrize("line", ["[~] second", "[ ] third", "[ ] part two"])
def test_a_tick_that_kern_did_not_set_goes_back(line: str) -> None:
    text, warnings = reapply(BEFORE, BEFORE.replace(line, "[X]" + line[3:]))
    assert text == BEFORE
    assert warnings == [f"marker [x] that kern did not set, now {line[:3]}: {line[4:]}"]


def test_a_new_task_is_not_done_and_a_done_one_may_move() -> None:
    third, first = "- [ ] third\n", "- [x] first\n"
    after = BEFORE.replace(first, "").replace(third, f"{third}  {first}")
    assert reapply(BEFORE, after) == (after, [])
    assert reapply(BEFORE, after + "- [x] new\n")[0] == after + "- [ ] new\n"
    reworded = BEFORE.replace("first", "the \\_first\\_ one")
    assert reapply(BEFORE, reworded) == (reworded, [])
    assert reapply(BEFORE, reworded.replace("[ ] third", "[x] 3"))[0].count("[x]") == 2


@pytest.mark.parametrize("line", ["```\n", "<!--\n"])
def test_what_hides_the_tasks_goes(line: str) -> None:
    hidden, closing = line + BEFORE, {"```\n": "```\n", "<!--\n": "-->\n"}[line]
    for after in (hidden, hidden + closing):
        text, _ = reapply(BEFORE, after)
        assert [task.text for task in parse(text).active] == ["second"]
