"""Which agent and model finishes tasks for the least."""

from typing import Any

from kern.journal import totals
from kern.journal.history import fold
from kern.journal.totals import NOWHERE
from kern.views import summary

Record = dict[str, Any]


def stage(name: str, agent: str, model: str, usd: float | None, did: str = "end") -> Record:
    paid = {"cost_usd": usd, "seconds": 10.0, "tokens": {"output": 5}}
    return {"kind": "stage", "did": did, "stage": name, "agent": agent, "model": model, **paid}


def of(task: str, *rows: Record) -> list[Record]:
    return [{"run": "r", "time": "2026-01-01T00:00:00", "task": task, **row} for row in rows]


DONE: Record = {"kind": "task", "did": "done"}
FAILED: Record = {"kind": "attempt", "attempt": 1, "reason": "red", "ref": "", "cause": "gate"}
FOUND = [
    *of("a", stage("research", "claude", "opus", 1.0), stage("implement", "codex", "", None)),
    *of("a", FAILED, stage("implement", "claude", "opus", 2.0), DONE),
    *of("b", stage("research", "claude", "opus", 1.0), stage("implement", "codex", "", None)),
    *of("b", stage("commit", "claude", "haiku", 0.1, "failed"), DONE),
]


def test_what_came_of_a_task_counts_for_who_implemented_it_last() -> None:
    opus, codex, haiku = totals.agents(fold(FOUND))
    assert (opus.name, opus.spent.stages, opus.done) == ("claude opus", 3, 1)
    assert (opus.spent.cost_usd, opus.spent.each(opus.done)) == (4.0, 4.0)
    assert (codex.name, codex.spent.stages, codex.done) == ("codex", 2, 1)
    assert codex.spent.cost_usd is codex.spent.each(codex.done) is None
    assert codex.spent.unpriced == 2
    assert haiku.done == 0
    assert fold(FOUND).spent.stages == 6


def test_the_report_compares_where_there_is_something_to_compare() -> None:
    text = summary.report(fold(FOUND), NOWHERE)
    assert text.partition("By agent:\n")[2].splitlines() == [
        "  claude opus: 1 task done, 3 stages, $4.00, $4.00 per finished task, 15 tokens, 30 s",
        "  codex: 1 task done, 2 stages, cost unknown, 10 tokens, 20 s",
        "  claude haiku: 1 stage, $0.10, 5 tokens, 10 s",
    ]
    alone = fold(of("a", stage("implement", "claude", "opus", 1.0)))
    assert "By agent" not in summary.report(alone, NOWHERE)
    assert [row.name for row in totals.agents(alone)] == ["claude opus"]


def test_an_older_journal_names_no_agent() -> None:
    old = of("a", {"kind": "stage", "did": "end", "stage": "implement", "model": "opus"}, DONE)
    assert [row.name for row in totals.agents(fold(old))] == ["opus"]
