"""What comes near a query: by words, and by meaning where the extra is there."""

import pytest

from kern.memory import search
from kern.memory.search import ranked

TEXTS = [
    "Retry an upload with the same key: the bucket answers twice.",
    "The upload bucket is only reachable through the proxy.",
    "Store each date in UTC.",
    "",
]


@pytest.fixture
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "vectors", lambda: None)


@pytest.mark.usefixtures("words_alone")
def test_what_has_the_words_comes_in_any_form_the_best_first() -> None:
    assert {*ranked(TEXTS, "uploaded")} == {0, 1}
    assert ranked(TEXTS, "the") == [1, 0], "words that any text has count if there are no others"
    assert ranked(TEXTS, "the bucket", (0.1, 1.0, 1.0, 1.0)) == [1, 0]
    assert ranked(TEXTS, "uploads of dates")[0] == 2
    assert ranked([], "upload") == []


@pytest.mark.parametrize("query", ["gardening", "", '" OR *', "\x00\udcff", "NEAR(", "x " * 9999])
def test_nothing_is_found_where_no_word_matches_and_no_query_breaks_it(query: str) -> None:
    assert ranked([*TEXTS, "\x00\udcff a"], query) in ([], [4])


@pytest.mark.slow
def test_meaning_finds_what_words_miss() -> None:
    if search.vectors() is None:
        pytest.skip("needs kern[semantic]")
    texts = [*TEXTS, "The dog barks at the postman.", "Files are sent again after an outage."]
    assert 5 not in search._by_words(texts, "upload")
    assert 5 in ranked(texts, "upload")[:4]


def test_its_loading_runs_no_code_that_could_download() -> None:
    import sys

    search.vectors()
    assert not [name for name in sys.modules if name.startswith("wordllama")]
