"""The journal: what happened, kept line by line, and what it adds up to."""

import json
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kern import events
from kern.journal import store, totals
from kern.journal.history import fold
from kern.model import Cost, Result
from kern.views import summary
from tests.conftest import Fake, Git, Inline, Kern, commit_all

GREEN = {"run": ["echo good > n"], "result": "did it\n\n## Learned\nn is good\n\nSUCCESS"}
RED = {"run": ["echo bad > n"], "result": "did it\n\nSUCCESS"}
OVERLOAD = {
    "result": "overloaded",
    "fields": {"is_error": True, "api_error_status": 529, "total_cost_usd": 0.5},
}


def lines(repo: Path) -> list[dict[str, Any]]:
    text = (repo / ".git" / "kern" / "events.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def eventful(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    """A run with a retry, a red gate, an attempt, a learning and a commit."""
    (repo / "n").write_text("good\n")
    (repo / "kern.toml").write_text("[gates]\ncheck = 'grep -q good n'\n")
    commit_all(git, "more")
    usage = {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 7}
    found = {"usage": usage, "num_turns": 4}
    fake.script(
        research=[OVERLOAD, {"result": "- Files: a.txt:1\n\nREADY", "fields": found}],
        implement=[RED, {**GREEN, "run": ["echo very good > n"]}],
    )
    assert inline(1).code == 0


def test_each_event_is_one_line_with_its_values(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    eventful(repo, git, fake, inline)
    found = lines(repo)
    assert len({record["id"] for record in found}) == len(found)
    assert [record["seq"] for record in found] == list(range(1, len(found) + 1))
    assert {record["run"] for record in found} == {found[0]["run"]}
    assert all(record["v"] == 1 and record["branch"] == "main" for record in found)
    kinds = "run task stage retry gate attempt learning"
    assert {record["kind"] for record in found} == {*kinds.split()}
    ended = [r for r in found if r["kind"] == "stage" and r["did"] == "end"]
    assert [r["stage"] for r in ended] == ["research", "implement", "implement", "commit"]
    assert ended[0]["tokens"] == {"input": 10, "output": 3, "cache_read_input": 7}
    assert (ended[0]["turns"], ended[0]["model"]) == (4, "opus")
    assert [r["attempt"] for r in ended] == [1, 1, 2, 2]
    (done,) = [r for r in found if r.get("commit")]
    assert (done["did"], done["commit"]) == ("done", git("rev-parse", "HEAD"))
    before, *rest = [r for r in found if r["kind"] != "run"]
    assert (before["kind"], before["red"], before["task"]) == ("gate", False, "")
    assert all(r["task"] == "add a greeting" for r in rest)
    assert git("status", "--porcelain") == ""


def test_two_worktrees_write_one_journal_and_two_clones_lines_are_one(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    assert inline(1).code == 0
    assert inline(1, cwd=tmp_path / "side").code == 0
    found = lines(repo)
    assert {record["branch"] for record in found} == {"main", "side"}
    half = found[: len(found) // 2]
    mixed = [*found, *half]
    random.Random(3).shuffle(mixed)
    assert store.ordered(mixed) == store.ordered(found)
    assert totals.summary(fold(store.ordered(mixed))) == totals.summary(fold(store.ordered(found)))


@pytest.mark.parametrize("there", ["folder", "link"])
def test_a_journal_that_cannot_be_written_stops_no_paid_work(
    repo: Path, fake: Fake, inline: Inline, kern: Kern, there: str
) -> None:
    place = store.place(repo / ".git")
    place.parent.mkdir()
    if there == "folder":
        place.mkdir()
    else:
        place.symlink_to(repo / "SPEC.md")
    ran = inline(1)
    assert ran.code == 0
    assert ran.err.count("cannot be written") == 1
    assert store.Follower(place).new() == []
    looked = kern("log")
    assert (looked.code, looked.out) == (0, "")
    assert f"without the journal {place}: " in looked.err


def test_the_log_can_be_narrowed(
    repo: Path, git: Git, fake: Fake, inline: Inline, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] add \x1b[31ma farewell\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    assert inline(2).code == 0
    run = lines(repo)[0]["run"]
    farewell = kern("log", "--task", "FAREWELL").out
    assert "add a farewell" in farewell
    assert "greeting" not in farewell
    assert "\x1b" not in farewell
    assert kern("log", "--run", run[:5]).out == kern("log").out
    shown = kern("log", "--task", "farewell").out.split()[2]
    assert run.startswith(shown)
    assert kern("log", "--run", shown).out == kern("log").out
    for wrong in (("--run", "nope"), ("--task", "nope", "--json")):
        ran = kern("log", *wrong)
        assert (ran.code, ran.out) == (2, "")
        assert "nothing in the journal matches 'nope'" in ran.err


def test_the_log_is_followed(
    repo: Path, fake: Fake, inline: Inline, background: Callable[..., "subprocess.Popen[str]"]
) -> None:
    assert inline(1).code == 0
    follower = background("log", "-f", "--json")
    assert follower.stdout and follower.stdout.readline()
    (repo / "SPEC.md").write_text("- [ ] one more\n")
    assert inline(1).code == 0
    assert any("one more" in line for line in follower.stdout)


def test_who_follows_gets_what_a_runs_workers_write_from_then_on_each_once(tmp_path: Path) -> None:
    def row(name: str, **more: str) -> bytes:
        head = {"v": 1, "id": name, "time": "T", "run": "w", "kind": "task", "seq": 1}
        return store.line({**head, **more})

    path = tmp_path / "events.jsonl"
    path.write_bytes(row("before", fleet="ours"))
    follower = store.Follower(path, "ours")
    assert follower.new() == []
    for written, told in (
        (row("a", fleet="ours") + row("b", fleet="another"), ["a"]),
        (row("c") + row("d", fleet="ours")[:20], []),
        (row("d", fleet="ours")[20:] + row("e", fleet="ours"), ["d", "e"]),
        (row("a", fleet="ours") + row("f", fleet="ours") * 2, ["f"]),  # brought home once more
        (b"", []),
    ):
        with path.open("ab") as file:
            file.write(written)
        assert [one["id"] for one in follower.new()] == told
    path.unlink()
    assert follower.new() == []


def test_a_report_begins_where_it_is_told(
    repo: Path, fake: Fake, inline: Inline, kern: Kern
) -> None:
    assert inline(1).code == 0
    assert "nothing in the journal" in kern("report", "--since", "2999-01-01").out
    for since in ("1h", "1h30m", "2d", "today", "yesterday"):
        assert "1 done" in kern("report", "--since", since).out, since


# ---------------------------------------------------------------- many workers


def told(*rows: dict[str, Any], run: str = "main01") -> list[dict[str, Any]]:
    """Records, a second after each other; `worker`: of one of many, whose own run is `w1`, `w2`."""
    found = []
    for seq, row in enumerate(rows, 1):
        worker = {"run": f"w{row['worker']}", "fleet": run} if "worker" in row else {"run": run}
        time = f"2026-07-01T10:00:{seq:02}.000Z"
        head = {"v": 1, "id": f"{run}{seq}", "time": time, "seq": seq, "branch": "main"}
        found.append({"task": "", **head, **worker, **row})
    return found


BEGAN = {"kind": "run", "did": "start", "root": "/x", "open": 2, "iterations": 5}
AT_WORK = {"kind": "stage", "did": "start", "stage": "implement", "model": "m", "attempt": 1}


def test_a_worker_that_is_gone_is_not_at_work_and_what_it_has_finished_waits_to_land() -> None:
    rows = told(
        BEGAN,
        {**AT_WORK, "task": "Alpha", "worker": 1},
        {**AT_WORK, "task": "Beta", "worker": 2},
        {"kind": "task", "did": "skipped", "task": "Alpha", "detail": "ended early 3 times"},
        {"kind": "task", "did": "start", "task": "Beta", "worker": 3},
        {"kind": "work", "did": "done", "task": "Beta", "worker": 3},
        {"kind": "run", "did": "end", "exit": 0, "worker": 3},
        {"kind": "task", "did": "start", "task": "Gamma", "worker": 1},
    )
    doing = [(one.task, one.doing) for one in fold(rows).runs["main01"].workers.values()]
    assert doing == [("Beta", "waits to land"), ("Gamma", "begins")]


def test_what_a_worker_writes_of_how_tasks_end_is_not_believed() -> None:
    end = {"kind": "task", "did": "done", "task": "Alpha", "proved": "gate", "worker": 1}
    commit = {"kind": "commit", "task": "Alpha", "commit": "c" * 40, "worker": 1}
    exit = {"kind": "run", "did": "end", "exit": 0, "worker": 1}
    rows = told(BEGAN, end, commit, exit)
    for row in rows:
        row.pop("worker", None)  # as a machine of the cluster may say
    history = fold(rows)
    task = history.tasks["Alpha"]
    assert (task.outcome, task.commit) == ("open", None)
    assert history.runs["main01"].exit is None


def test_a_clock_that_goes_back_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = store.Journal(lambda event: None, tmp_path, "main", "main01")
    for text, clock in (("first", 1e9), ("then", 2e9), ("last", 1e9)):
        monkeypatch.setattr(time, "time", lambda now=clock: now)
        journal(events.warning(text, kept=True))
    assert [one["text"] for one in store.load(journal.path)] == ["first", "then", "last"]


def test_an_outage_that_nothing_ended_lasted_until_its_last_wait_began() -> None:
    away = {"kind": "outage", "did": "away", "text": "", "since": 10, "until": 100, "seconds": 60}
    assert totals.outages(fold(told(BEGAN, away))) == (1, 30.0)


def test_what_follows_the_end_of_a_task_is_none_of_it(tmp_path: Path) -> None:
    journal = store.Journal(lambda event: None, tmp_path, "main", "main01")
    for did in ("start", "done"):
        journal(events.new("task", did, task="one"))
        journal(events.gate_ended(Result("of what lands next", 0, "")))
    tasks = [one["task"] for one in store.load(journal.path)]
    assert tasks == ["one", "one", "one", ""]


def test_the_log_tells_of_a_worker_while_another_waits_for_the_api(repo: Path, kern: Kern) -> None:
    away = {"kind": "outage", "did": "away", "text": "away", "since": 1, "until": 2, "seconds": 5}
    rows = told(
        BEGAN,
        {**away, "worker": 1},
        away,
        {**AT_WORK, "task": "Beta", "worker": 2},
        {**AT_WORK, "did": "end", "task": "Beta", "worker": 2},
        {"kind": "gate", "gate": "test", "red": False, "code": 0, "task": "Beta", "worker": 2},
        {**AT_WORK, "task": "Alpha", "worker": 1},
        {**AT_WORK, "did": "end", "task": "Alpha", "worker": 1},
        {"kind": "task", "did": "start", "task": "Gamma", "worker": 3},
        {"kind": "work", "did": "skipped", "task": "Gamma", "commit": "", "worker": 3},
        {"kind": "task", "did": "skipped", "task": "Gamma", "detail": "no key"},
    )
    place = store.place(repo / ".git")
    place.parent.mkdir()
    place.write_bytes(b"".join(map(store.line, rows)))
    shown = [line[29:] for line in kern("log").out.splitlines()]
    did = ("stage 2/3 implement (m)", "implement", "test: green")
    of_beta = [f"2  {one}  (Beta)" for one in did]
    of_gamma = ["3  task: Gamma", "skipped: no key  (Gamma)"]
    assert shown[1:] == ["away", *of_beta, "1  implement  (Alpha)", *of_gamma]


def test_a_runs_headline_is_its_own_word_and_no_line_of_the_journal(tmp_path: Path) -> None:
    shown: list[str] = []

    def sink(event: events.Event) -> None:
        if isinstance(event, events.RunEnded):
            shown.extend(text for text, _ in summary.lines(event))

    journal = store.Journal(sink, tmp_path, "main", "main01")
    journal(
        events.new("run", "start", run="main01", root="/x", branch="main", open=2, iterations=2)
    )
    facts = {"task": "Gamma", "detail": "x", "commit": "c" * 40, "proved": "gate test"}
    journal(events.new("task", "done", **facts))
    end = {"kind": "task", "did": "done", "detail": "x", "proved": "gate `test`"}
    lies: tuple[dict[str, Any], ...] = (
        {**end, "task": "Alpha", "fleet": "main01", "worker": 1},
        {**end, "task": "Beta"},
        {**AT_WORK, "did": "end", "task": "Alpha", "cost_usd": 50.0, "tokens": {"in": 10}},
    )
    attempt = {"kind": "attempt", "task": "Delta", "attempt": 1, "reason": "red", "run": "w1"}
    for seq, lie in enumerate((*lies, {**attempt, "fleet": "main01", "worker": 1}), 100):
        row = {"v": 1, "id": f"w{seq}", "time": store.now(), "run": "main01", "seq": seq, **lie}
        store.append(journal.path, store.line(row))
    for _ in range(3 * store.NIGHT // 4_000):
        journal(events.warning("w" * 4_000, kept=True))
    done = (("Gamma", "c" * 40),)
    figures: dict[str, Any] = {"needs_help": ()}
    figures |= {"cost": Cost(3.0), "tokens": 900, "interrupted": ""}
    journal(
        events.RunEnded(
            events.row("run", "end", open=1, ahead=1, seconds=60.0), done=done, **figures
        )
    )
    assert shown[1] == "1 done, 1 open; $3.00 (API-equivalent), 900 tokens, 1 min"
    assert not [line for line in shown if "Alpha" in line or "Beta" in line]
    assert "  Delta" in shown  # however much was written since


def test_what_an_agent_was_refused_is_cut(tmp_path: Path) -> None:
    journal = store.Journal(lambda event: None, tmp_path, "main", "main01")
    refused = ("Bash: " + "x" * 3_000_000, *["Bash"] * 10_000)
    journal(events.new("stage", "end", stage="implement", task="Alpha", denied=refused))
    assert journal.path.stat().st_size < 6_000


def test_what_others_took_is_read_once_and_then_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    paid = {**AT_WORK, "did": "end", "task": "Alpha", "cost_usd": 2.0, "tokens": {"in": 10}}
    path.write_bytes(b"".join(map(store.line, told({**paid, "worker": 1}, {**paid, "worker": 2}))))
    earlier, beside = store.earlier(path, "w2"), store.beside(path, "main01", "w2")
    assert earlier("Alpha") == beside() == (2.0, 10)
    store.append(path, store.line(told(*[{**paid, "worker": 3}] * 3)[2]))
    assert (earlier("Alpha"), beside()) == ((2.0, 10), (4.0, 20))
