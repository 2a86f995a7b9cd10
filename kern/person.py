"""~/.config/kern/config.toml as data: what a person decides for all of their repositories, and no
repository for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kern import config, endpoint, many, plain, toml
from kern.config import Holding, Settings
from kern.endpoint import Endpoint
from kern.errors import UsageError

FILE = "~/.config/kern/config.toml"
_GONE = {
    "claude": '"auto" holds claude, and all that it starts',
    "docker": 'run kern itself in the container, with "off" there; "auto" is bubblewrap on Linux',
}
_ASKED = "take it out: without a sandbox, what is new in a repository is always asked about"


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


def parse(data: bytes | str, origin: str = FILE) -> Person:
    """`sandbox` is a mode, or a table with one. Raises UsageError."""
    given = toml.loaded(data, origin)
    if "trust" in given:
        raise UsageError(f"{origin}: there is no setting trust any more", hint=_ASKED)
    toml.known(given, ("sandbox", "agent", "notify", "fleet", "awake"), origin)
    agent = given.get("agent", {})
    if not isinstance(agent, dict) or agent.keys() - {"http"}:
        raise UsageError(f"{origin}: agent knows the table http alone", hint=f"edit {origin}")
    if not isinstance(awake := given.get("awake", True), bool):
        raise toml.wrong(origin, "awake", "true or false")
    table = given.get("sandbox", {})
    table = {"mode": table} if isinstance(table, str) else table
    if not isinstance(table, dict):
        raise toml.wrong(origin, "sandbox", '"auto", or a table')
    rest = {key: value for key, value in table.items() if key != "mode"}
    return Person(
        mode(table.get("mode", "auto"), f"{origin}: sandbox.mode"),
        config.holding(rest, origin),
        endpoint.parse(agent.get("http"), origin, theirs=False),
        config.notify(given.get("notify", ""), origin),
        many.cluster(given, origin),
        awake,
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


def mode(value: object, where: str) -> Mode:
    """Raises UsageError."""
    if value in _GONE:
        raise UsageError(f'{where}: there is no "{value}" any more', hint=_GONE[str(value)])
    try:
        return Mode(str(value))
    except ValueError:
        raise UsageError(
            f"{where} must be one of {', '.join(Mode)}, not {str(value)[:40]!r}",
            hint="kern help safety",
        ) from None
