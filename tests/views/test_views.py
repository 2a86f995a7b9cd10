"""What `kern show`, `kern status`, `kern report` and the forecast make of a journal."""

import json
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kern.journal import store, totals
from kern.journal.history import fold
from kern.views import summary
from tests.conftest import Fake, Git, Inline, Kern, wait_for
from tests.journal.test_journal import GREEN

STAGES = ("research", "implement", "commit")


def write_spec(repo: Path, git: Git, text: str) -> None:
    (repo / "SPEC.md").write_text(text)
    git("commit", "--quiet", "--all", "--message=tasks")


def journal(repo: Path) -> Path:
    return repo / ".git" / "kern" / "events.jsonl"


def made(run: str, rows: Iterable[dict[str, Any]], when: str = "2030-01-01") -> list[Any]:
    """Records of one run as kern writes them."""
    return [
        {
            **{"v": 1, "id": f"{run}{seq:04}", "time": f"{when}T10:00:00.{seq:03}Z", "run": run},
            **{"seq": seq, "branch": "main", "task": "", **row},
        }
        for seq, row in enumerate(rows, 1)
    ]


def walked(task: str, *costs: float | None, seconds: float = 60.0, **more: Any) -> list[Any]:
    """A task's records: a stage for each cost, and its end as done."""
    start = {"task": task, "kind": "task", "did": "start", "resumed": "", **more}
    stages = [
        {"task": task, "kind": "stage", "stage": STAGES[at % 3], "did": "end"}
        | {"seconds": seconds / len(costs), "cost_usd": cost, "tokens": {"output": 5}}
        for at, cost in enumerate(costs)
    ]
    end = {"task": task, "kind": "task", "did": "done", "detail": "x", "proved": "gate"}
    return [start, *stages, end]


# -------------------------------------------------------------------- kern status


def test_status_tells_what_the_run_is_at_and_what_it_spent(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Callable[..., Any]
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n")
    (fake.folder / "go").mkdir()
    fake.script(implement=[{**GREEN}, {**GREEN, "sleep": 30}])
    run = background("2", "0")
    wait_for(lambda: fake.stages.count("implement") == 2)
    found = json.loads(kern("status", "--json").out)
    assert found["holder"] == {"pid": run.pid, "host": found["holder"]["host"], "alive": True}
    assert [(one["doing"], one["task"]) for one in found["workers"]] == [("implement", "second")]
    assert found["run"]["under_way"] is True
    assert (found["run"]["done"], found["run"]["cost_usd"]) == (1, 0.04)
    assert [task["cost_usd"] for task in found["tasks"]] == [0.03, 0.01]
    shown = kern("status").out
    assert f"run in progress: pid {run.pid}\n  stage 2/3 implement, " in shown
    assert "this run: 1 done, $0.04, " in shown
    noise = made("w1", [{"kind": "warning", "text": "w" * 4000, "fleet": "other"}] * 600)
    with journal(repo).open("ab") as file:
        file.write(b"".join(map(store.line, noise)))
    assert "this run: 1 done, $0.04, " in kern("status").out


def test_the_last_run_is_the_branchs_own(repo: Path, git: Git, kern: Kern) -> None:
    start = {"kind": "run", "did": "start", "payer": ""}
    side = ({**one, "branch": "side"} for one in made("cccc", [{**start, "root": "bbbb"}]))
    runs = [*made("bbbb", [start, *walked("two", 1.0)]), *made("dddd", [{"kind": "plan"}])]
    journal(repo).parent.mkdir()
    journal(repo).write_bytes(b"".join(map(store.line, [*runs, *side])))
    assert json.loads(kern("status", "--json").out)["run"]["run"] == "bbbb"
    git("switch", "-qc", "side")
    assert json.loads(kern("status", "--json").out)["run"]["run"] == "cccc"


@pytest.mark.parametrize("how", ["undo", "edit"])
def test_what_was_opened_again_is_not_done(
    repo: Path, fake: Fake, inline: Inline, kern: Kern, how: str
) -> None:
    assert inline(1).code == 0
    assert kern("report").out.startswith("1 done")
    if how == "undo":
        assert kern("undo", "1").code == 0
    else:
        (repo / "SPEC.md").write_text("- [ ] add a greeting\n")
    found = json.loads(kern("report", "--json").out)
    assert (found["done"], found["tasks"][0]["state"]) == (0, "opened again")
    assert kern("report").out.startswith("0 done")


def test_a_report_tells_what_a_person_has_done_since(repo: Path, kern: Kern) -> None:
    ends = {"one": "asked", "two": "skipped", "three": "blocked", "gone": "asked"}
    rows = [{"task": task, "kind": "task", "did": end} for task, end in ends.items()]
    journal(repo).parent.mkdir()
    journal(repo).write_bytes(b"".join(map(store.line, made("r", rows))))
    answered = "- [ ] one\n  > **Question:** which?\n  > **Answer:** that\n"
    (repo / "SPEC.md").write_text(f"{answered}- [x] two\n- [ ] three\n  > **Blocked:** no key\n")
    states = [task["state"] for task in json.loads(kern("report", "--json").out)["tasks"]]
    assert states == ["answered", "done by you", "blocked", "asked"]
    assert kern("report").out.endswith("\nOpen:\n  one: answered\n")
    (repo / "SPEC.md").unlink()
    assert kern("report").out.startswith("0 done; $0.00 ")


# -------------------------------------------------------------------- a bad journal

BAD = (
    b'{"v": 1, "id": "x',
    b"[]",
    b'{"v": 2, "id": "n", "time": "t", "run": "r", "kind": "stage"}',
    b'{"v": 1, "id": "n", "time": "t", "run": "r", "kind": "x", "task": ' + b"9" * 5000 + b"}",
    *(
        b'{"v": 1, "id": "n", "time": "t", "run": "r", "seq": 1, "kind": "stage", %s}' % value
        for value in (
            *(b'"seconds": 1e999', b'"cost_usd": -50', b'"cost_usd": NaN', b'"commit": 5'),
            *(b'"cost_usd": "free"', b'"since": "noon"', b'"until": []', b'"seconds": null'),
            b'"tokens": {"a": "b"}',
        )
    ),
)


def test_a_line_that_cannot_be_read_is_skipped_and_said(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    records = made("run", walked("a", 1.0))
    whole = b"".join(map(store.line, records))
    file.write_bytes(b"\n".join(BAD) + b"\n\n" + whole + b'{"v": 1, "id": "being writ')
    told: list[str] = []
    assert store.load(file, told.append) == records
    why = "13 lines skipped: damaged, or from a newer kern"
    assert told == [f"the journal {file}: {why}"]
    assert store.load(file, size=len(whole) + 60) == records


# -------------------------------------------------------------------- kern report


def test_a_report_without_any_cost_says_unknown(
    repo: Path, fake: Fake, inline: Inline, kern: Kern
) -> None:
    unknown = {"total_cost_usd": None}
    fake.script(
        research=[{"result": "- Files: a.txt:1\n\nREADY", "fields": unknown}],
        implement=[{**GREEN, "fields": unknown}],
        commit=[{"result": "do the task", "fields": unknown}],
    )
    assert inline(1).code == 0
    found = json.loads(kern("report", "--json").out)
    assert (found["cost_usd"], found["unpriced"]) == (None, 3)
    assert found["tasks"][0]["cost_usd"] is None
    status = json.loads(kern("status", "--json").out)
    assert (status["run"]["cost_usd"], status["tasks"][0]["cost_usd"]) == (None, None)
    for argv in (("report",), ("status",), ("show", "1")):
        shown = kern(*argv).out
        assert "cost unknown" in shown
        assert "$" not in shown


@pytest.mark.parametrize(
    ("words", "live"),
    [
        ("![x](https://evil.example/b.png)", "!["),
        ("[log in](https://evil.example)", "[log in]"),
        ("<img src=x>", " <"),
        ("&lt;", " &"),
        ("~~~ hidden", " ~"),
        ("```", " `"),
        ("# title", "- #"),
        ("**bold** _so_", "**"),
        ("ask @octocat", " @"),
        ("fixes #12 and GH-3", " #1"),
        ("\\[x](y)", " \\["),
    ],
)
def test_markdown_for_a_pull_request_shows_an_agents_words_as_words(words: str, live: str) -> None:
    rows = [*walked(words, 1.0), {"task": words, "kind": "learning", "text": words}]
    rows.append({"kind": "error", "text": words})
    found = fold(made("r", rows))
    for line in summary.report(found, markdown=True).splitlines():
        assert live not in f" {line}", line
    assert words in summary.report(found)


@pytest.mark.slow
def test_no_value_of_a_journal_reaches_the_terminal_raw(repo: Path, kern: Kern) -> None:
    rows = walked("a greeting", 1.0)
    rows[1] |= {"stage": "\x1b[31mstage", "model": "\x1b]0;x\x07"}
    rows += [
        {"task": "a greeting", "kind": "attempt", "reason": "\x9b1m\u202e", "ref": "\x1b[2J"},
        {"task": "a greeting", "kind": "commit", "commit": "\x1b[2J"},
        {"kind": "error", "text": "\x1b[2J", "branch": "\x1b[2J"},
        {"kind": "run", "did": "start", "payer": "\x1b[2J"},
        {"kind": "\x1b[2J", "\x1b[2J": 1},
        {"task": "a greeting", "kind": "gate", "red": True, "red_before": []},
        {"task": "a greeting", "kind": "stage"},
        {"task": "a greeting", "kind": "task"},
        {"kind": "error"},
        {"kind": "outage", "did": "over"},
        {"task": "a greeting", "kind": "attempt"},
        {"task": "a greeting", "kind": "stage", "denied": [1, None, {}]},
    ]
    journal(repo).parent.mkdir()
    found = [{**record, "time": f"{record['time']}\x1b"} for record in made("r", rows)]
    found[-1]["time"] = "9" * 21 + "-01-01T00:00:00.000Z"
    journal(repo).write_bytes(b"".join(map(store.line, found)))
    views = (("show", "a greeting"), ("report",), ("log",), ("status",))
    pages = (("report", "--md"), ("report", "--html"))
    for argv in (*views, *((*view, "--json") for view in views), *pages):
        shown = kern(*argv)
        assert (shown.code, shown.err) == (0, "")
        assert not re.search(r"[\x1b\x07\x9b\u202e]", shown.out), argv
    exact = [json.loads(line) for line in kern("log", "--json").out.splitlines()]
    assert [record["id"] for record in exact] == [record["id"] for record in found]
    assert {"\x9b1m\u202e"} < {record.get("reason") for record in exact}


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles"])
def test_a_date_begins_at_the_persons_own_midnight(
    repo: Path, fake: Fake, inline: Inline, kern: Kern, zone: str
) -> None:
    assert inline(1).code == 0
    at = {"Pacific/Auckland": "2029-12-31T11", "America/Los_Angeles": "2030-01-01T08"}
    midnight = at[zone]  # of 2030-01-01, in UTC
    rows = [json.loads(line) for line in journal(repo).read_text().splitlines()]
    for run, minute in (("early", -1), ("late", 1)):
        epoch = time.mktime(time.strptime(f"{midnight} UTC", "%Y-%m-%dT%H %Z")) - time.timezone
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(epoch + 60 * minute))
        rows += [{**row, "time": moment} for row in made(run, walked(run, 1.0))]
    journal(repo).write_bytes(b"".join(map(store.line, rows)))
    env = {"TZ": zone}
    found = json.loads(kern("report", "--since", "2030-01-01", "--json", env=env).out)
    assert [task["task"] for task in found["tasks"]] == ["late"]
    assert "2030-01-01 00:01:00  late    task: late" in kern("log", env=env).out


# -------------------------------------------------------------------- the forecast


def test_a_forecast_counts_every_try_and_says_nothing_where_it_knows_too_little() -> None:
    rows = [row for n in range(9) for row in walked(f"t{n}", 0.1, 0.2, 0.3, seconds=120)]
    told = "5 tasks, about $3.00, 10 min of agents (an estimate from your last 9 finished tasks)"
    assert totals.forecast(fold(made("r", rows)), 5) == told
    rows = [row for n in range(3) for row in walked(f"t{n}", None, 0.2)]
    assert totals.forecast(fold(made("r", rows[:-1])), 5) == ""  # the third is not done
    assert totals.forecast(fold(made("r", rows)), 0) == ""
    told = "2 tasks, about 2 min of agents (an estimate from your last 3 finished tasks)"
    assert totals.forecast(fold(made("r", rows)), 2) == told
