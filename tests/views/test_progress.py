"""What the screen says of a run under way: the agent's live output, folded and drawn."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kern.agents import claude
from kern.events import (
    Acted,
    Event,
    GateEnded,
    GateStarted,
    RunStarted,
    StageFailed,
    StageFinished,
    StageRetried,
    StageStarted,
    Steered,
    TaskSettled,
    TaskStarted,
)
from kern.fleet.lanes import Lane, Picture
from kern.journal import words
from kern.model import Act, Aide, Cost, Outcome, Result, Stage
from kern.stages.watch import Watch
from kern.system import process
from kern.views import progress
from kern.views.console import Console
from kern.views.progress import Progress, Seen
from tests.conftest import PATIENCE_S, Fake, Git, Kern

USAGE = {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 5}


def said(*blocks: Any, message: str = "m1") -> bytes:
    """A line of claude's live output."""
    value = {"id": message, "content": list(blocks), "usage": USAGE}
    return json.dumps({"type": "assistant", "message": value}).encode()


def call(name: str, **given: object) -> dict[str, object]:
    return {"type": "tool_use", "id": "t", "name": name, "input": given}


# -------------------------------------------------------------------- claude's live output


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (call("Bash", description="run the tests", command="make test"), "Bash make test"),
        (call("Write", content="x" * 5000, file_path="/p/a.txt"), "Write /p/a.txt"),
        (call("Grep", path="src", pattern="def x"), "Grep def x"),
        (call("Task", prompt="long", description="look around"), "Task look around"),
        (call("WebFetch", url="https://a.example/"), "WebFetch https://a.example/"),
        (call("TodoWrite", todos=[1, 2]), "TodoWrite"),
        ({"type": "tool_use", "name": "Odd", "input": None}, "Odd"),
    ],
)
def test_a_call_is_told_by_its_tool_and_what_says_most_about_it(block: object, told: str) -> None:
    assert claude.act(said(block)) == Act(
        "m1", (told,), {"input": 5, "output": 5, "cache_read_input": 90}
    )


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"type":"assistant"}'),
        *(b'{"type":"user","message":{"content":[]}}', b'{"type":"result","result":"x"}'),
    ],
)
def test_what_shows_no_act_is_none(line: bytes) -> None:
    assert claude.act(line) is None


def test_odd_content_is_an_act_without_calls() -> None:
    for content in (None, "text", [1, None, {"type": "text"}]):
        line = json.dumps({"type": "assistant", "message": {"content": content}}).encode()
        assert claude.act(line) == Act("", (), {})


# -------------------------------------------------------------------- the fold


def seen(*events: Event, start: Progress | None = None) -> Progress:
    now = start or Progress()
    for event in events:
        now = progress.after(now, event)
    return now


def act(*calls: str, message: str = "m1", tokens: int = 100) -> Acted:
    return Acted(Stage.IMPLEMENT, Act(message, calls, {"input": tokens}))


BEGIN = (
    RunStarted("r", "/p", "main", "/f", (), "", open_tasks=3, iterations=10),
    TaskStarted("add a greeting", 1),
    StageStarted(Stage.IMPLEMENT, "add a greeting", "opus", 2),
)


def test_the_parts_of_one_message_count_their_tokens_once() -> None:
    now = seen(*BEGIN, act("Read a"), act("Read b"), act("Bash c", message="m2", tokens=20_000))
    assert now.tokens == 20_100
    assert now.count == 3
    # A message that goes on after another, as a subagent's may, and that grows.
    assert seen(act("Read d", tokens=150), start=now).tokens == 20_150


@pytest.mark.slow
def test_what_is_kept_of_a_stage_stays_small_however_long_it_goes() -> None:
    now = seen(*BEGIN, *(act(f"Read {n}", message=f"m{n}") for n in range(5000)))
    assert (now.count, now.tokens) == (5000, 500_000)
    assert now.calls == ("Read 4996", "Read 4997", "Read 4998", "Read 4999")
    assert len(now.recent) < 10


def test_a_stage_begins_with_nothing_of_the_one_before() -> None:
    again = StageStarted(Stage.COMMIT, "add a greeting", "sonnet", 1)
    for event in (again, GateStarted("gate check", "make check")):
        now = seen(*BEGIN, act("Read a"), event)
        assert (now.calls, now.count, now.tokens) == ((), 0, 0)


def test_the_lines_say_what_is_at_work_where_the_run_stands_and_how_to_stop() -> None:
    finished = StageFinished(Stage.RESEARCH, "add a greeting", "x", 3.0, 1.234)
    settled = (
        TaskSettled("x", Outcome.DONE, ""),
        TaskSettled("y", Outcome.SKIPPED, ""),
        TaskSettled("y", Outcome.BLOCKED, ""),
    )
    now = seen(BEGIN[0], *settled, BEGIN[1], finished, BEGIN[2])
    now = seen(act("Edit /p/src/a.py", "Bash cd /p/src; ls /p"), start=now)
    head, *calls, figures, stop = progress.lines(now, 67, 3)
    assert head == "stage 2/3 implement (opus, attempt 2)  1:07  add a greeting"
    assert calls == ["  Edit src/a.py", "  Bash cd src; ls /p"]
    assert figures == "$1.23 · task 1 of 3 · 1 done · 2 need you · 2 calls · 100 tokens"
    assert "Ctrl-C" in stop
    assert "kern stop" in stop


BOUNDED = RunStarted(
    *("r", "/p", "main", "/f", (), "", 3, 10),
    **{"expected": 5400.0, "max_cost": 5.0},  # type: ignore[arg-type]
)


@pytest.mark.parametrize(
    ("width", "head", "figures", "ending"),
    [
        (
            140,
            "stage 2/3 implement (opus, attempt 2)  1:07  add a greeting",
            "07:00 · 41:07 of about 1 h 30 min · $1.20 of $5.00 · task 1 of 3 · 0 done · 1 call · "
            "100 tokens",
            progress.STOP,
        ),
        (
            79,
            "stage 2/3 implement (opus, attempt 2)  1:07  add a greeting",
            "07:00 · 41:07 of about 1 h 30 min · $1.20 of $5.00 · task 1 of 3 · 0 done",
            progress.STOP,
        ),
        (
            39,
            "stage 2/3 implement  1:07  add a greeting",
            "$1.20 of $5.00",
            "Ctrl-C ends it now",
        ),
        (10, "implement  1:07  add a greeting", "$1.20 of $5.00", "Ctrl-C ends it now"),
    ],
)
def test_where_there_is_little_room_the_least_important_goes_first(
    width: int, head: str, figures: str, ending: str
) -> None:
    paid = StageFinished(Stage.RESEARCH, "add a greeting", "x", 3.0, 1.2)
    now = seen(BOUNDED, BEGIN[1], paid, BEGIN[2], act("Read a"))
    look = progress.Seen(width, 2467, "07:00")
    assert progress.lines(now, 67, 3, look) == (head, "  Read a", figures, ending)


def test_silence_is_said_from_two_minutes_on() -> None:
    now = seen(*BEGIN)
    assert not any("no sign of life" in line for line in progress.lines(now, 500, 119.9))
    assert any("no sign of life for 2:00" in line for line in progress.lines(now, 500, 120))
    assert progress.beat(now, 500, 130).endswith("8:20, no sign of life for 2:10")


@pytest.mark.parametrize(
    ("agent", "model", "who"),
    [
        ("claude", "opus", "opus"),
        ("codex", "gpt-5.5", "codex gpt-5.5"),
        ("wrapper", "", "wrapper"),
        ("claude", "", "claude"),
    ],
)
def test_a_stage_names_the_model_and_an_agent_that_is_not_the_usual_one(
    agent: str, model: str, who: str
) -> None:
    begun = StageStarted(Stage.RESEARCH, "add a greeting", model, 1, agent=agent)
    head = progress.lines(seen(*BEGIN[:-1], begun), 5, 0)[0]
    assert head == f"stage 1/3 research ({who})  0:05  add a greeting"


def test_before_another_try_the_stage_that_failed_is_not_at_work() -> None:
    fault = StageFailed(Stage.IMPLEMENT, "add a greeting", "overloaded", 2.0, None, 2)
    now = seen(*BEGIN, fault, StageRetried(Stage.IMPLEMENT, "overloaded", 1, 3.0))
    assert progress.lines(now, 1, 0)[0] == "waiting to try implement again  0:01  add a greeting"


def test_a_planner_stands_before_any_task() -> None:
    now = seen(RunStarted("r", "/p", "main", "/f", (), "", 0, 5))
    now = seen(StageStarted(Aide.PLANNER, "", "opus", 1), act("Glob *"), start=now)
    assert progress.lines(now, 5, 0) == (
        "planner (opus)  0:05",
        "  Glob *",
        "1 call · 100 tokens",
        progress.STOP_PLAN,
    )
    after_a_task = seen(*BEGIN, StageStarted(Aide.PLANNER, "", "opus", 1))
    assert progress.lines(after_a_task, 5, 0)[0] == "planner (opus)  0:05"


def test_a_judge_and_a_gate_are_named_as_what_they_are() -> None:
    judge = StageStarted(Aide.JUDGE, "t", "haiku", 1)
    assert progress.beat(seen(*BEGIN, judge), 61, 0) == "judge (haiku): 1:01"
    assert progress.beat(seen(*BEGIN, GateStarted("gate check", "x")), 61, 0) == "gate check: 1:01"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0"), (9999, "9999"), (10_000, "10k"), (999_499, "999k"), (999_500, "1.0M")],
)
def test_large_numbers_are_short(count: int, shown: str) -> None:
    assert words.short(count) == shown


# -------------------------------------------------------------------- a file that grows


def growing_at(path: Path) -> Watch:
    return Watch(claude, Stage.IMPLEMENT, path, lambda event: None, process.unwatched)


def test_lines_are_told_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    growing = growing_at(path)
    assert growing.lines() == []  # not there yet
    with path.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert growing.lines() == [b"one"]
        assert growing.lines() == []
        file.write(b"o\nthree\n")
        assert growing.lines() == [b"two", b"three"]


def test_of_a_burst_only_the_newest_lines_are_told_and_memory_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "out"
    growing = growing_at(path)
    with path.open("wb") as file:
        for number in range(1_000_000):
            file.write(b"%099d\n" % number)  # 100 MB
    tracemalloc.start()
    found = growing.lines()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[-1] == b"%099d" % 999_999
    assert all(len(line) == 99 for line in found), "no part of a line"
    assert peak < 3_000_000


def test_a_line_that_is_too_long_is_passed_over_and_the_next_is_not(tmp_path: Path) -> None:
    path = tmp_path / "out"
    growing = growing_at(path)
    found = []
    with path.open("ab", buffering=0) as file:
        for piece in (b"a" * 100_000, b"b" * 100_000, b"c" * 100_000, b"\nnext\n"):
            file.write(piece)
            found += growing.lines()
    assert found == [b"next"]


# -------------------------------------------------------------------- the screen

CALLS = [["Read", {"file_path": "a.txt"}], ["Bash", {"command": "make \x1b[2J test"}]]
BUSY = {"acts": CALLS, "sleep": 0.6, "run": ["echo work > n"], "result": "did it\n\nSUCCESS"}


def on_a_terminal(repo: Path, out: int | None = None, **env: str) -> tuple[int, str]:
    """A run on a terminal, and all that it wrote there; `out`: where standard output goes."""
    ours, theirs = pty.openpty()
    written: list[bytes] = []

    def drain() -> None:
        try:
            while part := os.read(ours, 65536):
                written.append(part)
        except OSError:  # closed at the other end
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    top = str(Path(__file__).parent.parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "kern", "1", "0"],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": top, "TERM": "xterm-256color", **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs if out is None else out,
        stderr=theirs,
        timeout=PATIENCE_S,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return done.returncode, b"".join(written).decode()


def test_a_terminal_shows_what_the_agent_does(repo: Path, fake: Fake) -> None:
    fake.script(implement=[BUSY])
    code, screen = on_a_terminal(repo)
    assert code == 0
    for shown in ("Read a.txt", "Bash make test", "2 calls", progress.STOP):
        assert shown in screen, screen
    assert "\x1b[2J" not in screen
    # What was drawn is taken away at each stage's end, and the cursor comes back.
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h") > 1


def test_a_terminal_that_cannot_be_redrawn_gets_plain_lines(repo: Path, fake: Fake) -> None:
    fake.script(implement=[BUSY])
    code, screen = on_a_terminal(repo, TERM="dumb")
    assert code == 0
    assert "\x1b" not in screen
    assert "stage 2/3 implement" in screen


def test_a_terminal_that_cannot_be_redrawn_gets_signs_of_life_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "dumb")
    screen = Terminal()
    console = Console(out=screen)
    console.tick(60, 0)
    assert "1:00" in screen.getvalue()


def test_beside_a_pipe_nothing_is_drawn_on_the_terminal(
    repo: Path, fake: Fake, tmp_path: Path
) -> None:
    """What `kern | tee FILE` prints comes to the same terminal."""
    fake.script(implement=[{**BUSY, "run": [r"sed -i 's/\[~\]/[x]/' SPEC.md", "echo 1 > n"]}])
    with (tmp_path / "night.log").open("w") as log:
        code, screen = on_a_terminal(repo, log.fileno())
    assert code == 0
    assert "\x1b" not in screen
    lines = screen.splitlines()
    assert lines and all(line[22:].startswith("warning: ") for line in lines)
    told = (tmp_path / "night.log").read_text()
    assert "stage 2/3 implement" in told and "1 done, 1 unverified" in told
    assert "warning: " not in told


@pytest.mark.parametrize("gone", [{"stdout"}, {"stderr"}, {"stdout", "stderr"}])
def test_a_reader_that_goes_away_stops_nothing_and_is_not_complained_of(
    repo: Path, git: Git, fake: Fake, monkeypatch: pytest.MonkeyPatch, gone: set[str]
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # what is buffered is written at the end
    fake.script(implement=[{**BUSY, "run": ["echo '- [ ] forged' >> SPEC.md", "echo 1 > n"]}])
    kern = subprocess.Popen(
        [sys.executable, "-m", "kern", "-v", "1", "0"],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    left = {"stdout": kern.stdout, "stderr": kern.stderr}
    for name in gone:
        stream = left.pop(name)
        assert stream
        stream.close()
    told = ""
    for stream in filter(None, left.values()):
        with stream:
            told += stream.read()
    assert kern.wait(PATIENCE_S) == 0
    assert not re.search("Traceback|Exception|Broken", told)
    assert bool(told) == bool(left)
    assert git("log", "-1", "--format=%s") == "do the task"


def test_debug_lines_tell_each_call(repo: Path, fake: Fake, kern: Kern) -> None:
    fake.script(implement=[BUSY])
    ran = kern("-v", "1", "0")
    assert "debug: Read a.txt" in ran.err
    assert "debug: Bash make test" in ran.err
    assert "debug: " not in ran.out and "warning: " not in ran.out
    assert "stage 2/3" in ran.out and "stage 2/3" not in ran.err


def test_a_pipe_gets_a_sign_of_life_each_minute() -> None:
    pipe = io.StringIO()
    console = Console(out=pipe)
    for event in (*BEGIN, act("Read a.py")):
        console(event)
    pipe.truncate(0)
    for seconds in range(0, 185, 5):
        console.tick(seconds, 0)
    beats = [line[22:] for line in pipe.getvalue().replace("\0", "").splitlines()]
    assert beats == [
        f"stage 2/3 implement (opus, attempt 2): {minute}:00, 1 call, 100 tokens, last: Read a.py"
        for minute in (1, 2, 3)
    ]
    console(StageStarted(Stage.COMMIT, "t", "haiku", 1))
    pipe.truncate(0)
    console.tick(59, 0)
    assert pipe.getvalue().replace("\0", "") == ""
    console.tick(60, 0)
    assert "stage 3/3 commit (haiku): 1:00" in pipe.getvalue()


def test_the_last_line_says_that_a_stop_was_asked_for() -> None:
    asked = progress.after(Progress(number=1), Steered(at_once=False))
    assert progress.lines(asked, 1, 0, Seen(width=79))[-1] == progress.STOPS
    assert progress.lines(asked, 1, 0, Seen(width=40))[-1] == "stops after this stage"


def test_a_tasks_own_gate_that_is_red_before_it_takes_one_line() -> None:
    def told(name: str, log: str = "") -> list[str]:
        out = io.StringIO()
        result = Result(name, 1, "one\ntwo\nlast", log=log)
        Console(out=out)(GateEnded(result, before=True))
        return [line.partition("] ")[2].strip() for line in out.getvalue().splitlines()[1:]]

    said = "red, as a task's own gate may be before it"
    assert told("gate `make`") == [f"{said} (last)"]
    assert told("gate `make`", "/kept/log") == [f"{said} (its output: /kept/log)"]
    assert told("gate check") == ["one", "two", "last"]


# -------------------------------------------------------------------- many at once


MANY = Picture(
    (
        Lane(1, "Write the parser", "stage 2/3 implement", 10.0),
        Lane(2),
        Lane(3, "b", "gates", 70.0),
    ),
    queue=("Write the lexer", "Document it"),
    tasks=9,
    done=3,
    cost=Cost(1.25),
    max_cost=5.0,
    tokens=12_345,
)


def test_a_line_for_each_worker_one_for_the_queue_one_for_the_run() -> None:
    shown = progress.lanes(MANY, Seen(100, 65.0, "09:30"), 75.0)
    assert list(shown[:4]) == [
        "1  stage 2/3 implement  1:05  Write the parser",
        "2  idle",
        "3  gates  0:05  b",
        "2 finished tasks to land: Write the lexer; Document it",
    ]
    assert shown[4] == "09:30 · 1:05 · $1.25 of $5.00 · 3 of 9 landed · 12k tokens"
    assert shown[5] == progress.STOP
    landing = Picture(landing="Write the lexer", since=70.0, queue=("Write the lexer", "x"))
    assert (
        progress.lanes(landing, Seen(100), 75.0)[0] == "landing  0:05  Write the lexer, then 1 more"
    )


def test_what_keeps_finished_tasks_from_landing_is_said() -> None:
    lying = Picture(queue=("Write the lexer",), lying="you have uncommitted changes in a.py")
    said = "1 finished task to land: you have uncommitted changes in a.py: Write the lexer"
    assert progress.lanes(lying, Seen(100), 0.0)[0] == said


def test_a_cost_that_nobody_named_is_not_called_zero() -> None:
    unnamed = Picture(cost=Cost(0.0) + Cost.of([None]), max_cost=5.0)
    assert progress.lanes(unnamed, Seen(100), 0.0)[1] == "cost unknown · 0 of 0 landed"
    assert "$0.00 of $5.00" in progress.lanes(Picture(max_cost=5.0), Seen(100), 0.0)[1]


@pytest.mark.parametrize("width", [20, 40, 80, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    full = Picture(
        tuple(Lane(n, "A long task text " * 9, "stage 2/3 implement", 0.0) for n in range(1, 21)),
        ("Another text " * 20,),
        cost=Cost(1.0),
        held="stops after these stages",
    )
    shown = progress.lanes(full, Seen(width, 100.0, "10:00"), 3600.0)
    wide = [line for line in shown[:-1] if len(line) > max(width, 40)]
    assert wide == []
    assert "and 4 workers more at work" in shown


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"kind": "task", "did": "start", "task": "t"}, ["2  task: t"]),
        ({"kind": "stage", "did": "start", "task": "t", "stage": "research"}, []),
        (
            {"kind": "stage", "did": "end", "task": "t", "stage": "research", "seconds": 1.0},
            ["2  research took 1.0 s  (t)"],
        ),
        (
            {"kind": "work", "did": "done", "task": "t", "commit": "c" * 40},
            ["2  finished as ccccccc; it is done when that has landed  (t)"],
        ),
        ({"kind": "gate", "gate": "gate x", "red": False, "task": "t"}, []),
        ({"kind": "run", "did": "end"}, []),
        # The run says how it ends without a commit, and why a kern ended: once is enough.
        ({"kind": "work", "did": "skipped", "task": "t", "detail": "no luck", "commit": ""}, []),
        ({"kind": "stage", "did": "failed", "task": "t", "stage": "research"}, []),
        ({"kind": "question", "task": "t", "text": "which?"}, []),
        ({"kind": "limit", "task": "t", "text": "resets at noon"}, []),
    ],
)
def test_of_a_workers_records_only_what_tells_is_said(
    record: dict[str, object], said: list[str]
) -> None:
    assert progress.told({"worker": 2, **record}) == said
