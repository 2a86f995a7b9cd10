"""Which model and effort each agent runs with, and who has the last word on that. Pure.

The command line counts before the front matter of a project's own prompt, that before `[models]`
in kern.toml, and that before what kern's own prompts say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kern import plain
from kern.errors import UsageError
from kern.model import Aide, Role, Stage

EFFORTS = ("low", "medium", "high", "xhigh", "max")
ROLES: tuple[Role, ...] = (*Stage, *Aide)
# What a name without a role means: the others read a finished change, and a small model does.
THINKING: tuple[Role, ...] = (Stage.RESEARCH, Stage.IMPLEMENT, Aide.PLANNER)
# As the vendors have them: opus, claude-opus-4-1, opus[1m], us.anthropic.claude-x-v1:0, arn:…/…
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]{0,199}", re.A)


@dataclass(frozen=True, slots=True)
class Choice:
    """Empty: the next in line decides."""

    model: str = ""
    effort: str = ""

    def over(self, other: "Choice") -> "Choice":
        return Choice(self.model or other.model, self.effort or other.effort)

    def __str__(self) -> str:
        return f"{self.model} (effort {self.effort})" if self.effort else self.model


Choices = Mapping[Role, Choice]
NO_CHOICE = Choice()
NO_CHOICES: Choices = {}


def chosen(role: Role, front: Choice, *, own: bool, settings: Choices, options: Choices) -> Choice:
    """`front`: what the prompt's front matter says; `own`: the prompt is the project's."""
    written = settings.get(role, NO_CHOICE)
    below = front.over(written) if own else written.over(front)
    return options.get(role, NO_CHOICE).over(below)


def told(by: Mapping[Role, str]) -> str:
    """Who runs with what: `opus: research, implement; haiku: commit`."""
    names = dict.fromkeys(by.values())
    return "; ".join(f"{name}: {', '.join(r for r in by if by[r] == name)}" for name in names)


def of_options(models: Sequence[str], effort: str | None) -> Choices:
    """`--model NAME` or `--model ROLE=NAME`, and `--effort LEVEL`. Raises UsageError."""
    named: dict[Role, str] = {}
    for given in models:
        role, equals, name = given.partition("=")
        meant = _role(role) if equals else None
        model = _model(name if equals else given, "--model", "kern --model opus")
        # What is said of one role counts, wherever it stands.
        named = {**named, meant: model} if meant else {**dict.fromkeys(THINKING, model), **named}
    if effort is not None:
        _effort(effort, "--effort", "kern --effort high")
    return {
        role: Choice(named.get(role, ""), (effort or "") if role in THINKING else "")
        for role in ROLES
        if role in named or (effort and role in THINKING)
    }


def of_table(table: Any, origin: str) -> Choices:
    """`[models]` in a settings file: a name, or `{ model = NAME, effort = LEVEL }`. Raises
    UsageError.
    """
    if not isinstance(table, dict):
        raise UsageError(f"{origin}: models must be a table", hint=f"edit {origin}")
    found: dict[Role, Choice] = {}
    for key, value in table.items():
        given = {"model": value} if isinstance(value, str) else value
        if key not in ROLES:
            raise UsageError(
                f"{origin}: unknown setting models.{key}", hint=f"known there: {', '.join(ROLES)}"
            )
        if not isinstance(given, dict) or given.keys() - {"model", "effort"} or not given:
            raise UsageError(
                f"{origin}: models.{key} must be a model's name, or {{ model = …, effort = … }}",
                hint=f"edit {origin}",
            )
        place, hint = f"{origin}: models.{key}", f'{key} = {{ model = "opus", effort = "high" }}'
        found[_role(key)] = Choice(
            _model(given["model"], place, hint) if "model" in given else "",
            _effort(given["effort"], place, hint) if "effort" in given else "",
        )
    return found


def _role(word: str) -> Role:
    for role in ROLES:
        if role == word:
            return role
    raise UsageError(
        f"--model: no agent of kern is named {plain.line(word, 80)!r}",
        hint=f"one of {', '.join(ROLES)}; say: --model commit=haiku",
    )


def _model(name: object, where: str, hint: str) -> str:
    text = name.strip() if isinstance(name, str) else ""
    if not text:
        raise UsageError(f"{where} must name a model, and it is empty", hint=hint)
    if not _NAME.fullmatch(text):
        raise UsageError(f"{where}: {plain.line(text, 80)!r} is no model's name", hint=hint)
    return text


def _effort(level: object, where: str, hint: str) -> str:
    if level not in EFFORTS:
        shown = plain.line(str(level), 80)
        raise UsageError(
            f"{where}: unknown effort {shown!r}; known are {', '.join(EFFORTS)}", hint=hint
        )
    return str(level)
