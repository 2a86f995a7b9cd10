"""What a task taught, as far as it is worth an entry, and the entry that says the same. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kern import plain
from kern.memory.entries import LONGEST_WHEN, Entry, Kind

MOST = 320  # characters: one sentence, with room for a command and a path
# Of the words of both together, so many two entries of the same content share. Of the 165 that
# tests/bench/memory holds no two come near, though some say the same: that takes kern reflect.
ALIKE = 0.5
_LEAST_WORDS = 2
_ITEM = r"\s*(?:[-*+]|\d{1,2}[.)])\s+(\S.*)"
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")
_ENDS = r"[.!?:;`)\"']\s*$"
_NOTHING = r"(?i)(?:none|nothing|n/?a|no (?:new |further |real )?(?:learn|lesson)\w*)\b"
# What tells of the task itself: the commit says that already.
_STORY = (
    r"(?i)(?:I|we|this (?:task|change|commit|attempt))\b(?!')|"
    r"(?:all|the) (?:tests?|checks?|gates?) (?:now )?(?:pass|are green)|"
    r"(?:added|implemented|refactored|fixed|updated|created|removed|"
    r"renamed|replaced|wrote|ran|introduced|extended) (?:(?:a|an|the|some|new|all|it)\b|`)"
)
_WHEN = r"(?s)\s*(?:[-*+]\s+)?[*_]*When[*_]*:[*_]*\s+(\S.*)"
_ARROW = r"\s(?:\u2192|->|=>)\s"
_WORD = r"[^\W_]+"
_NAME = r"\w*\d\w*|\w+(?:[./_-]\w+)+"
_NO = r"(?i)\b(?:no|not|never|none|nobody|nothing|without|cannot|avoid)\b|n't\b"
_STOP = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "do", "for", "from", "has"),
        *("have", "if", "in", "into", "is", "it", "its", "of", "on", "or", "so", "than", "that"),
        *("the", "then", "there", "this", "to", "was", "when", "where", "which", "will", "with"),
    )
)


class Lesson(NamedTuple):
    text: str
    kind: Kind = Kind.INSIGHT
    when: str = ""  # the kinds of work that need it


class Captured(NamedTuple):
    kept: tuple[Lesson, ...]
    refused: tuple[tuple[str, str], ...]  # with the reason


def lessons(learned: str, *, overcame: bool) -> Captured:
    """Of what stands below `## Learned`, each line that a later task could use, with the line
    `When:` below it. `overcame`: an attempt had failed before, so that `issue -> fix` is a sign of
    what helps.
    """
    kept: list[Lesson] = []
    refused: list[tuple[str, str]] = []
    for text, needed in _paired(_lines(learned)).items():
        if why := _objection(text):
            refused.append((text, why))
        else:
            sign = overcame and re.search(_ARROW, text)
            kept.append(Lesson(text, Kind.SIGN if sign else Kind.INSIGHT, needed))
    return Captured(tuple(kept), tuple(refused))


def whole(learned: str) -> Captured:
    """All of it as one lesson: the result of an experiment."""
    lines = _unsigned(plain.block(learned)).split("\n")
    needed = [found[1] for line in lines if (found := re.fullmatch(_WHEN, line))]
    text = "\n".join(line for line in lines if not re.fullmatch(_WHEN, line)).strip()
    return Captured((Lesson(text, when=when("; ".join(needed))),) if text else (), ())


def when(said: str) -> str:
    """The kinds of work, in one line; as many as there is room for."""
    kinds = [plain.line(one, LONGEST_WHEN).strip(" .") for one in said.split(";")]
    kept = ""
    for one in filter(None, dict.fromkeys(kinds)):
        more = f"{kept}; {one}" if kept else one
        kept = more if len(more) <= LONGEST_WHEN else kept
    return kept


def tokens(text: str) -> list[str]:
    """Its words alone, by which a text is known again in any form."""
    return re.findall(_WORD, text)


def _unsigned(text: str) -> str:
    """Nothing of it reads like a comment of kern's."""
    return re.sub(r"<!--\s*kern:", "<!-- ", text)


def _paired(texts: Iterable[str]) -> dict[str, str]:
    """Each text once, with what the line `When:` below it says."""
    found: dict[str, str] = {}
    last = ""
    for text in texts:
        if last and (needed := re.fullmatch(_WHEN, text)):
            found[last] = found[last] or when(needed[1])
        else:
            last = text
            found.setdefault(text, "")
    return found


def _lines(learned: str) -> Iterable[str]:
    """Items and paragraphs; of a paragraph each line that ends like a sentence, and a `When:`."""
    held: list[str] = []
    fenced = False
    for line in [*_unsigned(plain.block(learned)).split("\n"), ""]:
        fenced ^= bool(_FENCE.match(line))
        item = None if fenced else re.fullmatch(_ITEM, line)
        if held and not fenced and (item or not line.strip() or _ended(held, line)):
            yield "\n".join(held) if any(map(_FENCE.match, held)) else " ".join(held)
            held = []
        if item or line.strip():
            held.append((item[1] if item else line if fenced else line.strip()).rstrip())
    if held:
        yield "\n".join(held)


def _ended(held: Sequence[str], line: str) -> bool:
    """Whether the next line of a paragraph begins something new."""
    if re.fullmatch(_WHEN, line):
        return True
    if re.fullmatch(_WHEN, held[0]):  # a long one goes on in the next line
        broken = line[:1].isspace() and not re.search(_ENDS, held[-1])
        return not (broken or held[-1].endswith((",", ";")))
    return bool(re.search(_ENDS, held[-1]))


def _objection(text: str) -> str:
    """Why it is no entry, in words; empty for one that is."""
    bare = text.strip("*_` ")
    if len(re.findall(_WORD, bare)) < _LEAST_WORDS:
        return "it says nothing"
    if re.match(_NOTHING, bare) and len(bare) < 80:
        return "it says that nothing was learned"
    if len(text) > MOST:
        return f"it is longer than {MOST} characters: one sentence is enough"
    if bare.endswith("?"):
        return "it asks"
    if re.match(_STORY, bare):
        return "it tells what was done, not what to do"
    return ""


# ---------------------------------------------------------------- near-duplicates


def alike(text: str, entries: Sequence[Entry]) -> Entry | None:
    """The entry that says the same, the nearest first; None where none does. One that says no where
    the other says yes, or speaks of another number, file or name, is none: a second entry harms
    less than a lesson that is lost.
    """
    ours, exact = _words(text), _exact(text)
    best: Entry | None = None
    most = ALIKE
    for entry in entries:
        near = len(entry.text) < 4 * MOST and _exact(entry.text) == exact
        theirs = _words(entry.text) if near else frozenset()
        together = len(ours | theirs)
        shared = len(ours & theirs) / together if together else 0.0
        if shared >= most and (best is None or shared > most):
            best, most = entry, shared
    return best


def _exact(text: str) -> frozenset[str]:
    """What must be the same: numbers, names with a dot, a slash or a line in them, and a no."""
    named = (match.rstrip("./") for match in re.findall(_NAME, text.lower()))
    return frozenset(named) | ({"no"} if re.search(_NO, text) else frozenset())


def _words(text: str) -> frozenset[str]:
    found = (word.lower() for word in re.findall(_WORD, text))
    return frozenset(_stem(word) for word in found if word not in _STOP)


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word.removesuffix(ending)
    return word
