"""Which agent CLI each role runs, with which model and effort, and who has the last word. Pure.

The command line counts before the front matter of a project's own prompt, that before kern.toml,
and that before what kern's own prompts say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated, Any

from kern import toml
from kern.model import Aide, Role, Stage

ROLES: tuple[Role, ...] = (*Stage, *Aide)
# What a name without a role means: the others read a finished change, and a small model does.
THINKING: tuple[Role, ...] = (Stage.RESEARCH, Stage.IMPLEMENT, Aide.PLANNER)


# As the vendors have them: opus, claude-opus-4-1, opus[1m], us.anthropic.claude-x-v1:0, arn:…/…
_MODEL = toml.matching(r"(?a)[A-Za-z0-9][\w.:/@\[\]-]{0,199}", "a model's name", 'model = "opus"')
_NAME = r"(?a)[A-Za-z0-9][\w.-]{0,63}"
_AGENT = toml.matching(_NAME, "an agent's name", 'agent = "NAME"')
Agents = Annotated[tuple[str, ...], toml.texts("names", _NAME, 'agents = ["NAME", "NAME"]')]
_EFFORT = toml.one_of(("low", "medium", "high", "xhigh", "max"), 'effort = "high"')
_WORDS = toml.texts("words, the program first", hint='["llm", "{model}"]')
FIELDS = {"model": _MODEL, "effort": _EFFORT, "agent": _AGENT}
Commands = Annotated[
    Mapping[str, tuple[str, ...]], {"*": lambda got, where: _WORDS(got or None, where)}
]


@dataclass(frozen=True, slots=True)
class Choice:
    """Empty: the next in line decides."""

    model: Annotated[str, _MODEL] = ""
    effort: Annotated[str, _EFFORT] = ""
    agent: Annotated[str, _AGENT] = ""
    timeout: Annotated[float | None, toml.seconds] = None  # kern.toml alone says it

    def over(self, other: "Choice") -> "Choice":
        """A model and an effort are those of the agent for which they were named."""
        if self.agent not in ("", other.agent):
            return self
        model, effort = self.model or other.model, self.effort or other.effort
        return replace(other, model=model, effort=effort)

    def label(self, usual: str) -> str:
        """`usual`: the agent that need not be named."""
        agent = self.agent if self.agent != usual else ""
        words = " ".join(filter(None, (agent, self.model)))
        return f"{words} (effort {self.effort})" if self.effort else words


Choices = Mapping[Role, Choice]


def chosen(*levels: Choice) -> Choice:
    """Of what is said of one role: each counts before those that stand before it."""
    return reduce(lambda below, one: one.over(below), levels)


def format_models(by: Mapping[Role, str]) -> str:
    """Who runs with what: `opus: research, implement; haiku: commit`."""
    names = dict.fromkeys(by.values())
    return "; ".join(f"{name}: {', '.join(r for r in by if by[r] == name)}" for name in names)


def of_options(models: Sequence[str], agents: Sequence[str] = ()) -> Choices:
    """`--model NAME` or `--model ROLE=NAME`, which counts wherever it stands; and `--agent` like
    it, but for all roles where it names none. Raises UsageError.
    """
    choices: dict[Role, Choice] = {}
    for field, words, usual in ("model", models, THINKING), ("agent", agents, ROLES):
        for word in sorted(words, key=lambda one: "=" in one):
            named, equals, name = word.rpartition("=")
            names = dict.fromkeys([named] if equals else usual, name)
            shape = dict.fromkeys(ROLES, FIELDS[field])
            for role, value in toml.fitted(shape, names, f"--{field}:").items():
                choices[role] = replace(choices.get(role, Choice()), **{field: value})
    return choices


# ---------------------------------------------------------------- the endpoint of the agent `http`

_EXAMPLE = 'url = "http://localhost:11434/v1"'
_URL = r"(?i)https?://(?:\[[0-9a-f:]+\]|[a-z0-9._-]+)(?::[1-9]\d{0,4})?(?:/[!-\"$->A-~]{0,400})?"
_URLS = toml.matching(_URL, "an http or https URL, with no password in it", _EXAMPLE)
_VARIABLE = r"((?!KERN_)[A-Z_][A-Z0-9_]{0,99})?"  # kern's own reach no agent
_KEY = toml.matching(_VARIABLE, "a variable's name, not the key itself", 'key = "OPENAI_API_KEY"')


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: Annotated[str, _URLS] = ""  # up to `/v1`; empty where there is none
    model: Annotated[str, _MODEL] = ""  # for stages that name none
    key: Annotated[str, _KEY] = ""  # the variable of the environment that has it
    theirs: bool = False  # the repository names it

    @property
    def asks(self) -> tuple[str, ...]:
        """What a repository wants of it that a person must agree to, a line each."""
        key = f", with the key in {self.key}" if self.key else ""
        line = f"agent http: sends what it reads to {self.url}{key}"
        return (line,) if self.theirs else ()


def endpoint(got: Any, where: str) -> Endpoint:
    """The table, as the person's own: see `theirs`."""
    table: Endpoint = toml.fitted(Endpoint, got, where)
    url = _URLS(table.url, f"{where}.url")
    return replace(table, url=re.sub(r"(/chat/completions)?/*$", "", url))
