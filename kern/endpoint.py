"""`[agent.http]` as data: which endpoint of chat completions the `http` agent asks, and how long it
may go on. Pure.
"""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kern import plain, toml
from kern.errors import UsageError

EXAMPLE = 'url = "http://localhost:11434/v1"'
_PRINTABLE = r"[!-~]{1,500}"
_MODEL = r"[A-Za-z0-9][!-~]{0,199}"
_VARIABLE = r"(?!KERN_)[A-Z_][A-Z0-9_]{0,99}"  # kern's own reach no agent
_MOST_TURNS = 10_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str = ""  # up to `/v1`; empty where there is none
    model: str = ""  # for stages that name none
    key: str = ""  # the variable of the environment that has it
    turns: int = 200  # of a stage, at most
    quiet: float = 600.0  # seconds that it may send nothing
    theirs: bool = False  # the repository names it

    @property
    def asks(self) -> tuple[str, ...]:
        """What a repository wants of it that a person must agree to, a line each."""
        key = f", with the key in {self.key}" if self.key else ""
        line = f"agent http: sends what it reads to {self.url}{key}"
        return (line,) if self.theirs else ()


_USUAL = Endpoint()


def parse(table: Any, origin: str, *, theirs: bool) -> Endpoint | None:
    """None where there is no such table. Raises UsageError."""
    if table is None:
        return None
    place = f"{origin}: agent.http"
    known = [name for name in Endpoint.__match_args__ if name != "theirs"]
    if not isinstance(table, dict):
        raise toml.wrong(origin, "agent.http", "a table", f"[agent.http] {EXAMPLE}")
    toml.known(table, known, origin, "agent.http.")
    return Endpoint(
        _url(table.get("url"), f"{place}.url"),
        _model(table.get("model", ""), f"{place}.model"),
        _key(table.get("key", ""), f"{place}.key"),
        _turns(table.get("turns", _USUAL.turns), f"{place}.turns"),
        _quiet(table.get("quiet", _USUAL.quiet), f"{place}.quiet"),
        theirs,
    )


def _url(value: object, place: str) -> str:
    """Without what follows `/v1`. Nothing of it may hide where it leads."""
    text = value.strip() if isinstance(value, str) else ""
    text = text.removesuffix("/").removesuffix("/chat/completions").removesuffix("/")
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not re.fullmatch(_PRINTABLE, text) or "?" in text or "#" in text:
        given = "is missing" if value is None else f"must be an http or https URL: {_short(value)}"
        raise UsageError(f"{place} {given}", hint=EXAMPLE)
    if "@" in parts.netloc:
        raise UsageError(
            f"{place} holds a name or a password, which others would see",
            hint='put the key into a variable and name that: key = "OPENAI_API_KEY"',
        )
    return text


def _model(value: object, place: str) -> str:
    if value == "" or (isinstance(value, str) and re.fullmatch(_MODEL, value)):
        return str(value)
    raise UsageError(f"{place}: {_short(value)} is no model's name", hint='model = "qwen3-coder"')


def _key(value: object, place: str) -> str:
    """What stands there is not repeated: it may be a key."""
    if value == "" or (isinstance(value, str) and re.fullmatch(_VARIABLE, value)):
        return str(value)
    raise UsageError(
        f"{place} must name a variable of the environment, and not be the key itself",
        hint='key = "OPENAI_API_KEY"',
    )


def _turns(value: object, place: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TURNS:
        return value
    raise UsageError(f"{place} must be a number from 1 to {_MOST_TURNS}", hint="turns = 200")


def _quiet(value: object, place: str) -> float:
    found = toml.seconds(value)
    if not found:
        raise UsageError(f'{place} must be seconds, or "90s", "10m"', hint='quiet = "10m"')
    return found


def _short(value: object) -> str:
    return plain.line(str(value), 80)
