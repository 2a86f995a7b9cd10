"""What the screen says of a run under way: the agent's live output, folded and drawn."""

import io
import itertools
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as Terminal

from kern.agents import claude, transcript
from kern.events import (
    Acted,
    Event,
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
from kern.model import Act, Cost, Outcome, Stage
from kern.plain import UNSAFE
from kern.stages.output import Watch
from kern.system import process
from kern.views import live, progress
from kern.views.console import Console
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
    assert claude.watch(transcript.line(said(block))) == Act(
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
    assert claude.watch(transcript.line(line)) is None


def test_odd_content_is_an_act_without_calls() -> None:
    for content in (None, "text", [1, None, {"type": "text"}]):
        line = json.dumps({"type": "assistant", "message": {"content": content}}).encode()
        assert claude.watch(transcript.line(line)) == Act("", (), {})


# -------------------------------------------------------------------- the picture


def act(*calls: str) -> Acted:
    return Acted(Stage.IMPLEMENT, Act("m1", calls, {"input": 100}))


BEGIN = (
    RunStarted(*("r", "/p", "main", "/f", (), ""), 3, 10, max_cost=5.0, expected=5400.0),
    TaskStarted("add a greeting", 1),
    StageFinished(Stage.RESEARCH, "add a greeting", "x", 3.0, 1.2, tokens={"input": 12_345}),
    StageStarted(Stage.IMPLEMENT, "add a greeting", "opus", 2),
)
ONE = (*BEGIN, act("Read src/a.py", "Bash make " + "x" * 200))
MANY = Picture(
    (Lane(1, "Write the parser " * 9, "stage 2/3 implement", 8.0), Lane(2), Lane(3, "b", "gates")),
    queue=("Write the lexer", "Document it"),
    tasks=9,
    done=3,
    cost=Cost(1.25),
    max_cost=5.0,
    held="stops after this stage",
)


def folded(*events: Event) -> Picture:
    now = Picture()
    for event in events:
        now = progress.after(now, event, 8.0)
    return now


def drawn(now: Picture, width: int, silent: float = 0.0) -> list[str]:
    screen = Terminal(width=width, file=io.StringIO(), highlight=False)
    screen.print(live.drawn(now, 75.0, 2467.0, silent))
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_one_task_after_the_other_is_a_line_its_calls_and_the_run() -> None:
    assert drawn(folded(*ONE), 80) == [
        "stage 2/3 implement, attempt 2  1:07  add a greeting",
        "  Read src/a.py",
        "  Bash make " + "x" * 67 + "…",
        "$1.20 of $5.00 · 0 of 3 done · 41:07 of about 1 h 30 min · 12k tokens",
        progress.STOP,
    ]
    assert drawn(folded(*ONE), 40, 130.0) == [
        "stage 2/3 implement, attempt 2  1:07  a…",
        "  Read src/a.py",
        "  Bash make " + "x" * 27 + "…",
        "no sign of life for 2:10 · $1.20 of",
        "$5.00 · 0 of 3 done · 41:07 of about 1 h",
        "30 min · 12k tokens",
        "Ctrl-C ends it now, kern stop after this",
        "stage; kern goes on from there",
    ]


def test_many_at_once_are_a_line_each_and_what_waits_to_land() -> None:
    assert drawn(MANY, 80) == [
        "1  stage 2/3 implement  1:07  " + ("Write the parser " * 3)[:49] + "…",
        "2  idle",
        "3  gates                1:15  b",
        "2 finished tasks to land: Write the lexer; Document it",
        "stops after this stage · $1.25 of $5.00 · 3 of 9 done · 41:07",
        progress.STOP,
    ]
    assert max(map(len, drawn(MANY, 40))) == 40
    nasty = replace(MANY, lanes=(Lane(1, "a \x1b[2J\u202eb", "gates", 8.0),), queue=("\x1b[2J",))
    assert not UNSAFE.search("".join(drawn(nasty, 80)))
    lying = replace(MANY, lying="your changes in a.py")
    assert "2 finished tasks to land: your changes in a.py: Write the" in drawn(lying, 80)[3]
    lands = replace(MANY, landing="Write the lexer", since=70.0)
    assert drawn(lands, 80)[3] == "landing for 0:05: Write the lexer"


def test_a_stage_begins_with_nothing_of_the_one_before() -> None:
    again = StageStarted(Stage.COMMIT, "add a greeting", "sonnet", 1)
    for event in (again, GateStarted("gate check", "make check")):
        assert folded(*ONE, event).lane(1).calls == ()
    many_calls = folded(*BEGIN, *(act(f"Read {n}") for n in range(50))).lane(1)
    assert many_calls.calls == ("Read 46", "Read 47", "Read 48", "Read 49")
    assert many_calls.count == 50


def test_a_cost_that_nobody_named_is_not_called_zero() -> None:
    unnamed = Picture(cost=Cost(0.0) + Cost.of([None]), max_cost=5.0)
    assert progress.figures(unnamed, 5).startswith("cost unknown · ")
    assert progress.figures(Picture(max_cost=5.0), 5).startswith("$0.00 of $5.00 · ")


def test_what_needs_a_person_is_counted_and_a_stop_is_said() -> None:
    ends = (TaskSettled("x", Outcome.DONE, ""), TaskSettled("y", Outcome.SKIPPED, ""))
    now = folded(*BEGIN, *ends, Steered(at_once=False))
    shown = progress.figures(now, 5)
    assert shown.startswith(f"{progress.STOPS} · $1.20 of $5.00 · 1 need you · 1 of 3 done · 0:05")


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0"), (9999, "9999"), (10_000, "10k"), (999_499, "999k"), (999_500, "1.0M")],
)
def test_large_numbers_are_short(count: int, shown: str) -> None:
    assert words.short(count) == shown


# -------------------------------------------------------------------- a file that grows


def growing_at(path: Path) -> Watch:
    return Watch(claude.AGENT, Stage.IMPLEMENT, path, lambda event: None, process.unwatched)


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
    for shown in ("Read a.txt", "Bash make test", progress.STOP):
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


def test_a_pipe_gets_a_sign_of_life_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, passed = io.StringIO(), itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(passed)))
    console = Console(out=pipe)
    for event in ONE:
        console(event)
    pipe.truncate(0)
    for _ in range(100):
        console.tick(0.0, 130.0)
    (beat,) = pipe.getvalue().replace("\0", "").splitlines()
    assert re.fullmatch(
        r"\S+ \S+ stage 2/3 implement, attempt 2 for 0:00, 2 calls, last: Bash make x+…, "
        "no sign of life for 2:10",
        beat,
    )


def test_each_sentence_is_the_one_of_the_log() -> None:
    pipe = io.StringIO()
    console = Console(out=pipe, err=pipe)
    events = (*BEGIN, StageFailed(Stage.IMPLEMENT, "t", "overloaded", 2.0, None, 2))
    events += (StageRetried(Stage.IMPLEMENT, "overloaded", 1, 3.0),)  # type: ignore[assignment]
    for event in events:
        console(event)
    said = [line[22:] for line in pipe.getvalue().splitlines()]
    assert said == [
        "kern in /p, branch main: 3 open tasks",
        "run files: /f",
        "task: add a greeting",
        "research took 3.0 s, $1.2000, 12k tokens",
        "  x",
        "stage 2/3 implement (opus, attempt 2)",
        "overloaded: again in 3 s",
    ]


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
    pipe = io.StringIO()
    Console(out=pipe).of_worker({"worker": 2, **record})
    assert [line[22:] for line in pipe.getvalue().splitlines()] == said
