"""`kern help memory` against the code: its example is read, its numbers are the ones that count."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

from kern.memory import capture, chunks, entries, index
from kern.memory.entries import Kind
from kern.stages import reflection
from tests.conftest import Fake, Kern

PAGE = (Path(__file__).parents[2] / "kern/help/memory.md").read_text()
WORDS = " ".join(PAGE.split())


def test_the_example_is_an_entry_as_kern_writes_it() -> None:
    (block,) = re.findall(r"```markdown\n(.*?)```", PAGE, re.S)
    (one,) = entries.parse(block)
    assert not one.faults and one.noted
    assert entries.comment(one) == block.strip().splitlines()[-1]
    assert reflection.usable(one)
    for kind in Kind:
        assert f"`{kind}`" in PAGE


def test_the_scores_are_the_ones_that_count() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d\.\d\d) \|$", PAGE, re.M)
    some = entries.parse("## a\n\nb")[0]
    voted = [(replace(some, helpful=int(h), harmful=int(m)), said) for h, m, said in rows]
    assert [f"{one.score:.2f}" for one, _ in voted] == [said for _, said in voted]
    assert len(rows) >= 5


def test_each_command_can_be_typed_as_it_stands_there(repo: Path, fake: Fake, kern: Kern) -> None:
    entry = "## 2026-01-0{0} - T\n\nText {0}.\n\n<!-- kern: id=L{0} kind=sign -->\n\n"
    (repo / "LEARNINGS.md").write_text("".join(map(entry.format, range(1, 9))))
    fake.script(planner=[{"result": "I read it.\n\nDONE: each holds"}])
    typed = re.findall(r"^kern (\w+.*?)(?: {2,}#.*)?$", PAGE, re.M)
    assert {one.split()[0] for one in typed} == {"recall", "learn", "search", "reflect"}
    for one in typed:
        dry = [] if one != "reflect" else ["--yes"]
        ran = kern(*shlex.split(one), *dry)
        assert (ran.code, ran.err.count("hint:")) == (0, 0), (one, ran.err)
    found = {one.id: one for one in entries.parse((repo / "LEARNINGS.md").read_text())}
    assert (found["L7"].harmful, found["L7"].unwanted) == (1, "retired: we left make")
    assert found["L9"].text == "Run make db before the tests."


def test_the_bounds_are_the_ones_that_count() -> None:
    assert f"longer than {capture.MOST} characters" in WORDS
    assert f"of more than {chunks.MOST} tokens is cut" in WORDS
    assert f"repeats some {chunks.OVERLAP} tokens" in WORDS
    assert f"The index is `kern/{index.FILE}`" in WORDS
    text = "## T\n\nx\n\n<!-- kern: id=L1 kind=sign helpful={} harmful={} -->\n"
    (at,) = entries.parse(text.format(1, entries.HARMFUL_AT))
    (above,) = entries.parse(text.format(2, entries.HARMFUL_AT))
    (one,) = entries.parse(text.format(0, entries.HARMFUL_AT - 1))
    assert at.unwanted and not above.unwanted and not one.unwanted
    assert f"two harmful votes and a score of {at.score:.2f} or less" in WORDS
