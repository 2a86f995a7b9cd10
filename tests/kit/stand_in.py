"""The stand-in for the agent in a folder of its own, see tests/scenarios/agent.py."""

import py_compile
import shutil
import sys
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def settle(folder: Path) -> Path:
    """`folder/bin/claude`, logged in, and no call yet; a python3 on PATH may be a slow shim."""
    shutil.copytree(SCENARIOS / "fresh/fake", folder, dirs_exist_ok=True)
    program = folder / "bin/claude"
    program.write_text(program.read_text().replace("PYTHON", sys.executable))
    program.chmod(0o755)
    (folder / "agent.pyc").write_bytes(compiled())
    return folder


@cache
def compiled() -> bytes:
    with NamedTemporaryFile(suffix=".pyc") as file:
        py_compile.compile(str(SCENARIOS / "agent.py"), file.name, doraise=True)
        return Path(file.name).read_bytes()
