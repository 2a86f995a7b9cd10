"""One child to its end, with real processes that do not want to go."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kern.errors import Interrupted
from kern.git.environment import Store
from kern.system import process
from kern.system.process import Ran
from tests.conftest import HERE, PATIENCE_S, patience, survivors

pytestmark = [pytest.mark.slow, pytest.mark.unheld]

MARK = ("KERN_TEST_MARK", f"test {os.getpid()}")  # a suite beside this one has another

# Ways in which a command of an agent leaves a process behind; each writes its pid and stays.
STAY = "echo $$ >> pids; exec sleep 3000 >/dev/null 2>&1"
FORK_TWICE = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)"
LEAVERS = {
    "child": f"sh -c '{STAY}' &",
    "own session": f"setsid sh -c '{STAY}' &",
    "nohup": f"nohup sh -c '{STAY}' &",
    "deaf": f"sh -c 'trap \"\" INT TERM HUP; {STAY}' &",
    "deaf session": f"setsid sh -c 'trap \"\" INT TERM HUP; {STAY}' &",
    "double fork": f"""{sys.executable} -IS -c '{FORK_TWICE}; os.system("{STAY}")' &""",
}
ALL = "\n".join(LEAVERS.values())
SETTLED = f"while [ $(cat pids | wc -l) -lt {len(LEAVERS)} ]; do sleep 0.02; done"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Ran]]:
    """`run(shell lines or argv)` in an own folder; whatever survives is ended after the test."""
    (tmp_path / "cwd").mkdir()

    def start(what: str | list[str], **how: Any) -> Ran:
        argv = what if isinstance(what, list) else ["sh", "-c", what]
        how = {"stdin": "", "env": os.environ, **how}
        return process.run(argv, cwd=tmp_path / "cwd", stdout=tmp_path / "out", **how)

    yield start
    for survivor in survivors(tmp_path / "cwd" / "pids"):
        survivor.kill()


def count(pids: Path) -> int:
    return len(pids.read_text().split()) if pids.exists() else 0


# ---------------------------------------------------------------- input and output


def test_output_goes_to_disk_and_the_end_of_the_complaints_comes_back(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("printf 'a\\377b'; seq 5000 >&2; exit 3", env={"PATH": os.environ["PATH"], "X": "1"})
    assert (ran.code, ran.overflow) == (3, 0)
    assert (tmp_path / "out").read_bytes() == b"a\xffb"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    assert ran.stderr.endswith("4999\n5000\n") and len(ran.stderr) <= 8192
    ran = run("env; ps -o sid= -p $$", env={"PATH": os.environ["PATH"], "X": "1"})
    lines = (tmp_path / "out").read_text().splitlines()
    assert "X=1" in lines and not [line for line in lines if line.startswith("HOME=")]
    assert int(lines[-1]) != os.getsid(0)


def test_complaints_count_and_a_deaf_flood_is_ended(run: Callable[..., Ran]) -> None:
    ran = run("trap '' INT TERM; while :; do head -c 50000 /dev/zero >&2; done", limit=300_000)
    assert (ran.overflow, ran.code) == (300_000, -signal.SIGKILL)


def test_a_link_in_the_output_s_place_is_not_followed(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "out").symlink_to(tmp_path / "victim")
    with pytest.raises(Exception, match="cannot write"):
        run("echo x")
    assert (tmp_path / "victim").read_text() == "untouched"


# ---------------------------------------------------------------- nothing stays behind


def test_whatever_an_agent_leaves_is_gone_after_a_normal_end(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    assert run(f"{ALL}\n{SETTLED}\nexit 7").code == 7
    assert count(tmp_path / "cwd" / "pids") == len(LEAVERS)
    assert survivors(tmp_path / "cwd" / "pids") == []


def test_and_after_an_interrupt_though_everybody_is_deaf(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    def interrupt(seconds: float, silent: float) -> None:
        if count(tmp_path / "cwd" / "pids") == len(LEAVERS):
            raise Interrupted(signal.SIGTERM)

    with pytest.raises(Interrupted):
        run(f"trap '' INT TERM HUP\n{ALL}\nsleep 3000", tick=interrupt)
    assert survivors(tmp_path / "cwd" / "pids") == []


def test_a_child_that_heeds_the_first_signal_may_clean_up(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    def interrupt(seconds: float, silent: float) -> None:
        if (tmp_path / "cwd" / "up").exists():
            raise Interrupted(signal.SIGINT)

    code = (
        "import pathlib, time\ntry: pathlib.Path('up').touch(); time.sleep(300)\n"
        "except KeyboardInterrupt: pathlib.Path('cleaned').touch()\n"
    )
    with pytest.raises(Interrupted):
        run([sys.executable, "-ISc", code], tick=interrupt)
    assert (tmp_path / "cwd" / "cleaned").exists()


def test_a_sweep_spares_kern_s_own_ancestors_and_strangers(tmp_path: Path) -> None:
    sweeping = (
        "import os; from kern.system import process; "
        f"print(process.sweep({MARK!r}), os.getpid(), flush=True)"
    )
    family = (
        f"sleep 301 >/dev/null 2>&1 & echo $!; '{sys.executable}' -c \"{sweeping}\"; echo alive"
    )
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    with subprocess.Popen(["sleep", "302"], env={**env, MARK[0]: "another"}) as stranger:
        how: Any = {"env": {**env, MARK[0]: MARK[1]}, "timeout": PATIENCE_S, "text": True}
        shown = subprocess.run(["sh", "-c", family], capture_output=True, **how)
        assert stranger.poll() is None
        stranger.kill()
    pid, swept, last = shown.stdout.splitlines()
    assert (swept.split()[0], last) == ("1", "alive"), shown.stderr
    assert not psutil.pid_exists(int(pid))


def test_a_lock_of_popen_s_that_a_signal_left_taken_holds_up_nothing(repo: Path) -> None:
    child, store = process.start(["sleep", "301"]), Store(repo)
    assert store.id("HEAD")
    for one in (child, *store._idle):
        vars(one)["_waitpid_lock"].acquire()
    with patience(PATIENCE_S):
        store.close()
        process.end(child, (0.1, 0.1))
    assert child.returncode == -signal.SIGINT
