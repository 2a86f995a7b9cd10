"""What a stage is told: a prompt template filled within a token budget. Texts are handed in."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from kern.events import Event, Recalled, Traced, Warned
from kern.frozen import frozen
from kern.memory.select import IRRELEVANT, NOTHING, Selection
from kern.model import Aide, Role, Stage
from kern.models import Choice
from kern.stages import template
from kern.stages.template import SECTIONS, Template

BUDGET: dict[Role, int] = {  # tokens
    Stage.RESEARCH: 2000,
    Stage.IMPLEMENT: 3000,
    Stage.COMMIT: 3000,  # most of it for the patches
    Aide.JUDGE: 3000,  # the list of changed files, and a share for each patch: patches.py
    Aide.PLANNER: 3000,
}
CHARS_PER_TOKEN = 4
_FAILED_SO_FAR = 3  # attempts that count for the tier: a stage must know them
_MOST_NAMED = 20  # of the learnings that are left out
_BARE = ("MODE", "TRAILER")  # words of kern's own: not data, so without a tag
# A text after which the agent's CLI would read `@name` as a file to inline (measured: white space
# of any kind, and some punctuation beyond ASCII).
_MENTION = r"(?<![!-~])@"
MENTION = r"\@"


@frozen
class Prompt:
    stage: Role
    by: Choice  # who runs it
    text: str
    injected: int  # tokens of context, the task's own text not counted
    left_out: tuple[str, ...]  # what the budget had no room for
    contract: str = ""  # for the system prompt, which outlives a compaction
    stand_ins: tuple[Choice, ...] = ()  # for `by`, in this order
    notices: tuple[str, ...] = ()  # what a person should know of how it came about
    memory: Selection = NOTHING  # which learnings it tells, and why those

    @property
    def tokens(self) -> int:
        return tokens(self.contract + self.text)

    @property
    def whole(self) -> str:
        return f"{self.contract.rstrip()}\n\n{self.text}" if self.contract else self.text


def tokens(text: str) -> int:
    """An estimate: characters / 4."""
    return -(-len(text) // CHARS_PER_TOKEN)


def compose(
    form: Template,
    exempt: Mapping[str, str],
    sections: Mapping[str, Sequence[str]],
    notices: tuple[str, ...] = (),
) -> Prompt:
    """`exempt` texts neither count nor are cut. A section is a sequence of items in the order in
    which they are shown; where there is no room for all, the last ones stay.
    """
    given, left_out, _ = _fitted(form, sections)
    filling = {"CHECKS": "", "GUIDANCE": "", "NEIGHBOURS": "", "MODE": "", **exempt, **given}
    contract, body = _parts(form, filling)
    stage = form.stage
    heading = f"kern {stage}"
    if isinstance(stage, Stage):
        heading = f"kern stage {stage.number} of {len(Stage)}: {stage}"
    text = f"{heading}\n\n{body}\n"
    if stage is Stage.IMPLEMENT:  # the only one that may follow such a name: agents/claude.py
        text = re.sub(_MENTION, MENTION.replace("\\", r"\\"), text)
    return Prompt(
        *(stage, form.by, text, tokens("".join(given.values())), left_out),
        *(contract and f"{contract}\n", form.stand_ins, notices),
    )


def room(form: Template, sections: Mapping[str, Sequence[str]], name: str) -> int:
    """The tokens that a section may take: what those leave that are more needed."""
    if not form.uses(name):
        return 0
    _, _, cost = _fitted(form, sections, before=name)
    around = _around_tag(name) if form.contract else _around_fence("")
    return (
        max(0, BUDGET[form.stage] * CHARS_PER_TOKEN - sum(cost.values()) - around)
        // CHARS_PER_TOKEN
    )


def _parts(form: Template, filling: Mapping[str, str]) -> tuple[str, str]:
    """The contract and the prompt."""
    mode = template.shown_mode(form, filling["MODE"])
    if not form.contract:
        wrapped = {
            name: (fence(text) if text else "none") if name in SECTIONS[form.stage] else text
            for name, text in filling.items()
        }
        advice = filling["GUIDANCE"]
        contract = f"The project's guidance:\n\n{tag('guidance', advice, [advice])}"
        body = template.substituted(form.text, {**wrapped, "MODE": mode})
        return contract if advice else "", body
    texts = [*filling.values()]
    tagged = {
        name: text if name in _BARE or not text else tag(name.lower(), text, texts)
        for name, text in filling.items()
    }
    return (
        template.filled(form.contract, tagged, mode),
        template.filled(form.text, tagged, mode),
    )


# ---------------------------------------------------------------- within the budget


def _fitted(
    form: Template, sections: Mapping[str, Sequence[str]], *, before: str = ""
) -> tuple[dict[str, str], tuple[str, ...], dict[str, int]]:
    """The sections' texts, what there was no room for, in words, and the characters that each took.
    `before`: only the sections that are more needed than that one.
    """
    room = BUDGET[form.stage] * CHARS_PER_TOKEN
    left_out: dict[str, str] = {}
    given = dict.fromkeys(SECTIONS[form.stage], "")
    cost: dict[str, int] = {}
    for name, most in _order(form.stage):
        if name == before:
            break
        wrap = (lambda _, name=name: _around_tag(name)) if form.contract else _around_fence
        items = [item.strip("\n") for item in sections.get(name, ()) if item.strip()]
        if not form.uses(name):
            continue
        left = room - sum(size for other, size in cost.items() if other != name)
        given[name], left_out[name] = _fit(items[-most:], left, wrap)
        cost[name] = len(given[name]) + wrap(given[name]) if given[name] else 0
    told = (f"{name.lower()}: {dropped}" for name, dropped in left_out.items() if dropped)
    return given, tuple(told), cost


def _order(stage: Role) -> list[tuple[str, int]]:
    """The sections and how many items of each, the most needed first: what comes late goes first.
    The attempts come twice, the newest before the learnings and the older ones after them.
    """
    order = [(name, 0) for name in SECTIONS[stage]]
    if "ATTEMPTS" in SECTIONS[stage]:
        order[0] = ("ATTEMPTS", _FAILED_SO_FAR)
        order.insert(-1, ("ATTEMPTS", 0))
    return order


def _fit(items: Sequence[str], room: int, wrap: Callable[[str], int]) -> tuple[str, str]:
    """The items that fit with what is wrapped around them, the last ones first; and what did not,
    in words.
    """
    kept: list[str] = []
    size = around = 0
    for item in reversed(items):
        higher = max(around, wrap(item))
        if size + len(item) + higher > room:
            break
        kept.insert(0, item)
        size, around = size + len(item) + 1, higher
    dropped = len(items) - len(kept)
    if not kept and items:  # nothing fits whole: the beginning of the newest is better than none
        rest = room - len(_CUT) - wrap(items[-1][: max(room, 0)])
        if rest > 200:
            over = len(items[-1]) - rest
            return items[-1][:rest] + _CUT, f"{over} characters of the last item"
    return "\n".join(kept), f"{dropped} of {len(items)} items" if dropped else ""


_CUT = "\n[cut here for length]"


# ---------------------------------------------------------------- data that stays data


def tag(name: str, text: str, texts: Sequence[str]) -> str:
    """A block that its content cannot close: where any of the prompt's texts holds the tag, it gets
    a number that none of them holds.
    """
    whole = "\n".join(texts)
    free = name
    if re.search(rf"<\s*/?\s*{name}", whole, re.I):
        whole = whole.lower()
        free = next(one for n in itertools.count(2) if (one := f"{name}-{n}") not in whole)
    return f"<{free}>\n{text}\n</{free}>"


def _around_tag(name: str) -> int:
    return 2 * len(name) + len("<-2>\n\n</-2>")


def fence(text: str) -> str:
    """The same, as prompts without a contract speak of it."""
    bar = _bar(text)
    return f"{bar}text\n{text}\n{bar}"


def _around_fence(text: str) -> int:
    return 2 * len(_bar(text)) + len("text\n\n")


def _bar(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"~{3,}", text)), default=2)
    return "~" * (longest + 1)


def announced(prompt: Prompt, task: str) -> Iterator[Event]:
    """What a person is told of a prompt: its size, what it holds of the learnings, its notices."""
    said = f"prompt of {prompt.tokens} tokens, {prompt.injected} of them context"
    for what in (said, *(f"no room for {one}" for one in prompt.left_out)):
        yield Traced(f"{prompt.stage}: {what}")
    memory = prompt.memory
    if memory.chosen or memory.left_out:
        told = {one.entry.id: one.why for one in memory.chosen}
        named = {one.id: why for one, why in memory.left_out if not why.startswith(IRRELEVANT)}
        irrelevant = len(memory.left_out) - len(named)
        left = dict(list(named.items())[:_MOST_NAMED])
        yield Recalled(prompt.stage, task, told, left, irrelevant, memory.tokens)
    yield from map(Warned, prompt.notices)
    if memory.remark:
        yield Warned(memory.remark)
