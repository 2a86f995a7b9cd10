"""`kern learn`: an entry that a person writes."""

from pathlib import Path

import pytest

from tests.conftest import Kern

TEXT = """# Learnings

## Learnings

- L4 +5 -0 Run `make db` before the tests, or every table is missing.
- Ports below 1024 are taken on the build machine.
"""


@pytest.fixture(autouse=True)
def learned(repo: Path) -> Path:
    (repo / "LEARNINGS.md").write_text(TEXT)
    return repo / "LEARNINGS.md"


def test_a_text_becomes_an_entry_once(learned: Path, kern: Kern) -> None:
    ran = kern("learn", "Never edit src/gen by hand.", "--when", "the API; api.yaml.")
    assert ran.code == 0 and ran.out == "L5 in LEARNINGS.md; review it and commit it\n"
    text = learned.read_text()
    assert text == f"{TEXT}- L5 +0 -0 Never edit src/gen by hand. | when: the API; api.yaml\n"
    again = kern("learn", "Never edit src/gen by hand!")
    assert again.code == 2 and "L5 says so already" in again.err and "hint: " in again.err
    assert learned.read_text() == text


@pytest.mark.parametrize("words", [("?!",), (), ("show", "L4"), ("list",), ("x y " * 2000,)])
def test_what_is_no_sentence_is_no_entry(learned: Path, kern: Kern, words: tuple[str, ...]) -> None:
    ran = kern("learn", *words)
    assert ran.code == 2 and "an entry is a sentence" in ran.err
    assert learned.read_text() == TEXT
