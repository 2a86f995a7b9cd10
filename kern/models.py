"""Which agent CLI each role runs, with which model and effort, and who has the last word. Pure.

The command line counts before the front matter of a project's own prompt, that before kern.toml,
and that before what kern's own prompts say.
"""

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
    alone: bool = False  # no other agent stands in for it

    def over(self, other: "Choice") -> "Choice":
        """A model and an effort are those of the agent for which they were named."""
        if self.agent not in ("", other.agent):
            return self
        return replace(
            other,
            model=self.model or other.model,
            effort=self.effort or other.effort,
            alone=self.alone or other.alone,
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


def of_settings(settings: Mapping[str, Any]) -> Choices:
    """Of `[stages.ROLE]`."""
    choices = {
        role: Choice(**{key: row[key] for key in FIELDS if key in row})
        for role, row in settings.get("stages", {}).items()
    }
    return {role: choice for role, choice in choices.items() if choice != NO_CHOICE}


def timeouts(settings: Mapping[str, Any]) -> dict[Role, float]:
    """Of the same tables, seconds."""
    rows = settings.get("stages", {})
    return {role: rows[role]["timeout"] for role in rows if "timeout" in rows[role]}


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
    """`ROLE=NAME`, or NAME for the `usual` ones. What is said of one role counts, wherever it
    stands.
    """
    result: dict[Role, str] = {}
    for one in options:
        word, equals, name = one.partition("=") if "=" in one else ("", "", one)
        roles = [role for role in ROLES if role == word] if equals else usual
        if not roles:
            raise UsageError(
                f"{option}: no agent of kern is named {plain.line(word, 80)!r}",
                hint=f"one of {', '.join(ROLES)}; say: {option} commit=NAME",
            )
        value = toml.checked(name, reader, option, "")
        new = dict.fromkeys(roles, value)
        result = result | new if equals else new | result
    return result
