"""What a stage said: Markdown that a person can read, whose last line is the code."""

import re
import textwrap
from dataclasses import dataclass
from enum import StrEnum

from kern import plain
from kern.pipeline import Aide, Role, Stage

MOST_SUBTASKS = 20
NO_REASON = "no reason given"


class Code(StrEnum):
    READY = "READY"
    NO_TASK = "NO_TASK"
    SUCCESS = "SUCCESS"
    DECOMPOSED = "DECOMPOSED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    REJECT = "REJECT"
    TASKS = "TASKS"
    DONE = "DONE"
    NEEDS_ANSWER = "NEEDS_ANSWER"  # its reason is the question
    UNCLEAR = "UNCLEAR"  # never said by an agent: no line of the above stands at the end


_CODES: dict[Role, set[Code]] = {
    Stage.RESEARCH: {Code.READY, Code.NO_TASK, Code.NEEDS_ANSWER},
    Stage.IMPLEMENT: {
        *(Code.SUCCESS, Code.DECOMPOSED, Code.SKIPPED, Code.FAILED, Code.NEEDS_ANSWER)
    },
    Stage.COMMIT: {Code.REJECT},
    Aide.PLANNER: {Code.TASKS, Code.DONE},
}
_REASONED = {*(Code.NO_TASK, Code.SKIPPED, Code.FAILED, Code.REJECT, Code.DONE, Code.NEEDS_ANSWER)}
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_LAST = re.compile(r"([A-Z]+(?:_[A-Z]+)*)[*_`]*(?::[*_`]*\s*(.*))?")
_LABEL = re.compile(
    r"[-*_+\s#>]*(Files?|Patterns?|Constraints?)[*_]*\s*(?::[*_]*\s*(?P<text>.*)|$)"
)
_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+(?:\[.?\]\s+)?(\S.*)")


@dataclass(frozen=True, slots=True)
class Answer:
    code: Code
    reason: str = ""
    findings: tuple[tuple[str, str], ...] = ()  # of stage 1: (label, text)
    learned: str = ""  # of stage 2
    subtasks: tuple[str, ...] = ()
    body: str = ""  # the answer without its last line


def parse(stage: Role, text: str) -> Answer:
    """Never raises: what cannot be read is `UNCLEAR`."""
    text = plain.block(text)
    lines = text.rstrip().split("\n")
    while lines and not _bare(lines[-1]):
        lines.pop()
    if not lines:
        return Answer(Code.UNCLEAR, "the answer is empty")
    code, reason = _code(stage, _bare(lines[-1]))
    body = "\n".join(lines if code is Code.UNCLEAR else lines[:-1]).strip()
    if stage is Stage.RESEARCH:
        if code is Code.UNCLEAR:  # no code, but findings: they are what was asked for
            code = Code.READY
        return Answer(code, reason, findings=_findings(body), body=body)
    if code is Code.UNCLEAR and stage is Stage.IMPLEMENT:
        last = plain.line(lines[-1], 120)
        reason = f'the answer does not end in SUCCESS, FAILED or another code but in "{last}"'
    return Answer(
        code,
        reason,
        learned=section(body, "Learned"),
        subtasks=_subtasks(section(body, "Subtasks")),
        body=body,
    )


def _bare(line: str) -> str:
    return line.strip().strip("*_`").strip().removesuffix(".").strip("*_`").strip()


def _code(stage: Role, line: str) -> tuple[Code, str]:
    match = _LAST.fullmatch(line)
    if match is None or match[1] not in _CODES[stage]:
        return Code.UNCLEAR, ""
    code, reason = Code(match[1]), plain.line(match[2] or "")
    if match[2] is not None and code not in _REASONED:
        return Code.UNCLEAR, ""
    if not reason and code in _REASONED and code is not Code.FAILED:
        return Code.UNCLEAR, ""
    return code, reason or (NO_REASON if code is Code.FAILED else "")


def _findings(body: str) -> tuple[tuple[str, str], ...]:
    """Files, Pattern and Constraint, wherever the answer states them; else its beginning."""
    found: dict[str, list[str]] = {}
    label, inline = "", False
    for line in body.split("\n"):
        if match := _LABEL.fullmatch(line):
            label = {"F": "Files", "P": "Pattern", "C": "Constraint"}[match[1][0]]
            line = match["text"] or ""
            inline = bool(line)
        elif line.startswith("#") or (inline and not line.strip()):
            label = ""  # a label alone on its line runs on over blank ones
        text = line.strip().lstrip("-*+ ").strip()
        if label and text:
            found.setdefault(label, []).append(text)
    if not found:
        return (("Findings", plain.line(body)),) if body else ()
    return tuple(
        (label, plain.line("; ".join(found[label])))
        for label in ("Files", "Pattern", "Constraint")
        if label in found
    )


def section(body: str, title: str) -> str:
    """What stands below the heading, up to the next of its level or above, outside code."""
    taken: list[str] = []
    depth, fence = 0, ""
    for line in body.split("\n"):
        bare = line.strip()
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
        elif opening := re.match(r"`{3,}|~{3,}", bare):
            fence = opening[0]
        elif heading := _HEADING.fullmatch(line.rstrip()):
            if depth and len(heading[1]) <= depth:
                break
            if not depth and heading[2].rstrip(": ") == title:
                depth = len(heading[1])
                continue
        if depth:
            taken.append(line)
    return textwrap.dedent("\n".join(taken).expandtabs(4).strip("\n")).rstrip()


def _subtasks(section: str) -> tuple[str, ...]:
    """The items at the left margin, each once; too many are no decomposition."""
    titles: dict[str, None] = {}
    for line in section.split("\n"):
        if match := _ITEM.fullmatch(line.rstrip()):
            title = plain.line(match[1], 200)
            if re.search(r"\w", title):
                titles[title] = None
    return tuple(titles) if len(titles) <= MOST_SUBTASKS else ()
