"""The keys of the run's own terminal: read in the foreground alone, and the terminal put back."""

import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kern.system.keys import Keys
from tests.conftest import PATIENCE_S, Fake, Git, wait_for
from tests.kit.terminal import on_terminal

TOP = Path(__file__).parent.parent.parent


class Terminal:
    """kern as the foreground job of a terminal of its own."""

    def __init__(self, repo: Path, *argv: str) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kern", *argv],
            cwd=repo,
            env={**os.environ, "PYTHONPATH": str(TOP), "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=lambda: os.login_tty(theirs) if hasattr(os, "login_tty") else own(theirs),
        )
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        try:
            while part := os.read(self.ours, 65536):
                self.said += part.decode(errors="replace")
        except OSError:
            pass

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)

    @property
    def raw(self) -> bool:
        return not int(termios.tcgetattr(self.theirs)[3]) & termios.ICANON

    @property
    def put_back(self) -> bool:
        return bool(termios.tcgetattr(self.theirs)[3] == self.before[3])


def own(terminal: int) -> None:
    """A new session with that terminal, and its foreground."""
    import fcntl

    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


WORK = {"run": ["echo 1 > n"], "sleep": 1.0, "result": "did it\n\nSUCCESS"}


@pytest.fixture
def at_work(repo: Path, fake: Fake) -> Iterator[Terminal]:
    fake.script(implement=[WORK], research=[{"sleep": 2.0, "result": "- Files: a.txt:1\n\nREADY"}])
    terminal = Terminal(repo, "1", "0")
    wait_for(lambda: fake.stages == ["research"] and terminal.raw)
    yield terminal
    if terminal.process.poll() is None:
        terminal.process.kill()
        terminal.process.wait()


def test_a_key_pauses_and_goes_on_and_one_lists_them(at_work: Terminal, fake: Fake) -> None:
    at_work.type("?p")
    wait_for(lambda: "paused for" in at_work.said)
    assert "p  pause after this stage; again: go on" in at_work.said
    assert "asked to pause" in at_work.said
    assert fake.stages == ["research"]
    at_work.type("xyz p")
    assert at_work.ended() == 0, at_work.said
    assert fake.stages == ["research", "implement", "commit"]
    assert at_work.put_back


def test_a_key_stops_after_the_stage(at_work: Terminal, fake: Fake, git: Git) -> None:
    at_work.type("s")
    assert at_work.ended() == 0, at_work.said
    assert fake.stages == ["research"]
    assert "stopped, as asked; the next kern goes on with" in at_work.said
    assert at_work.put_back


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_key_ends_it_now(at_work: Terminal, fake: Fake, key: str) -> None:
    at_work.type(key)
    assert at_work.ended() == 130
    assert fake.stages == ["research"]
    assert at_work.put_back
    assert at_work.said.count("\x1b[?25l") == at_work.said.count("\x1b[?25h")


@pytest.mark.parametrize("where", ["while it works", "in its gates", "research"])
def test_it_says_so_where_an_agents_work_is_left_in_the_tree(
    repo: Path, fake: Fake, git: Git, tmp_path: Path, where: str
) -> None:
    there = tmp_path / "there"
    told = {"run": ["echo half >> a.txt"], "sleep": 0.0, "result": "did it\n\nSUCCESS"}
    wait = {"run": [f"touch {there}"], "sleep": PATIENCE_S}
    if where == "in its gates":
        gate = f"grep -q half a.txt && touch {there} && sleep {PATIENCE_S:.0f} || true"
        (repo / "kern.toml").write_text(f"[gates]\ncheck = '{gate}'\n")
        git("add", "--all")
        git("commit", "-qm", "gates")
        fake.script(implement=[told])
    elif where == "research":
        fake.script(research=[wait])
    else:
        fake.script(implement=[{**wait, "run": [*told["run"], *wait["run"]]}])  # type: ignore[misc]
    terminal = Terminal(repo, "1", "0")
    wait_for(lambda: there.exists() and terminal.raw)
    terminal.type("q")
    assert terminal.ended() == 130
    wait_for(lambda: "it goes on from here" in terminal.said)
    note = "work is in your working tree: do not commit it"
    if where == "research":
        assert note not in terminal.said
    else:
        wait_for(lambda: note in " ".join(terminal.said.split()))
        assert "half" in (repo / "a.txt").read_text()


def test_a_suspended_run_gives_the_terminal_back_and_takes_it_again(
    at_work: Terminal, fake: Fake
) -> None:
    at_work.type("\x1a")
    # Its session has no shell: the kernel stops no orphaned group, so the signal is told.
    wait_for(lambda: at_work.put_back or at_work.raw)
    at_work.process.send_signal(signal.SIGCONT)
    at_work.type("s")
    assert at_work.ended() == 0, at_work.said
    assert at_work.put_back


def test_an_agent_that_is_killed_leaves_the_terminal_as_it_was(repo: Path, fake: Fake) -> None:
    fake.script(research=[{"run": ["kill -9 $PPID"], "sleep": 1, "result": "x"}])
    terminal = Terminal(repo, "1", "0", "--no-wait")
    wait_for(lambda: terminal.raw)
    terminal.process.terminate()
    assert terminal.ended() == 143
    assert terminal.put_back


def test_a_gate_that_a_person_types_is_not_asked_about(
    repo: Path, fake: Fake, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    assert Terminal(repo, "add", "two", "--gate", "true").ended() == 0
    git("commit", "-qam", "a task")
    terminal = Terminal(repo, "1", "0")
    assert terminal.ended() == 0, terminal.said
    assert "Run these here?" not in terminal.said
    assert Terminal(repo, "add", "three", "--gate", "false").ended() == 0
    assert "kern will ask" not in on_terminal("-n", cwd=repo)[1]
    (repo / "kern.toml").write_text("[gates]\ncheck = 'true'\n")
    assert "kern will ask" in on_terminal("-n", cwd=repo)[1]


def test_the_question_of_trust_has_its_answer_to_itself(
    repo: Path, fake: Fake, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    (repo / "kern.toml").write_text("[gates]\ncheck = 'true'\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=gates")
    terminal = Terminal(repo, "1", "0")
    wait_for(lambda: "Run these here? [y/N]" in terminal.said)
    assert not terminal.raw
    terminal.type("y\n")
    assert terminal.ended() == 0, terminal.said
    assert fake.stages == ["research", "implement", "commit"]


def test_without_a_terminal_nothing_is_read(capfd: pytest.CaptureFixture[str]) -> None:
    keys = Keys()
    assert (keys.on, keys.read()) == (False, "")
    keys.close()
