"""A red gate runs once more before it counts: one with a clock or a network in it is red once in a
while. Pure.
"""

from dataclasses import replace

from kern import plain
from kern.checks.result import TELLING, telling
from kern.config import Gate
from kern.model import Result

_LONG_S = 600.0  # one that takes longer is not run twice


def due(gate: Gate, ended: Result) -> bool:
    """Whether it runs once more: not where it was green, nor where its red does not count."""
    final = ended.code is None or ended.cannot_run or ended.seconds > _LONG_S
    if not ended.against(ended.red_before).blocks:
        return False
    asked = settled(gate)
    return not final if asked is None else bool(asked)


def settled(gate: Gate) -> int | None:
    """How often, where that is settled before it is red. A task's own is strict by nature."""
    return 0 if gate.again is None and gate.strict and gate.name else gate.again


def both(first: Result, second: Result) -> Result:
    """What the two come to, the first of which is red."""
    spent = first.seconds + second.seconds
    last = telling(first.output, TELLING)
    flaky = "" if second.red else f"red at first ({first.how}){': ' * bool(last)}{last}"
    return replace(second, seconds=spent, flaky=flaky)


def risks(results: list[Result], known: set[str]) -> str:
    """What the proof of a change says of gates that were not `known` to be flaky before it."""
    new = [result.name for result in results if result.flaky and result.name not in known]
    return f"; a risk of this change: {plain.some(new)} was not flaky before it" if new else ""
