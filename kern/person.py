"""~/.config/kern/config.toml as data: what a person decides for all of their repositories, and no
repository for them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from kern import config, models, plain, toml
from kern.config import Gate
from kern.models import Endpoint

FILE = "~/.config/kern/config.toml"


class Mode(StrEnum):
    """What holds an agent and a project's commands."""

    AUTO = "auto"  # the best that works here
    BWRAP = "bwrap"
    OFF = "off"


_HOST = r"\*|(\*\.)?[\w.-]+(:\d{1,5})?|\[[\da-fA-F:]+\]:\d{1,5}"
_HOSTS = 'network = ["example.com", "*.example.com", "localhost:5432"]; ["*"] for all of it'
_Texts = Annotated[tuple[str, ...], toml.texts("texts")]


@dataclass(frozen=True, slots=True)
class Holding:
    """What the `[sandbox]` table opens, as it stands there."""

    read: _Texts = ()
    write: _Texts = ()
    env: _Texts = ()
    devices: _Texts = ()
    # `example.com`, `*.example.com`, `localhost:5432`; None: any host, but nothing of this machine;
    # `*`: the machine's network as it is.
    network: Annotated[tuple[str, ...] | None, toml.texts("hosts", _HOST, _HOSTS)] = None


def _hidden(got: Any, where: str) -> Gate:
    row = got if isinstance(got, dict) else {"run": got}
    row = toml.fitted({"run": toml.text, "folder": toml.text}, row, where)
    gate = config.gate({"run": row.get("run")}, where)
    return replace(gate, name="hidden", strict=True, hidden=row.get("folder", ""))


@dataclass(frozen=True, slots=True)
class Person:
    sandbox: Annotated[Holding, Holding] = field(default_factory=Holding)
    # Of the `http` agent, where a repository names none.
    agent: Annotated[Mapping[str, Endpoint], {"http": models.endpoint}] = field(
        default_factory=dict
    )
    notify: toml.Text = ""  # for sh, outside of any sandbox
    # By the top level of a repository.
    hidden: Annotated[Mapping[str, Gate], {"*": _hidden}] = field(default_factory=dict)


def mode(value: str, where: str) -> Mode:
    """Raises UsageError."""
    return Mode(toml.one_of([*Mode], "kern help safety")(value, where))


def parse(data: bytes | str, origin: str = FILE) -> Person:
    """Raises UsageError."""
    return toml.read(data, origin, Person)


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
                f"{config.FILE} asks for {key} of {plain.line(', '.join(new), 200)} in the sandbox:"
                f" not granted; below [sandbox] in {FILE} this would: {line}"
            )
