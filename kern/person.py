"""~/.config/kern/config.toml as data: what a person decides for all of their repositories, and no
repository for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kern import config, endpoint, many, plain, toml
from kern.config import Holding, Settings
from kern.endpoint import Endpoint

FILE = "~/.config/kern/config.toml"


class Mode(StrEnum):
    """What holds an agent and a project's commands."""

    AUTO = "auto"  # the best that works here
    BWRAP = "bwrap"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Person:
    mode: Mode = Mode.AUTO
    holding: Holding = field(default_factory=Holding)
    endpoint: Endpoint | None = None  # of the `http` agent, where a repository names none
    notify: str = ""  # for sh, outside of any sandbox
    cluster: tuple[str, str] = ("", "")  # its scheduler, and the remote of its workers
    awake: bool = True  # the machine, while a run is on


def _sandbox(given: Any) -> Any:
    """A mode, or a table with one."""
    return _TABLE({"mode": given} if isinstance(given, str) else given)


_MODE = toml.one_of([*Mode], "kern help safety")
_TABLE = toml.table({**config.HOLDING, "mode": _MODE})
_ROWS: toml.Rows = {
    "sandbox": _sandbox,
    "agent": toml.table({"http": endpoint.read}),
    "notify": config.notify,
    "fleet": many.FLEET,
    "awake": toml.flag,
    "trust": "take it out: without a sandbox, what is new in a repository is always asked about",
}


def mode(given: str, where: str) -> Mode:
    """Raises UsageError."""
    return Mode(toml.checked(given, _MODE, where, ""))


def parse(data: bytes | str, origin: str = FILE) -> Person:
    """Raises UsageError."""
    found = toml.read(data, origin, _ROWS)
    table, fleet = found.get("sandbox", {}), found.get("fleet", {})
    return Person(
        Mode(table.pop("mode", Mode.AUTO)),
        Holding(**table),
        found.get("agent", {}).get("http"),
        found.get("notify", ""),
        (fleet.get("scheduler", ""), fleet.get("remote", "")),
        found.get("awake", True),
    )


def over(own: Person, theirs: Settings) -> Settings:
    """A repository's settings with the person's. What runs outside of any sandbox, or sends the
    project away, is for the person alone to name: what the repository says of it gets a remark.
    """
    scheduler, remote = own.cluster
    notify = (f"notify: {theirs.notify}",) if theirs.notify else ()
    asks = plain.line("; ".join((*notify, *theirs.fleet.connects)), 300)
    remark = f"{config.FILE} asks for {asks}, which only {FILE} may set: not started"
    return replace(
        theirs,
        endpoint=theirs.endpoint or own.endpoint,
        notify=own.notify,
        fleet=replace(theirs.fleet, scheduler=scheduler, remote=remote),
        remarks=(*theirs.remarks, remark) if asks else theirs.remarks,
    )


def withheld(own: Holding, theirs: Holding) -> Iterator[str]:
    """What a repository asks of a sandbox and does not get, with what a person can paste."""
    for key, names in theirs.without(own):
        line = f"{key} = {plain.data([*getattr(own, key), *names], indent=None)}"
        yield (
            f"{config.FILE} asks for {key} of {plain.line(', '.join(names), 200)} in the sandbox: "
            f"not granted; below [sandbox] in {FILE} this would: {line}"
        )
