"""What a settings file may hold, and what is said of the rest."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest

from kern import toml
from kern.errors import UsageError


@dataclass
class Rows:
    a: Annotated[dict[str, str], {"run": toml.text}] = field(default_factory=dict)
    time: toml.Seconds = 0
    ours: int = 0  # no file's to say


@pytest.mark.parametrize(
    ("data", "said", "hint"),
    [
        *(
            (b"a = " + data, " is not valid TOML: ", "edit x.toml")
            for data in (b"\xff", b"9" * 5000)
        ),
        (b"a = " + b"[" * 5000, " is ", "edit x.toml"),
        (b"a = 1", ": a must be a table", "kern help settings"),
        (b"b = 1", ": b is no setting", "known there: a, time"),
        (b"ours = 1", ": ours is no setting", "known there: a, time"),
        (b"a = { ruin = 2 }", ": a.ruin is no setting", "known there: run"),
        (b"a = { jobs = 2 }", ": a.jobs is gone", "kern -j 4"),
        (b"a = { run = 2 }", ": a.run must be a text", "kern help settings"),
    ],
)
def test_what_is_not_known_is_named_with_what_is(data: bytes, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        toml.read(data, "x.toml", Rows)
    assert str(caught.value).startswith(f"x.toml{said}") and caught.value.hint == hint
