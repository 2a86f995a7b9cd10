"""How agents end an answer, and what kern reads: one row for each ending. The answer is Markdown by
a model; the exact last line that the prompt asks for is one ending of many.
"""

import pytest

from kern.model import Aide, Decision, Role, Saved, Stage
from kern.stages import answer
from kern.stages.answer import CARE, NO_REASON, Code

UNCLEAR = Code.UNCLEAR
SIX = "\n".join(f"line {number}" for number in range(6))

# Where a role has a code for what it wants to say, {} is that code.
PLAIN = [
    "{}",
    "  {}  ",
    "{}\r\n\r\n",
    "{}\t\n \n",
    "{}.",
    "{}!",
    "{}?",
    "{}…",
    "{},",
    "**{}**",
    "__{}__",
    "***{}***",
    "`{}`",
    "**`{}`**",
    "# {}",
    "## **{}**",
    "###### {} ######",
    "- {}",
    "* {}",
    "+ **{}**",
    "1. {}",
    "2) {}",
    "- [x] {}",
    "> {}",
    "> **{}**",
    "({})",
    "[{}]",
    '"{}"',
    "“{}”",
    "| {} |",
    "| Status | {} |",
    "✅ {}",
    "✔️ **{}** 🎉",
    "{} ✅",
    "\u2705 Status: {}",
    "Status: {}",
    "status: {}",
    "**Status:** {}",
    "**Status**: `{}`",
    "**Status** \u2013 {}",
    "Status: ✅ {}",
    "Verdict: {}",
    "Result: {}",
    "Outcome: {}",
    "Final answer: {}",
    "**Final Verdict:** **{}**",
    "Final answer: Status: {}",
    "Status\uff1a{}",
    "## Status: {}",
    "## Status\n\n{}",
    "```\n{}\n```",
    "```text\n{}\n```",
    "```{}```",
    "~~~\n{}",
    "    {}",
    "<result>{}</result>",
    "<b>{}</b>",
    "<!-- {} -->",
    "\x1b[32m{}\x1b[0m",
    "\ufeff{}",
    "\u200b{}\u200b",
    "done\r{}",
    "done\u2028{}",
    "{}\n\nLet me know if you need anything else.",
    "{}\nHappy to help!\n\n---\n",
    "{}\n1\n2\n3\n4",
    "{}\n{}",
]
WITH_REASON = [
    "{}: it is so",
    "{}:it is so",
    "{} : it is so.",
    "{} - it is so",
    "{} \u2013 it is so",
    "{} — it is so",
    "{}. it is so",
    "{} it is so",
    "{} | it is so |",
    "**{}:** it is so",
    "**{}**: it is so",
    "**{}: it is so.**",
    "**{}: it is so**.",
    "`{}: it is so`",
    "`{}`: it is so",
    "- **{}** - it is so",
    "## {}: it is so",
    "Outcome: {}: it is so",
    "<result>{}: it is so</result>",
    "| Status | {}: it is so |",
    "{}: it\u200b is\x07 so",
]
REASON_BELOW = [
    "{}\nit is so",
    "**{}**\nit is so\n\nBye.",
    "{}:\n\nit is so",
    "**{}:**\n\n- it is so",
    "## {}\n\nit is so",
    "> {}\n> it is so",
]
# What says no code, however it is meant.
NOT = [
    "{}FUL",
    "{}_2",
    "{}2",
    "{}\u00c9",
    "UN{}",
    "NOT_{}",
    "not {}",
    "no {}",
    "NOT {}",
    "Could not reach {}",
    "Could not reach: {}",
    "I cannot say {}",
    "Is it a {}?",
    "The status is not {}",
    "Not status: {}",
    "Ergebnis: {}",
]
# What takes a code back, or says it too early; but a REJECT counts wherever it stands.
TAKEN_BACK = ["- [ ] {}", "- [] {}", "~~{}~~", "~~{}~~ after all not", f"{{}}\n{SIX[7:]}"]

ALONE: list[tuple[Role, Code]] = [
    (Stage.RESEARCH, Code.READY),
    (Stage.IMPLEMENT, Code.SUCCESS),
    (Stage.IMPLEMENT, Code.DECOMPOSED),
    (Stage.IMPLEMENT, Code.FAILED),
    (Stage.COMMIT, Code.REJECT),
    (Aide.PLANNER, Code.TASKS),
    (Aide.PLANNER, Code.CHANGES),
    (Aide.JUDGE, Code.PASS),
    (Aide.JUDGE, Code.FAIL),
]
REASONED: list[tuple[Role, Code]] = [
    (Stage.RESEARCH, Code.NO_TASK),
    (Stage.RESEARCH, Code.NEEDS_ANSWER),
    (Stage.IMPLEMENT, Code.SKIPPED),
    (Stage.IMPLEMENT, Code.FAILED),
    (Stage.IMPLEMENT, Code.NEEDS_ANSWER),
    (Stage.COMMIT, Code.REJECT),
    (Aide.PLANNER, Code.DONE),
    (Aide.JUDGE, Code.FAIL),
]


@pytest.mark.parametrize("form", PLAIN)
def test_a_line_that_begins_with_a_code_word_says_it(form: str) -> None:
    for role, code in ALONE:
        assert answer.parse(role, f"Some words.\n\n{form.replace('{}', code)}").code is code


@pytest.mark.parametrize("form", WITH_REASON + REASON_BELOW)
def test_the_reason_is_what_follows_or_the_next_line(form: str) -> None:
    for role, code in REASONED:
        found = answer.parse(role, f"Some words.\n\n{form.replace('{}', code)}")
        assert (found.code, found.reason) == (code, "it is so")


@pytest.mark.parametrize("form", NOT + TAKEN_BACK)
def test_a_word_that_only_looks_like_a_code_is_none(form: str) -> None:
    for role, code in {*ALONE, *REASONED}:
        found = answer.parse(role, f"a\nb\nc\nd\ne\n\n{form.replace('{}', f'{code}')}: so")
        expected = Code.READY if role is Stage.RESEARCH else UNCLEAR
        if role is Stage.COMMIT and form is TAKEN_BACK[-1]:
            expected = Code.REJECT
        assert found.code is expected


TWO, ONE, THREE = Stage.IMPLEMENT, Stage.RESEARCH, Stage.COMMIT
PLANNER, JUDGE = Aide.PLANNER, Aide.JUDGE


@pytest.mark.parametrize(
    ("role", "said", "code", "reason"),
    [
        # stage 2: the reported endings
        (TWO, "SUCCESS: works", Code.SUCCESS, "works"),
        (TWO, "SUCCESS — done", Code.SUCCESS, "done"),
        (TWO, "SUCCESS\n\nLet me know if you want tests for it as well.", Code.SUCCESS, ""),
        # "whatever follows": the word leads, what it comes to is the other witnesses' to say
        (TWO, "SUCCESS was not reached", Code.SUCCESS, "was not reached"),
        (TWO, "SUCCESS is not reached\n", Code.SUCCESS, "is not reached"),
        (TWO, "SUCCESS-ish", Code.SUCCESS, "ish"),
        (TWO, "❌ SUCCESS", Code.SUCCESS, ""),
        (TWO, "SUC\u00adCESS", Code.SUCCESS, ""),
        # nothing that begins with one
        (TWO, "SUCCESSFUL", UNCLEAR, None),
        (TWO, "Success", UNCLEAR, None),
        (TWO, "Everything is a SUCCESS", UNCLEAR, None),
        (TWO, "ERFOLG", UNCLEAR, None),
        (TWO, "ÉXITO: todo listo", UNCLEAR, None),
        (TWO, "成功", UNCLEAR, None),
        (TWO, "SU\u0421CESS", UNCLEAR, None),  # a Cyrillic letter
        (TWO, "\uff33\uff35\uff23\uff23\uff25\uff33\uff33", UNCLEAR, None),  # full-width
        (TWO, "S U C C E S S", UNCLEAR, None),
        (TWO, "PASS", UNCLEAR, None),
        (TWO, "READY", UNCLEAR, None),
        (TWO, "REJECT: no", UNCLEAR, None),
        # two codes
        (TWO, "SUCCESS\n\nFAILED: after all", Code.FAILED, "after all"),
        (TWO, "FAILED: at first\n\nSUCCESS", Code.FAILED, "at first"),
        (TWO, f"FAILED: at first\n{SIX}\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "SUCCESS\nNEEDS_ANSWER: which one?", Code.NEEDS_ANSWER, "which one?"),
        (TWO, "FAILED: no\nNEEDS_ANSWER: which one?", Code.NEEDS_ANSWER, "which one?"),
        (TWO, "SKIPPED: no net\nFAILED: it did not work", Code.FAILED, "it did not work"),
        (TWO, "DECOMPOSED\nSUCCESS", Code.DECOMPOSED, ""),
        (TWO, "FAILED: one\nFAILED: two", Code.FAILED, "two"),
        (TWO, "FAILED: one\nFAILED", Code.FAILED, "one"),
        (TWO, "SUCCESS\nSKIPPED", UNCLEAR, None),
        (TWO, "SUCCESS | FAILED: why", UNCLEAR, None),
        (TWO, "SUCCESS or FAILED", UNCLEAR, None),
        (TWO, "- [x] SUCCESS\n- [ ] FAILED: why", Code.SUCCESS, ""),
        (TWO, "SUCCESS: the FAILED test passes", Code.SUCCESS, "the FAILED test passes"),
        # what a tool printed is quoted; where nothing stands beside it, it is what was said
        (TWO, "```\nFAILED test_a.py::test_b - x\n```\n\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "```\nFAILED test_a.py::test_b\n```", Code.FAILED, "test_a.py::test_b"),
        (TWO, "```\nSUCCESS\nFAILED: why\n```", Code.FAILED, "why"),
        # the summary of a test runner
        (TWO, "- passed: 12\nFAILED: 0\n\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "**FAILED:** 0\n**SKIPPED:** 2\n\n**SUCCESS**", Code.SUCCESS, ""),
        (TWO, "SKIPPED [1] tests/test_a.py:3: no net\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "FAILED tests/test_a.py::test_b - it was so before\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "FAILED: 3 tests do not pass\nSUCCESS", Code.FAILED, "3 tests do not pass"),
        (TWO, "FAILED tests/test_a.py::test_b", Code.FAILED, "tests/test_a.py::test_b"),
        (TWO, "FAILED: 3", Code.FAILED, "3"),
        # a reason that is owed
        (TWO, "FAILED", Code.FAILED, NO_REASON),
        (TWO, "FAILED:", Code.FAILED, NO_REASON),
        (TWO, "FAILED\n\nLet me know.", Code.FAILED, "Let me know."),
        (TWO, "FAILED\n## Learned\nx", Code.FAILED, NO_REASON),
        (TWO, "SKIPPED", UNCLEAR, None),
        (TWO, "SKIPPED: …", UNCLEAR, None),
        (TWO, "SKIPPED\n## Learned\nx", UNCLEAR, None),
        (TWO, "NEEDS_ANSWER", UNCLEAR, None),
        (TWO, "NEEDS_ANSWER: ?", UNCLEAR, None),
        (TWO, "NEEDS_ANSWER\nSQLite or Postgres?", Code.NEEDS_ANSWER, "SQLite or Postgres?"),
        (TWO, "FAILED: see `make`", Code.FAILED, "see `make`"),
        (TWO, "**FAILED:** it is **slow**", Code.FAILED, "it is **slow**"),
        (TWO, "FAILED: wait...", Code.FAILED, "wait..."),
        # stage 1: what it found is handed on where no code is read
        (ONE, "NO_TASK — it is done", Code.NO_TASK, "it is done"),
        (ONE, "READY to go", Code.READY, "to go"),
        (ONE, "READY\nNO_TASK: it is done", Code.READY, ""),  # stage 2 may say so as well
        (ONE, "NO_TASK: it is done\nREADY", Code.READY, ""),
        (ONE, "READY\nNEEDS_ANSWER: which?", Code.NEEDS_ANSWER, "which?"),
        (ONE, "NO_TASK: no\nNEEDS_ANSWER: which?", Code.NEEDS_ANSWER, "which?"),
        (ONE, "NO_TASK", Code.READY, ""),
        (ONE, "NEEDS_ANSWER", Code.READY, ""),
        (ONE, "ready", Code.READY, ""),
        # stage 3: any line, whatever stands around it
        (THREE, "REJECT - the diff holds a key", Code.REJECT, "the diff holds a key"),
        (THREE, "REJECT\nthe diff holds a key", Code.REJECT, "the diff holds a key"),
        (THREE, "REJECT\n\n\n- the diff holds a key", Code.REJECT, "the diff holds a key"),
        (THREE, "REJECT\n```text\nKEY=1\n```", Code.REJECT, "KEY=1"),
        (THREE, "**REJECT**", Code.REJECT, NO_REASON),
        (THREE, "## Verdict: REJECT (a key)", Code.REJECT, "(a key)"),
        (THREE, "Status: ❌ REJECT", Code.REJECT, NO_REASON),
        (THREE, "REJECTED: it holds a key", Code.REJECT, "it holds a key"),
        (THREE, f"REJECT: it holds a key\n{SIX}\n{SIX}", Code.REJECT, "it holds a key"),
        (THREE, "```\nREJECT: it holds a key\n```\nAdd a parser", Code.REJECT, "it holds a key"),
        (THREE, "```REJECT: it holds a key", Code.REJECT, "it holds a key"),
        (THREE, "I looked.\rREJECT: a key", Code.REJECT, "a key"),
        (THREE, "REJECT: one\n\nREJECT", Code.REJECT, "one"),
        (THREE, "I did not REJECT", UNCLEAR, None),
        (THREE, "No reason to REJECT: it is fine", UNCLEAR, None),
        (THREE, "Reject empty names", UNCLEAR, None),  # a commit's subject
        (THREE, "REJECTS: none", UNCLEAR, None),
        (THREE, "Add a parser", UNCLEAR, None),
        # the planner
        (PLANNER, "TASKS: three of them", Code.TASKS, "three of them"),
        (PLANNER, "DONE - nothing is missing", Code.DONE, "nothing is missing"),
        (PLANNER, "DONE", UNCLEAR, None),
        (PLANNER, "Done: nothing is missing", UNCLEAR, None),
        (PLANNER, "DONE: nothing\nTASKS", Code.TASKS, ""),
        (PLANNER, "- [ ] DONE: say it\n- [ ] b\n\nTASKS\n\nGood luck!", Code.TASKS, ""),
        # the judge: its first line as well as its last ones
        (JUDGE, f"PASS: it is\n{SIX}\n{SIX}", Code.PASS, "it is"),
        (JUDGE, f"{SIX}\n\nPASS: it is", Code.PASS, "it is"),
        (JUDGE, f"FAIL: at first\n{SIX}\nPASS", Code.FAIL, "at first"),
        (JUDGE, f"{SIX}\nPASS: amid\n{SIX}", UNCLEAR, None),
        (JUDGE, "PASS\n\nFAIL: a.py:3", Code.FAIL, "a.py:3"),
        (JUDGE, "FAIL\na.py:3 is vague", Code.FAIL, "a.py:3 is vague"),
        (JUDGE, "FAIL", Code.FAIL, NO_REASON),
        (JUDGE, "PASSED: nearly", UNCLEAR, None),
        (JUDGE, "FAILED: nearly", UNCLEAR, None),
        (JUDGE, "It seems fine to me. PASS", UNCLEAR, None),
    ],
)
def test_an_ending_that_has_a_story(role: Role, said: str, code: Code, reason: str | None) -> None:
    found = answer.parse(role, f"Some words.\n\n{said}" if role is not JUDGE else said)
    assert found.code is code
    if reason is not None:
        assert found.reason == reason


def test_of_two_codes_the_more_careful_counts_in_either_order() -> None:
    for role, codes in CARE.items():
        for careful, code in enumerate(codes):
            for other in codes[careful:]:
                for first, last in ((code, other), (other, code)):
                    found = answer.parse(role, f"{first}: a\nsome words\n{last}: b")
                    assert found.code is code
                    assert found.disputed is (code is not other)


def test_an_experiment_that_says_two_things_has_no_result() -> None:
    for said, final in (("FAILED: slower", True), ("FAILED: slower\n\nSUCCESS", False)):
        found = answer.parse(TWO, said)
        assert answer.is_result(found, Decision(Saved.FAILED, "slower")) is final


@pytest.mark.parametrize(
    "end",
    [
        "{}",
        "{}\nLet me know!",
        "{}: it works\n\nLet me know!\n",
        "```\n{}\n```\nLet me know!",
        "**Status:** {}\n\n---\n\nLet me know!",
    ],
)
def test_the_rest_is_read_as_if_the_code_stood_alone(end: str) -> None:
    found = answer.parse(
        TWO, f"Did it.\n\n## Learned\nmake db first\n\n{end.replace('{}', 'SUCCESS')}"
    )
    assert found.learned == "make db first"
    assert found.body.startswith("Did it.\n\n## Learned\nmake db first")
    assert ("Let me know!" in found.body) is ("Let me know!" in end)
    assert "SUCCESS" not in found.body
    assert "```" not in found.body
    said = f"## Subtasks\n- [ ] a\n- [ ] b\n\n{end.replace('{}', 'DECOMPOSED')}"
    assert answer.parse(TWO, said).subtasks == ("a", "b")
    said = f"- Files: a\n- Pattern: b\n- Constraint: c\n{end.replace('{}', 'READY')}"
    assert dict(answer.parse(ONE, said).findings) == {
        "Files": "a",
        "Pattern": "b",
        "Constraint": "c",
    }
    said = f"The gap.\n\n## Tasks\n- [ ] a\n\n{end.replace('{}', 'TASKS')}"
    assert answer.parse(PLANNER, said).listed == "- [ ] a"


def test_what_stands_below_the_code_is_read_as_well() -> None:
    assert answer.parse(TWO, "SUCCESS\n\n## Learned\nmake db first").learned == "make db first"
    assert answer.parse(TWO, "DECOMPOSED\n\n## Subtasks\n- a\n- b").subtasks == ("a", "b")
    found = answer.parse(TWO, "Tried.\n\n## Learned\nx\n\nFAILED:\nit is slow")
    assert (found.learned, found.reason, found.body) == (
        "x",
        "it is slow",
        "Tried.\n\n## Learned\nx",
    )
