"""`kern help memory` against the code: its example is read, its numbers are the ones that count."""

import re
from pathlib import Path

from kern.memory import capture, chunks, entries, index, select
from kern.memory.entries import Kind
from kern.stages import reflection

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
    assert [f"{entries.score(int(h), int(m)):.2f}" for h, m, _ in rows] == [s for *_, s in rows]
    assert len(rows) >= 5


def test_the_bounds_are_the_ones_that_count() -> None:
    assert f"longer than {capture.MOST} characters" in WORDS
    assert f"of more than {chunks.MOST} tokens is cut" in WORDS
    assert f"repeats some {chunks.OVERLAP} tokens" in WORDS
    assert f"The index is `kern/{index.FILE}`" in WORDS
    assert select.TOGETHER == 1.1 and "a tenth more" in WORDS
    text = "## T\n\nx\n\n<!-- kern: id=L1 kind=sign helpful={} harmful={} -->\n"
    (at,) = entries.parse(text.format(1, entries.HARMFUL_AT))
    (above,) = entries.parse(text.format(2, entries.HARMFUL_AT))
    (one,) = entries.parse(text.format(0, entries.HARMFUL_AT - 1))
    assert at.unwanted and not above.unwanted and not one.unwanted
    assert f"two harmful votes and a score of {at.score:.2f} or less" in WORDS
