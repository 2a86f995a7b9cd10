"""A call that was cut off is of unknown cost, with the tokens that are known."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Fake, Kern, wait_for

CUT: dict[str, object] = {"acts": [["Bash", {"command": "ls"}]] * 2, "sleep": 60}


def test_a_call_that_was_cut_off_is_of_unknown_cost_with_the_tokens_that_are_known(
    repo: Path,
    fake: Fake,
    kern: Kern,
    background: Callable[..., "subprocess.Popen[str]"],
) -> None:
    fake.script(implement=[CUT, {"run": ["echo 1 > new.txt"], "result": "SUCCESS"}])
    cut = background("1", "0")
    transcript = Path(kern("path").out.strip()) / "transcript2.json"
    wait_for(lambda: _acts(transcript) == 2, 30)
    cut.kill()
    cut.wait()
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert "and 1 stage of unknown cost" in ran.out.partition("1 done")[2]
    assert "and 1 stage of unknown cost" in kern("report").out
    found = json.loads(kern("report", "--json").out)
    assert found["unpriced"] == 1
    assert found["tokens"] == {"input": 80, "output": 4}


def _acts(transcript: Path) -> int:
    return transcript.read_text().count("tool_use") if transcript.exists() else 0
