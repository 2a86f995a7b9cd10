"""What a settings file may hold, and what is said of the rest."""

import pytest

from kern import toml
from kern.errors import UsageError


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a = \xff", "x.toml is not valid TOML: "),
        (b"a = ", "x.toml is not valid TOML: "),
        (b"a = " + b"[" * 5000, "x.toml is "),
        (b"a = " + b"9" * 5000, "x.toml holds a number that is too long"),
    ],
)
def test_what_cannot_be_read_names_the_file(data: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        toml.loaded(data, "x.toml")
    assert str(caught.value).startswith(said) and caught.value.hint == "edit x.toml"


def test_a_byte_order_mark_is_none_of_it() -> None:
    assert toml.loaded("\ufeffa = 1", "x.toml") == toml.loaded(b"\xef\xbb\xbfa = 1", "x.toml")


def test_what_is_no_table_or_not_known_is_named_with_what_is() -> None:
    assert toml.table({}, "a", "x.toml") == {}
    with pytest.raises(UsageError, match=r"x\.toml: a must be a table"):
        toml.table({"a": 1}, "a", "x.toml")
    toml.known({"run": 1}, ("run", "timeout"), "x.toml")
    with pytest.raises(UsageError, match=r"x\.toml: unknown setting gates\.ruin") as caught:
        toml.known({"run": 1, "ruin": 2}, ("run", "timeout"), "x.toml", "gates.")
    assert caught.value.hint == "known there: run, timeout"
    with pytest.raises(UsageError, match=r"x\.toml: unknown setting a\.ruin"):
        toml.table({"a": {"ruin": 2}}, "a", "x.toml", "run")


@pytest.mark.parametrize("value", [None, "a", 1, {}, [1], [""], [" "], ["a\0"], ["a", None]])
def test_what_is_no_list_of_texts_is_none(value: object) -> None:
    assert toml.texts(value) is None
    assert toml.texts([]) == () and toml.texts(["a", "b c"]) == ("a", "b c")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        *((0, 0.0), (90, 90.0), (1.5, 1.5), ("90s", 90.0), ("1h30m", 5400.0), ("0", 0.0)),
        *((True, None), (-1, None), (1e9, None), (float("nan"), None), (int("f" * 500, 16), None)),
        *(("soon", None), ("", None), (None, None), ([], None)),
    ],
)
def test_a_time_is_seconds_or_a_length(value: object, found: float | None) -> None:
    assert toml.seconds(value) == found
