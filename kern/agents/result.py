"""The result object in the one shape that kern keeps, for CLIs that print another, and the JSON
values that it is made of.

`jq .result` and `jq .total_cost_usd` read it whichever CLI was asked.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kern.agents.protocol import Reply

KINDS = ("input", "output", "cache_creation_input", "cache_read_input")  # of tokens
COMPLAINT = 4000  # characters of what a call that failed said
_LONGEST = 300  # characters of what a call was given
# What says most about a call, the first that is there.
_TELLING = (
    *("command", "filePath", "file_path", "path", "pattern", "url", "query", "description"),
    "prompt",
)


def made(
    text: str,
    *,
    cost: float | None = None,
    turns: int | None = None,
    session: str = "",
    tokens: Mapping[str, int],
    model: str = "",
    errors: Sequence[str] = (),
    **more: object,
) -> dict[str, Any]:
    """`cost`, `turns`: where the CLI tells them. `errors`: what it says went wrong. `more`: what
    its module's `fault` wants to know.
    """
    return {
        "type": "result",
        "subtype": "error" if errors else "success",
        "is_error": bool(errors),
        "result": text,
        "total_cost_usd": cost,
        "num_turns": turns,
        "session_id": session,
        "model": model,
        "usage": {f"{kind}_tokens": count for kind, count in tokens.items()},
        **({"errors": [*errors]} if errors else {}),
        **more,
    }


def reply(result: Mapping[str, Any]) -> Reply:
    """What every CLI's result object tells, kern's own shape and claude's alike."""
    text, turns = result.get("result"), known(result.get("num_turns"))
    return Reply(
        result=dict(result),
        text=text if isinstance(text, str) else "",
        cost_usd=known(result.get("total_cost_usd")),
        turns=None if turns is None else int(turns),
        session=str(result.get("session_id") or ""),
        tokens=tokens(part(result, "usage")),
    )


def tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    """By kind, those that it tells."""
    counts = {kind: known(usage.get(f"{kind}_tokens")) for kind in KINDS}
    return {kind: int(count) for kind, count in counts.items() if count is not None}


def added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {kind: sum(one.get(kind, 0) for one in counts) for kind in KINDS}


def said(result: Mapping[str, Any]) -> str:
    """What went wrong, by the result itself."""
    errors = result.get("errors")
    return "; ".join(map(str, errors)) if isinstance(errors, list) else ""


def call(name: object, given: object, first: Sequence[str] = _TELLING) -> str:
    """`bash make test`: the tool and what it was given; `first`: what says most of that."""
    texts = given if isinstance(given, dict) else {}
    telling = next((text for key in first if isinstance(text := texts.get(key), str)), "")
    return f"{name} {telling[:_LONGEST]}".strip()


def parsed(line: bytes) -> dict[str, Any]:
    """The object on a line; empty where there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def part(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object of that name; empty where there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def parts(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in the list of that name."""
    found = value.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def programs(name: str, data: bytes, keys: Sequence[str], cli: str) -> list[str]:
    """Of a project's settings file what can name a program, by those keys; a line each."""
    value = parsed(data)
    if not value:
        return [f"{name} cannot be read as JSON; {cli} may read it otherwise"]
    return [f"{name} {key}: {shown(value[key])}" for key in keys if key in value]


def known(value: object) -> float | None:
    """A number of sane size; JSON as Python reads it has infinities as well."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    return None


def number(value: object) -> float:
    """0 where it is none."""
    return known(value) or 0.0


def whole(value: object) -> int:
    return int(number(value))
