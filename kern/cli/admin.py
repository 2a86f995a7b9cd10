"""`kern stop`, `help`, `path` and `--update`: what is around a run."""

import os
import subprocess
import sys
from pathlib import Path

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.stages import prompts
from kern.system import control, lock, workspace


def stop(folder: Path) -> None:
    """Ask the run of this working tree to end after its stage."""
    git_dir, root = (repo := repository.open_at(folder)).git_dir, repo.root
    holder = lock.holder(git_dir)
    if holder is None or not (holder.run and holder.lives(git_dir)):
        raise KernError(f"no run in progress in {root}", hint="kern status; kern begins one")
    where = f" on host {plain.line(holder.host)}" * (holder.host != lock.HOST)
    run = f"the run with pid {holder.pid}{where} on branch {plain.line(holder.branch)}"
    control.ask(git_dir, holder.run)
    when = "ends after its current stage, at once where it waits"
    print(f"{run} {when}; kill -INT {holder.pid}{where} ends it now", file=sys.stderr)


def path(folder: Path) -> None:
    """Where the run files of this branch lie: as it is for a program, harmless on a terminal."""
    repo = repository.open_at(folder)
    place = str(workspace.scope(repo.root, repo.head().name, create=False).folder)
    print(plain.visible(place) if sys.stdout.isatty() else place)


def update() -> int:
    """Run the installer again with the source that this kern came from."""
    came_from = Path(sys.prefix) / "source"
    if not came_from.is_file():
        pipx = "pipx upgrade kern" if "pipx" in sys.prefix else "git pull in the clone it runs from"
        raise KernError("this kern was not installed by install.sh", hint=pipx)
    source, extras, *_ = [*plain.decode(came_from.read_bytes()).split("\n"), ""]
    env = {"KERN_SOURCE": source, "KERN_EXTRAS": extras, **os.environ}
    with prompts.path("install.sh").open("rb") as text:  # by stdin: the script replaces its folder
        return subprocess.call(["/bin/sh"], stdin=text, env=env)


# ---------------------------------------------------------------- the pages in kern/help

PAGES = Path(__file__).resolve().parent.parent / "help"
TOPICS = ("guide", "spec", "settings", "safety", "inside")  # in the order of a new user's needs


def help(topic: str) -> None:
    """One page, or what there is."""
    if topic in TOPICS:
        print((PAGES / f"{topic}.md").read_text("utf-8"), end="")
        return
    if topic:
        raise UsageError(f"no help page {topic!r}", hint="kern help lists the pages")
    print("kern help TOPIC shows a page, kern help COMMAND a command's options. The topics:\n")
    for name in TOPICS:
        print(f"  {name:10}  {(PAGES / f'{name}.md').read_text('utf-8').splitlines()[2]}")
