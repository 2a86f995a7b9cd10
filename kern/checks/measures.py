"""What a change is measured by, of the files that it changes: `measures.toml` has the table."""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
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


def part(path: str, old: bytes, new: bytes) -> bytes | None:
    """The new file with what counts of it as in the old one; None where that is the same."""
    name = path.rpartition("/")[2]
    if head := _TABLE["tables"].get(name):
        return _with_tables(head, plain.decode(old), plain.decode(new))
    keys = _TABLE["keys"].get(name)
    return _with_keys(keys, old, new) if keys else None


def of(kind: str, paths: Collection[str]) -> list[str]:
    """Those that are of a kind of the table."""
    return sorted(path for path in paths if _is(kind, path))


def _is(kind: str, path: str) -> bool:
    return any(re.search(pattern, path) for pattern in _TABLE[kind].values())


def _with_tables(head: str, old: str, new: str) -> bytes | None:
    def tables(text: str, *, counting: bool) -> Iterator[str]:
        for one in re.split(r"(?m)^(?=\[)", text):
            if bool(re.match(head, one)) is counting:
                yield one.strip()

    before = [*tables(old, counting=True)]
    if before == [*tables(new, counting=True)]:
        return None
    parts = filter(None, (*tables(new, counting=False), *before))
    return plain.encode("\n\n".join(parts) + "\n")


def _with_keys(keys: Sequence[str], old: bytes, new: bytes) -> bytes | None:
    """A script that is new counts for nothing: no gate of before runs it."""
    try:
        was, now = json.loads(old), json.loads(new)
        merged = {key: was[key] for key in keys if key in was}
        if "scripts" in now:
            merged["scripts"] = {**now["scripts"], **was.get("scripts", {})}
        if merged == {key: now[key] for key in keys if key in now}:
            return None
        rest = {key: value for key, value in now.items() if key not in keys}
    except (ValueError, TypeError, AttributeError):  # no JSON, or not of that form: all of it
        return old
    return json.dumps({**rest, **merged}, indent=2).encode()
