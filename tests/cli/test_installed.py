"""`kern --update` where another than install.sh put kern."""

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Kern

pytestmark = pytest.mark.slow
TOP = Path(__file__).resolve().parent.parent.parent


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), *site.getsitepackages()])}


def test_what_another_tool_installed_is_left_to_that_tool(
    repo: Path, kern: Kern, tmp_path: Path
) -> None:
    ran = kern("--update")
    assert (ran.code, ran.out) == (1, "")
    assert "not installed by install.sh" in ran.err and "clone" in ran.err
    for part, tool in (("uv/tools", "uv tool"), ("pipx/venvs", "pipx")):
        place = tmp_path / part / "kern"
        place.parent.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        done = subprocess.run(
            [place / "bin" / "python", "-m", "kern", "--update"],
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert f"hint: {tool} upgrade kern" in done.stderr
