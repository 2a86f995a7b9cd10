"""A settings file as data, and what is said of a setting that is none. Text in, values out; nothing
in it is ever executed by reading it. Pure.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kern import plain
from kern.errors import UsageError

MOST = 1e9  # of any number


def loaded(data: bytes | str, origin: str) -> dict[str, Any]:
    """TOML as it stands there. Raises UsageError."""
    import tomllib  # 2 ms, and most of what looks at kern reads no settings

    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        why = f"is not valid TOML: {exc}"
    except RecursionError:
        why = "is nested too deeply"
    except ValueError:  # of thousands of digits
        why = "holds a number that is too long"
    raise UsageError(f"{origin} {why}", hint=f"edit {origin}")


def table(given: Mapping[str, Any], key: str, origin: str, *names: str) -> Mapping[str, Any]:
    """Empty where there is none. `names`: of the settings there; none: any. Raises UsageError."""
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise wrong(origin, key, "a table")
    if names:
        known(value, names, origin, f"{key}.")
    return value


def known(given: Collection[str], names: Collection[str], origin: str, above: str = "") -> None:
    """Raises UsageError for the first setting that has none of these names. `above`: `gates.`"""
    if strange := sorted({*given} - {*names}):
        raise UsageError(
            f"{origin}: unknown setting {above}{strange[0]}",
            hint=f"known there: {', '.join(names)}",
        )


def wrong(origin: str, key: str, wanted: str, hint: str = "") -> UsageError:
    return UsageError(f"{origin}: {key} must be {wanted}", hint=hint or f"edit {origin}")


def texts(value: object) -> tuple[str, ...] | None:
    """None for what is no list of texts, or where one says nothing."""
    sound = isinstance(value, list) and all(map(is_text, value))
    return tuple(value) if sound and isinstance(value, list) else None


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def is_amount(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and bool(0 <= value < MOST)  # type: ignore[operator]


def seconds(value: object) -> float | None:
    """`90`, `"90s"`, `"10m"`, `"1h30m"`; None for anything else, a number that is too great too."""
    if is_amount(value):
        return float(value)  # type: ignore[arg-type]
    return plain.seconds(value) if isinstance(value, str) else None
