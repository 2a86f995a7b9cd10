"""What an agent printed, as JSON objects, and the values in them."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

Object = dict[str, Any]

LINE_LIMIT = 1 << 22  # bytes of a line; a longer one holds what a command printed
KINDS = ("input", "output", "cache_creation_input", "cache_read_input")  # of tokens
_SAME = dict(zip(KINDS, KINDS, strict=True))
_SHOWN = 1 << 16  # bytes of a line that is no object
_LONGEST = 300  # characters of what a call was given
# What says most about a call, the first that is there.
_TELLS = "command filePath file_path notebook_path pattern url query description path prompt tool"


def objects(file: BinaryIO) -> Iterator[Object]:
    """Of each line, in order."""
    while data := file.readline(LINE_LIMIT):
        yield line(data)


def line(data: bytes) -> Object:
    """What is no object, as a log has it, is the `log` of one."""
    return parsed(data) or {"log": data[:_SHOWN].decode("utf-8", "replace").rstrip()}


def parsed(text: str | bytes) -> Object:
    """The object that it is; empty where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def part(value: Mapping[Any, Any], name: str) -> Object:
    """The object of that name; empty where there is none."""
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def parts(value: Mapping[Any, Any], name: str) -> list[Object]:
    """The objects in the list of that name."""
    inner = value.get(name)
    return [one for one in inner if isinstance(one, dict)] if isinstance(inner, list) else []


def number(value: object) -> float | None:
    """One of sane size; JSON as Python reads it has infinities as well."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    return None


def whole(value: object) -> int:
    """0 where it is no number."""
    return int(number(value) or 0)


def total(values: Iterable[object]) -> float | None:
    """None where it is nothing: a model without prices costs 0 in a CLI's eyes."""
    return sum(number(value) or 0 for value in values) or None


def tokens(usages: Iterable[Object], names: Mapping[str, str] = _SAME) -> dict[str, int]:
    """By kind, as far as they tell. `names`: what the CLI calls each kind."""
    counts = Counter[str]()
    for one in usages:
        counts.update({kind: whole(one[name]) for kind, name in names.items() if name in one})
    return dict(counts)


def call(name: object, arguments: object = None) -> str:
    """`bash make test`: the tool, and what says most of what it was given."""
    texts = arguments if isinstance(arguments, dict) else {}
    telling = next((text for key in _TELLS.split() if isinstance(text := texts.get(key), str)), "")
    return f"{name} {telling[:_LONGEST]}".strip()
