"""`[agent.http]` as data: which endpoint of chat completions the `http` agent asks, and how long it
may go on. Pure.
"""

import re
from dataclasses import dataclass
from typing import Any

from kern import toml
from kern.toml import Wrong

_EXAMPLE = 'url = "http://localhost:11434/v1"'
_URL = r"(?i)https?://(?:\[[0-9a-f:]+\]|[a-z0-9._-]+)(?::[1-9]\d{0,4})?(?:/[!-\"$->A-~]{0,400})?"
_VARIABLE = r"((?!KERN_)[A-Z_][A-Z0-9_]{0,99})?"  # kern's own reach no agent


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str = ""  # up to `/v1`; empty where there is none
    model: str = ""  # for stages that name none
    key: str = ""  # the variable of the environment that has it
    theirs: bool = False  # the repository names it

    @property
    def asks(self) -> tuple[str, ...]:
        """What a repository wants of it that a person must agree to, a line each."""
        key = f", with the key in {self.key}" if self.key else ""
        line = f"agent http: sends what it reads to {self.url}{key}"
        return (line,) if self.theirs else ()


def _url(value: Any) -> str:
    """Without what follows `/v1`. Nothing of it may hide where it leads, or hold a password, which
    others would see.
    """
    text = value.strip() if isinstance(value, str) else ""
    text = re.sub(r"(/chat/completions)?/?$", "", text.removesuffix("/"))
    if not re.fullmatch(_URL, text):
        hint = f'{_EXAMPLE}; a key has a variable: key = "OPENAI_API_KEY"'
        raise Wrong("{} must be an http or https URL, with no password in it", hint)
    return text


def _key(value: Any) -> str:
    """What stands there is not repeated: it may be the key itself."""
    if not isinstance(value, str) or not re.fullmatch(_VARIABLE, value):
        what = "{} must be the name of a variable of the environment, and not the key itself"
        raise Wrong(what, 'key = "OPENAI_API_KEY"')
    return value


_ROWS = toml.table(
    {
        "url": _url,
        "model": toml.matching(r"([A-Za-z0-9][!-~]{0,199})?", "a model's name"),
        "key": _key,
        "turns": "take it out: the time-out of the stage bounds it",
        "quiet": "take it out: the time-out of the stage bounds it",
    }
)


def read(value: Any) -> Endpoint:
    """The table, as the person's own: see `theirs`."""
    row = _ROWS(value)
    if "url" not in row:
        raise Wrong("{}.url is missing", _EXAMPLE)
    return Endpoint(**row)
