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

    def __init__(self, why: str, hint: str = "", given: object = None) -> None:
        shown = isinstance(given, str) and given.strip()
        super().__init__(why + (f", not {plain.line(str(given), 80)!r}" if shown else ""))
        self.hint = hint
        self.key = ""


def read(data: bytes | str, origin: str, rows: Rows) -> dict[str, Any]:
    """What the file says. Raises UsageError that names it, and the setting."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        given = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as exc:  # also of bytes that are no text, of endless digits
        raise UsageError(
            f"{origin} is not valid TOML: {plain.line(str(exc))}", hint=f"edit {origin}"
        ) from None
    found: dict[str, Any] = checked(given, table(rows), "", "", origin)
    return found


def checked(given: Any, reader: Read, name: str, hint: str, origin: str = "") -> Any:
    """One value, by the name that a person gave it. Raises UsageError."""
    try:
        return reader(given)
    except Wrong as exc:
        why = str(exc).replace("{}", exc.key or name, 1)
        place, edit = (f"{origin}: ", f"edit {origin}") if origin else ("", "kern help settings")
        raise UsageError(f"{place}{why}", hint=hint or exc.hint or edit) from None


def table(rows: Rows) -> Read:
    """A table with settings of these names."""

    def reader(given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise Wrong("{} must be a table")
        found = {}
        for key, value in given.items():
            row = rows.get(key)
            try:
                if row is None:
                    known = ", ".join(name for name in rows if not isinstance(rows[name], str))
                    raise Wrong("unknown setting {}", f"known there: {known}")
                if isinstance(row, str):
                    raise Wrong("there is no {} any more", row)
                found[key] = row(value)
            except Wrong as exc:
                exc.key = f"{key}.{exc.key}".removesuffix(".")
                raise
        return found

    return reader


def each(reader: Read) -> Read:
    """A table of any names."""
    return lambda given: table(dict.fromkeys(given if isinstance(given, dict) else (), reader))(
        given
    )


def command(**more: Read | str) -> Read:
    """A command, alone or in a table with a time-out and what `more` names."""
    rows = table({"run": text, "timeout": seconds, **more})

    def reader(given: Any) -> dict[str, Any]:
        given = {"run": given} if isinstance(given, str) else given
        if not isinstance(given, dict) or not isinstance(one := given.get("run"), str) or not one:
            raise Wrong('{} must be a command, like "make check", or { run = "a command", … }')
        found: dict[str, Any] = rows(given)
        return {"command": found.pop("run"), **found}

    return reader


def value(wanted: str, sound: Callable[[Any], Any], hint: str = "") -> Read:
    """One that is as `wanted`."""

    def reader(given: Any) -> Any:
        given = given.strip() if isinstance(given, str) else given
        if not sound(given):
            raise Wrong(f"{{}} must be {wanted}", hint, given)
        return given

    return reader


def texts(wanted: str, pattern: str = r"(?s).*\S.*", hint: str = "") -> Read:
    """A list of texts that match."""
    one = matching(pattern, f"a list of {wanted}", hint)
    return lambda given: tuple(map(one, given if isinstance(given, list) else [None]))


def matching(pattern: str, wanted: str, hint: str = "") -> Read:
    """A text that matches."""
    return value(wanted, lambda given: _text(given) and re.fullmatch(pattern, given), hint)


def one_of(words: Collection[object], hint: str = "") -> Read:
    def known(given: Any) -> bool:
        return given in [*words] and not isinstance(given, bool)  # true is no 1

    return value(f"one of {', '.join(map(str, words))}", known, hint)


def _text(given: Any) -> bool:
    return isinstance(given, str) and "\0" not in given


def _amount(given: Any) -> bool:
    return type(given) in (int, float) and 0 <= given < _MOST


text = value("a text", _text)
flag = value("true or false", lambda given: isinstance(given, bool))
amount = value("a number, 0 for no bound", _amount)
whole = value("a whole number, 0 for no bound", lambda one: _amount(one) and type(one) is int)


def seconds(given: Any) -> float:
    """`90`, `"90s"`, `"10m"`, `"1h30m"`."""
    found = plain.seconds(given) if isinstance(given, str) else given if _amount(given) else None
    if found is None:
        raise Wrong('{} must be seconds, or "90s", "10m", "1h30m"; 0 for none', given=given)
    return float(found)
