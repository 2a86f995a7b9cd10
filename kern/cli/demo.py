"""`kern demo`: the real pipeline on a sample repository, with an embedded agent."""

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from kern.agents import protocol
from kern.errors import KernError
from kern.pipeline import loop
from kern.pipeline.site import Leave, Options
from kern.system import process
from kern.views.live import Console

SAMPLE = Path(__file__).with_name("sample")
_BEGIN = """\
init --quiet
config user.name 'kern demo'
config user.email demo@localhost
config commit.gpgsign false
config core.hooksPath .git/hooks
add --all
commit --quiet --message 'Start the sample'"""


def main() -> int:
    """Makes the repository, runs kern there, shows the commits; kern's exit code."""
    folder = Path(tempfile.mkdtemp(prefix="kern-demo-")).resolve()
    root, agent = folder / "sample", folder / "demo-agent"
    package = Path(__file__).resolve().parent.parent.parent
    run = f'PYTHONPATH="{package}" exec "{sys.executable}" -m kern.cli.demo_agent "$@"'
    agent.write_text(f"#!/bin/sh\n{run}\n")
    agent.chmod(0o755)
    sample(root)
    print(f"A sample repository: {root}", end="\n\n", flush=True)
    print(f"Its SPEC.md:\n\n{(root / 'SPEC.md').read_text('utf-8')}")
    print("kern carries the tasks out with an agent that plays a script: no account, no network.\n")
    # Nothing is left in the person's own folders.
    os.environ |= {"KERN_DIR": str(folder / "kern"), "XDG_STATE_HOME": str(folder / "state")}
    os.environ[protocol.find(protocol.DEFAULT).variable] = str(agent)
    with contextlib.closing(Console()) as console:
        options = Options(5, 0, tick=console.tick, leave=Leave(trusted=True))
        code = loop.run(root, options, console)
    log = _git(root, "log", "--reverse", "--format=%h  %s", "--stat")
    refs = _git(root, "for-each-ref", "--format=%(refname:short)", "refs/kern/attempts")
    print(f"\nThe commits:\n\n{log}\nThe failed attempts, saved:\n\n{refs}")
    again = f"  KERN_DIR={folder / 'kern'} {shlex.quote(os.path.abspath(sys.argv[0]))}"
    print(f"The folder stays. Look around:\n\n  cd {root}\n{again} status\n{again} show 2")
    return code


def _git(root: Path, *argv: str) -> str:
    code, text, why = process.capture(["git", "-C", str(root), *argv], 30)
    if code:
        raise KernError(f"the sample repository fails: git {argv[0]}: {why.strip()}")
    return text


def sample(root: Path) -> None:
    root.mkdir()
    for file in SAMPLE.iterdir():  # without their modes: kern may be installed read-only
        shutil.copyfile(file, root / file.name)
    for script in root.glob("*.sh"):
        script.chmod(0o755)
    for line in _BEGIN.splitlines():
        _git(root, *shlex.split(line))
