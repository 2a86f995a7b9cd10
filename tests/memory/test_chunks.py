"""Texts in pieces: whole sections where they are short, else paragraphs, and nothing gets lost."""

import random
from itertools import pairwise

import pytest

from kern import plain
from kern.memory.chunks import MOST, OVERLAP, Chunk, cut, document, size


def pieces(text: str) -> list[Chunk]:
    return list(document("a.md", "file", text))


def test_a_section_is_a_chunk_with_the_headings_above_it() -> None:
    text = "intro\n\n# Install\n\n## Linux\n\napt\n\n## macOS\n\nbrew\n\n# Use\nrun it\n"
    assert [(one.heading, one.first, one.last) for one in pieces(text)] == [
        ("", 1, 1),
        ("Install > Linux", 5, 7),
        ("Install > macOS", 9, 11),
        ("Use", 13, 14),
    ]
    assert pieces(text)[1].text == "## Linux\n\napt"
    assert pieces(text)[1].place == "a.md:5-7"


def test_a_heading_in_a_code_block_begins_nothing() -> None:
    assert [one.heading for one in pieces("# A\n```sh\n# comment\n```\nb\n")] == ["A"]


def test_a_heading_with_nothing_below_is_found_as_well() -> None:
    assert [one.text for one in pieces("# A\n# B\ntext\n")] == ["# A", "# B\ntext"]


@pytest.mark.parametrize("text", ["", "\n\n \n", "\0\x1b[31m\r\n"])
def test_nothing_makes_no_chunk(text: str) -> None:
    assert pieces(text) == []


def test_a_long_section_is_cut_at_paragraphs_that_overlap() -> None:
    paragraphs = [f"P{n} " + "lorem ipsum " * 25 for n in range(30)]
    found = pieces("# T\n\n" + "\n\n".join(paragraphs))
    assert len(found) > 3
    assert all(size(one.text) <= MOST and one.heading == "T" for one in found)
    text = "\n\n".join(one.text for one in found)
    assert all(paragraph.strip() in text for paragraph in paragraphs), "none is torn"
    for before, after in pairwise(found):
        repeated = after.text.split("\n")[0]
        assert before.text.strip().endswith(repeated.strip()) and 10 < size(repeated) <= OVERLAP
        assert before.first < after.first <= before.last <= after.last


def test_a_line_without_end_is_cut_at_spaces_and_one_without_spaces_anywhere() -> None:
    for line in ("word " * 200_000, "x" * 1_000_000):
        found = pieces(line)
        assert 450 < len(found) < 700
        assert all(size(one.text) <= MOST and one.first == one.last == 1 for one in found)


def test_any_text_keeps_its_words_its_places_and_its_bounds() -> None:
    chance = random.Random(17)
    nasty = ("# A\n", "### B\n", "```\n", "word " * 300, "\n\n", "ü\r\n", "\udcff\0", "x" * 3000)
    for _ in range(200):
        text = "".join(chance.choices(nasty, k=chance.randrange(1, 12)))
        lines = plain.block(text).split("\n")
        found = pieces(text)
        held = {word for one in found for word in f"{one.heading} {one.text}".split()}
        asked = {word for line in lines for word in line.split() if len(word) < 1000}
        assert asked - {"#", "###"} <= held
        for one in found:
            assert size(one.text) <= MOST
            assert 1 <= one.first <= one.last <= len(lines)


def test_what_is_cut_keeps_its_kind_and_key() -> None:
    whole = Chunk("LEARNINGS.md", "sign", "title", "text " * 1000, 7, 9, "L3")
    assert {(one.kind, one.heading, one.key, one.first) for one in cut(whole)} == {
        ("sign", "title", "L3", 7)
    }
