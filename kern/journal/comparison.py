"""What each agent and model cost, and what came of it: who finishes tasks for least. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from kern import plain
from kern.journal.record import Record
from kern.journal.sums import account, pay, spent

Who = tuple[str, str]  # agent and model; empty where an older kern noted none


def by_agent(found: Iterable[Record]) -> list[dict[str, Any]]:
    """Most stages first. What came of a task counts for whoever did its last implement stage."""
    rows: dict[Who, dict[str, Any]] = {}
    last: dict[str, Who] = {}  # by task
    for record in found:
        task = record.get("task") or ""
        match record["kind"], record.get("did"):
            case "stage", "end" | "failed":
                who = record.get("agent") or "", record.get("model") or ""
                row = rows.setdefault(who, _blank(who))
                pay(row, record)
                if record.get("stage") == "implement":
                    last[task] = who
            case "attempt", _ if task in last:
                rows[last[task]]["attempts"] += 1
            case "task", "done" if task in last:
                rows[last[task]]["done"] += 1
    for row in rows.values():
        usd = row["cost_usd"]
        known = row["done"] and usd is not None
        row["cost_per_done_usd"] = round(usd / row["done"], 6) if known else None
    return sorted(rows.values(), key=lambda row: -row["stages"])


def _blank(who: Who) -> dict[str, Any]:
    agent, model = who
    return {"agent": agent, "model": model, "done": 0, "attempts": 0, **account()}


def lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """One each, where there is more than one to compare."""
    shown = [_line(row) for row in rows]
    return shown if len(shown) > 1 else []


def _line(row: Mapping[str, Any]) -> str:
    name = " ".join(filter(None, (row["agent"], row["model"]))) or "unknown"
    done = f"{plain.count(row['done'], 'task')} done, " if row["done"] else ""
    failed = f"{plain.count(row['attempts'], 'failed attempt')}, " if row["attempts"] else ""
    per = row["cost_per_done_usd"]
    each = f", ${per:.2f} per finished task" if per is not None else ""
    stages = plain.count(row["stages"], "stage")
    return f"{plain.line(name, 60)}: {done}{failed}{stages}, {spent(row, each)}"
