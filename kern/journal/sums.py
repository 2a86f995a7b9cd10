"""What records add up to: money, tokens and time of stages, by agent as well, and what learnings
cost that stages were told. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kern import plain
from kern.journal.record import Record
from kern.model import Cost, Stage

SPAN = ("since", "until", "seconds")  # of an outage; the last: of the wait that begins
Who = tuple[str, str]  # agent and model; empty where an older kern noted none


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


def each(found: Mapping[str, Any], done: int) -> float | None:
    """US dollars for a finished task; None where that is not known."""
    usd = found["cost_usd"]
    return round(usd / done, 6) if done and usd is not None else None


def spent(found: Mapping[str, Any]) -> str:
    """Money, for a finished task as well where that is told, tokens and the agents' time."""
    usd = found.get("cost_per_done_usd")
    per = f", ${usd:.2f} per finished task" if usd is not None else ""
    counted = sum(found["tokens"].values())
    tokens = f", {counted:,} tokens" if counted else ""
    return f"{cost(found)}{per}{tokens}, {plain.span(found['seconds'])}"


def cost(found: Mapping[str, Any]) -> Cost:
    """Of a run, a task or a whole report."""
    return Cost(found["cost_usd"], found["unpriced"])


def outages(found: Iterable[Record]) -> tuple[int, float]:
    """How many, and for how many seconds; those that several workers met at once are one."""
    met = [[one.get(name) or 0.0 for name in SPAN] for one in found if one["kind"] == "outage"]
    count, total, end = 0, 0.0, 0.0
    for since, until, still in sorted(met):
        count += since > end
        total += max(until - still - max(since, end), 0.0)
        end = max(end, until - still)
    return count, round(total, 3)


def waited(count: int, seconds: float) -> str:
    return f"waited {plain.span(seconds)} in {plain.count(count, 'outage')}" if count else ""


# ---------------------------------------------------------------- who finishes tasks for least


def by_agent(found: Iterable[Record]) -> list[dict[str, Any]]:
    """What each agent and model cost, and what came of it, most stages first. What came of a task
    counts for whoever did its last implement stage.
    """
    rows: dict[Who, dict[str, Any]] = {}
    last: dict[str, Who] = {}  # by task
    for record in found:
        task = record.get("task") or ""
        match record["kind"], record.get("did"):
            case "stage", "end" | "failed":
                agent, model = who = record.get("agent") or "", record.get("model") or ""
                blank = {"agent": agent, "model": model, "done": 0, "attempts": 0, **account()}
                pay(rows.setdefault(who, blank), record)
                if record.get("stage") == Stage.IMPLEMENT:
                    last[task] = who
            case "attempt", _ if task in last:
                rows[last[task]]["attempts"] += 1
            case "task", "done" if task in last:
                rows[last[task]]["done"] += 1
    told = [{**row, "cost_per_done_usd": each(row, row["done"])} for row in rows.values()]
    return sorted(told, key=lambda row: -row["stages"])


def compared(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line each, where there is more than one to compare."""
    shown = [_of_agent(row) for row in rows]
    return shown if len(shown) > 1 else []


def _of_agent(row: Mapping[str, Any]) -> str:
    name = " ".join(filter(None, (row["agent"], row["model"]))) or "unknown"
    done = f"{plain.count(row['done'], 'task')} done, " if row["done"] else ""
    failed = f"{plain.count(row['attempts'], 'failed attempt')}, " if row["attempts"] else ""
    stages = plain.count(row["stages"], "stage")
    return f"{plain.line(name, 60)}: {done}{failed}{stages}, {spent(row)}"


# ---------------------------------------------------------------- learnings


def of_memory(found: Iterable[Record]) -> dict[str, Any]:
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


def remembered(sums: Mapping[str, Any]) -> str:
    """For a report; empty where no stage was told any and nothing was voted on."""
    if not (sums["stages"] or sums["helpful"] or sums["harmful"]):
        return ""
    stages, entries = plain.count(sums["stages"], "stage"), plain.count(sums["entries"], "learning")
    votes = f"{sums['helpful']} helpful, {sums['harmful']} harmful"
    cost = f"{entries} told to {stages}, {sums['tokens']:,} tokens in all"
    return f"{cost}; {sums['used']} used; votes: {votes}"
