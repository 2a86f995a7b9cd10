"""What is not believed of an answer, whoever gives it: the prompt said again, a call that was
written and not made, a way out that names nothing. Pure.
"""

import re
from collections.abc import Callable

from kern.model import Role, Stage
from kern.stages import answer
from kern.stages.answer import Answer, Code

REPEATED = "it repeated the prompt"
NO_CALL = "it wrote a call of a tool as text"
MISSING = "no file that it names is in the repository"
NAMELESS = "its reason names nothing of the repository or the task"
_AGAIN = """
## Your answer before

It was not taken: {why}. Answer in your own words, for this task and this repository.
"""
_NAMING = """
Name its files, with "(new)" behind each that is still to be made. A reason or a question says which
file, command or words of the task it is about.
"""

_CODES = rf"^ (?:{'|'.join(code.casefold() for code in Code)})(?= )"
_FEW = 3  # words by which the beginning of a line is known
_CALL = (
    r"[\s`]*+(?:(?:json|xml|tool_\w+)\b\s*+)?(?:<\|?(?:tool|function)(?:_calls?|_use)?\b"
    r'|\[?\s*+\{\s*+"(?:name|tool|function|action|tool_calls|tool_name)"\s*+:)'
)
_MADE_LATER = r"(?i)\bnew\b|creat|\bmake|\bto be\b|\badd|\bwrite|\bstill\b|\byet\b|exist|missing"
_DONE = (
    r"(?i)\b(?:done|there|implemented|exists?|present|fixed|in place)\s+already\b"
    r"|\balready\s+(?:done|there|implemented|exists?|present|fixed|in place|works|passes)\b"
    r"|\bnothing (?:is )?(?:left )?to (?:do|change)\b"
)
# What looks like a name: code, a path, a number, capitals within a sentence, another script.
_NAME = r"[`/_\d]|\w\.\w|\w[A-Z]|[^.:!?\s]\s+[A-Z]\w|[^\x00-\x7f]"
_COMMON = "the and for not with this that what which when are can has have should task there from"
_MOST = 50  # words of a reason that are looked at
_STEM = 4  # letters by which words are alike: greet, greeting


def doubt(
    role: Role, text: str, prompt: str, task: str, red: str, knows: Callable[[str], bool]
) -> str:
    """Why the answer is not to be believed; empty where nothing stands against it. `prompt`: what
    kern says in it, without the data. `red`: a gate of the task that is red before it. `knows`:
    whether the repository has something of that name.
    """
    parsed = answer.parse(role, text)
    code, reason, finds = parsed.code, parsed.reason, role is Stage.RESEARCH
    leaves = code in (Code.SKIPPED, Code.NEEDS_ANSWER)
    done = code is Code.NO_TASK or (code is Code.SKIPPED and re.search(_DONE, reason))
    doubts = (
        (finds and code is Code.UNCLEAR, reason),  # it is empty
        (repeats(text, reason, prompt, task), REPEATED),
        (re.match(_CALL, text), NO_CALL),
        (finds and is_missing(parsed, task, knows), MISSING),
        (red and done, f"it says that there is nothing to do, and {red} is red"),
        (leaves and not names(reason, task, knows), NAMELESS),
    )
    return next((why for holds, why in doubts if holds), "")


def again(role: Role, why: str) -> str:
    """What is added to the prompt then."""
    return _AGAIN.format(why=why) + (_NAMING if role is not Stage.COMMIT else "")


def repeats(text: str, reason: str, prompt: str, task: str) -> bool:
    """Whether it says nothing but lines of the prompt, gives one of them as its reason, or names
    the files of an example. What the task says itself is its own.
    """
    own, whole, why = _words(task), _words(prompt), _words(reason)
    lines = [_words(line) for line in prompt.splitlines()]

    def is_kerns(words: str) -> bool:
        is_known = words in lines or (len(words.split()) >= _FEW and words in whole)
        about = answer.FOREIGN in words and answer.FOREIGN in task
        return is_known and not about and re.sub(_CODES, "", words) not in own

    begins = any(re.match(rf"(?: \w+)?{why}", line) for line in lines)
    if len(why.split()) >= _FEW and begins and is_kerns(why):
        return True
    replies = [one for one in map(_words, text.splitlines()) if re.sub(_CODES, "", one).strip()]
    return bool(replies and all(map(is_kerns, replies))) or answer.is_foreign(text, task)


def is_missing(parsed: Answer, task: str, knows: Callable[[str], bool]) -> bool:
    """Whether all files that it found are nowhere, and neither it nor the task says that they are
    to be made.
    """
    claims = " ".join(text for label, text in parsed.findings if label in ("Files", "Pattern"))
    paths = answer.paths(claims)
    if not paths or re.search(_MADE_LATER, claims):
        return False
    return not any(path in task or knows(path) for path in paths)


def names(reason: str, task: str, knows: Callable[[str], bool]) -> bool:
    """Whether it says what it is about."""
    if re.search(_NAME, reason):
        return True
    stems = {word[:_STEM] for word in _words(task).split()} - {
        word[:_STEM] for word in _COMMON.split()
    }
    words = [word for word in _words(reason).split() if len(word) >= _FEW][:_MOST]
    return any(word[:_STEM] in stems or (len(word) >= _STEM and knows(word)) for word in words)


def _words(text: str) -> str:
    """In lower case, each between blanks."""
    words = re.findall(r"\w+", text.casefold())
    return f" {' '.join(words)} "
