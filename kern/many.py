"""Many at once, as settings: how many tasks, what their worktrees need, which cluster. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kern import plain, toml
from kern.errors import UsageError

SINGLE, TABLES = "jobs", ("worktree", "fleet")
AUTO = "auto"
MOST = 1000
_EACH_MB = 400  # of memory: a kern and its agent, which takes some 300
_SETUP_S = 600.0


@dataclass(frozen=True, slots=True)
class Many:
    jobs: str = ""  # a whole number, or `auto`; empty: one after the other, in the person's tree
    copy: tuple[str, ...] = ()  # paths of the person's tree
    setup: str = ""  # for sh, once per worktree
    setup_s: float = _SETUP_S  # its time-out; 0: none
    scheduler: str = ""  # of a cluster: its address, or a file that names it
    remote: str = ""  # where a cluster's workers fetch the repository from

    @property
    def asks(self) -> tuple[str, ...]:
        """What it would start, a line each."""
        return (f"worktree setup: {self.setup}",) if self.setup else ()

    @property
    def connects(self) -> tuple[str, ...]:
        """Where it would send the project, a line each."""
        given = ("cluster", self.scheduler), ("cluster's remote", self.remote)
        return tuple(f"{what}: {named}" for what, named in given if named)


def of_settings(given: Mapping[str, Any], file: str) -> Many:
    """Raises UsageError with file and key."""
    worktree = given.get("worktree")
    if isinstance(worktree, dict) and "link" in worktree:
        raise UsageError(
            f"{file}: there is no worktree.link any more",
            hint="take it out: in a sandbox workers see what git ignores in your tree; without "
            "one setup makes it (kern help parallel)",
        )
    worktree = toml.table(given, "worktree", file, "copy", "setup")
    setup, seconds = _setup(worktree.get("setup", ""), file)
    jobs = given.get(SINGLE, "")
    if isinstance(jobs, bool) or not isinstance(jobs, (int, str)) or isinstance(jobs, float):
        raise wrong(f"{file}: jobs", f"edit {file}")
    return Many(
        number(str(jobs), f"{file}: jobs", f"edit {file}") if jobs != "" else "",
        _paths(worktree, "copy", file),
        setup,
        seconds,
        *cluster(given, file),
    )


def cluster(given: Mapping[str, Any], file: str) -> tuple[str, str]:
    """The scheduler and the remote of the table `[fleet]`. Raises UsageError."""
    fleet = toml.table(given, "fleet", file, "scheduler", "remote")
    return _text(fleet, "scheduler", file), _text(fleet, "remote", file)


def number(text: str, what: str, hint: str) -> str:
    """As a person gives it. Raises UsageError."""
    sound = text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= MOST
    if text != AUTO and not sound:
        raise wrong(what, hint, text)
    return text


def wrong(what: str, hint: str, text: str = "") -> UsageError:
    given = f": {plain.line(text, 40)!r} is not" if text else ""
    return UsageError(f"{what} is a whole number from 1 to {MOST}, or auto{given}", hint=hint)


def workers(jobs: str, cores: int, memory_mb: float, tasks: int) -> int:
    """How many: as many as asked for, since tasks may be added meanwhile; `auto`: as the machine
    can bear, where an agent mostly waits for its model, and never more than there are tasks.
    """
    if jobs != AUTO:
        return int(jobs)
    return max(1, min(4 * cores, int(memory_mb // _EACH_MB), tasks))


def told(jobs: str, scheduler: str = "") -> str:
    """How many tasks at once, and where. `scheduler`: of the cluster, if there is one."""
    where = (
        f" on the cluster at {scheduler}" if scheduler else ", each in a git worktree of its own"
    )
    match jobs:
        case "1":
            how = "one task at a time"
            where = where if scheduler else ", in a git worktree"
        case "auto" if scheduler:
            how, where = f"as many tasks at once as the cluster at {scheduler} takes", ""
        case "auto":
            how = "as many tasks at once as this machine can bear"
        case _:
            how = f"{jobs} tasks at once"
    return f"{how}{where}: kern help parallel"


def _setup(value: Any, file: str) -> tuple[str, float]:
    given = {"run": value} if isinstance(value, str) else value
    hint = 'setup = "uv sync --frozen", or { run = "a command", timeout = "10m" }'
    command = given.get("run", "") if isinstance(given, dict) else None
    if not isinstance(command, str) or "\0" in command or not {*given} <= {"run", "timeout"}:
        raise toml.wrong(file, "worktree.setup", "a command", hint)
    seconds = toml.seconds(given.get("timeout", _SETUP_S))
    if seconds is None:
        raise toml.wrong(file, "worktree.setup.timeout", "a time", hint)
    return command.strip(), seconds


def _paths(table: Mapping[str, Any], key: str, file: str) -> tuple[str, ...]:
    """Within the working tree: what lies elsewhere is none of a worktree's."""
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise toml.wrong(file, f"worktree.{key}", "a list of paths")
    found = [one.rstrip("/") for one in value]
    for path in found:
        parts = path.split("/")
        if not path or {"", ".", "..", ".git"} & {*parts} or "\0" in path:
            raise UsageError(
                f"{file}: worktree.{key} takes paths within the repository: {path!r} is none",
                hint=f'{key} = [".env", "config/local.yml"]',
            )
    return tuple(found)


def _text(table: Mapping[str, Any], key: str, file: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or "\0" in value:
        raise toml.wrong(file, f"fleet.{key}", "a text")
    return value.strip()
