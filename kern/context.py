"""What a stage is told: a prompt template filled within a token budget. Texts are handed in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kern.errors import UsageError
from kern.pipeline import Stage

BUDGET = {Stage.RESEARCH: 2000, Stage.IMPLEMENT: 3000, Stage.COMMIT: 1000}  # tokens
CHARS_PER_TOKEN = 4

# Which sections a stage gets (R14), the most needed first: the budget is given out in this order.
SECTIONS = {
    Stage.RESEARCH: ("ATTEMPTS", "LEARNINGS", "COMMITS"),
    Stage.IMPLEMENT: ("ATTEMPTS", "RESEARCH", "ANSWER", "LEARNINGS", "COMMITS"),
    Stage.COMMIT: ("DIFF", "ANSWER", "COMMITS"),
}
_EXTRA = {
    Stage.RESEARCH: ("TASK",),
    Stage.IMPLEMENT: ("TASK", "MODE"),
    Stage.COMMIT: ("TASK", "TRAILER"),
}
_PLACEHOLDER = re.compile(r"\{([A-Z][A-Z_]*)\}")
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.S | re.M)


@dataclass(frozen=True, slots=True)
class Template:
    stage: Stage
    model: str
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    injected: int  # tokens of context, the task's own text not counted
    left_out: tuple[str, ...]  # what the budget had no room for

    @property
    def tokens(self) -> int:
        return tokens(self.text)


def tokens(text: str) -> int:
    """An estimate: characters / 4."""
    return -(-len(text) // CHARS_PER_TOKEN)


def template(stage: Stage, text: str, origin: str) -> Template:
    """Read a prompt file: front matter with `model:`, then Markdown with placeholders."""
    text = text.removeprefix("\ufeff")
    front = _FRONT.match(text)
    settings: dict[str, str] = {}
    for line in front[1].splitlines() if front else ():
        key, colon, value = line.partition(":")
        if colon and not key.lstrip().startswith("#"):
            settings[key.strip()] = value.partition(" #")[0].strip().strip("\"'")
    model = settings.get("model", "")
    if not model:
        raise UsageError(
            f"{origin} names no model",
            hint="begin the file with three lines: ---, model: opus, ---",
        )
    if unknown := settings.keys() - {"model"}:
        raise UsageError(
            f"{origin}: unknown setting in the front matter: {', '.join(sorted(unknown))}",
            hint="the front matter takes `model:` alone",
        )
    body = text[front.end() :] if front else text
    known = {*SECTIONS[stage], *_EXTRA[stage]}
    used = set(_PLACEHOLDER.findall(body))
    if strange := sorted(used - known):
        raise UsageError(
            f"{origin}: unknown placeholder {{{strange[0]}}}",
            hint="this stage knows " + ", ".join(f"{{{name}}}" for name in sorted(known)),
        )
    if missing := sorted(known - used):
        raise UsageError(
            f"{origin} lacks the placeholder {{{missing[0]}}}",
            hint="compare it with the prompt that kern brings: kern -nv prints it",
        )
    return Template(stage, model, body.strip())


def compose(
    form: Template,
    exempt: Mapping[str, str],
    sections: Mapping[str, Sequence[str]],
) -> Prompt:
    """Fill the template in one pass, so that a placeholder inside a text stays what it is.

    `exempt` texts neither count nor are cut. A section is a sequence of items in the order in which
    they are shown; where there is no room for all, the last ones stay.
    """
    room = BUDGET[form.stage] * CHARS_PER_TOKEN
    filled = dict(exempt)
    left_out: list[str] = []
    spent = 0
    for name in SECTIONS[form.stage]:
        items = [item.strip("\n") for item in sections.get(name, ()) if item.strip()]
        text, dropped = _fit(items, room - spent)
        if dropped:
            left_out.append(f"{name.lower()}: {dropped}")
        spent += len(text)
        filled[name] = text or "none"
    body = _PLACEHOLDER.sub(lambda match: filled[match[1]], form.text)
    heading = f"kern stage {form.stage.number} of {len(Stage)}: {form.stage}"
    return Prompt(f"{heading}\n\n{body}\n", -(-spent // CHARS_PER_TOKEN), tuple(left_out))


def _fit(items: Sequence[str], room: int) -> tuple[str, str]:
    """The fenced items that fit, the last ones first; and what did not, in words."""
    kept: list[str] = []
    size = 0
    for item in reversed(items):
        if size + len(item) + 1 > room - _FENCE_COST:
            break
        kept.insert(0, item)
        size += len(item) + 1
    dropped = len(items) - len(kept)
    if not dropped:
        return (fence("\n".join(kept)) if kept else ""), ""
    rest = room - size - _FENCE_COST - len(_CUT) - 1
    if (
        not kept and rest > 200
    ):  # nothing fits whole: the beginning of the newest is better than none
        return fence(
            items[-1][:rest] + _CUT
        ), f"{len(items[-1]) - rest} characters of the last item"
    return (fence("\n".join(kept)) if kept else ""), f"{dropped} of {len(items)} items"


_CUT = "\n[cut here for length]"
_FENCE_COST = 24


def fence(text: str) -> str:
    """A block that its content cannot close: data, not instructions."""
    longest = max((len(run) for run in re.findall(r"~{3,}", text)), default=2)
    bar = "~" * min(longest + 1, 8) if longest < 8 else "~" * (longest + 1)
    return f"{bar}text\n{text}\n{bar}"
