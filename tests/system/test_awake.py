"""A run keeps the machine awake, by one child that is gone with it, however it ends."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import PATIENCE_S, Fake, Kern, executable, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is Linux's command")
SAID = "awake: the machine does not sleep while this run is on (systemd-inhibit)"
# As the system's own: it starts the command after its options, and waits for it.
INHIBITS = """\
#!/bin/sh
echo $$ >> "$FAKE_CLAUDE/inhibits"
while case "$1" in --*) true;; *) false;; esac; do shift; done
"$@"
"""


@pytest.fixture
def inhibits(fake: Fake) -> Callable[[str], Path]:
    """Where it notes its process; `text`: of the program."""

    def make(text: str = INHIBITS) -> Path:
        program = Path(os.environ["PATH"].split(os.pathsep)[0]) / "systemd-inhibit"
        executable(program, text)
        return fake.folder / "inhibits"

    return make


def living(noted: Path) -> list[psutil.Process]:
    """A zombie does not."""
    pids = set(map(int, noted.read_text().split()))
    found = [one for one in psutil.process_iter(["status"]) if one.pid in pids]
    return [one for one in found if one.info["status"] != psutil.STATUS_ZOMBIE]


def test_it_is_gone_with_the_run_however_that_ends(
    repo: Path, fake: Fake, background: Callable[..., Any], inhibits: Callable[..., Path]
) -> None:
    noted = inhibits()
    fake.script(research=[{"sleep": 60}])
    run = background("1", "0")
    wait_for(lambda: fake.stages == ["research"])
    assert living(noted)
    run.kill()
    assert SAID in "".join(run.communicate(timeout=PATIENCE_S))
    wait_for(lambda: not living(noted))


def test_a_person_can_turn_it_off(
    repo: Path, fake: Fake, kern: Kern, inhibits: Callable[..., Path]
) -> None:
    noted = inhibits()
    ran = kern("1", "0", env={"KERN_AWAKE": "off"})
    assert ran.code == 0, ran.said
    assert "awake:" not in ran.said and not noted.exists()


def test_a_system_that_does_not_answer_is_done_without(
    repo: Path, fake: Fake, kern: Kern, inhibits: Callable[..., Path]
) -> None:
    inhibits("#!/bin/sh\nexec sleep 600\n")
    ran = kern("1", "0", env={"KERN_TEST_WAITS": "0.05"})
    assert ran.code == 0, ran.said
    assert "awake:" not in ran.said
