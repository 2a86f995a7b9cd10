"""Prompts: a project's files or kern's own, rendered by jinja2 within a budget of tokens; and what
else kern brings along.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kern import events, models, toml
from kern.agents import command, protocol
from kern.config import Settings
from kern.errors import UsageError
from kern.events import Event
from kern.memory.recall import IRRELEVANT, NOTHING, Selection
from kern.model import Aide, Role, Stage
from kern.models import Choice
from kern.spec import edit
from kern.spec.file import real
from kern.system import workspace

FILES: dict[Role, str] = {
    Stage.RESEARCH: "1_research.md",
    Stage.IMPLEMENT: "2_implement.md",
    Stage.COMMIT: "3_commit.md",
    Aide.JUDGE: "judge.md",
    Aide.PLANNER: "plan.md",
}
TIDY = "tidy.md"  # of the planner, where it looks after LEARNINGS.md
OVERRIDES = Path(".kern") / "prompts"
SEPARATOR = "<!-- prompt -->"  # the line between the contract and what stands below it
# Tokens; of judge and commit most of them are for the patches.
BUDGET: dict[Role, int] = {**dict.fromkeys(FILES, 3000), Stage.RESEARCH: 2000}
CHARS_PER_TOKEN = 4
# What each may be told, the first of it in any case. What is a list counts for the budget, in this
# order; a text neither counts nor is cut (kern help settings).
WORDS: dict[Role, str] = {
    Stage.RESEARCH: "task checks guidance neighbours attempts snapshot learnings commits",
    Stage.IMPLEMENT: "task checks guidance neighbours mode "
    "attempts failure kept research answer snapshot learnings commits",
    Stage.COMMIT: "task trailer guidance commits diff answer",
    Aide.JUDGE: "criterion task guidance diff",
    Aide.PLANNER: "goal mode guidance specs tasks learnings commits",
}
_MOST_NAMED = 20  # of the learnings that are left out
_BARE = ("mode", "trailer")  # words of kern's own: not data, so without a tag
_DEFAULTS = Settings()
_FRONT = r"(?sm)---[ \t]*\n(.*?)^---[ \t]*$\n?"
_SETTING = r"(?m)^[ \t]*(\w+)[ \t]*:(.*?)(?: #.*)?$"
_EARLIER = r"(?m)(?<!\{)\{([A-Z][A-Z_]*)\}(?!\})|^#+ Mode `"
# A text after which the agent's CLI would read `@name` as a file to inline (measured: white space
# of any kind, and some punctuation beyond ASCII).
_MENTION = r"(?<![!-~])@"
_CUT = "\n[cut here for length]"
_LEAST = 200  # characters of an item that is cut


@dataclass(frozen=True, slots=True)
class Template:
    stage: Role
    runners: tuple[Choice, ...]  # who may run it, the first that can
    text: str
    contract: str = ""  # what stands above the separator
    origin: str = ""

    @property
    def by(self) -> Choice:
        """As its front matter says; without an effort: what the agent takes by itself."""
        return self.runners[0]


@dataclass(frozen=True, slots=True)
class Prompt(Template):
    """A template filled in; its contract is for the system prompt, which outlives a compaction."""

    notices: tuple[str, ...] = ()  # what a person should know of how it came about
    memory: Selection = NOTHING  # which learnings it tells, and why those
    mode: str = ""

    @property
    def tokens(self) -> int:
        return -(-len(self.contract + self.text) // CHARS_PER_TOKEN)

    @property
    def whole(self) -> str:
        return f"{self.contract.rstrip()}\n\n{self.text}" if self.contract else self.text


# ---------------------------------------------------------------- what kern brings along


def path(name: str) -> Path:
    """Beside the package in an installed kern, above it in a clone."""
    here = Path(__file__).resolve().parent.parent
    installed = here / "bundled" / name
    return installed if installed.exists() else here.parent / name


def is_example(text: str) -> bool:
    """Whether a SPEC.md is still the one that kern init wrote: its tasks are nobody's."""
    return text == path("SPEC.example.md").read_bytes().decode("utf-8")


def without_example(text: str) -> str:
    """Of that SPEC.md nothing but its title."""
    return edit.NO_TASKS if is_example(text) else text


# ---------------------------------------------------------------- read


def templates(root: Path, settings: Settings = _DEFAULTS) -> dict[Role, Template]:
    """With the agents, models and efforts that count. Raises UsageError."""
    # They are agents, and so is the endpoint, before any is looked up by its name.
    commands = {name: command.agent(name, argv) for name, argv in settings.commands.items()}
    protocol.know(commands, settings.endpoint)
    return {role: template(root, role, name, settings) for role, name in FILES.items()}


def template(root: Path, role: Role, name: str, settings: Settings = _DEFAULTS) -> Template:
    """One of the files, or the project's own in its place. Raises UsageError."""
    own, place = OVERRIDES / name, path("prompts") / name
    theirs = workspace.read(real(root, str(own)))
    if theirs is not None:
        place = root / own
    text = (place.read_bytes() if theirs is None else theirs).decode("utf-8", "replace")
    form = read(role, text, str(place))
    return replace(form, runners=_runners(role, form.by, settings, own=theirs is not None))


def _runners(role: Role, choice: Choice, settings: Settings, *, own: bool) -> tuple[Choice, ...]:
    """Who runs it, and who stands in. `own`: the file is the project's; kern's name models of the
    usual agent.
    """
    front = choice if own else replace(choice, agent=protocol.DEFAULT)
    first = next(iter(settings.agents), protocol.DEFAULT)
    usual, none = Choice(agent=first), Choice()
    setting, option = (one.get(role, none) for one in (settings.stages, settings.picked))
    levels = [usual, setting, front] if own else [front, usual, setting]
    by = models.chosen(*levels, option)
    if not front.agent and by.agent in protocol.AGENTS and protocol.foreign(front.model, by.agent):
        by = models.chosen(usual, setting, replace(front, model=""), option)
    others = [name for name in settings.agents if name != by.agent]
    runners = [by, *(front if name == front.agent else Choice(agent=name) for name in others)]
    # An endpoint has no model of its own.
    of_its_own = {protocol.ENDPOINT: settings.endpoint.model} if settings.endpoint else {}
    return tuple(replace(one, model=one.model or of_its_own.get(one.agent, "")) for one in runners)


@cache  # a run reads each several times, and jinja2 parses in milliseconds
def read(role: Role, text: str, origin: str) -> Template:
    """A prompt file. Raises UsageError, with what to write instead."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    front = re.match(_FRONT, text)
    body = text[front.end() :] if front else text
    rows = re.findall(_SETTING, front[1] if front else "")
    header = {key: word for key, value in rows if (word := value.strip(" \t\"'"))}
    by = toml.fitted(models.FIELDS, header, f"{origin}:")
    if earlier := re.search(_EARLIER, text):
        line = text.count("\n", 0, earlier.start()) + 1
        hint = 'write {{ task }}, and {% if mode == "NAME" %} above a section, {% endif %} below it'
        raise UsageError(f"{origin}:{line}: {earlier[0]} is what an earlier kern read", hint=hint)
    used = _variables(body, origin, text.count("\n") - body.count("\n"))
    required, *others = WORDS[role].split()
    if unknown := ", ".join(sorted(used - {required, *others})):
        hint = f"this stage knows {', '.join(sorted(others))}"
        raise UsageError(f"{origin}: unknown placeholder: {unknown}", hint=hint)
    if role is not Aide.PLANNER and required not in used:
        hint = "compare it with the prompt that kern brings: kern -nv prints it"
        raise UsageError(f"{origin} lacks the placeholder {{{{ {required} }}}}", hint=hint)
    above, separator, below = body.partition(f"\n{SEPARATOR}\n")
    return Template(role, (Choice(**by),), *((below, above) if separator else (body, "")), origin)


@cache
def _jinja() -> Any:
    """A repository may bring prompts: they reach nothing but the texts."""
    from jinja2 import StrictUndefined  # most looks at kern render none
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _variables(body: str, origin: str, above: int) -> set[str]:
    """What it wants filled in. `above`: lines of the file before it."""
    from jinja2 import TemplateSyntaxError, meta

    try:
        return meta.find_undeclared_variables(_jinja().parse("\n" * above + body))
    except (TemplateSyntaxError, RecursionError) as exc:
        place = f"{origin}:{getattr(exc, 'lineno', above + 1)}"
        raise UsageError(f"{place}: {exc}", hint="kern help settings shows the form") from None


# ---------------------------------------------------------------- rendered


def compose(
    form: Template,
    context: Mapping[str, str | Sequence[str]],
    notices: tuple[str, ...] = (),
    recall: Callable[[int], Selection] | None = None,
) -> Prompt:
    """Of a list that has no room for all the last ones stay. `recall`: the learnings, within so
    many tokens.
    """
    stage, memory, texts = form.stage, NOTHING, dict[str, str]()
    room = BUDGET[stage] * CHARS_PER_TOKEN
    for name in WORDS[stage].split():
        value = context.get(name, "")
        if name == "learnings" and recall:
            memory = recall(room // CHARS_PER_TOKEN)
            value = memory.texts
        if isinstance(value, str):
            texts[name] = value
        else:
            texts[name] = _fit([item.strip("\n") for item in value if item.strip()], room)
            room -= len(texts[name])
    everything = "\n".join(texts.values())
    blocks = {
        name: text if name in _BARE or not text else tag(name, text, everything)
        for name, text in texts.items()
    }
    contract, body = (_rendered(form, part, blocks) for part in (form.contract, form.text))
    number = f"stage {stage.number} of {len(Stage)}: " if isinstance(stage, Stage) else ""
    text = f"kern {number}{stage}\n\n{body}\n"
    if stage is Stage.IMPLEMENT:  # the only one that may follow such a name: agents/claude.py
        text = re.sub(_MENTION, r"\\@", text)
    contract, mode = contract and f"{contract}\n", texts.get("mode", "")
    return Prompt(stage, form.runners, text, contract, form.origin, notices, memory, mode)


@cache
def _compiled(part: str) -> Any:
    return _jinja().from_string(part)


def _rendered(form: Template, part: str, texts: Mapping[str, str]) -> str:
    try:
        return str(_compiled(part).render(texts)).strip()
    except Exception as exc:  # whatever a project's own expression raises
        raise UsageError(
            f"{form.origin} cannot be filled in: {exc}",
            hint="compare it with the prompt that kern brings: kern help settings",
        ) from None


def newest(items: Sequence[str], room: int) -> list[str]:
    """The last ones that fit into so many characters, each with a line end."""
    sizes = itertools.accumulate(len(item) + 1 for item in reversed(items))
    return [*items[len(items) - sum(size <= room for size in sizes) :]]


def _fit(items: Sequence[str], room: int) -> str:
    """The last items that fit; where none does, the beginning of the newest is better than none."""
    whole = newest(items, room + 1)
    if items and not whole and room > _LEAST:
        return items[-1][: room - len(_CUT)] + _CUT
    return "\n".join(whole)


def tag(name: str, text: str, everything: str) -> str:
    """A block that its content cannot close: where the prompt's texts hold the tag, it gets a
    number that none of them holds.
    """
    free = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
    one = next(one for one in free if not re.search(rf"(?i)<\s*/?\s*{one}", everything))
    return f"<{one}>\n{text}\n</{one}>"


def announced(prompt: Prompt, task: str) -> Iterator[Event]:
    """What a person is told of a prompt: its size, what it holds of the learnings, its notices."""
    yield events.live("debug", text=f"{prompt.stage}: prompt of {prompt.tokens} tokens")
    memory = prompt.memory
    if memory.chosen or memory.left_out:
        chosen = {one.id: why for one, why in memory.chosen}
        reasons = [(one.id, why) for one, why in memory.left_out if why != IRRELEVANT]
        facts = {"told": chosen, "left": dict(reasons[:_MOST_NAMED])}
        yield events.new("recall", task=task, stage=prompt.stage, **facts)
    yield from map(events.warning, prompt.notices)
