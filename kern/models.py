"""Which agent CLI each role runs, with which model and effort, and who has the last word. Pure.

The command line counts before the front matter of a project's own prompt, that before kern.toml,
and that before what kern's own prompts say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kern import plain, toml
from kern.errors import UsageError
from kern.model import Aide, Role, Stage

EFFORTS = ("low", "medium", "high", "xhigh", "max")
ROLES: tuple[Role, ...] = (*Stage, *Aide)
# What a name without a role means: the others read a finished change, and a small model does.
THINKING: tuple[Role, ...] = (Stage.RESEARCH, Stage.IMPLEMENT, Aide.PLANNER)


@dataclass(frozen=True, slots=True)
class Choice:
    """Empty: the next in line decides."""

    model: str = ""
    effort: str = ""
    agent: str = ""

    def over(self, other: "Choice") -> "Choice":
        """A model and an effort are those of the agent for which they were named."""
        if self.agent not in ("", other.agent):
            return self
        return replace(
            other,
            model=self.model or other.model,
            effort=self.effort or other.effort,
        )

    def said(self, usual: str) -> str:
        """`usual`: the agent that need not be named."""
        agent = self.agent if self.agent != usual else ""
        words = " ".join(filter(None, (agent, self.model)))
        return f"{words} (effort {self.effort})" if self.effort else words


Choices = Mapping[Role, Choice]
NO_CHOICE = Choice()


def chosen(
    role: Role,
    front: Choice,
    *,
    own: bool,
    settings: Choices,
    options: Choices,
    first: str = "",
) -> Choice:
    """`front`: what the prompt's front matter says; `own`: the prompt is the project's. `first`:
    the agent that runs where nobody names one for the role.
    """
    setting = settings.get(role, NO_CHOICE)
    choice = Choice(agent=first)
    levels = (setting.over(choice), front) if own else (choice.over(front), setting)
    so_far = levels[1].over(levels[0])
    return options.get(role, NO_CHOICE).over(so_far)


def told(by: Mapping[Role, str]) -> str:
    """Who runs with what: `opus: research, implement; haiku: commit`."""
    names = dict.fromkeys(by.values())
    return "; ".join(f"{name}: {', '.join(r for r in by if by[r] == name)}" for name in names)


# ---------------------------------------------------------------- as a person writes them

# As the vendors have them: opus, claude-opus-4-1, opus[1m], us.anthropic.claude-x-v1:0, arn:…/…
MODEL = toml.matching(r"(?a)[A-Za-z0-9][\w.:/@\[\]-]{0,199}", "a model's name", 'model = "opus"')
AGENT = toml.matching(r"(?a)[A-Za-z0-9][\w.-]{0,63}", "an agent's name", 'agent = "NAME"')
EFFORT = toml.one_of(EFFORTS, 'effort = "high"')
FIELDS = {"model": MODEL, "effort": EFFORT, "agent": AGENT}


def _argv(value: Any) -> tuple[str, ...]:
    sound = isinstance(value, list) and value and value[0]
    if not sound or any(not isinstance(word, str) or "\0" in word for word in value):
        raise toml.Wrong("{} must be a list of words, the program first", '["llm", "{model}"]')
    return tuple(value)


BY_ROLE = toml.table(dict.fromkeys(ROLES, toml.table({**FIELDS, "timeout": toml.seconds})))
COMMANDS = toml.each(_argv)


def agents(value: Any) -> tuple[str, ...]:
    """The first runs, the others stand in for it."""
    if not isinstance(value, list) or len({*map(str, value)}) < len(value):
        raise toml.Wrong('{} must be a list of names, each once, like ["NAME"]')
    return tuple(map(AGENT, value))


def of_settings(stages: Mapping[Role, Mapping[str, Any]]) -> Choices:
    """Of `[stages.ROLE]`."""
    choices = {
        role: Choice(**{key: row[key] for key in FIELDS if key in row})
        for role, row in stages.items()
    }
    return {role: choice for role, choice in choices.items() if choice != NO_CHOICE}


def of_options(models: Sequence[str], agents: Sequence[str] = ()) -> Choices:
    """`--model NAME` or `--model ROLE=NAME`, and `--agent` like it, but for all roles where it
    names none. Raises UsageError.
    """
    by_role = _by_role(models, THINKING, MODEL, "--model")
    run_by = _by_role(agents, ROLES, AGENT, "--agent")
    choices = {role: Choice(by_role.get(role, ""), "", run_by.get(role, "")) for role in ROLES}
    return {role: choice for role, choice in choices.items() if choice != NO_CHOICE}


def _by_role(
    options: Sequence[str], usual: Sequence[Role], reader: toml.Read, option: str
) -> dict[Role, str]:
    """`ROLE=NAME`, which counts wherever it stands, or NAME for the `usual` ones."""
    result: dict[Role, str] = {}
    for one in sorted(options, key=lambda one: "=" in one):
        word, equals, name = one.rpartition("=")
        roles = [role for role in ROLES if role == word] if equals else usual
        if not roles:
            raise UsageError(
                f"{option}: no agent of kern is named {plain.line(word, 80)!r}",
                hint=f"one of {', '.join(ROLES)}; say: {option} commit=NAME",
            )
        result |= dict.fromkeys(roles, toml.checked(name, reader, option, ""))
    return result


# ---------------------------------------------------------------- the endpoint of the agent `http`

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
        raise toml.Wrong("{} must be an http or https URL, with no password in it", hint)
    return text


def _key(value: Any) -> str:
    """What stands there is not repeated: it may be the key itself."""
    if not isinstance(value, str) or not re.fullmatch(_VARIABLE, value):
        what = "{} must be the name of a variable of the environment, and not the key itself"
        raise toml.Wrong(what, 'key = "OPENAI_API_KEY"')
    return value


_ENDPOINT = toml.table(
    {
        "url": _url,
        "model": toml.matching(r"([A-Za-z0-9][!-~]{0,199})?", "a model's name"),
        "key": _key,
        "turns": "take it out: the time-out of the stage bounds it",
        "quiet": "take it out: the time-out of the stage bounds it",
    }
)


def endpoint(value: Any) -> Endpoint:
    """The table, as the person's own: see `theirs`."""
    row = _ENDPOINT(value)
    if "url" not in row:
        raise toml.Wrong("{}.url is missing", _EXAMPLE)
    return Endpoint(**row)
