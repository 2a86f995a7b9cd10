"""The resume table by hand, and that whatever the facts are there is a next thing to do."""

from itertools import product
from typing import Any

import pytest

from kern.model import Outcome, Saved, Tier
from kern.pipeline.table import ATTEMPTS, Do, Facts, Start, due, resume, skipped
from kern.stages.answer import Code

READY: dict[str, Any] = {"active": True, "research": Code.READY, "noted": True}
OPEN: dict[str, Any] = {**READY, "start": Start.OPEN}


def test_the_second_full_failure_needs_a_person() -> None:
    assert skipped(0, exhausted=True) is Outcome.SKIPPED
    assert skipped(1, exhausted=True) is Outcome.BLOCKED
    assert skipped(1, exhausted=False) is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("facts", "do"),
    [
        ({}, Do.SELECT),
        ({"start": Start.OPEN}, Do.ABANDON),  # a person took the marker away
        ({**OPEN, "start": Start.OTHER}, Do.ABANDON),
        ({**OPEN, "done": True, "saved": Saved.PROVED}, Do.FINISH),
        ({"active": True}, Do.RESEARCH),
        ({**READY, "noted": False}, Do.RESEARCH),
        ({**READY, "research": Code.NO_TASK}, Do.RELEASE),
        (READY, Do.IMPLEMENT),
        (OPEN, Do.UNDO),
        ({**OPEN, "saved": Saved.OPEN}, Do.PROVE),
        ({**OPEN, "saved": Saved.PROVED, "own": True}, Do.COMMIT),
        ({**OPEN, "saved": Saved.PROVED}, Do.PROVE),  # another process said so
        ({**OPEN, "saved": Saved.PROVED, "own": True, "at_base": False}, Do.PROVE),
        ({**OPEN, "saved": Saved.FAILED}, Do.BOOK),
        ({**OPEN, "saved": Saved.DECOMPOSED}, Do.RELEASE),
        ({**READY, "start": Start.NOTED, "attempts": ATTEMPTS - 1}, Do.IMPLEMENT),
        ({**READY, "attempts": ATTEMPTS}, Do.IMPLEMENT),  # which splits it
        ({**READY, "attempts": ATTEMPTS, "subtask": True}, Do.RELEASE),
        ({"active": True, "attempts": ATTEMPTS, "experiment": True}, Do.CONCLUDE),
    ],
)
def test_what_is_next(facts: dict[str, Any], do: Do) -> None:
    assert resume(Facts(**facts)) is do


def test_only_what_this_process_proved_at_its_base_is_committed() -> None:
    flags = (False, True)
    codes = (None, Code.READY, Code.NO_TASK, Code.NEEDS_ANSWER)
    numbers = range(ATTEMPTS + 2)
    for case in product(flags, Start, flags, codes, flags, Saved, flags, flags, numbers):
        facts = Facts(*case)
        proved = facts.saved is Saved.PROVED and facts.own and facts.at_base and facts.active
        assert resume(facts) is not Do.COMMIT or proved
        spent = facts.attempts >= ATTEMPTS
        assert due(facts) is (Tier.DECOMPOSE if spent else Tier.IMPLEMENT)
