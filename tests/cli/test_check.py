"""`kern check`: the gates as a run would run them, as a table, with a run's exit code."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Git, Kern, survivors, wait_for

Background = Callable[..., "subprocess.Popen[str]"]


def toml(repo: Path, git: Git, text: str) -> None:
    (repo / "kern.toml").write_text(text)
    git("add", "--all")
    git("commit", "-qm", "gates")


@pytest.mark.parametrize(
    ("command", "code", "last"),
    [
        ("exit 3", 0, "0 green, 1 red, as kern.toml says: a run begins all the same"),
        ("no-such-program", 2, "0 green, 1 red"),
    ],
)
def test_what_is_known_to_be_red_lets_a_run_begin_and_what_cannot_run_does_not(
    repo: Path, git: Git, kern: Kern, command: str, code: int, last: str
) -> None:
    toml(repo, git, f"[gates]\na = {{ run = '{command}', red = 'known' }}\n")
    ran = kern("check")
    assert ran.code == code, ran.said
    assert last in ran.out.splitlines()


def test_it_needs_no_agent_and_writes_no_journal(
    repo: Path, git: Git, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERN_CLAUDE", "no-such-agent")
    own = Path.home() / ".config" / "kern" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'notify = "touch {repo.parent}/told"\n')
    toml(repo, git, "[gates]\na = 'true'\n")
    ran = kern("check")
    assert "gate a: green" in ran.out, ran.said
    assert not (repo / ".git" / "kern" / "events.jsonl").exists()
    assert not (repo.parent / "told").exists()


def test_an_interrupt_ends_the_gate(repo: Path, git: Git, background: Background) -> None:
    toml(repo, git, "[gates]\na = 'echo $$ > ../pids; sleep 600'\n")
    process = background("check")
    wait_for(lambda: (repo.parent / "pids").exists())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert survivors(repo.parent / "pids") == []
