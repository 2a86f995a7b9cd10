"""`kern --update`, `kern uninstall`: what install.sh put in place, replaced or removed."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from kern import person
from kern.cli.asking import agreed
from kern.errors import Exit, KernError, UsageError
from kern.stages import prompts
from kern.system import process

_OURS = ("versions", "current", "prompts", "source")  # what install.sh makes in its folder
_OTHERS = {  # a folder that tells who else put kern there: to update it, to remove it
    "uv/tools": ("uv tool upgrade kern", "uv tool uninstall kern"),
    "pipx/venvs": ("pipx upgrade kern", "pipx uninstall kern"),
}

_RUN_FILES = shlex.quote(os.environ.get("KERN_DIR") or "/tmp/claude/kern")
_STAYS = f"""
These stay on this machine; to remove them as well:
  rm -r {_RUN_FILES} ~/.cache/kern    (run files, caches)
  rm -r {Path(person.FILE).parent}    (your settings)
  rm -r ~/.local/state/kern    (what you trusted)
SPEC.md, LEARNINGS.md, kern.toml and the commits stay in your repositories. To remove from one of
them the journal and the saved attempts:
  rm -r .git/kern
  git for-each-ref --format='delete %(refname)' refs/kern | git update-ref --stdin
"""


def update() -> int:
    """Run the installer again with the source that this kern came from."""
    version = _version(0)
    source = (version / "source").read_bytes()
    env = {"KERN_SOURCE": source.decode("utf-8", "surrogateescape").strip(), **os.environ}
    env["XDG_DATA_HOME"] = str(version.parents[2])
    with prompts.path("install.sh").open("rb") as text:  # by stdin: the script replaces its folder
        return process.attended(["sh"], text, env)


def uninstall(*, yes: bool) -> int:
    """After a person's yes. What repositories hold stays, and it is said how to remove that."""
    data = _version(1).parents[1]
    command = Path.home() / ".local" / "bin" / "kern"
    links = [command] if _is_ours(command) else []
    print("This removes kern:", *(f"  {place}" for place in (data, *links)), _STAYS, sep="\n")
    if not yes and not agreed("Remove kern?", sys.stdout, sys.stdout):
        raise UsageError("kern is still installed", hint="kern uninstall --yes removes it")
    for place in (*links, *(data / name for name in _OURS)):
        if place.is_symlink():
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place)
    if not any(data.iterdir()):
        data.rmdir()
    print("kern is removed; its line for ~/.local/bin in your shell's profile is yours to keep")
    return Exit.OK


def _version(which: int) -> Path:
    """The folder of this version, $XDG_DATA_HOME/kern/versions/<id>; raises KernError where another
    than install.sh put it there. `which`: what is then to be typed, to update it or to remove it.
    """
    version = Path(sys.prefix)
    if (version / "source").is_file() and version.parent.name == "versions":
        return version
    told = next((hints for part, hints in _OTHERS.items() if part in str(version)), None)
    in_a_clone = (
        "git pull in the clone that it runs from",
        "delete the clone or the environment that it runs from",
    )
    raise KernError("this kern was not installed by install.sh", hint=(told or in_a_clone)[which])


def _is_ours(command: Path) -> bool:
    """As install.sh knows its own link."""
    return command.is_symlink() and os.readlink(command).endswith("/kern/current/bin/kern")
