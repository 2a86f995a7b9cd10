"""Text from outside made harmless: no escape sequence, no control character, no reordering."""

import re

import pytest

from kern import plain

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029"
    "\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("windows\r\nlines", "windows\nlines"),
        ("ünïcödé 日本語 🎉", "ünïcödé 日本語 🎉"),
        ("\x1b[1;38;5;200mbold\x1b[m\x1b[2J\x1b[H\x1b[?25l\x1b(B\x1bc", "bold"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\x1b]0;title\x07", "link"),
        ("\x07bell\x00nul\x08back\x9b31mc1\x1b", "bellnulback31mc1"),
        ("\u202egnihtemos\u202c zero\u200bwidth\ufeff \udcff\ud83d", "gnihtemos zerowidth "),
        ("a\u2028b\u061cc\u206ad\u206f\xad\u180ee\U000e0001\U000e0068", "abcde"),
    ],
)
def test_what_is_left_of_a_text(text: str, expected: str) -> None:
    assert plain.block(text) == expected


def test_an_unfinished_sequence_takes_no_more_than_its_line() -> None:
    assert plain.block("\x1b]0;title\nsecond\nSUCCESS").split("\n")[1:] == ["second", "SUCCESS"]
    assert plain.block("\x1b[31\nsecond").endswith("\nsecond")


def test_a_line_is_cut_only_where_it_is_too_long_and_says_so() -> None:
    assert plain.line("x" * 300) == "x" * 300
    assert plain.line("x" * 301) == "x" * 299 + "…"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("30", 30), ("0", 0), (".5", 0.5), ("30s", 30), ("90 s", 90), (" 5m ", 300)),
        *(("2h", 7200), ("1h30m", 5400), ("1.5h", 5400), ("2 h 5 min", 7500), ("1d12h", 129600)),
        *(("", None), ("soon", None), ("1h30", None), ("30m1h", 5400), ("-5", None)),
        *(("5x", None), ("1e3", None), ("h", None), ("nan", None), ("9" * 99, None)),
    ],
)
def test_a_length_of_time_is_read(text: str, seconds: float | None) -> None:
    assert plain.seconds(text) == seconds


def test_a_length_of_time_is_written_and_read_back() -> None:
    words = {0.04: "0 s", 0.3: "0.3 s", 1.4: "1 s", 247: "4 min 7 s", 7505: "2 h 5 min"}
    assert {length: plain.span(length) for length in words} == words
    for length in (1, 59, 60, 3599, 3600, 86400, 90000):
        assert plain.seconds(plain.span(length)) == length
    assert [plain.seconds("2", unit) for unit in "smhd"] == [2, 120, 7200, 172800]
