"""~/.config/kern/config.toml as data: what a person decides for all of their repositories, and no
repository for them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kern import models, plain, toml
from kern.config import FILE as CONFIG
from kern.config import OPENS, PERSON, Gate, Settings
from kern.models import Endpoint

FILE = PERSON


class Mode(StrEnum):
    """What holds an agent and a project's commands."""

    AUTO = "auto"  # the best that works here
    BWRAP = "bwrap"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Holding:
    """What the `[sandbox]` table opens, as it stands there."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    # `example.com`, `*.example.com`, `localhost:5432`; None: any host, but nothing of this machine;
    # `*`: the machine's network as it is.
    network: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Person:
    holding: Holding = field(default_factory=Holding)
    endpoint: Endpoint | None = None  # of the `http` agent, where a repository names none
    notify: str = ""  # for sh, outside of any sandbox
    hidden: Mapping[str, Gate] = field(default_factory=dict)  # by the top level of a repository


_HOST = r"\*|(\*\.)?[\w.-]+(:\d{1,5})?|\[[\da-fA-F:]+\]:\d{1,5}"
_HOSTS = 'network = ["example.com", "*.example.com", "localhost:5432"]; ["*"] for all of it'
_SHAPE = {
    "sandbox": {
        **dict.fromkeys(OPENS, toml.texts("texts")),
        "network": toml.texts("hosts", _HOST, _HOSTS),
    },
    "agent": {"http": models.endpoint},
    "notify": toml.text,
    "hidden": {"*": toml.command(folder=toml.text)},
}


def mode(value: str, where: str) -> Mode:
    """Raises UsageError."""
    return Mode(toml.one_of([*Mode], "kern help safety")(value, where))


def parse(data: bytes | str, origin: str = FILE) -> Person:
    """Raises UsageError."""
    settings = toml.read(data, origin, _SHAPE)
    hidden = {
        top: Gate("hidden", row["run"], strict=True, hidden=row.get("folder", ""))
        for top, row in settings.get("hidden", {}).items()
    }
    http = settings.get("agent", {}).get("http")
    return Person(Holding(**settings.get("sandbox", {})), http, settings.get("notify", ""), hidden)


_LOCAL = r"(localhost|127\.0\.0\.1|\[::1\]):"


def refused(own: Holding, asks: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """What a repository asks of the sandbox and does not get, with what a person can paste."""
    for key, names in asks.items():
        mine: tuple[str, ...] = getattr(own, key) or ()
        if key == "network" and own.network is None:  # all is open but this machine
            names = tuple(one for one in names if re.match(_LOCAL, one))
        folders = tuple(f"{one.rstrip('/')}/" for one in mine)
        new = [one for one in names if not f"{one.rstrip('/')}/".startswith(folders)]
        if new and "*" not in mine:
            line = f"{key} = {plain.data([*mine, *new], indent=None)}"
            yield (
                f"{CONFIG} asks for {key} of {plain.line(', '.join(new), 200)} in the sandbox: not "
                f"granted; below [sandbox] in {FILE} this would: {line}"
            )


def over(own: Person, theirs: Settings, hidden: Gate | None = None) -> Settings:
    """A repository's settings with the person's."""
    endpoint = theirs.endpoint or own.endpoint
    return replace(theirs, endpoint=endpoint, notify=own.notify, hidden=hidden)
