"""What the journal's records add up to: per task, in total, and as a forecast of the next run. Pure
folds; nothing is kept.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kern import plain
from kern.journal import sums, words
from kern.journal.record import Record
from kern.journal.sums import account, pay, spent
from kern.model import SAID, UNVERIFIED, Cause, Need, unverified
from kern.plain import escaped

FROM, LEAST = 20, 3  # finished tasks, the newest, that a forecast is made from
_OVER: Mapping[str, str] = {
    Cause.FORM: "over the form of the answer",
    Cause.GATE: "over a gate",
    Cause.JUDGE: "over a judge",
    Cause.HOOK: "over a hook",
    Cause.COMMIT: "rejected at the commit",
    Cause.TIME: "out of time",
    Cause.LIMIT: "over a broken limit",
    Cause.OWN: "by the agent's own word",
    Cause.COLLISION: "over what had landed meanwhile",
    Cause.OTHER: "over something else",
}
_OF_AN_ERROR = ("time", "run", "branch", "task", "text")
_NO_TASK = "(before a task)"
_UNSURE = {"what": "flaky", "where": ""}
_NOTHING = ("skipped", "blocked", "asked")  # outcomes that call for a person
_UNSETTLED = (*_NOTHING, "open")


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand now, beside what the journal tells of what happened: as SPEC.md has its
    tasks, by their texts, and which refs git still has.
    """

    needs: tuple[Need, ...] | None = None  # None: SPEC.md was not looked at, or cannot be read
    held: tuple[Need, ...] = ()  # by a person
    done: frozenset[str] = frozenset()  # that are ticked
    answered: Mapping[str, str] = field(default_factory=dict)  # with the answer
    again: frozenset[str] = frozenset()  # that are not ticked, say after kern undo
    refs: frozenset[str] | None = None  # of saved attempts, as the journal names them


NOWHERE = Standing()


def summary(found: Iterable[Record], now: Standing = NOWHERE) -> dict[str, Any]:
    """Keys are stable: they are what `--json` prints. Costs include retries and failed attempts;
    null where no stage named one, and where some did not, `unpriced` counts them.
    """
    found = list(found)
    tasks: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}
    errors: list[dict[str, Any]] = []
    flaky: list[dict[str, Any]] = []
    total = account()
    for record in found:
        run = runs.setdefault(record.get("fleet", record["run"]), _run(record))
        run["ended"] = record["time"]
        # One of many: its run is none, and what ended it early the run itself says if it ends too.
        of_worker = record["kind"] in ("run", "error") and "worker" in record
        match "" if of_worker else record["kind"], record.get("did"):
            case "run", "start":
                run["payer"] = record.get("payer", "")
            case "run", "end":
                run |= {"exit": record.get("exit"), "seconds": record.get("seconds")}
            case "error", _:
                errors.append({name: record.get(name) for name in _OF_AN_ERROR})
            case "stage", "end" | "failed":
                pay(total, record)
            case "gate", _ if record.get("flaky"):
                flaky.append({name: record.get(name) for name in ("gate", "flaky", "task")})
        if name := record.get("task"):
            _add(tasks.setdefault(name, blank(name)), record)
    for task in tasks.values():
        task["state"] = _state(task, now)
        for attempt in task["attempts"]:
            ref = str(attempt["ref"] or "")
            attempt["ref"] = ref if now.refs is None or ref in now.refs else ""  # it may be gone
        task["warnings"] = [text for text in task["warnings"] if _still(text, now.refs)]
    done = sum(task["outcome"] == "done" for task in tasks.values())
    return {
        "runs": list(runs.values()),
        "tasks": list(tasks.values()),
        "done": done,
        "needs": _needs(tasks, now),
        "held": [need._asdict() for need in now.held],
        **total,
        "cost_per_done_usd": sums.each(total, done),
        "causes": _causes(tasks.values()),
        "agents": sums.by_agent(found),
        "memory": sums.of_memory(found),
        "errors": errors,
        "outages": dict(zip(("count", "seconds"), sums.outages(found), strict=True)),
        "flaky": flaky,
        "review": [
            *(one for task in tasks.values() for one in _review(task)),
            *({**_UNSURE, "task": one["task"] or _NO_TASK, "text": _gate(one)} for one in flaky),
        ],
    }


def _gate(flaky: Mapping[str, Any]) -> str:
    return f"{flaky['gate']}: {flaky['flaky']}; green on the same files"


def _state(task: Mapping[str, Any], now: Standing) -> str:
    """A task's outcome, in a word or two, with what a person has done since."""
    outcome, text = str(task["outcome"]), task["task"]
    if outcome == "done" and text in now.again:
        return "done, and open again"
    if outcome == "done" and unverified(task["proved"]):
        return f"done, {UNVERIFIED}"
    if outcome in _UNSETTLED and text in now.done:
        return "done by you"
    if outcome == "asked" and text in now.answered:
        return "answered"
    return SAID.get(outcome, outcome)


def _needs(tasks: Mapping[str, Mapping[str, Any]], now: Standing) -> list[dict[str, Any]]:
    """Each task that needs a person, once: as SPEC.md has them; else as the journal left them."""
    left = (task for task in tasks.values() if task["outcome"] in _NOTHING)
    rows = (Need(0, 0, task["task"], task["detail"], "kern status") for task in left)
    return [need._asdict() for need in (rows if now.needs is None else now.needs)]


def _causes(tasks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """What failed attempts failed over, the most frequent first; an older kern noted none."""
    named = (one.get("cause") or "other" for task in tasks for one in task["attempts"])
    return dict(Counter(named).most_common())


def _run(record: Record) -> dict[str, Any]:
    head = {"run": record["run"], "branch": record.get("branch"), "began": record["time"]}
    return {**head, "ended": record["time"], "payer": "", "exit": None, "seconds": None}


def _still(text: str, refs: frozenset[str] | None) -> bool:
    """Whether git has the saved work that a warning names."""
    named = re.findall(r"kern/attempts/[^\s;]+", text)
    return refs is None or all(ref in refs for ref in named)


def blank(name: str) -> dict[str, Any]:
    """A task of which nothing is known."""
    end = {"outcome": "open", "state": "open", "detail": "", "proved": "", "commit": None}
    seen: dict[str, Any] = {"attempts": [], "retries": 0, "denied": [], "learned": []}
    seen["warnings"] = []
    return {"task": name, **end, **seen, "red_gates": [], "red_before": [], **account()}


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
            pay(task, record)
            task["denied"] += record.get("denied") or []
        case "attempt", _:
            keys = ("attempt", "reason", "ref", "cause")
            task["attempts"].append({key: record.get(key) for key in keys})
        case "retry", _:
            task["retries"] += 1
        case "gate", _ if record.get("red"):
            gates = task["red_before" if record.get("red_before") else "red_gates"]
            if record.get("gate") not in gates:
                gates.append(record.get("gate"))
        case "warning", _:
            task["warnings"].append(record.get("text"))
        case "learning", _:
            task["learned"].append(record.get("text"))


def _review(task: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """What a person should look at, each with where it is."""

    def look(what: str, text: str, where: str) -> dict[str, Any]:
        return {"task": task["task"], "what": what, "text": text, "where": where}

    done = task["outcome"] == "done"
    commit = f"git show {task['commit'][:10]}" if task["commit"] else ""
    if task["state"] in _NOTHING:
        yield look(task["outcome"], task["detail"], "SPEC.md")
    if done and unverified(task["proved"]):
        yield look(UNVERIFIED, "no gate passed for this commit", commit)
    for gate in task["red_before"] if done else ():
        yield look("red before", f"{gate} was red before the task, and still is", commit)
    for text in dict.fromkeys(task["warnings"]):
        yield look("warning", text, commit)
    for attempt in task["attempts"]:
        said = f"attempt {attempt['attempt']} failed: {attempt['reason']}"
        yield look("attempt", said, f"git show {attempt['ref']}" if attempt["ref"] else "")
    for tool in task["denied"]:
        yield look("refused", tool, "")
    for text in task["learned"]:
        yield look("learned", text, "LEARNINGS.md")


# ---------------------------------------------------------------- the forecast


def forecast(found: Iterable[Record], tasks: int) -> tuple[str, float]:
    """What so many tasks may cost and take, in words, with retries and failed attempts, and the
    seconds; empty and 0 where too few are finished. Of a task whose beginning is not in the records
    nothing is counted.
    """
    last = _finished(found)
    if len(last) < LEAST or tasks < 1:
        return "", 0.0
    costs = [one["cost_usd"] for one in last if one["cost_usd"] is not None and not one["unpriced"]]
    money, each = "", ""
    if len(costs) >= LEAST:
        each_usd, cheap, dear = typical(costs)
        money = f"${tasks * each_usd:.2f}, "
        each = f": ${cheap:.2f}–{dear:.2f} a task"  # noqa: RUF001
    seconds = tasks * typical([one["seconds"] for one in last])[0]
    rough = plain.span(60 * round(seconds / 60) if seconds >= 90 else seconds)
    made = f"an estimate from your last {len(last)} finished tasks{each}"
    return f"{plain.count(tasks, 'task')}, about {money}{rough} ({made})", seconds


def _finished(found: Iterable[Record]) -> list[dict[str, Any]]:
    """The newest finished tasks, each with what it took."""
    begun: dict[str, dict[str, Any]] = {}
    finished: list[dict[str, Any]] = []
    for record in found:
        name = record.get("task", "")
        match record["kind"], record.get("did"):
            case "task", "start" if not record.get("resumed"):
                begun.setdefault(name, account())
            case "task", "done" if name in begun:
                finished.append(begun.pop(name))
            case "stage", "end" | "failed" if name in begun:
                pay(begun[name], record)
            case "gate", _ if name in begun:
                begun[name]["seconds"] += record.get("seconds") or 0
    return finished[-FROM:]


def typical(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of the middle half, its least and its greatest: one task that ran away is not in it.
    A median would forget the expensive third, and a forecast is of a sum.
    """
    cut = len(values) // 4
    held = sorted(values)[cut : len(values) - cut]
    return sum(held) / len(held), held[0], held[-1]


# ---------------------------------------------------------------- in words


def text(found: Mapping[str, Any], local: Callable[[str], str], *, markdown: bool = False) -> str:
    """For a terminal, or as the text of a pull request. `local` says a record's time."""
    if not found["runs"]:
        return "nothing in the journal yet: it begins with the first run"
    bullet, inner = ("- ", "  - ") if markdown else ("  ", "      ")
    shown = escaped if markdown else str
    lines = [_headline(found), *_failed(found["causes"])]
    lines += filter(None, [sums.waited(**found["outages"])])

    def section(title: str, rows: list[str]) -> None:
        if rows:
            lines.extend(["", f"## {title}" if markdown else f"{title}:", "", *rows])

    needy = {need["task"] for need in (*found["needs"], *found["held"])}
    for key, title in (("needs", "Needs you"), ("held", "Held")):
        needs = [row for need in found[key] for row in _need(need)]
        section(title, [(bullet if first else inner) + shown(row) for first, row in needs])
    for title, outcomes in (
        ("Done", ("done",)),
        ("Tried, did not work", ("concluded",)),
        ("Split into subtasks", ("decomposed",)),
        ("Open", _UNSETTLED),
    ):
        rows = [task for task in found["tasks"] if task["outcome"] in outcomes]
        told = [one for one in rows if outcomes is not _UNSETTLED or one["task"] not in needy]
        section(title, [bullet + shown(_line(task)) for task in told])
    reviewed: list[str] = []
    before = ""
    for one in (one for one in found["review"] if one["what"] not in _NOTHING):
        if one["task"] != before:
            reviewed.append(bullet + shown(plain.line(one["task"], 160)))
            before = one["task"]
        where = f"; {one['where']}" if one["where"] else ""
        prefix = "" if one["what"] == "attempt" else f"{one['what']}: "
        reviewed.append(inner + shown(f"{prefix}{plain.line(one['text'])}{where}"))
    section("To review", reviewed)
    often = words.flaky((str(one["gate"]), str(one["flaky"])) for one in found["flaky"])
    section("Flaky gates", [bullet + shown(row) for row in often])
    section("Learnings", [bullet + row] if (row := sums.remembered(found["memory"])) else [])
    section("By agent", [bullet + shown(row) for row in sums.compared(found["agents"])])
    ended = [f"{local(error['time'])}  {plain.line(error['text'])}" for error in found["errors"]]
    once = dict.fromkeys(ended)  # many at once end for the same reason
    section("Runs that ended early", [bullet + shown(one) for one in once])
    return plain.block("\n".join(lines))


def _headline(found: Mapping[str, Any]) -> str:
    runs = plain.count(len(found["runs"]), "run")
    needy = f", {len(found['needs'])} need you" if found["needs"] else ""
    needy += f", {len(found['held'])} held" if found["held"] else ""
    bare = sum(task["outcome"] == "done" and unverified(task["proved"]) for task in found["tasks"])
    unproven = f", {bare} {UNVERIFIED}" if bare else ""
    parents = sum(task["outcome"] == "decomposed" for task in found["tasks"])
    split = f", {parents} split into subtasks" if parents else ""
    counts = f"{found['done']} done{needy}{unproven}{split}"
    return f"{counts} in {runs}; {spent(found)} (costs are API-equivalent)"


def _need(need: Mapping[str, Any]) -> Iterable[tuple[bool, str]]:
    """Its lines; of each whether it is the first."""
    number = f"{need['number']}  " if need["number"] else ""
    yield True, f"{number}{plain.line(need['task'], 160)}"
    yield False, plain.line(need["why"])
    yield False, need["do"]


def _failed(causes: Mapping[str, int]) -> list[str]:
    if not causes:
        return []
    over = ", ".join(f"{count} {_OVER.get(cause, cause)}" for cause, count in causes.items())
    return [f"{plain.count(sum(causes.values()), 'attempt')} failed: {over}"]


def _line(task: Mapping[str, Any]) -> str:
    commit = f" ({task['commit'][:7]})" if task["commit"] else ""
    proved = f"; {plain.line(task['proved'])}" if task["proved"] else ""
    state = f"{task['state']}, " if task["state"] not in ("done", "open", *SAID.values()) else ""
    return f"{plain.line(task['task'], 160)}{commit}: {state}{spent(task)}{proved}"
