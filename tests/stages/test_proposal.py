"""What of a planner's answer becomes tasks, and what is refused."""

import pytest

from kern.errors import UsageError
from kern.spec.parse import parse
from kern.stages import briefs
from kern.stages import plan as planner
from kern.stages.plan import Mode, Plan


def plan(block: str, there: str = "", mode: Mode = Mode.PLAN) -> Plan:
    return planner.read(f"The gap: a.py\n\n## Tasks\n{block}\n\nTASKS", there, mode)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("", "no task"),
        ("Just prose: nothing to see.", "no task"),
        ("- a bullet without a box", "no task"),
        ("\n".join(f"- [ ] task {n}" for n in range(500)), "500 tasks"),
        ("- [-] one", "marker"),
        ("- [ ] one\n```\nnever closed\n- [ ] two", "closed"),
        ("- [ ] one\n<!-- never closed\n- [ ] two", "closed"),
        ("- [ ] one\n  > **After:** nobody", "nobody"),
        ("- [ ] one\n  > **After:** one", "waits"),
        ("- [ ] one\n  > **After:** two\n- [ ] two\n  > **After:** one", "wait"),
    ],
)
def test_a_list_that_cannot_be_trusted_is_refused_as_a_whole(block: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan(block)


def test_notes_that_are_kerns_to_write_and_control_characters_stay_out() -> None:
    found = plan(
        "- [ ] one \x1b[2J\u202etwo\n  > **Blocked:** no\n  > **Attempt 1:** x\n"
        "  > **Research:**\n  >   - Files: x\n  body \x07 text\n  > **Gate:** `a \x1b[1mb`"
    )
    assert planner.added("", found).text == "- [ ] one two\n  body  text\n  > **Gate:** `a b`\n"


def test_an_improvement_is_one_experiment_with_a_gate() -> None:
    good = "- [ ] Make it fast\n  > **Gate:** `./bench 2`"
    assert plan(good, mode=Mode.IMPROVE).titles == ("Experiment: Make it fast",)
    for said in ("experiment: make it fast", "**Experiment:** make it fast"):
        named = good.replace("Make it fast", said)
        assert plan(named, mode=Mode.IMPROVE).titles == (said,)
    waiting = f"{good}\n  > **After:** old"
    for other in ("- [ ] Make it fast", waiting, f"{good}\n- [ ] more"):
        with pytest.raises(UsageError, match="one improvement at a time is asked for, with a gate"):
            plan(other, "- [ ] old", mode=Mode.IMPROVE)


# -------------------------------------------------------------------- the goal


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("", "> **Goal:** g\n\n"),
        ("# T\n", "# T\n\n> **Goal:** g\n"),
        ("# T\n\nprose\n", "# T\n\n> **Goal:** g\n\nprose\n"),
        ("- [ ] a\n", "> **Goal:** g\n\n- [ ] a\n"),
        ("# T\r\n\r\n- [ ] a\r\n", "# T\r\n\r\n> **Goal:** g\r\n\r\n- [ ] a\r\n"),
        ("\ufeff- [ ] a\n", "\ufeff> **Goal:** g\n\n- [ ] a\n"),
        ("\ufeff# T\n\n- [ ] a\n", "\ufeff# T\n\n> **Goal:** g\n\n- [ ] a\n"),
        ("> **Goal:** f\n> more\n\n- [ ] a", "> **Goal:** g\n\n> **Goal:** f\n> more\n\n- [ ] a"),
    ],
)
def test_a_goal_stands_above_the_tasks(text: str, new: str) -> None:
    assert planner.with_goal(text, "g") == new
    assert planner.with_goal(new, "g") == new, "once"
    assert briefs.goals(new) == ["g", *briefs.goals(text)]
    assert [t.text for t in parse(new).tasks] == [t.text for t in parse(text).tasks]
    assert parse(new).diagnostics == ()
    assert parse(planner.with_goal(text, "g\nGate: make check")).diagnostics == ()
