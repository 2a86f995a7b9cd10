"""What would end a night that nobody watches, tried before the first paid stage."""

import os
import shutil
import time
from pathlib import Path

from kern.errors import UsageError
from kern.git import history
from kern.model import Stage
from kern.pipeline.options import Options
from kern.pipeline.project import HOOKS
from kern.pipeline.site import Site
from kern.system import process

_SLOW_S = 3.0  # a signature that takes longer may have been asked for
_ROOM = 300 << 20  # bytes; with less a night may end


def look(site: Site, options: Options) -> None:
    """Raises KernError for what would end the run later; what may is a warning. What could ask is
    tried only where a person is there to answer.
    """
    if os.environ.get(process.FLEET):  # the run that started it has looked
        return
    for name in HOOKS:
        _startable(site, site.hooks_folder / name)
    for place in dict.fromkeys((site.repo.root, site.scope.folder)):
        if (free := shutil.disk_usage(place).free) < _ROOM:
            site.warn(f"{free >> 20} MB are free for {place}: a full disk ends the run")
    if options.watched:
        _answered(site)


def _startable(site: Site, hook: Path) -> None:
    if not hook.is_file():
        return
    if not os.access(hook, os.X_OK):
        site.warn(f"git passes over {hook}, which is not executable: chmod +x, if it is meant")
        return
    with hook.open("rb") as file:
        first = os.fsdecode(file.readline(400)).strip()
    program, *more = first.removeprefix("#!").split() or [""]
    if Path(program).name == "env" and more and not more[0].startswith("-"):
        program = more[0]
    if first.startswith("#!") and program and not shutil.which(program):
        raise UsageError(
            f"no commit could be made: the {hook.name} hook needs {program}, which is not there",
            hint=f"install it, or correct the first line of {hook}",
        )


def _answered(site: Site) -> None:
    """What asks the person, where it does."""
    if not history.signs(site.repo):
        return
    began = time.monotonic()
    empty = site.repo.text("hash-object", "-t", "tree", "--stdin")
    history.create(site.repo, empty, "", "", site.caller.settings.total(Stage.COMMIT))
    if (took := time.monotonic() - began) > _SLOW_S:
        site.warn(
            f"signing took {took:.0f} s: if it asks each time, the night stops there; --no-sign "
            "leaves these commits unsigned, and the morning says how to sign them"
        )
