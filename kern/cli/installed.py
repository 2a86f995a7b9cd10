"""`kern --update`: what install.sh put in place, replaced."""

import os
import sys
from pathlib import Path

from kern.errors import KernError
from kern.stages import prompts
from kern.system import process

_OTHERS = {  # a folder that tells who else put kern there
    "uv/tools": "uv tool upgrade kern",
    "pipx/venvs": "pipx upgrade kern",
}


def update() -> int:
    """Run the installer again with the source that this kern came from."""
    version = Path(sys.prefix)
    if not (version / "source").is_file():
        others = (hint for part, hint in _OTHERS.items() if part in str(version))
        hint = next(others, "git pull in the clone that it runs from")
        raise KernError("this kern was not installed by install.sh", hint=hint)
    source = (version / "source").read_bytes()
    env = {"KERN_SOURCE": source.decode("utf-8", "surrogateescape").strip(), **os.environ}
    env["XDG_DATA_HOME"] = str(version.parents[2])
    with prompts.path("install.sh").open("rb") as text:  # by stdin: the script replaces its folder
        return process.attended(["sh"], text, env)
