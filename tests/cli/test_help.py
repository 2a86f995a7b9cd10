"""`kern help`: one page on a pipe and on a terminal, and what is misspelt."""

import re
from pathlib import Path

import pytest

from kern.cli.admin import PAGES, TOPICS
from tests.conftest import Kern

TOP = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def anywhere(tmp_path: Path) -> None:
    """No repository is needed."""
    (tmp_path / "project").mkdir()


def test_the_pages_are_listed_and_the_beginning_of_a_topic_is_enough(kern: Kern) -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {*TOPICS}
    rows = re.findall(r"^  (\w+) +(\S.*\.)$", kern("help").out, re.M)
    assert [topic for topic, _ in rows] == [*TOPICS]
    assert kern("help", "Gui").out == (PAGES / "guide.md").read_text()
    for word in ("s", "../help/spec", "spec\x1b[31m"):
        unknown = kern("help", word)
        assert (unknown.code, unknown.out) == (2, "")
        assert "no help page" in unknown.err and "\x1b" not in unknown.err


def test_the_pictures_show_no_machine_and_no_person() -> None:
    drawn = sorted(PAGES.glob("*.svg"))
    assert [path.name for path in drawn] == ["live.svg", "report.svg"]
    readme = (TOP / "README.md").read_text()
    for path in drawn:
        text = path.read_text()
        assert f"](kern/help/{path.name})" in readme
        assert not re.search(r"/(root|home|Users|var|tmp/(?!claude/kern))", text)
        assert not re.search(r"https?://(?!www\.w3\.org/|www\.textualize\.io)", text)
