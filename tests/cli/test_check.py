"""`kern check`: the gates as a run would run them, as a table, with a run's exit code."""

import re
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
    ("gates", "code", "last"),
    [
        ("a = 'true'\nb = 'true'", 0, "all 2 gates are green"),
        ("a = 'true'\nb = 'exit 3'", 2, "1 green, 1 red"),
        (
            "a = { run = 'exit 3', red = 'known' }",
            *(0, "0 green, 1 red, as kern.toml says: a run begins all the same"),
        ),
        ("a = { run = 'no-such-program', red = 'known' }", 2, "0 green, 1 red"),
    ],
)
def test_its_exit_code_is_whether_a_run_would_begin(
    repo: Path, git: Git, kern: Kern, gates: str, code: int, last: str
) -> None:
    toml(repo, git, f"[gates]\n{gates}\n")
    ran = kern("check")
    assert ran.code == code, ran.said
    lines = ran.out.splitlines()
    assert last in lines
    assert ("no run begins like this: " in ran.out) is bool(code)


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


def test_it_shows_the_end_of_what_is_red_and_where_the_rest_is(
    repo: Path, git: Git, kern: Kern
) -> None:
    red = "echo one; echo 'x.py:3: error: no'; echo Found 2 errors; exit 1"
    toml(repo, git, f"[gates]\ntest = 'true'\nlonger = \"{red}\"\nz = 'no-such-program'\n")
    out = kern("check").out
    assert "gate test: green" in out and "gate longer: red (exit 1" in out
    place = re.search(r"x.py:3: error: no\n.*Found 2 errors\n.*full output: (.*)$", out, re.M)
    assert place and Path(place[1]).read_text() == "one\nx.py:3: error: no\nFound 2 errors\n"
    assert re.search(r"gate z: .*command not found.*\n.*not found$", out, re.M), out


def test_an_interrupt_ends_the_gate(repo: Path, git: Git, background: Background) -> None:
    toml(repo, git, "[gates]\na = 'echo $$ > ../pids; sleep 600'\n")
    process = background("check")
    wait_for(lambda: (repo.parent / "pids").exists())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert survivors(repo.parent / "pids") == []
