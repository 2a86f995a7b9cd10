"""A settings file as values: a table of names, each with what reads its value. Nothing in it is
ever executed by reading it. Pure.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kern import plain
from kern.errors import UsageError

Read = Callable[[Any], Any]  # a value of the file, or raises Wrong
Rows = Mapping[str, Read | str]  # by name; a text: the setting is gone, and what to do instead
_MOST = 1e9  # of any number


class Wrong(Exception):
    """What is wrong with a setting; `{}` in `why` is its name. `given` is shown where it is one."""

    def __init__(self, why: str, hint: str = "", got: object = None) -> None:
        quoted = isinstance(got, str) and got.strip()
        super().__init__(why + (f", not {plain.line(str(got), 80)!r}" if quoted else ""))
        self.hint = hint
        self.key = ""


def read(data: bytes | str, origin: str, rows: Rows) -> dict[str, Any]:
    """What the file says. Raises UsageError that names it, and the setting."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        parsed = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as exc:  # also of bytes that are no text, of endless digits
        raise UsageError(
            f"{origin} is not valid TOML: {plain.line(str(exc))}", hint=f"edit {origin}"
        ) from None
    settings: dict[str, Any] = checked(parsed, table(rows), "", "", origin)
    return settings


def checked(got: Any, reader: Read, name: str, hint: str, origin: str = "") -> Any:
    """One value, by the name that a person gave it. Raises UsageError."""
    try:
        return reader(got)
    except Wrong as exc:
        why = str(exc).replace("{}", exc.key or name, 1)
        place, edit = (f"{origin}: ", f"edit {origin}") if origin else ("", "kern help settings")
        raise UsageError(f"{place}{why}", hint=hint or exc.hint or edit) from None


def table(rows: Rows) -> Read:
    """A table with settings of these names."""

    def reader(got: Any) -> dict[str, Any]:
        if not isinstance(got, dict):
            raise Wrong("{} must be a table")
        result = {}
        for key, value in got.items():
            row = rows.get(key)
            try:
                if row is None:
                    allowed = ", ".join(name for name in rows if not isinstance(rows[name], str))
                    raise Wrong("unknown setting {}", f"known there: {allowed}")
                if isinstance(row, str):
                    raise Wrong("there is no {} any more", row)
                result[key] = row(value)
            except Wrong as exc:
                exc.key = f"{key}.{exc.key}".removesuffix(".")
                raise
        return result

    return reader


def each(reader: Read) -> Read:
    """A table of any names."""
    return lambda given: table(dict.fromkeys(given if isinstance(given, dict) else (), reader))(
        given
    )


def command(**more: Read | str) -> Read:
    """A command, alone or in a table with what `more` names."""
    rows = table({"run": text, **more})

    def reader(got: Any) -> dict[str, Any]:
        got = {"run": got} if isinstance(got, str) else got
        if not isinstance(got, dict) or not isinstance(one := got.get("run"), str) or not one:
            raise Wrong('{} must be a command, like "make check", or { run = "a command", … }')
        argv: dict[str, Any] = rows(got)
        return {"command": argv.pop("run"), **argv}

    return reader


def value(expected: str, sound: Callable[[Any], Any], hint: str = "") -> Read:
    """One that is as `wanted`."""

    def reader(got: Any) -> Any:
        got = got.strip() if isinstance(got, str) else got
        if not sound(got):
            raise Wrong(f"{{}} must be {expected}", hint, got)
        return got

    return reader


def texts(expected: str, pattern: str = r"(?s).*\S.*", hint: str = "") -> Read:
    """A list of texts that match."""
    one = matching(pattern, f"a list of {expected}", hint)
    return lambda given: tuple(map(one, given if isinstance(given, list) else [None]))


def matching(pattern: str, expected: str, hint: str = "") -> Read:
    """A text that matches."""
    return value(expected, lambda given: is_text(given) and re.fullmatch(pattern, given), hint)


def one_of(words: Collection[object], hint: str = "") -> Read:
    def known(got: Any) -> bool:
        return got in [*words] and not isinstance(got, bool)  # true is no 1

    return value(f"one of {', '.join(map(str, words))}", known, hint)


def is_text(got: Any) -> bool:
    return isinstance(got, str) and "\0" not in got


def is_amount(got: Any) -> bool:
    return type(got) in (int, float) and 0 <= got < _MOST


text = value("a text", is_text)
flag = value("true or false", lambda given: isinstance(given, bool))


def seconds(got: Any) -> float:
    """`90`, `"90s"`, `"10m"`, `"1h30m"`."""
    amount = plain.seconds(got) if isinstance(got, str) else got if is_amount(got) else None
    if amount is None:
        raise Wrong('{} must be seconds, or "90s", "10m", "1h30m"; 0 for none', got=got)
    return float(amount)
