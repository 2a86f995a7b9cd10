"""What a settings file may hold, and what is said of the rest."""

import pytest

from kern import toml
from kern.errors import UsageError

ROWS: toml.Rows = {
    "a": toml.table({"run": toml.text, "old": "name it in run"}),
    "names": toml.texts("names"),
    "time": toml.seconds,
    "any": lambda given: given,
}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a = \xff", "x.toml is not valid TOML: "),
        (b"a = ", "x.toml is not valid TOML: "),
        (b"a = " + b"[" * 5000, "x.toml is "),
        (b"a = " + b"9" * 5000, "x.toml is not valid TOML: "),
    ],
)
def test_what_cannot_be_read_names_the_file(data: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        toml.read(data, "x.toml", ROWS)
    assert str(caught.value).startswith(said) and caught.value.hint == "edit x.toml"


@pytest.mark.parametrize(
    ("data", "said", "hint"),
    [
        ("a = 1", "x.toml: a must be a table", "edit x.toml"),
        ("b = 1", "x.toml: unknown setting b", "known there: a, names, time, any"),
        ("a = { ruin = 2 }", "x.toml: unknown setting a.ruin", "known there: run"),
        ("a = { old = 2 }", "x.toml: there is no a.old any more", "name it in run"),
        ("a = { run = 2 }", "x.toml: a.run must be a text", "edit x.toml"),
    ],
)
def test_what_is_no_table_or_not_known_is_named_with_what_is(
    data: str, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        toml.read(data, "x.toml", ROWS)
    assert (str(caught.value), caught.value.hint) == (said, hint)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        *(("0", 0.0), ("90", 90.0), ("1.5", 1.5), ('"90s"', 90.0), ('"1h30m"', 5400.0)),
        *(('"0"', 0.0), ("true", None), ("-1", None), ("1e9", None), ("nan", None)),
        *(("0x" + "f" * 500, None), ('"soon"', None), ('""', None), ("[]", None)),
    ],
)
def test_a_time_is_seconds_or_a_length(value: str, found: float | None) -> None:
    if found is not None:
        assert toml.read(f"time = {value}", "x.toml", ROWS) == {"time": found}
        return
    with pytest.raises(UsageError, match="time must be seconds"):
        toml.read(f"time = {value}", "x.toml", ROWS)
