"""What of kern the stories, their crashes and the laws reach, by branch:

python -m tests.scenarios.coverage [PYTEST OPTIONS]     such as -m "not crash"; needs `coverage`

kern is measured wherever it runs: in forks, in what -j starts, in sandboxes, and in its programs
that load next to nothing, which for once have to load what measures them. Of each file it prints
the lines from which a branch was not taken, and where that one leads.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.scenarios.world import TOP

CONFIG = """\
[run]
branch = true
parallel = true
source = {top}/kern
data_file = {folder}/.coverage
patch = _exit, execv, fork, subprocess
sigterm = true
disable_warnings = no-data-collected, module-not-imported, module-not-measured
[report]
exclude_also = if TYPE_CHECKING:
"""
# `-S` keeps an interpreter from loading what measures it.
PYTHON = """\
#!/bin/sh
[ "$2" != -S ] || {{ shift 2; set -- -I "$@"; }}
exec {python} "$@"
"""
MEASURED = ("tests/scenarios", *map(str, TOP.glob("tests/world/test_laws*.py")))


def main(options: list[str]) -> int:
    # A sandbox shows what lies beside the interpreter.
    with tempfile.TemporaryDirectory(prefix="kern-coverage-", dir=sys.prefix) as folder:
        config, python, report = (Path(folder, name) for name in ("rc", "python", "report"))
        config.write_text(CONFIG.format(top=TOP, folder=folder))
        python.write_text(PYTHON.format(python=sys.executable))
        python.chmod(0o755)
        env = {**os.environ, "COVERAGE_FOLDER": folder, "COVERAGE_PYTHON": str(python)}

        def coverage(word: str, *argv: str) -> int:
            words = [sys.executable, "-m", "coverage", word, f"--rcfile={config}", *argv]
            return subprocess.call(words, cwd=TOP, env=env)

        ended = coverage("run", "-m", "pytest", "-q", "-n0", *options, *MEASURED)
        coverage("combine", "--quiet")
        coverage("json", "--quiet", "-o", str(report))
        show(json.loads(report.read_text()))
        return ended


def show(report: Any) -> None:
    for name, row in report["files"].items():
        leads = [f"{at}->{to if to > 0 else 'exit'}" for at, to in row["missing_branches"]]
        if leads:
            of = row["summary"]["num_branches"]
            print(f"{name}: {len(leads)} of {of}: {' '.join(leads)}")
    reached, there = (report["totals"][f"{name}_branches"] for name in ("covered", "num"))
    print(f"{reached} of {there} branches: {100 * reached / there:.1f} %")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
