"""What the screen says of a run under way: the agent's live output, folded and drawn."""

import io
import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kern import events
from kern.events import new
from kern.views.live import Console
from tests.conftest import PATIENCE_S, Fake, Git
from tests.kit.terminal import on_terminal

# -------------------------------------------------------------------- the picture


ONE = (
    new("run", "start", run="r", root="/p", branch="main", open=3, iterations=10, max_cost=5.0),
    new("task", "start", task="add a greeting"),
    new(
        "stage", "end", stage="research", task="add a greeting", cost_usd=1.2, tokens={"in": 12_345}
    ),
    new("stage", "start", stage="implement", task="add a greeting", attempt=2),
    events.live("act", calls=("Read src/a.py", "Bash make " + "x" * 200)),
)


# -------------------------------------------------------------------- the screen

CALLS = [["Read", {"file_path": "a.txt"}], ["Bash", {"command": "make \x1b[2J test"}]]
BUSY = {"acts": CALLS, "sleep": 0.6, "run": ["echo work > n"], "result": "did it\n\nSUCCESS"}


def test_beside_a_pipe_nothing_is_drawn_on_the_terminal(
    repo: Path, fake: Fake, tmp_path: Path
) -> None:
    """What `kern | tee FILE` prints comes to the same terminal."""
    fake.script(implement=[{**BUSY, "run": [r"sed -i 's/\[~\]/[x]/' SPEC.md", "echo 1 > n"]}])
    with (tmp_path / "night.log").open("w") as log:
        code, screen = on_terminal("1", "0", cwd=repo, out=log.fileno())
    assert code == 0
    assert "\x1b" not in screen
    lines = screen.splitlines()
    assert lines and all(line[22:].startswith("warning: ") for line in lines)
    told = (tmp_path / "night.log").read_text()
    assert "stage 2/3 implement" in told and "1 done, 1 unverified" in told
    assert "warning: " not in told


@pytest.mark.parametrize("gone", [{"stdout"}, {"stdout", "stderr"}])
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


def test_a_pipe_gets_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, passed = io.StringIO(), itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(passed)))
    console = Console(out=pipe)
    for event in ONE:
        console(event)
    pipe.truncate(0)
    for _ in range(400):
        console.tick(0.0, 130.0)
    stage, figures = pipe.getvalue().replace("\0", "").splitlines()
    assert re.fullmatch(r"\S+ \S+ stage 2/3 implement, attempt 2, 0 s: add a greeting", stage)
    assert "no sign of life for 2 min 10 s · $1.20 of $5.00 · 0 of 3 done" in figures


def test_of_a_workers_records_only_what_tells_is_said() -> None:
    """A run says how it ends without a commit: once is enough."""
    console = Console(out=(pipe := io.StringIO()))
    common = {"worker": 2, "time": "", "run": "r", "task": "t"}
    console.of_worker({**common, "kind": "limit", "text": "resets at noon"})
    skipped = {"kind": "work", "did": "skipped", "detail": "no luck", "commit": ""}
    console.of_worker({**common, **skipped})
    console.of_worker({**common, "kind": "gate", "gate": "gate all", "red": True, "code": 1})
    lines = [line[22:] for line in pipe.getvalue().splitlines()]
    assert lines == ["2  resets at noon  (t)", "2  gate all: red (exit 1)  (t)"]
