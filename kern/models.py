"""Which agent CLI each role runs, with which model and effort, and who has the last word. Pure.

The command line counts before the front matter of a project's own prompt, that before `[models]`
in kern.toml, and that before what kern's own prompts say.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kern import plain, toml
from kern.errors import UsageError
from kern.model import Aide, Role, Stage

EFFORTS = ("low", "medium", "high", "xhigh", "max")
ROLES: tuple[Role, ...] = (*Stage, *Aide)
# What a name without a role means: the others read a finished change, and a small model does.
THINKING: tuple[Role, ...] = (Stage.RESEARCH, Stage.IMPLEMENT, Aide.PLANNER)
# As the vendors have them: opus, claude-opus-4-1, opus[1m], us.anthropic.claude-x-v1:0, arn:…/…
_NAME = r"(?a)[A-Za-z0-9][\w.:/@\[\]-]{0,199}"
_AGENT = r"(?a)[A-Za-z0-9][\w.-]{0,63}"


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
        named = " ".join(filter(None, (agent, self.model)))
        return f"{named} (effort {self.effort})" if self.effort else named


Choices = Mapping[Role, Choice]
TABLES = ("models", "stages")  # of a settings file
NO_CHOICE = Choice()
NO_CHOICES: Choices = {}


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
    written = settings.get(role, NO_CHOICE)
    named = Choice(agent=first)
    levels = (written.over(named), front) if own else (named.over(front), written)
    so_far = levels[1].over(levels[0])
    return options.get(role, NO_CHOICE).over(so_far)


def told(by: Mapping[Role, str]) -> str:
    """Who runs with what: `opus: research, implement; haiku: commit`."""
    names = dict.fromkeys(by.values())
    return "; ".join(f"{name}: {', '.join(r for r in by if by[r] == name)}" for name in names)


def of_options(
    models: Sequence[str],
    effort: str | None,
    agents: Sequence[str] = (),
    *,
    alone: bool = False,
) -> Choices:
    """`--model NAME` or `--model ROLE=NAME`, `--effort LEVEL`, and `--agent` like `--model`, but
    for all roles where it names none. Raises UsageError.
    """
    model = partial(of_model, hint="kern --model opus")
    named = _by_role(models, THINKING, model, "--model commit=haiku")
    run_by = _by_role(agents, ROLES, of_agent, "--agent commit=NAME")
    if effort is not None:
        of_effort(effort, "--effort", "kern --effort high")
    found = {
        role: Choice(
            named.get(role, ""),
            (effort or "") if role in THINKING else "",
            run_by.get(role, ""),
            alone,
        )
        for role in ROLES
    }
    return {role: choice for role, choice in found.items() if choice != NO_CHOICE}


def _by_role(
    given: Sequence[str], usual: Sequence[Role], read: Callable[[str, str], str], example: str
) -> dict[Role, str]:
    """`ROLE=NAME`, or NAME for the `usual` ones. What is said of one role counts, wherever it
    stands.
    """
    found: dict[Role, str] = {}
    for one in given:
        role, equals, name = one.partition("=")
        meant = _role(role, example) if equals else None
        value = read(name if equals else one, example.partition(" ")[0])
        found = {**found, meant: value} if meant else {**dict.fromkeys(usual, value), **found}
    return found


def _of_table(settings: Mapping[str, Any], name: str, origin: str) -> Choices:
    """`[models]` in a settings file: a model, or `{ model = NAME, effort = LEVEL }`; `[stages]`:
    the same, also with `agent = NAME`. Raises UsageError.
    """
    table = toml.table(settings, name, origin, *ROLES)
    known = ("agent", "model", "effort") if name == "stages" else ("model", "effort")
    found: dict[Role, Choice] = {}
    for key, value in table.items():
        place = f"{origin}: {name}.{key}"
        given = {"model": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or given.keys() - {*known} or not given:
            shown = ", ".join(f"{word} = …" for word in known)
            raise toml.wrong(origin, f"{name}.{key}", f"a model's name, or {{ {shown} }}")
        hint = f'{key} = {{ model = "opus", effort = "high" }}'
        found[_role(key, "")] = Choice(
            of_model(given["model"], place, hint) if "model" in given else "",
            of_effort(given["effort"], place, hint) if "effort" in given else "",
            of_agent(given["agent"], place) if "agent" in given else "",
        )
    return found


def of_settings(given: Mapping[str, Any], origin: str) -> Choices:
    """`[models]` and `[stages]`, which may speak of the same role, but not twice of its model."""
    plain_models, stages = (_of_table(given, name, origin) for name in TABLES)
    found = dict[Role, Choice]()
    for role in {*plain_models, *stages}:
        one, other = stages.get(role, NO_CHOICE), plain_models.get(role, NO_CHOICE)
        if (one.model and other.model) or (one.effort and other.effort):
            raise UsageError(
                f"{origin}: models.{role} and stages.{role} both choose: one of them may",
                hint=f"take models.{role} out",
            )
        found[role] = Choice(one.model or other.model, one.effort or other.effort, one.agent)
    return found


def of_agents(names: Any, origin: str) -> tuple[str, ...]:
    """`agents`: the first runs, the others stand in for it. Raises UsageError."""
    if not isinstance(names, list) or len({*map(str, names)}) < len(names):
        raise toml.wrong(origin, "agents", 'a list of names, each once, like ["NAME"]')
    return tuple(of_agent(name, f"{origin}: agents") for name in names)


def of_commands(table: Mapping[str, Any], origin: str) -> dict[str, tuple[str, ...]]:
    """`[commands]`: an agent's name, and the command that it is. Raises UsageError."""
    for name, argv in table.items():
        of_agent(name, f"{origin}: commands")
        if (
            not (isinstance(argv, list) and argv and argv[0])
            or not all(isinstance(word, str) for word in argv)
            or any("\0" in word for word in argv)
        ):
            raise UsageError(
                f"{origin}: commands.{name} must be a list of words, the program first",
                hint=f'{name} = ["{name}", "--model", "{{model}}"]',
            )
    return {name: tuple(argv) for name, argv in table.items()}


def of_agent(name: object, where: str) -> str:
    """Raises UsageError for what can be no name; which are known, the run says."""
    text = name.strip() if isinstance(name, str) else ""
    if not re.fullmatch(_AGENT, text):
        shown = plain.line(text, 80)
        raise UsageError(f"{where}: {shown!r} is no agent's name", hint='say: agent = "NAME"')
    return text


def _role(word: str, example: str) -> Role:
    for role in ROLES:
        if role == word:
            return role
    option = example.partition(" ")[0]
    raise UsageError(
        f"{option}: no agent of kern is named {plain.line(word, 80)!r}",
        hint=f"one of {', '.join(ROLES)}; say: {example}",
    )


def of_model(name: object, where: str, hint: str) -> str:
    """Raises UsageError for what can be no name, such as an option of a CLI."""
    text = name.strip() if isinstance(name, str) else ""
    if not text:
        raise UsageError(f"{where} must name a model, and it is empty", hint=hint)
    if not re.fullmatch(_NAME, text):
        raise UsageError(f"{where}: {plain.line(text, 80)!r} is no model's name", hint=hint)
    return text


def of_effort(level: object, where: str, hint: str) -> str:
    if level not in EFFORTS:
        shown = plain.line(str(level), 80)
        raise UsageError(
            f"{where}: unknown effort {shown!r}; known are {', '.join(EFFORTS)}", hint=hint
        )
    return str(level)
