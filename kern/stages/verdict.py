"""What answers come to: stage 2's, a claim that any witness may demote and none promote, and the
judges'. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from kern import plain
from kern.checks.result import TELLING
from kern.model import Aide, Decision, Result, Saved, Tier
from kern.spec.parse import is_experiment
from kern.stages.answer import NO_REASON, Answer, Code, parse

UNSPLIT = "the attempts failed and it could not be split"


def decide(said: Answer, task: str, mode: Tier, *, subtask: bool, objection: str) -> Decision:
    """`objection` is what stands against a SUCCESS or a question."""
    parts = subtasks(said, task)
    if said.code is Code.NEEDS_ANSWER and not objection:
        return Decision(Saved.ASKED, said.reason)
    if mode is Tier.DECOMPOSE:
        if said.code is Code.DECOMPOSED and parts:
            return Decision(Saved.DECOMPOSED)
        return Decision(Saved.SKIPPED, UNSPLIT)
    match said.code:
        case Code.SUCCESS if not objection:
            return Decision(Saved.PROVED)
        case Code.SUCCESS | Code.NEEDS_ANSWER:
            return Decision(Saved.FAILED, objection)
        case Code.DECOMPOSED if subtask:
            return Decision(Saved.FAILED, "a subtask cannot be split again")
        case Code.DECOMPOSED if is_experiment(task):
            return Decision(Saved.FAILED, "an experiment cannot be split")
        case Code.DECOMPOSED if parts:
            return Decision(Saved.DECOMPOSED)
        case Code.DECOMPOSED:
            return Decision(Saved.FAILED, "DECOMPOSED without usable subtasks")
        case Code.SKIPPED:
            return Decision(Saved.SKIPPED, said.reason)
        case _:
            return Decision(Saved.FAILED, said.reason)


def is_result(said: Answer, found: Decision) -> bool:
    """Whether an attempt failed by the agent's own undisputed word and for a reason: of an
    experiment that is what came out, and no other attempt follows.
    """
    own = found == Decision(Saved.FAILED, said.reason) and not said.disputed
    return said.code is Code.FAILED and own and said.reason != NO_REASON


def subtasks(said: Answer, task: str) -> tuple[str, ...]:
    """A task is no part of itself."""
    return tuple(title for title in said.subtasks if title != task)


def broken(why: str, mode: Tier) -> Decision:
    """Of a stage 2 that broke a limit or ended in a fault, whatever it answered."""
    if mode is Tier.DECOMPOSE:  # once: another would be asked without end
        return Decision(Saved.SKIPPED, f"{UNSPLIT}: {why}")
    return Decision(Saved.FAILED, why)


# ---------------------------------------------------------------- judges


def judged(criterion: str, said: str) -> Result:
    """What one judge says; exit code 1 for FAIL, 2 for what is neither PASS nor FAIL."""
    found = parse(Aide.JUDGE, said)
    name = f"judge of {plain.line(criterion, 60)!r}"
    if found.code is Code.UNCLEAR:
        told = plain.line(said, 120) or "nothing"
        return Result(name, 2, f"the answer is neither PASS nor FAIL: {told}", strict=True)
    output = plain.line(f"{found.reason} {found.body}", 1000)
    return Result(name, 0 if found.code is Code.PASS else 1, output, strict=True)


def agreed(judges: Sequence[Result]) -> Result | None:
    """What judges of one criterion come to, each asked afresh; None: another is to be asked. One
    that is content is enough, and a change is refused only by two that say the same.
    """
    for code in (0, 1, 2):
        alike = [judge for judge in judges if judge.code == code]
        if len(alike) == (1 if code == 0 else 2):
            outputs = dict.fromkeys(judge.output for judge in alike)
            return replace(alike[0], output="\n".join(outputs))
    return None


def disagreement(judges: Sequence[Result]) -> str:
    """What a person is to know of judges that let a change pass; empty where all are content."""
    against = [judge for judge in judges if judge.code == 1]
    if not against or judges[-1].red:
        return ""
    no, yes = (plain.line(judge.output, TELLING) for judge in (against[0], judges[-1]))
    return (
        f"{against[0].name}: the judges disagree, so the change passes: one said FAIL: {no}; "
        f"another said PASS{f': {yes}' if yes else ''}"
    )
