"""What a stage said: Markdown that a person can read, with a code word near its end; and what that
comes to. Pure.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kern import plain
from kern.checks.result import TELLING
from kern.model import Aide, Decision, Result, Role, Saved, Stage, Tier
from kern.spec.parse import is_experiment

MOST_SUBTASKS = 20
NO_REASON = "no reason given"
UNSPLIT = "the attempts failed and it could not be split"
_MESSAGE = 10_000  # characters of a commit message
LAST = 5  # lines that say something, among which the code word stands
FOREIGN = "zorbl"  # the project of the examples in kern's prompts: nobody's


class Code(StrEnum):
    READY = "READY"
    NO_TASK = "NO_TASK"
    SUCCESS = "SUCCESS"
    DECOMPOSED = "DECOMPOSED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    REJECT = "REJECT"
    TASKS = "TASKS"
    CHANGES = "CHANGES"
    DONE = "DONE"
    PASS = "PASS"
    FAIL = "FAIL"
    NEEDS_ANSWER = "NEEDS_ANSWER"  # its reason is the question
    UNCLEAR = "UNCLEAR"  # never said by an agent: no line near the end begins with one of the above


# What each role may say, the most careful first: of two different codes that one counts. Careful is
# what settles least: a person decides, else others go on or try again, else the task is left or
# split, and last of all the agent is believed that there is nothing more to do.
CARE: dict[Role, tuple[Code, ...]] = {
    Stage.RESEARCH: (Code.NEEDS_ANSWER, Code.READY, Code.NO_TASK),
    Stage.IMPLEMENT: (
        *(Code.NEEDS_ANSWER, Code.FAILED, Code.SKIPPED, Code.DECOMPOSED),
        Code.SUCCESS,
    ),
    Stage.COMMIT: (Code.REJECT,),
    Aide.PLANNER: (Code.TASKS, Code.CHANGES, Code.DONE),
    Aide.JUDGE: (Code.FAIL, Code.PASS),
}
_CLEAR_ALONE = {Code.FAILED, Code.REJECT, Code.FAIL}  # the others are unclear without a reason
_REASONED = {*(Code.NO_TASK, Code.SKIPPED, Code.DONE, Code.NEEDS_ANSWER), *_CLEAR_ALONE}
_ALSO = {"REJECTED": Code.REJECT, "REJECTION": Code.REJECT}

# A line says a code where that is its first word, behind marks (bullets, numbers, ticked boxes,
# headings, quotes, table bars, emphasis, emoji, tags) and a label or two (`Final answer:`).
_MARKS = r"(?:</?[A-Za-z][^<>]*>|(?<=\[)[xX](?=\])|\d{1,3}[.)](?=\s)|[\W_])*+"
_LABELLED = (
    r"(?i:(?:(?:final|overall|my|the|task|stage)\s++)*+"
    r"(?:answer|code|conclusion|decision|outcome|result|status|verdict)\b)(?=\s*[^\w\s])"
)
_WORD = r"([A-Z]++(?:_[A-Z]++)*+)(?!_*[^\W_])"
_LINE = rf"({_MARKS}(?:{_LABELLED}{_MARKS}){{0,2}}+){_WORD}(.*)"
_WITHDRAWN = r"\[\s*\]|~~"  # a box without its tick, a word struck out
_MENU = r"[\s*_`]*(?:[/|]|or\b)[\s*_`]*[A-Z_]{4}"  # `SUCCESS | FAILED`: recited
# A test runner's summary: `FAILED: 0`, `SKIPPED [1] tests/…`, `FAILED tests/a.py::test_b - …`.
_COUNTS = r"[\W_]*\d+[\W_]*$|\s*\[\d+\]|\s+\S+::\S"
_GAP = r"[*_`~]*+[\s:\uff1a.,;!|=>)\]\"'\u2013\u2014-]*+(?:[*_`]++\s)?\s*"
_CLOSING = r"(\*+|_+|`+)\.?$"  # emphasis at the end of a reason
_SAYS = re.compile(r"[^\W_]")
_BLOCK = (  # of code, to its closing fence or to the end
    r"(?ms)^[^\S\n]*(`{3,}(?=[^`\n]*$)|~{3,})[^\n]*(?:\n.*?^[^\S\n]*\1[`~]*[^\S\n]*$|.*)"
)
_FENCE = r"\s*(?:```|~~~)"
_HEADING = r"#{1,6}\s+\S"
_BULLET = r"\s*(?:>\s*)*(?:[-*+]\s+)?"
_LABELS = ("Files", "Pattern", "Constraint", "Proof")
_LABEL = r"[-*_+\s#>]*(Files?|Patterns?|Constraints?|Proofs?)[*_]*\s*(?::[*_]*\s*(?P<text>.*)|$)"
# What it says of the learnings that it was told: `Used: L7, L12`.
_VOTE = r"[\W_]*(Used|Misled)[*_`]*\s*:(.*\bL[1-9].*)"
_ENTRY = r"\bL[1-9]\d{0,8}\b"
_CUT = "\0"  # where lines were taken out: what stands above it goes on nowhere
_EMPTIED = rf"(?m)^[ \t]*(`{{3,}}+|~{{3,}}+)[^\n]*+\n{_CUT}\n[ \t]*\1[ \t]*$"
_ITEM = r"(?m)^(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[.?\][ \t]+)?(\S.*)"
# A text in a fence, below nothing but lines that announce it, which no subject does.
_FENCED = r"(?sm)(?:(?:[^`~\n]*[.:!])?[ \t]*\n)*[ \t]*(`{3,}|~{3,})[^`\n]*\n(.*)^\1.*"


def message(text: str) -> str:
    """The commit message that an answer is: without a fence around it and what announces that, and
    without trailers that name a task; empty where it says nothing but a code word.
    """
    text = plain.block(text).strip()
    if fenced := re.fullmatch(_FENCED, text):
        text = fenced[2]
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for line in lines if not line.strip().lower().startswith("kern-task:")]
    if lines and lines[-1] in [*Code]:
        lines.pop()
    words = "\n".join(lines).strip()[:_MESSAGE].rstrip()
    ends = words.splitlines()[:1] + words.splitlines()[-1:]
    return "" if any(line.partition(":")[0] in [*Code] for line in ends) else words


@dataclass(frozen=True, slots=True)
class Answer:
    code: Code
    reason: str = ""
    findings: tuple[tuple[str, str], ...] = ()  # of stage 1: (label, text)
    learned: str = ""  # of stage 2
    subtasks: tuple[str, ...] = ()
    listed: str = ""  # of a planner: tasks, or entries of LEARNINGS.md
    body: str = ""  # the answer without the lines that say its code
    used: tuple[str, ...] = ()  # of stage 2: the entries of LEARNINGS.md that it went by
    misled: tuple[str, ...] = ()  # and those that led it astray


def parse(role: Role, text: str) -> Answer:
    """Never raises: what cannot be read is `UNCLEAR`."""
    text = plain.block("\n".join(text.splitlines()))
    lines, bare = text.split("\n"), _bare(text).split("\n")
    speaking = [at for at, line in enumerate(lines) if _SAYS.search(line)]
    if not speaking:
        return Answer(Code.UNCLEAR, "the answer is empty")
    codes = _codes(role, lines, bare, speaking)
    code = min((code for code, _ in codes.values()), key=CARE[role].index, default=Code.UNCLEAR)
    reason, *below = _why(code, lines, codes)
    if code in _REASONED and not reason:
        reason = NO_REASON if code in _CLEAR_ALONE else f"the answer says {code} without a reason"
        code = code if code in _CLEAR_ALONE else Code.UNCLEAR
    votes = {
        at: vote
        for at, line in enumerate(bare if role is Stage.IMPLEMENT else ())
        if (vote := re.fullmatch(_VOTE, line))
    }
    drop = {*votes, *(() if code is Code.UNCLEAR else (*codes, *below))}
    rest = "\n".join(_CUT if at in drop else line for at, line in enumerate(lines))
    rest = re.sub(_EMPTIED, _CUT, rest)
    if code is Code.UNCLEAR and role is Stage.RESEARCH:  # findings: they are what was asked for
        code, reason = Code.READY, ""
    elif code is Code.UNCLEAR and role is Stage.IMPLEMENT and not reason:
        last = plain.line(lines[speaking[-1]], 120)
        reason = f'the answer does not end in SUCCESS, FAILED or another code but in "{last}"'
    return Answer(
        code,
        reason,
        findings=_findings(rest),
        learned=section(rest, "Learned"),
        subtasks=_subtasks(section(rest, "Subtasks")),
        listed=section(rest, "Tasks") or section(rest, "Changes"),
        body=re.sub(f"(?m)^{_CUT}\n?", "", rest).strip(),
        used=_ids(votes.values(), "Used"),
        misled=_ids(votes.values(), "Misled"),
    )


def _bare(text: str) -> str:
    """With blanks in the place of code blocks."""
    return re.sub(_BLOCK, lambda block: re.sub(rf"[^\n{_CUT}]", " ", block[0]), text)


# ---------------------------------------------------------------- the code


def _codes(
    role: Role, lines: Sequence[str], bare: Sequence[str], speaking: Sequence[int]
) -> dict[int, tuple[Code, str]]:
    """The lines that say a code, with their reasons: near the end, for a judge also the first, for
    stage 3 wherever they stand. What stands in a code block, or in a test runner's summary, counts
    where nothing beside it does: it may be quoted.
    """
    if role is not Stage.COMMIT:
        speaking = [*(speaking[:-LAST][:1] if role is Aide.JUDGE else ()), *speaking[-LAST:]]
    codes, counted = dict[int, tuple[Code, str]](), set[int]()
    for at, match in ((at, re.match(_LINE, lines[at])) for at in speaking):
        marks, word, rest = match.groups() if match else ("", "", "")
        code = next((code for code in CARE[role] if code == _ALSO.get(word, word)), None)
        if code and not re.search(_WITHDRAWN, marks) and not re.match(_MENU, rest):
            codes[at] = code, _reason(marks, rest)
            counted |= {at} if re.match(_COUNTS, rest) else set()
    codes = {at: one for at, one in codes.items() if bare[at] == lines[at]} or codes
    return {at: one for at, one in codes.items() if at not in counted} or codes


def _reason(marks: str, rest: str) -> str:
    """What follows a code word, without the marks that hold both."""
    text = re.sub(_GAP, "", re.sub(r"</\w+>", "", rest), count=1)
    text = plain.line(text).rstrip(" |")
    end = re.search(_CLOSING, text)
    if end and end[1] in marks and text.count(end[1]) == 1:
        text = text[: end.start()]
    text = text if text.endswith("..") else text.removesuffix(".")
    return text if _SAYS.search(text) else ""


def _why(
    code: Code, lines: Sequence[str], codes: Mapping[int, tuple[Code, str]]
) -> tuple[str, *tuple[int, ...]]:
    """The reason for the code, and the line that holds it where that is the one below."""
    for at in reversed([at for at, one in codes.items() if one[0] is code]):
        if reason := codes[at][1]:
            return (reason,)
        further = (n for n in range(at + 1, len(lines)) if not re.match(_FENCE, lines[n]))
        below = next((n for n in further if _SAYS.search(lines[n])), at)
        if code in _REASONED and below not in codes and not re.match(_HEADING, lines[below]):
            return plain.line(re.sub(_BULLET, "", lines[below], count=1)), below
    return ("",)


# ---------------------------------------------------------------- the rest


def _ids(votes: Iterable[re.Match[str]], label: str) -> tuple[str, ...]:
    """The entries of LEARNINGS.md that they name."""
    rest = " ".join(vote[2] for vote in votes if vote[1] == label)
    return tuple(dict.fromkeys(re.findall(_ENTRY, rest)))


def _findings(text: str) -> tuple[tuple[str, str], ...]:
    """What `_LABELS` name, each up to a heading or the first blank line below; else all of it."""
    findings = dict[str, list[str]]()
    label = ""
    for line in text.split("\n"):
        if match := re.fullmatch(_LABEL, line):
            label = next(one for one in _LABELS if one[:2] == match[1][:2])
            line = match["text"] or ""
        elif line.startswith(("#", _CUT)) or (label in findings and not line.strip()):
            label = ""
        if label and (words := line.strip().lstrip("-*+ ")):
            findings.setdefault(label, []).append(words)
    rows = [(one, plain.line("; ".join(findings[one]))) for one in _LABELS if one in findings]
    body = plain.line(text)
    return tuple(rows or ([("Findings", body)] if body else []))


def section(text: str, title: str) -> str:
    """What stands below the heading, up to the next of its level or above, outside code."""
    bare = _bare(text)
    if not (heading := re.search(rf"(?m)^(#{{1,6}})[ \t]+{title}[: \t]*$", bare)):
        return ""
    next_one = re.compile(rf"(?m)^(?:{_CUT}|#{{1,{len(heading[1])}}}[ \t]+\S)|\Z")
    end = next_one.search(bare, heading.end())
    inside = text[heading.end() : end.start() if end else None]
    return textwrap.dedent(inside.expandtabs(4).strip("\n")).rstrip()


def _subtasks(section: str) -> tuple[str, ...]:
    """The items at the left margin, each once; too many are no decomposition."""
    titles = dict.fromkeys(plain.line(item, 200) for item in re.findall(_ITEM, section))
    titles = {title: None for title in titles if re.search(r"\w", title)}
    return tuple(titles) if len(titles) <= MOST_SUBTASKS else ()


# ---------------------------------------------------------------- what it names


def paths(text: str) -> list[str]:
    slashed = r"(?<![\w./@+-])[\w.@+-]*/[\w./@+-]*"
    return re.findall(rf"{slashed}|(?<![\w/-])\w[\w-]*\.[A-Za-z]\w*", text)


def is_foreign(text: str, source: str) -> bool:
    """Whether all files that it names are those of an example, which the `source` is not about."""
    files = paths(text)
    return FOREIGN not in source and bool(files) and all(FOREIGN in path for path in files)


# ---------------------------------------------------------------- what it comes to


def decide(answer: Answer, task: str, mode: Tier, *, subtask: bool, objection: str) -> Decision:
    """Of stage 2's, a claim that any witness may demote and none promote. `objection` is what
    stands against a SUCCESS or a question.
    """
    code, parts = answer.code, subtasks(answer, task)
    if code is Code.NEEDS_ANSWER and not objection:
        return Decision(Saved.ASKED, answer.reason)
    if mode is Tier.DECOMPOSE:
        split = code is Code.DECOMPOSED and bool(parts)
        return Decision(Saved.DECOMPOSED) if split else Decision(Saved.SKIPPED, UNSPLIT)
    if code is Code.SKIPPED:
        return Decision(Saved.SKIPPED, answer.reason)
    if code is Code.DECOMPOSED:
        if parts and not (subtask or is_experiment(task)):
            return Decision(Saved.DECOMPOSED)
        return Decision(Saved.FAILED, "DECOMPOSED without usable subtasks, or of what is not split")
    if code in (Code.SUCCESS, Code.NEEDS_ANSWER):
        return Decision(Saved.FAILED, objection) if objection else Decision(Saved.PROVED)
    return Decision(Saved.FAILED, answer.reason)


def is_result(answer: Answer, decided: Decision) -> bool:
    """Whether an attempt failed by the agent's own word and for a reason: of an experiment that is
    what came out, and no other attempt follows.
    """
    own = answer.code is Code.FAILED and answer.reason != NO_REASON
    return own and decided == Decision(Saved.FAILED, answer.reason)


def subtasks(answer: Answer, task: str) -> tuple[str, ...]:
    """A task is no part of itself."""
    return tuple(title for title in answer.subtasks if title != task)


def broken(why: str, mode: Tier) -> Decision:
    """Of a stage 2 that broke a limit or ended in a fault, whatever it answered."""
    if mode is Tier.DECOMPOSE:  # once: another would be asked without end
        return Decision(Saved.SKIPPED, f"{UNSPLIT}: {why}")
    return Decision(Saved.FAILED, why)


def judged(criterion: str, text: str) -> Result:
    """What one judge says; exit code 1 for FAIL, 2 for what is neither PASS nor FAIL."""
    verdict = parse(Aide.JUDGE, text)
    name = f"judge of {plain.line(criterion, 60)!r}"
    if verdict.code is Code.UNCLEAR or is_foreign(text, criterion):
        quote = plain.line(text, 120) or "nothing"
        return Result(name, 2, f"the answer is neither PASS nor FAIL: {quote}", strict=True)
    output = plain.line(f"{verdict.reason} {verdict.body}", 1000)
    return Result(name, 0 if verdict.code is Code.PASS else 1, output, strict=True)


def agreed(judges: Sequence[Result]) -> Result | None:
    """What judges of one criterion come to, each asked afresh; None: another is to be asked. One
    that is content is enough, and a change is refused only by two that say the same.
    """
    alike = [judge for judge in judges if judge.code == judges[-1].code]
    if not alike or (alike[0].red and len(alike) < 2):
        return None
    return replace(alike[0], output="\n".join(dict.fromkeys(judge.output for judge in alike)))


def disagreement(judges: Sequence[Result]) -> str:
    """What a person is to know of judges that let a change pass; empty where all are content."""
    against = next((judge for judge in judges if judge.code == 1), None)
    if not against or judges[-1].red:
        return ""
    no = plain.line(against.output, TELLING)
    return f"{against.name}: the judges disagree, so the change passes: one said FAIL: {no}"
