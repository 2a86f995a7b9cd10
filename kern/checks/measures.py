"""What a change is measured by, of the files that it changes: `measures.toml` has the table."""

import json
import re
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path

from kern import plain

_TABLE = tomllib.loads(Path(__file__).with_name("measures.toml").read_text("utf-8"))
TEST = "|".join(_TABLE["tests"].values())


def counts(path: str, keep: Sequence[str], by_gates: Collection[str], *, new: bool = False) -> bool:
    """Whether a change is measured by it, or by a `new` one. `keep`: files, and folders, that a
    person adds to the table; `by_gates`: what those name.
    """
    is_kept = any(f"{path}/".startswith(f"{one.rstrip('/')}/") for one in keep)
    is_old = _is("tests", path) or (path in by_gates and _is("named", path))
    return is_kept or _is("settings", path) or (is_old and not new)


def differs(path: str, old: bytes, new: bytes) -> bool:
    """Whether what counts of a file of which only a part does is another."""
    name = path.rpartition("/")[2]
    if head := _TABLE["tables"].get(name):
        return _tables(head, plain.decode(old)) != _tables(head, plain.decode(new))
    keys = _TABLE["keys"].get(name, ())
    try:
        was, now = (json.loads(one) if keys else {} for one in (old, new))
        scripts = was.get("scripts", {}).items()  # a new one is run by no gate of before
        return any(now.get("scripts", {}).get(one) != what for one, what in scripts) or any(
            was.get(key) != now.get(key) for key in keys if key != "scripts"
        )
    except (ValueError, AttributeError):  # no JSON, or not of that form
        return True


def of(kind: str, paths: Collection[str]) -> list[str]:
    """Those that are of a kind of the table."""
    return sorted(path for path in paths if _is(kind, path))


def _is(kind: str, path: str) -> bool:
    return any(re.search(pattern, path) for pattern in _TABLE[kind].values())


def _tables(head: str, text: str) -> list[str]:
    return [one.strip() for one in re.split(r"(?m)^(?=\[)", text) if re.match(head, one)]
