"""The prompts of a run, kern's or a project's own over them, each with the agent that it is for."""

from dataclasses import replace
from pathlib import Path

from kern import models
from kern.agents import protocol
from kern.agents.command import Command
from kern.config import Settings
from kern.errors import UsageError
from kern.model import Role, Stage
from kern.models import Choice
from kern.spec import documents
from kern.stages import bundle, template
from kern.stages.template import Template
from kern.system import workspace

# The commit stage of an agent that cannot be held to git: it words the message, kern commits.
MESSAGE = "3_message.md"
REFLECT = "reflect.md"  # of the planner, where it looks after LEARNINGS.md
_SPARED = {REFLECT: frozenset({"GOAL", "MODE", "RED", "SPECS"})}
_DEFAULTS = Settings()


def templates(root: Path, settings: Settings = _DEFAULTS) -> dict[Role, Template]:
    """With the agents, models and efforts that count. Raises UsageError."""
    know_commands(settings)
    found = {role: form(root, role, name, settings) for role, name in bundle.PROMPTS.items()}
    commit = found[Stage.COMMIT]
    if any(_unheld(by, Stage.COMMIT) for by in (commit.by, *commit.stand_ins)):
        words = form(root, Stage.COMMIT, MESSAGE, settings)
        found[Stage.COMMIT] = replace(
            words, by=commit.by, stand_ins=commit.stand_ins, only_words=True
        )
    return found


def know_commands(settings: Settings) -> None:
    """As agents, and the endpoint, before any is looked up by its name. Raises UsageError."""
    commands = {name: Command(name, argv) for name, argv in settings.commands.items()}
    protocol.know(commands, settings.endpoint)


def _unheld(by: Choice, role: Role) -> str:
    return protocol.find(by.agent).unheld(role)


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
    read = template.template(stage, text, origin, _SPARED.get(name, frozenset()))
    theirs = origin == str(own)
    # kern's own name models of the usual agent.
    front = read.by if theirs else replace(read.by, agent=protocol.DEFAULT)
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
    return replace(read, by=by, stand_ins=tuple(spare))


def _named(by: Choice, settings: Settings) -> Choice:
    """An endpoint has no model of its own: by that of its table where none is named."""
    asked = settings.endpoint if by.agent == protocol.ENDPOINT else None
    return replace(by, model=by.model or asked.model) if asked else by
