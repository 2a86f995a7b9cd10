"""What a person asks for beside a run: the first files, a clean-up, an update."""

import os
import re
import sys
import time
from pathlib import Path

from kern import bundle, lock, plain, process, refs, repo, workspace
from kern.errors import KernError, UsageError


def init(folder: Path) -> None:
    """SPEC.md and LEARNINGS.md at the top level, never over what is there."""
    root = repo.open_at(folder).root
    for name in ("SPEC", "LEARNINGS"):
        place = root / f"{name}.md"
        try:
            with place.open("xb") as file:
                file.write(bundle.path(f"{name}.example.md").read_bytes())
        except FileExistsError:
            print(f"kept     {plain.line(str(place))}", file=sys.stderr)
        else:
            print(f"written  {plain.line(str(place))}", file=sys.stderr)
    print(
        "next: put your tasks in place of the examples in SPEC.md, then: kern -n", file=sys.stderr
    )


def clean(folder: Path, older: str) -> None:
    """History and kept attempts older than, say, `30d` or `12h`."""
    match = re.fullmatch(r"(\d{1,6})([dh]?)", older)
    if match is None:
        raise UsageError(
            f"--older takes days or hours: {older!r} is neither", hint="kern clean --older 30d"
        )
    before = time.time() - int(match[1]) * (3600 if match[2] == "h" else 86400)
    found = repo.open_at(folder)
    scope = workspace.scope(found.root, found.head().name)
    with lock.hold(scope, found.git_dir):
        walks = workspace.forget_history(scope, before)
        old = [ref for ref, when in refs.kept(found) if when < before]
        for ref in old:
            refs.delete(found, ref)
    print(f"deleted: {walks} walk(s) of history, {len(old)} kept attempt(s)", file=sys.stderr)


def update() -> int:
    """Run the installer again with the source that this kern came from."""
    version = Path(sys.prefix)  # the installer makes $XDG_DATA_HOME/kern/versions/<id>
    source = workspace.read(version / "source")
    if source is None:
        raise KernError(
            "this kern was not installed by install.sh",
            hint="update it the way you installed it: in a clone, git pull",
        )
    env = {"KERN_SOURCE": source.decode("utf-8", "surrogateescape").strip(), **os.environ}
    env["XDG_DATA_HOME"] = str(version.parents[2])
    with bundle.path("install.sh").open("rb") as text:  # by stdin: the script replaces its folder
        return process.attended(["sh"], text, env)
