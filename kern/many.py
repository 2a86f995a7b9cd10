"""Many at once, as settings: how many tasks, what their worktrees need, which cluster. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kern import toml

AUTO = "auto"
_SETUP_S = 600.0
_EACH_MB = 400  # of memory: a kern and its agent, which takes some 300


@dataclass(frozen=True, slots=True)
class Many:
    copy: tuple[str, ...] = ()  # paths of the person's tree
    setup: str = ""  # for sh, once per worktree
    setup_s: float = _SETUP_S  # its time-out; 0: none
    remote: str = ""  # where a cluster's workers fetch the repository from

    @property
    def asks(self) -> tuple[str, ...]:
        """What it would start, a line each."""
        return (f"worktree setup: {self.setup}",) if self.setup else ()


# Within the working tree: what lies elsewhere is none of a worktree's.
_PATH = r"(?!(?:.*/)?(?:\.|\.\.|\.git)(?:/|$))[^/\0]+(?:/[^/\0]+)*/?"
_PATHS = toml.texts("paths within the repository", _PATH, 'copy = [".env", "config/local.yml"]')
WORKTREE = toml.table(
    {
        "copy": _PATHS,
        "setup": toml.command(),
        "link": "take it out: in a sandbox workers see what git ignores in your tree; without one "
        "setup makes it (kern help guide)",
    }
)


def of_settings(settings: Mapping[str, Any]) -> Many:
    worktree = settings.get("worktree", {})
    setup = worktree.get("setup", {})
    return Many(
        tuple(path.rstrip("/") for path in worktree.get("copy", ())),
        setup.get("command", ""),
        setup.get("timeout", _SETUP_S),
    )


def workers(jobs: str, cores: int, memory_mb: float, tasks: int) -> int:
    """How many: as many as asked for, since tasks may be added meanwhile; `auto`: as the machine
    can bear, where an agent mostly waits for its model, and never more than there are tasks.
    """
    if jobs != AUTO:
        return int(jobs)
    return max(1, min(4 * cores, int(memory_mb // _EACH_MB), tasks))


def told(jobs: str, scheduler: str = "") -> str:
    """How many tasks at once, and where. `scheduler`: of the cluster, if there is one."""
    number = "as many tasks at once as it can bear" if jobs == AUTO else f"tasks at once: {jobs}"
    where = f"the cluster at {scheduler}" if scheduler else "this machine, each in a worktree"
    return f"{number}, on {where}: kern help guide"
