"""Root and an ordinary user: what differs for them is told by both, whoever runs the tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HERE

READ_ONLY = "06 a read-only folder that a failed attempt leaves"
STORY = "tests/scenarios/test_scenarios.py::test_scenario"
# In a namespace root has another's number and no capability, and an ordinary user is called root.
OTHER = "--map-root-user --mount" if os.getuid() else "--map-user=1000 --map-group=1000"
DIFFERS = ("tests/sandbox/test_wall.py", "tests/system/test_workspace.py")
DIFFERS += ("tests/world/test_bad_input.py", f"{STORY}[{READ_ONLY}]")  # type: ignore[assignment]
# None is given away to somebody whom such a namespace does not know.
CHOSEN = "(can_do or folder or disk or as_root) and not foreign"


def test_what_a_user_decides_is_told_as_the_other_kind(tmp_path: Path) -> None:
    unshared = ["unshare", "--user", *OTHER.split()]
    if not shutil.which("unshare") or subprocess.call([*unshared, "true"]):
        pytest.skip("this machine makes no namespace for a user")
    argv = [*unshared, sys.executable, "-m", "pytest", "-q", "-n0", "-pno:cacheprovider"]
    argv += ["-k", CHOSEN, f"--basetemp={tmp_path}/other", *DIFFERS]
    done = subprocess.run(argv, cwd=HERE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
