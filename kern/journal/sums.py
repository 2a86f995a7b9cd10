"""Money, tokens and time of stages, added up. Pure."""

from collections.abc import Mapping
from typing import Any

from kern import plain
from kern.journal.record import Record
from kern.model import Cost


def account() -> dict[str, Any]:
    """Of no stage yet; what none named is unknown, and never 0."""
    return {"stages": 0, "seconds": 0.0, "cost_usd": None, "unpriced": 0, "tokens": {}}


def pay(into: dict[str, Any], record: Record) -> None:
    into["stages"] += 1
    into["seconds"] = round(into["seconds"] + (record.get("seconds") or 0), 3)
    total = cost(into) + Cost.of([record.get("cost_usd")])
    into |= {"cost_usd": total.usd, "unpriced": total.unpriced}
    for kind, count in (record.get("tokens") or {}).items():
        into["tokens"][kind] = into["tokens"].get(kind, 0) + count


def spent(found: Mapping[str, Any], more: str = "") -> str:
    """Money, tokens and the agents' time."""
    counted = sum(found["tokens"].values())
    tokens = f", {counted:,} tokens" if counted else ""
    return f"{cost(found)}{more}{tokens}, {plain.span(found['seconds'])}"


def cost(found: Mapping[str, Any]) -> Cost:
    """Of a run, a task or a whole report."""
    return Cost(found["cost_usd"], found["unpriced"])
