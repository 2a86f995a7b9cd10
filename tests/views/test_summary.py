"""The summary of a run, in the order in which it is read, of the whole night."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kern.events import RunEnded
from kern.model import Cost, Need
from kern.views import summary

BLOCKED = Need(6, 9, "publish", "no key", "kern show 6, edit the task, kern unblock 6")
ASKS = Need(2, 3, "store", "asks: which?", 'kern answer 2 "…"')
ENDED = RunEnded(
    done=(),
    needs_help=(),
    stuck=(),
    open_tasks=5,
    seconds=3720,
    cost=Cost(1.5),
    interrupted="",
    exit_code=1,
    tokens=82_000,
    needs=(ASKS, BLOCKED),
)
GREEN = "verified by gate test, gate lint"


def night(*rows: dict[str, Any], run: str = "r", at: int = 0) -> tuple[Mapping[str, Any], ...]:
    time = f"2026-11-06T{at:02d}:00:00.000Z"
    return tuple({"run": run, "time": time, "branch": "main", **row} for row in rows)


def done(task: str, proved: str = GREEN) -> dict[str, Any]:
    end = {"kind": "task", "did": "done", "detail": f"1a2b3c4 Do {task}"}
    return {**end, "task": task, "proved": proved}


def attempt(task: str, number: int = 1) -> dict[str, Any]:
    tried = {"kind": "attempt", "attempt": number, "reason": "no way"}
    return {**tried, "task": task, "ref": f"kern/attempts/{task}-1/{number}"}


def shown(ended: RunEnded) -> str:
    return "".join(f"{text}\n" for text, _ in summary.lines(ended))


def test_first_what_may_be_wrong_then_what_needs_you_then_what_was_done() -> None:
    warning = {"kind": "warning", "task": "flag", "text": "the task changes CLAUDE.md"}
    flaky = {"kind": "gate", "task": "flag", "gate": "gate test", "flaky": "red at first (exit 1)"}
    rows = (
        *(attempt("flag"), flaky, flaky, warning, done("flag")),
        *(warning | {"task": "docs"}, done("docs", f"{GREEN}; tests: t.py: deleted")),
        *(done("page"), done("raw", ""), attempt("publish"), attempt("publish", 2)),
    )
    ends = [("", "", one.get("proved", "")) for one in rows if one["kind"] == "task"]
    assert (
        shown(replace(ENDED, done=tuple(ends), night=night(*rows)))
        == """\

4 done, 2 need you, 1 unverified, 5 open; $1.50 (API-equivalent), 82k tokens, 1 h 2 min

Look at this:
  docs: tests: t.py: deleted
  raw: UNVERIFIED: no gate passed for this commit
  flaky gate test: red at first (exit 1); green on the same files (2 times)
  the task changes CLAUDE.md (2 times)
  To verify such commits, name your checks under [gates] in kern.toml.

Needs you:
   2  store
      asks: which?
      kern answer 2 "…"
   6  publish
      no key
      kern show 6, edit the task, kern unblock 6

Done:
  flag  (1a2b3c4 Do flag)
  docs  (1a2b3c4 Do docs)
  page  (1a2b3c4 Do page)
  raw  (1a2b3c4 Do raw), UNVERIFIED
  the others verified by test, lint

Failed attempts, with the work of each:
  publish
      1: no way
         git show kern/attempts/publish-1/1
      2: no way
         git show kern/attempts/publish-1/2

1 failed attempt of 1 task came right later

next: kern 3 takes the other open tasks
"""
    )


def test_only_what_a_gate_stands_behind_is_green() -> None:
    ended = replace(ENDED, night=night(done("flag"), done("docs", "unverified; red before: x")))
    green = [text.strip() for text, style in summary.lines(ended) if "green" in style]
    assert green == ["flag  (1a2b3c4 Do flag)"]


def test_it_tells_of_the_whole_night() -> None:
    stage = {"kind": "stage", "did": "end", "stage": "implement", "cost_usd": 2.0, "tokens": {}}
    first = night({"kind": "run", "did": "start"}, stage, done("one"), run="a", at=1)
    second = night({"kind": "run", "did": "start"}, stage, done("two"), run="b", at=2)
    told = shown(
        replace(ENDED, needs=(), done=(("two", "1a2b3c4", GREEN),), night=(*first, *second))
    )
    _, head, since, *_ = told.splitlines()
    assert head == "1 done, 5 open; $1.50 (API-equivalent), 82k tokens, 1 h 2 min"
    assert since.startswith("in all since ") and since.endswith(": 2 done in 2 runs; $4.00, 0 s")
    assert "  one  (1a2b3c4 Do one)\n  two  (1a2b3c4 Do two)\n  all verified by test, lint" in told


def test_the_last_line_is_what_to_type_next() -> None:
    alone = replace(ENDED, open_tasks=1, needs=(BLOCKED,))
    assert summary.following(alone) == f"next: {BLOCKED.do}, then: kern"
    both = replace(ENDED, open_tasks=2)
    then = 'kern answer 2 "…", then the other task that needs you, then: kern'
    assert summary.following(both) == f"next: {then}"
    stopped = replace(ENDED, stopped="the next task")
    assert summary.following(stopped).startswith("stopped, as asked; the next kern goes on with")
    late = replace(stopped, until=True)
    assert summary.following(late).startswith("the time of --until has come; the next kern")
    assert summary.following(replace(ENDED, interrupted="no disk")) == ""
    ready = replace(ENDED, open_tasks=0, needs=())
    assert summary.following(ready) == "all tasks are done: git log shows them"


def test_of_a_long_section_the_rest_is_counted() -> None:
    many = tuple(BLOCKED._replace(number=n) for n in range(1, 31))
    told = shown(replace(ENDED, needs=many))
    assert "  20  publish\n" in told and "  21  publish\n" not in told
    assert "  and 10 more: kern status\n" in told


def test_the_next_run_is_the_like_of_this_one() -> None:
    many = replace(ENDED, called="kern -j 4")
    assert summary.following(many) == "next: kern -j 4 3 takes the other open tasks"
    needy = replace(many, open_tasks=1, needs=(BLOCKED,))
    assert summary.following(needy).endswith(", then: kern -j 4")
