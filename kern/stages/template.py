"""The prompt files of a run as values: front matter, the contract above a line, the prompt below
it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kern import models
from kern.agents import protocol
from kern.agents.command import Command
from kern.config import Settings
from kern.errors import UsageError
from kern.frozen import frozen
from kern.model import Aide, Role, Stage
from kern.models import EFFORTS, Choice
from kern.spec import documents
from kern.stages import bundle
from kern.system import workspace

REFLECT = "reflect.md"  # of the planner, where it looks after LEARNINGS.md
_SPARED = {REFLECT: frozenset({"GOAL", "MODE", "RED", "SPECS"})}
_DEFAULTS = Settings()
SEPARATOR = "<!-- prompt -->"  # the line between the contract and what stands below it

# Which sections a stage gets, the most needed first (kern help prompts).
SECTIONS: dict[Role, tuple[str, ...]] = {
    Stage.RESEARCH: ("ATTEMPTS", "SNAPSHOT", "LEARNINGS", "COMMITS"),
    Stage.IMPLEMENT: (
        *("ATTEMPTS", "FAILURE", "KEPT", "RESEARCH", "ANSWER", "SNAPSHOT", "LEARNINGS"),
        "COMMITS",
    ),
    Stage.COMMIT: ("COMMITS", "DIFF", "ANSWER"),
    Aide.JUDGE: ("DIFF",),
    Aide.PLANNER: ("RED", "SPECS", "TASKS", "HISTORY", "LEARNINGS", "COMMITS"),
}
_EXTRA: dict[Role, tuple[str, ...]] = {
    Stage.RESEARCH: ("TASK", "CHECKS", "GUIDANCE", "NEIGHBOURS"),
    Stage.IMPLEMENT: ("TASK", "CHECKS", "GUIDANCE", "NEIGHBOURS", "MODE"),
    Stage.COMMIT: ("TASK", "TRAILER", "GUIDANCE"),
    Aide.JUDGE: ("TASK", "CRITERION", "GUIDANCE"),
    Aide.PLANNER: ("GOAL", "MODE", "GUIDANCE"),
}
_OPTIONAL = {"CHECKS", "GUIDANCE", "NEIGHBOURS", "FAILURE", "KEPT", "LEARNINGS"}
_FALL_BACK = "implement"
_PLACEHOLDER = r"\{([A-Z][A-Z_]*)\}"
_FRONT = r"(?sm)---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?"
_MODES = r"(#+ )Mode ((?:`[a-z]+`(?:, )?)+)(?:: (.*))?"


@frozen
class Template:
    stage: Role
    by: Choice  # as its front matter says; without an effort: what the agent takes by itself
    text: str
    stand_ins: tuple[Choice, ...] = ()  # for `by`, in this order
    contract: str = ""  # empty in a file without the separator: then all of it is the prompt

    @property
    def runners(self) -> tuple[Choice, ...]:
        """Who may run it, the first that can."""
        return self.by, *self.stand_ins

    def uses(self, name: str) -> bool:
        return f"{{{name}}}" in self.contract + self.text


def read(stage: Role, text: str, origin: str, spared: frozenset[str] = frozenset()) -> Template:
    """Read a prompt file. Raises UsageError. `spared`: placeholders that this one need not have."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    front = re.match(_FRONT, text)
    settings = _settings(front[1] if front else "", origin)
    body = text[front.end() :] if front else text
    above, line, below = body.partition(f"\n{SEPARATOR}\n")
    spared |= {"MODE"} if line and modes(body) else set()
    _check_placeholders(stage, body, origin, spared)
    if not line:
        above, below = "", body
    by = Choice(settings.get("model", ""), settings.get("effort", ""), settings.get("agent", ""))
    return Template(stage, by, below.strip(), contract=above.strip())


def _settings(front: str, origin: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for line in front.splitlines():
        key, colon, value = line.partition(":")
        if colon and not key.lstrip().startswith("#"):
            settings[key.strip()] = value.partition(" #")[0].strip().strip("\"'")
    if not settings.get("model") and not settings.get("agent"):
        raise UsageError(
            f"{origin} names no model",
            hint="begin the file with three lines: ---, model: opus, ---",
        )
    if unknown := settings.keys() - {"model", "effort", "agent"}:
        raise UsageError(
            f"{origin}: unknown setting in the front matter: {', '.join(sorted(unknown))}",
            hint="the front matter takes `model:`, `effort:` and `agent:`",
        )
    if settings.get("model"):
        models.of_model(settings["model"], origin, "model: opus")
    if "agent" in settings:
        models.of_agent(settings["agent"], origin)
    if settings.get("effort") and settings["effort"] not in EFFORTS:
        raise UsageError(
            f"{origin}: unknown effort {settings['effort']!r}",
            hint=f"one of {', '.join(EFFORTS)}; without the line the agent's CLI decides",
        )
    return settings


def _check_placeholders(stage: Role, body: str, origin: str, spared: frozenset[str]) -> None:
    known = {*SECTIONS[stage], *_EXTRA[stage]}
    used = set(re.findall(_PLACEHOLDER, body))
    if strange := sorted(used - known):
        raise UsageError(
            f"{origin}: unknown placeholder {{{strange[0]}}}",
            hint="this stage knows " + ", ".join(f"{{{name}}}" for name in sorted(known)),
        )
    needed = known - _OPTIONAL - spared
    if missing := sorted(needed - used):
        raise UsageError(
            f"{origin} lacks the placeholder {{{missing[0]}}}",
            hint="compare it with the prompt that kern brings: kern -nv prints it",
        )


# ---------------------------------------------------------------- for whom it is


def templates(root: Path, settings: Settings = _DEFAULTS) -> dict[Role, Template]:
    """With the agents, models and efforts that count. Raises UsageError."""
    know_commands(settings)
    return {role: form(root, role, name, settings) for role, name in bundle.PROMPTS.items()}


def outdated(root: Path) -> list[str]:
    """What of a project's own prompts says what an earlier kern did."""
    told = []
    folder = root / bundle.OVERRIDES
    form = workspace.read(folder / bundle.PROMPTS[Stage.COMMIT]) or b""
    if re.search(rb"(?m)^\s*git commit ", form):
        told.append(f"{folder / bundle.PROMPTS[Stage.COMMIT]} has its agent run git commit")
    if (folder / "3_message.md").exists():
        told.append(f"{folder / '3_message.md'} is not read any more")
    return [f"{one}: {bundle.overriding(Stage.COMMIT)} asks for the message" for one in told]


def know_commands(settings: Settings) -> None:
    """As agents, and the endpoint, before any is looked up by its name. Raises UsageError."""
    commands = {name: Command(name, argv) for name, argv in settings.commands.items()}
    protocol.know(commands, settings.endpoint)


def form(root: Path, stage: Role, name: str, settings: Settings = _DEFAULTS) -> Template:
    """One of the files, or the project's own in its place."""
    bare = settings.bare  # without the project's own
    own = root / bundle.OVERRIDES / name
    data = None if bare else workspace.read(own)
    origin = str(own) if data is not None else str(bundle.path("prompts") / name)
    if data is not None:
        documents.real(root, str(bundle.OVERRIDES / name))
    elif own.is_symlink() and not bare:
        raise UsageError(f"{own} is a link to nothing", hint="put the file itself there")
    else:
        data = (bundle.path("prompts") / name).read_bytes()
    text = data.decode("utf-8", "replace")
    found = read(stage, text, origin, _SPARED.get(name, frozenset()))
    theirs = origin == str(own)
    # kern's own name models of the usual agent.
    front = found.by if theirs else replace(found.by, agent=protocol.DEFAULT)
    by = models.chosen(
        *(stage, front),
        own=theirs,
        settings=settings.models,
        options=settings.picked,
        first=next(iter(settings.agents), protocol.DEFAULT),
    )
    others = [name for name in settings.agents if name != by.agent and not by.alone]
    stand_ins = (front if name == front.agent else Choice(agent=name) for name in others)
    by, *spare = (_named(one, settings) for one in (by, *stand_ins))
    return replace(found, by=by, stand_ins=tuple(spare))


def _named(by: Choice, settings: Settings) -> Choice:
    """An endpoint has no model of its own: by that of its table where none is named."""
    asked = settings.endpoint if by.agent == protocol.ENDPOINT else None
    return replace(by, model=by.model or asked.model) if asked else by


# ---------------------------------------------------------------- filled


def modes(text: str) -> set[str]:
    """Those that a heading of its own speaks of."""
    found = (re.fullmatch(_MODES, line) for line in text.splitlines())
    return {name for match in found if match for name in _names(match)}


def _names(match: re.Match[str]) -> list[str]:
    return re.findall(r"`([a-z]+)`", match[2])


def shown_mode(form: Template, mode: str) -> str:
    """The mode whose sections count: those of `implement` for one that no heading names."""
    known = modes(f"{form.contract}\n{form.text}")
    return mode if mode in known or not known else _FALL_BACK


def filled(part: str, filling: Mapping[str, str], mode: str) -> str:
    """One part of a form with its placeholders filled, in one pass, so that a placeholder inside a
    text stays what it is. Sections of other modes are left out, and those of which all
    placeholders are empty.
    """
    kept: list[str] = []
    for section in _sections(part):
        heading, _, rest = section.partition("\n")
        if match := re.fullmatch(_MODES, heading):
            if mode not in _names(match):
                continue
            section = f"{match[1]}{match[3]}\n{rest}" if match[3] else rest.lstrip("\n")
        names = re.findall(_PLACEHOLDER, section)
        if not names or any(filling[name] for name in names):
            kept.append(substituted(section, filling))
    return "\n".join(kept).strip()


def substituted(text: str, filling: Mapping[str, str]) -> str:
    return re.sub(_PLACEHOLDER, lambda match: filling[match[1]], text)


def _sections(text: str) -> Iterator[str]:
    """A heading with what stands below it; headings in an example are part of that."""
    section: list[str] = []
    within = False
    for line in text.split("\n"):
        if line.startswith("#") and not within and section:
            yield "\n".join(section)
            section = []
        within = (within or line == "<example>") and line != "</example>"
        section.append(line)
    yield "\n".join(section)
