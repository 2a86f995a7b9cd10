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


def by_words(query: str, *worth: float) -> list[int]:
    return ranked(TEXTS, query, worth, meaning=False)


def test_what_has_the_words_comes_in_any_form_the_best_first() -> None:
    assert {*by_words("uploaded")} == {0, 1}
    assert by_words("the") == [1, 0], "words that any text has count where there are no others"
    assert by_words("the bucket", 0.1, 1.0, 1.0, 1.0) == [1, 0]
    assert by_words("uploads of dates")[0] == 2
    assert ranked([], "upload") == []


@pytest.mark.parametrize("query", ["gardening", "", '" OR *', "\x00\udcff", "NEAR(", "x " * 9999])
def test_nothing_is_found_where_no_word_matches_and_no_query_breaks_it(query: str) -> None:
    assert ranked([*TEXTS, "\x00\udcff a"], query) in ([], [4])


@pytest.mark.slow
def test_meaning_finds_what_words_miss() -> None:
    if search.vectors() is None:
        pytest.skip("needs kern[semantic]")
    texts = [*TEXTS, "The dog barks at the postman.", "Files are sent again after an outage."]
    assert 5 not in by_words("upload")
    assert 5 in ranked(texts, "upload")[:4]


def test_its_loading_runs_no_code_that_could_download() -> None:
    import sys

    search.vectors()
    assert not [name for name in sys.modules if name.startswith("wordllama")]
