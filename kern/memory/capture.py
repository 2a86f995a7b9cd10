"""What a task taught, as far as it is worth an entry, and the entry that says the same. Pure."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from kern import plain
from kern.memory.entries import Entry

MOST = 320  # characters: one sentence, with room for a command and a path
_ALIKE = 0.5  # of the words of both together: so many two entries of the same content share
_ITEM = r"[ \t]*(?:[-*+]|\d{1,2}[.)])\s+"
# Between two lessons: an empty line, the beginning of an item or a `When:`, the end of a sentence.
_BETWEEN = rf"\n(?:[ \t]*\n|(?={_ITEM}|[^\w\n]*When\b[^\w\n]*:))|(?<=[.!?`)])\n"
_WHEN = r"\W*When\W*:\W*\s(.+)"
# Why it is no entry. What tells of the task itself says the commit already.
_NONE = {
    "it says nothing, or asks": (
        r"(?i)(?:none|nothing|n/?a|no (?:new |further |real )?(?:learn|lesson)\w*)\b.{,70}$|"
        r"\W*\w*\W*$|.*\?\W*$"
    ),
    "it tells what was done, not what to do": (
        r"(?i)(?:I|we|this (?:task|change|commit|attempt))\b(?!')|"
        r"(?:all|the) (?:tests?|checks?|gates?) (?:now )?(?:pass|are green)|"
        r"(?:added|implemented|refactored|fixed|updated|created|removed|"
        r"renamed|replaced|wrote|ran|introduced|extended) (?:(?:a|an|the|some|new|all|it)\b|`)"
    ),
    f"it is longer than {MOST} characters: one sentence is enough": f".{{{MOST + 1}}}",
}
# What two that say the same have both or neither: numbers, names of more than a word, a no.
_TELLING = r"[\d./_-]|^(?:no|not|never|none|nobody|nothing|without|cannot|avoid|.*n't)$"


class Lesson(NamedTuple):
    text: str
    when: str = ""  # the kinds of work that need it
    wrong: str = ""  # why it is no entry


def lessons(learned: str, experiment: str = "") -> list[Lesson]:
    """Of what stands below `## Learned`, each line that a later task could use, with the line
    `When:` below it; of an experiment, however often tried, all that is said, as its result.
    """
    if experiment:
        parts = re.split(r"(?m)^[^\w\n]*When\b[^\w\n]*:[^\w\n]*(.*)\n?", plain.block(learned))
        said, needed = "".join(parts[::2]).strip(), when("; ".join(parts[1::2]))
        return [Lesson(plain.line(f"{experiment}: {said}", 2000), needed)] if said else []
    result = list[Lesson]()
    for part in re.split(_BETWEEN, re.sub(r"(?m)^[ \t]*(?:`{3}|~{3}).*", "", plain.block(learned))):
        text = plain.line(re.sub(rf"\A{_ITEM}", "", part), 2000)
        kinds = re.fullmatch(_WHEN, text)
        if kinds and result:
            result[-1] = result[-1]._replace(when=result[-1].when or when(kinds[1]))
        elif text and not kinds:
            signs = (why for why, sign in _NONE.items() if re.match(sign, text.strip("*_` ")))
            result.append(Lesson(text, wrong=next(signs, "")))
    return result


def when(condition: str) -> str:
    """The kinds of work, in one line."""
    return plain.line(condition).strip(" .")


def alike(text: str, entries: Iterable[Entry]) -> Entry | None:
    """The entry that says the same, the nearest first. One that says no where the other says yes,
    or speaks of another number, file or name, is none: a second entry harms less than a lesson
    that is lost.
    """
    mine, best, most = _words(text), None, _ALIKE
    for one in entries:
        theirs = _words(one.text)
        share = len(mine & theirs) / (len(mine | theirs) or 1)
        if share >= most and not any(re.search(_TELLING, word) for word in mine ^ theirs):
            best, most = one, share
    return best


def _words(text: str) -> frozenset[str]:
    """Without those that any text has."""
    words = re.findall(r"\w+(?:[./'-]\w+)*", text.lower())
    telling = (one for one in words if len(one) > 3 or re.search(_TELLING, one))
    return frozenset(re.sub(r"(?<=...)(?:ing|ed|es|s)$", "", one) for one in telling)
