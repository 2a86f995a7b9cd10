"""An answer in the one shape that kern keeps, and the JSON values that it is made of.

`jq .result` and `jq .total_cost_usd` read the result object whichever CLI was asked.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kern.agents.protocol import Answer

KINDS = ("input", "output", "cache_creation_input", "cache_read_input")  # of tokens
_LONGEST = 300  # characters of what a call was given
# What says most about a call, the first that is there.
_TELLING = (
    *("command", "filePath", "file_path", "notebook_path", "pattern", "url", "query"),
    *("description", "path", "prompt"),
)


def made(
    text: str,
    *,
    cost: float | None = None,
    turns: int | None = None,
    session: str = "",
    tokens: Mapping[str, int],
) -> Answer:
    """`cost`, `turns`: where the CLI tells them."""
    return answer(
        {
            "type": "result",
            "subtype": "success",
            "result": text,
            "total_cost_usd": cost,
            "num_turns": turns,
            "session_id": session,
            "usage": {f"{kind}_tokens": count for kind, count in tokens.items()},
        }
    )


def answer(result: Mapping[str, Any]) -> Answer:
    """What every CLI's result object tells, kern's own shape and claude's alike."""
    text, turns = result.get("result"), known(result.get("num_turns"))
    usage = part(result, "usage")
    counts = {kind: known(usage.get(f"{kind}_tokens")) for kind in KINDS}
    return Answer(
        result=dict(result),
        text=text if isinstance(text, str) else "",
        cost_usd=known(result.get("total_cost_usd")),
        turns=None if turns is None else int(turns),
        session=str(result.get("session_id") or ""),
        tokens={kind: int(count) for kind, count in counts.items() if count is not None},
    )


def added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {kind: sum(one.get(kind, 0) for one in counts) for kind in KINDS}


def call(name: object, given: object) -> str:
    """`bash make test`: the tool, and what says most of what it was given."""
    texts = given if isinstance(given, dict) else {}
    telling = next((text for key in _TELLING if isinstance(text := texts.get(key), str)), "")
    return f"{name} {telling[:_LONGEST]}".strip()


def parsed(text: str | bytes) -> dict[str, Any]:
    """The object in a text; empty where there is none."""
    try:
        value = json.loads(text)
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
