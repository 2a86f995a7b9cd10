"""What a task taught, as far as it is worth an entry, and the entry that says the same. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kern import plain
from kern.memory.entries import COMMON, Entry

MOST = 320  # characters: one sentence, with room for a command and a path
_LONGEST_WHEN = 240  # characters
_ALIKE = 0.5  # of the words of both together: so many two entries of the same content share
_ITEM = r"\s*(?:[-*+]|\d{1,2}[.)])\s+(\S.*)"
_ENDS = r"[.!?]['\")`]*$"
_NOTHING = r"(?i)(?:none|nothing|n/?a|no (?:new |further |real )?(?:learn|lesson)\w*)\b"
# What tells of the task itself: the commit says that already.
_STORY = (
    r"(?i)(?:I|we|this (?:task|change|commit|attempt))\b(?!')|"
    r"(?:all|the) (?:tests?|checks?|gates?) (?:now )?(?:pass|are green)|"
    r"(?:added|implemented|refactored|fixed|updated|created|removed|"
    r"renamed|replaced|wrote|ran|introduced|extended) (?:(?:a|an|the|some|new|all|it)\b|`)"
)
_WHEN = r"(?s)\s*(?:[-*+]\s+)?[*_]*When[*_]*:[*_]*\s+(\S.*)"
_WORD = r"[^\W_]+"
_NAME = r"\w*\d\w*|\w+(?:[./_-]\w+)+"
_NO = r"(?i)\b(?:no|not|never|none|nobody|nothing|without|cannot|avoid)\b|n't\b"


class Lesson(NamedTuple):
    text: str
    when: str = ""  # the kinds of work that need it


class Captured(NamedTuple):
    kept: tuple[Lesson, ...]
    refused: tuple[tuple[str, str], ...] = ()  # with the reason


def lessons(learned: str) -> Captured:
    """Of what stands below `## Learned`, each line that a later task could use, with the line
    `When:` below it.
    """
    found, last = dict[str, str](), ""
    for text in _sentences(learned):
        if last and (needed := re.fullmatch(_WHEN, text)):
            found[last] = found[last] or when(needed[1])
        else:
            last = text
            found.setdefault(text, "")
    reasons = {text: _objection(text) for text in found}
    kept = (Lesson(text, needed) for text, needed in found.items() if not reasons[text])
    return Captured(tuple(kept), tuple((text, why) for text, why in reasons.items() if why))


def whole(learned: str) -> Captured:
    """All of it as one lesson: the result of an experiment."""
    lines = plain.block(learned).split("\n")
    needed = [found[1] for line in lines if (found := re.fullmatch(_WHEN, line))]
    text = plain.line(" ".join(one for one in lines if not re.fullmatch(_WHEN, one)), 2000)
    return Captured((Lesson(text, when("; ".join(needed))),) if text else ())


def when(said: str) -> str:
    """The kinds of work, in one line; as many as there is room for."""
    kept = ""
    for one in dict.fromkeys(
        plain.line(kind, _LONGEST_WHEN).strip(" .") for kind in said.split(";")
    ):
        more = f"{kept}; {one}" if kept else one
        kept = more if one and len(more) <= _LONGEST_WHEN else kept
    return kept


def _sentences(learned: str) -> Iterator[str]:
    """Items and paragraphs; of a paragraph each line that ends like a sentence, and a `When:`."""
    held = ""
    for line in [*plain.block(learned).split("\n"), ""]:
        item = re.fullmatch(_ITEM, line)
        needs = re.match(_WHEN, held) and not (line[:1].isspace() or held.endswith((",", ";")))
        begins = item or not line.strip() or re.match(_WHEN, line) or re.search(_ENDS, held)
        if held and (begins or needs):
            yield held
            held = ""
        if not re.match(r"\s*(?:`{3}|~{3})", line):
            held = f"{held} {item[1] if item else line.strip()}".strip()


def _objection(text: str) -> str:
    """Why it is no entry, in words; empty for one that is."""
    bare = text.strip("*_` ")
    if len(re.findall(_WORD, bare)) < 2:
        return "it says nothing"
    if re.match(_NOTHING, bare) and len(bare) < 80:
        return "it says that nothing was learned"
    if len(text) > MOST:
        return f"it is longer than {MOST} characters: one sentence is enough"
    if bare.endswith("?"):
        return "it asks"
    return "it tells what was done, not what to do" if re.match(_STORY, bare) else ""


# ---------------------------------------------------------------- near-duplicates


def alike(text: str, entries: Iterable[Entry]) -> Entry | None:
    """The entry that says the same, the nearest first. One that says no where the other says yes,
    or speaks of another number, file or name, is none: a second entry harms less than a lesson
    that is lost.
    """
    near = [(_shared(text, one.text), one) for one in entries if _exact(one.text) == _exact(text)]
    share, best = max(near, key=lambda one: one[0], default=(0.0, None))
    return best if share >= _ALIKE else None


def _exact(text: str) -> frozenset[str]:
    """What must be the same: numbers, names with a dot, a slash or a line in them, and a no."""
    named = (match.rstrip("./") for match in re.findall(_NAME, text.lower()))
    return frozenset(named) | ({"no"} if re.search(_NO, text) else frozenset())


def _shared(*texts: str) -> float:
    one, other = (
        {re.sub(r"(?<=...)(?:ing|ed|es|s)$", "", w) for w in re.findall(_WORD, text.lower())}
        - COMMON
        for text in texts
    )
    return len(one & other) / len(one | other) if one | other else 0.0
