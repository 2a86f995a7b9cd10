"""What of kern the stories and their crashes alone reach, by branch:

python -m tests.scenarios.coverage [PYTEST OPTIONS]     such as -m "not crash"; needs `coverage`

kern is measured where it runs: in forks, and in the processes that -j starts.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.scenarios.world import TOP

CONFIG = """\
[run]
branch = true
parallel = true
source = {top}/kern
data_file = {folder}/.coverage
patch = _exit, fork, subprocess
disable_warnings = no-data-collected, module-not-imported, module-not-measured
[report]
exclude_also = if TYPE_CHECKING:
"""


def main(options: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="kern-coverage-") as folder:
        config = Path(folder) / "rc"
        config.write_text(CONFIG.format(top=TOP, folder=folder))

        def coverage(word: str, *argv: str) -> int:
            words = [sys.executable, "-m", "coverage", word, f"--rcfile={config}", *argv]
            return subprocess.call(words, cwd=TOP)

        ended = coverage("run", "-m", "pytest", "-q", "-n0", "tests/scenarios", *options)
        coverage("combine", "--quiet")
        return coverage("report", "--sort=cover") or ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
