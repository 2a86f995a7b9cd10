"""The stand-in for the agent in a folder of its own, see tests/scenarios/agent.py."""

import py_compile
import shutil
import sys
from pathlib import Path

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def settle(folder: Path) -> Path:
    """`folder/bin/claude`, logged in, and no call yet; a python3 on PATH may be a slow shim."""
    shutil.copytree(SCENARIOS / "fresh/fake", folder, dirs_exist_ok=True)
    program = folder / "bin/claude"
    program.write_text(program.read_text().replace("PYTHON", sys.executable))
    program.chmod(0o755)
    py_compile.compile(str(SCENARIOS / "agent.py"), str(folder / "agent.pyc"), doraise=True)
    return folder
