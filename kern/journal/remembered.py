"""What the learnings cost that stages were told, and what came of them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from kern import plain
from kern.journal import words
from kern.journal.record import Record


def figures(found: Iterable[Record]) -> dict[str, Any]:
    """Keys are stable. `tokens`: of what was told, in all `stages` together; `entries`: how many
    different ones; `used`: of these, how many got a vote; the votes themselves.
    """
    told: set[str] = set()
    voted: set[str] = set()
    sums = {"stages": 0, "tokens": 0, "helpful": 0, "harmful": 0}
    for record in found:
        match record["kind"]:
            case "recall":
                ids = record.get("told")
                told.update(ids if isinstance(ids, dict) else ())
                size = record.get("size")
                sums["stages"] += bool(ids)
                sums["tokens"] += size if isinstance(size, int) else 0
            case "vote":
                voted.add(str(record.get("entry")))
                sums["helpful" if record.get("helpful") is True else "harmful"] += 1
    return {**sums, "entries": len(told), "used": len(voted & told)}


def line(sums: Mapping[str, Any]) -> str:
    """For a report; empty where no stage was told any and nothing was voted on."""
    if not (sums["stages"] or sums["helpful"] or sums["harmful"]):
        return ""
    stages, entries = plain.count(sums["stages"], "stage"), plain.count(sums["entries"], "learning")
    votes = f"{sums['helpful']} helpful, {sums['harmful']} harmful"
    cost = f"{entries} told to {stages}, {sums['tokens']:,} tokens in all"
    return f"{cost}; {sums['used']} used; votes: {votes}"


def rows(found: Iterable[Record]) -> list[str]:
    """For the receipt of a task."""
    kinds = ("recall", "vote")
    return [row for record in found if record["kind"] in kinds for row in words.said(record)]
