"""A settings file as values: a table is a dataclass, whose fields name what reads them. Nothing in
it is ever executed by reading it.
"""

import pkgutil
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar

from kern import plain
from kern.errors import UsageError

# What a value means, by where it stands (`kern.toml: max_wait`). Raises UsageError.
Read = Callable[[Any, str], Any]
T = TypeVar("T")
_MOST = 1e9  # of any number
_HINT = "kern help settings"


def gone(kind: str, word: str) -> str:
    """What does now what an earlier kern did by that word or setting; empty where none did."""
    rows = tomllib.loads((pkgutil.get_data("kern", "gone.toml") or b"").decode())
    return str(rows[kind].get(word, ""))


def read(data: bytes | str, origin: str, table: type[T]) -> T:
    """What the file says. Raises UsageError that names it, and the setting."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        parsed = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as exc:  # also of bytes that are no text, of endless digits
        what = f"{origin} is not valid TOML: {plain.line(str(exc))}"
        raise UsageError(what, hint=f"edit {origin}") from None
    settings: T = fitted(table, parsed, f"{origin}:")
    return settings


def fitted(shape: Any, got: Any, where: str) -> Any:
    """`got` as the shape says: what reads a value; or a table by its names, `*` for any other; or a
    dataclass. Raises UsageError.
    """
    known = _declared(shape) if is_dataclass(shape) else shape
    if not isinstance(known, Mapping):
        return known(got, where)
    if not isinstance(got, dict):
        raise UsageError(f"{where} must be a table", hint=_HINT)
    result = {}
    for key, value in got.items():
        name = f"{where}{' ' if where.endswith(':') else '.'}{plain.line(key, 80)}"
        if (below := known.get(key, known.get("*"))) is None:
            if instead := gone("settings", key):
                raise UsageError(f"{name} is gone", hint=instead)
            raise UsageError(f"{name} is no setting", hint=f"known there: {', '.join(known)}")
        result[key] = fitted(below, value, name)
    return result if known is shape else shape(**result)


def _declared(table: Any) -> dict[str, Any]:
    """The fields that a file may name: they have a shape beside their type."""
    marks = ((one.name, getattr(one.type, "__metadata__", ())) for one in fields(table))
    return {name: shape for name, shapes in marks for shape in shapes}


def value(expected: str, sound: Callable[[Any], Any], hint: str = _HINT) -> Read:
    """One that is as `expected`. What stands there is not repeated: it may be a password."""

    def reader(got: Any, where: str) -> Any:
        got = got.strip() if isinstance(got, str) else got
        if not sound(got):
            raise UsageError(f"{where} must be {expected}", hint=hint)
        return got

    return reader


def matching(pattern: str, expected: str, hint: str = _HINT) -> Read:
    """A text that matches."""
    return value(expected, lambda got: isinstance(got, str) and re.fullmatch(pattern, got), hint)


def texts(expected: str, pattern: str = r"[^\0]+", hint: str = _HINT) -> Read:
    """A list of texts that match."""
    one = matching(pattern, f"a list of {expected}", hint)
    return lambda got, where: tuple(
        one(text, where) for text in (got if isinstance(got, list) else [None])
    )


def one_of(words: Collection[object], hint: str = _HINT) -> Read:
    return value(f"one of {', '.join(map(str, words))}", [*words].__contains__, hint)


def is_amount(got: Any) -> bool:
    return type(got) in (int, float) and 0 <= got < _MOST


text = matching(r"[^\0]*", "a text")
flag = value("true or false", lambda got: isinstance(got, bool))
_SECONDS = value('seconds, or "90s", "10m", "1h30m"; 0 for none', is_amount)


def seconds(got: Any, where: str) -> float:
    """`90`, `"90s"`, `"10m"`, `"1h30m"`."""
    return float(_SECONDS(plain.seconds(got) if isinstance(got, str) else got, where))


Text = Annotated[str, text]
Flag = Annotated[bool, flag]
Seconds = Annotated[float, seconds]
