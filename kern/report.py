"""What the journal's records add up to: per task and in all. Pure folds; nothing is kept."""

from collections.abc import Iterable, Sequence
from typing import Any

from kern import plain
from kern.records import Record

NOTHING = ("skipped", "blocked")


def summary(found: Iterable[Record]) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. Costs include retries and failed attempts;
    where a stage named none, `unpriced` counts it.
    """
    tasks: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}
    for record in found:
        run = runs.setdefault(record["run"], _run(record))
        run["ended"] = record["time"]
        if record["kind"] == "run" and record.get("did") == "end":
            run |= {"exit": record.get("exit"), "seconds": record.get("seconds")}
        if name := record.get("task"):
            _add(tasks.setdefault(name, _task(name)), record)
    done = [task for task in tasks.values() if task["outcome"] == "done"]
    cost = sum(task["cost_usd"] for task in tasks.values())
    return {
        "runs": list(runs.values()),
        "tasks": list(tasks.values()),
        "done": len(done),
        "cost_usd": round(cost, 6),
        "unpriced": sum(task["unpriced"] for task in tasks.values()),
        "cost_per_done_usd": round(cost / len(done), 6) if done else None,
        "seconds": round(sum(task["seconds"] for task in tasks.values()), 3),
    }


def _run(record: Record) -> dict[str, Any]:
    began = {"began": record["time"], "ended": record["time"]}
    return {"run": record["run"], "branch": record.get("branch"), **began, "exit": None}


def _task(name: str) -> dict[str, Any]:
    return {
        "task": name,
        "outcome": "open",
        "detail": "",
        "proved": "",
        "commit": None,
        "attempts": [],
        "retries": 0,
        "denied": [],
        "learned": [],
        "red_gates": [],
        "stages": 0,
        "seconds": 0.0,
        "cost_usd": 0.0,
        "unpriced": 0,
        "tokens": {},
    }


def _add(task: dict[str, Any], record: Record) -> None:
    match record["kind"], record.get("did"):
        case "task", "start":
            task["outcome"] = "open"
        case "task", outcome:
            task |= {"outcome": outcome, "detail": record.get("detail", "")}
            task["proved"] = record.get("proved", "")
        case "commit", _:
            task["commit"] = record.get("commit")
        case "stage", "end" | "failed":
            _pay(task, record)
        case "attempt", _:
            keys = ("attempt", "reason", "ref")
            task["attempts"].append({key: record.get(key) for key in keys})
        case "retry", _:
            task["retries"] += 1
        case "gate", _ if record.get("red"):
            task["red_gates"].append(record.get("gate"))
        case "learning", _:
            task["learned"].append(record.get("text"))


def _pay(task: dict[str, Any], record: Record) -> None:
    task["stages"] += 1
    task["seconds"] = round(task["seconds"] + (record.get("seconds") or 0), 3)
    if (cost := record.get("cost_usd")) is None:
        task["unpriced"] += 1
    else:
        task["cost_usd"] = round(task["cost_usd"] + cost, 6)
    for kind, count in (record.get("tokens") or {}).items():
        task["tokens"][kind] = task["tokens"].get(kind, 0) + count
    task["denied"] += record.get("denied") or []


def text(found: dict[str, Any], *, markdown: bool = False) -> str:
    """For a terminal, or as the text of a pull request."""
    if not found["tasks"]:
        return "nothing in the journal yet: it begins with the first run"
    lines = [_headline(found), ""]
    for title, outcomes in (
        ("Done", ("done",)),
        ("Tried, did not work", ("concluded",)),
        ("Split into subtasks", ("decomposed",)),
        ("Needs a look", (*NOTHING, "open")),
    ):
        rows = [task for task in found["tasks"] if task["outcome"] in outcomes]
        if rows:
            lines += [f"## {title}" if markdown else f"{title}:", ""]
            for task in rows:
                lines += _lines(task, markdown=markdown)
            lines.append("")
    return "\n".join(lines).rstrip()


def _headline(found: dict[str, Any]) -> str:
    runs = f"{len(found['runs'])} run{'s' if len(found['runs']) != 1 else ''}"
    per = found["cost_per_done_usd"]
    each = f", ${per:.2f} per finished task" if per is not None else ""
    return f"{found['done']} done in {runs}, {money(found)}{each} (API-equivalent)"


def money(found: dict[str, Any]) -> str:
    if found["unpriced"] and not found["cost_usd"]:
        return "cost unknown"
    more = f" and {found['unpriced']} stage(s) of unknown cost" if found["unpriced"] else ""
    return f"${found['cost_usd']:.2f}{more}"


def _lines(task: dict[str, Any], *, markdown: bool) -> Sequence[str]:
    bullet, inner = ("- ", "  - ") if markdown else ("  ", "      ")
    commit = f" ({task['commit'][:7]})" if task["commit"] else ""
    proved = f"; {plain.line(task['proved'], 160)}" if task["proved"] else ""
    lines = [f"{bullet}{plain.line(task['task'], 160)}{commit}: {money(task)}{proved}"]
    if task["outcome"] in NOTHING:
        lines.append(f"{inner}{task['outcome']}: {plain.line(task['detail'])}")
    for attempt in task["attempts"]:
        said = f"attempt {attempt['attempt']}: {plain.line(str(attempt['reason']))}"
        lines.append(f"{inner}{said}; git show {attempt['ref']}")
    lines += [f"{inner}refused: {plain.line(tool, 160)}" for tool in task["denied"][:5]]
    return lines
