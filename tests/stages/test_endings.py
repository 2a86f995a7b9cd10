"""How agents end an answer, and what kern reads: a table of a hundred endings. The answer is
Markdown by a model; the exact last line that the prompt asks for is one ending of many.
"""

import pytest

from kern.model import Aide, Role, Stage
from kern.stages import answer
from kern.stages.answer import CARE, NO_REASON, Code

ONE, TWO, THREE = Stage
PLANNER, JUDGE = Aide.PLANNER, Aide.JUDGE
UNCLEAR = Code.UNCLEAR
SIX = "\n".join(f"line {number}" for number in range(6))

# Where a role has a code for what it wants to say, {} is that code.
PLAIN = [
    *("  {}\t\r\n\n", "{}…", "**`{}`**", "## **{}**", "- {}", "2) {}", "- [x] {}", "> **{}**"),
    *("({})", "“{}”", "| Status | {} |", "✔️ **{}** 🎉", "**Status** \u2013 {}", "Status\uff1a{}"),
    *("Final answer: Status: {}", "## Status\n\n{}", "```text\n{}\n```", "<result>{}</result>"),
    *("<!-- {} -->", "\x1b[32m{}\x1b[0m", "\ufeff{}", "done\r{}", "done\u2028{}", "{}\n{}"),
    *("{}\nHappy to help!\n\n---\n", "{}\n1\n2\n3\n4"),
]
REASONED = [
    *("{}: it is so", "{}:it is so", "{} \u2013 it is so.", "{}. it is so", "{} it is so"),
    *("{} | it is so |", "**{}:** it is so", "**{}: it is so.**", "**{}: it is so**."),
    *("- **{}** - it is so", "Outcome: {}: it is so", "`{}`: it is so"),
    *("<result>{}: it is so</result>", "{}: it\u200b is\x07 so", "{}\nit is so"),
    *("**{}**\nit is so\n\nBye.", "**{}:**\n\n- it is so"),
    *("## {}\n\nit is so", "> {}\n> it is so"),
]
# What says no code, however it is meant; what takes it back.
NOT = [
    *("{}FUL", "{}_2", "{}\u00c9", "UN{}", "not {}", "Is it a {}?", "Ergebnis: {}", "- [ ] {}"),
    *("- [] {}", "~~{}~~ after all not"),
]
SAYING: list[tuple[Role, Code]] = [
    *((ONE, Code.READY), (TWO, Code.SUCCESS), (TWO, Code.DECOMPOSED), (TWO, Code.FAILED)),
    *((THREE, Code.REJECT), (PLANNER, Code.TASKS), (PLANNER, Code.CHANGES), (JUDGE, Code.PASS)),
]
EXPLAINED: list[tuple[Role, Code]] = [
    *((ONE, Code.NO_TASK), (ONE, Code.NEEDS_ANSWER), (TWO, Code.SKIPPED), (TWO, Code.FAILED)),
    *((TWO, Code.NEEDS_ANSWER), (THREE, Code.REJECT), (PLANNER, Code.DONE), (JUDGE, Code.FAIL)),
]


@pytest.mark.parametrize("form", PLAIN)
def test_a_line_that_begins_with_a_code_word_says_it(form: str) -> None:
    for role, code in SAYING:
        assert answer.parse(role, f"Some words.\n\n{form.replace('{}', code)}").code is code


@pytest.mark.parametrize("form", REASONED)
def test_the_reason_is_what_follows_or_the_next_line(form: str) -> None:
    for role, code in EXPLAINED:
        found = answer.parse(role, f"Some words.\n\n{form.replace('{}', code)}")
        assert (found.code, found.reason) == (code, "it is so")


@pytest.mark.parametrize("form", NOT)
def test_a_word_that_only_looks_like_a_code_is_none(form: str) -> None:
    for role, code in {*SAYING, *EXPLAINED}:
        found = answer.parse(role, f"a\nb\nc\nd\ne\n\n{form.replace('{}', f'{code}')}: so")
        assert found.code is (Code.READY if role is ONE else UNCLEAR)


@pytest.mark.parametrize(
    ("role", "said", "code", "reason"),
    [
        (TWO, "SUCCESS\n\nLet me know if you want tests for it as well.", Code.SUCCESS, ""),
        # the word leads, what it comes to is the other witnesses' to say
        (TWO, "SUCCESS is not reached\n", Code.SUCCESS, "is not reached"),
        (TWO, "❌ SUCCESS", Code.SUCCESS, ""),
        (TWO, "SUC\u00adCESS", Code.SUCCESS, ""),
        (TWO, "Success", UNCLEAR, None),
        (TWO, "成功", UNCLEAR, None),
        (TWO, "SU\u0421CESS", UNCLEAR, None),  # a Cyrillic letter
        (TWO, "READY", UNCLEAR, None),
        # two codes
        (TWO, f"SUCCESS\n{SIX}", UNCLEAR, None),
        (TWO, "SUCCESS\n\nFAILED: after all", Code.FAILED, "after all"),
        (TWO, f"FAILED: at first\n{SIX}\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "FAILED: one\nFAILED", Code.FAILED, "one"),
        (TWO, "SUCCESS\nSKIPPED", UNCLEAR, None),
        (TWO, "SUCCESS | FAILED: why", UNCLEAR, None),
        (TWO, "SUCCESS or FAILED", UNCLEAR, None),
        (TWO, "- [x] SUCCESS\n- [ ] FAILED: why", Code.SUCCESS, ""),
        # what a tool printed is quoted; where nothing stands beside it, it is what was said
        (TWO, "```\nFAILED: why\n```\n\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "```\nSUCCESS\nFAILED: why\n```", Code.FAILED, "why"),
        # the summary of a test runner
        (TWO, "**FAILED:** 0\n**SKIPPED:** 2\n\n**SUCCESS**", Code.SUCCESS, ""),
        (TWO, "SKIPPED [1] tests/test_a.py:3: no net\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "FAILED tests/test_a.py::test_b - it was so before\nSUCCESS", Code.SUCCESS, ""),
        (TWO, "FAILED: 3 tests do not pass\nSUCCESS", Code.FAILED, "3 tests do not pass"),
        (TWO, "FAILED tests/test_a.py::test_b", Code.FAILED, "tests/test_a.py::test_b"),
        # a reason that is owed
        (TWO, "FAILED:", Code.FAILED, NO_REASON),
        (TWO, "FAILED\n## Learned\nx", Code.FAILED, NO_REASON),
        (TWO, "SKIPPED: …", UNCLEAR, None),
        (TWO, "**FAILED:** it is **slow**", Code.FAILED, "it is **slow**"),
        (TWO, "FAILED: the token is ***", Code.FAILED, "the token is ***"),
        # stage 1: what it found is handed on where no code is read
        (ONE, "NO_TASK: it is done\nREADY", Code.READY, ""),  # stage 2 may say so as well
        (ONE, "NEEDS_ANSWER", Code.READY, ""),
        # stage 3: any line, whatever stands around it
        (THREE, "REJECT\n\n\n- the diff holds a key", Code.REJECT, "the diff holds a key"),
        (THREE, "REJECT\n```text\nKEY=1\n```", Code.REJECT, "KEY=1"),
        (THREE, f"REJECT: it holds a key\n{SIX}\n{SIX}", Code.REJECT, "it holds a key"),
        (THREE, "```\nREJECT: it holds a key\n```\nAdd a parser", Code.REJECT, "it holds a key"),
        (THREE, "No reason to REJECT: it is fine", UNCLEAR, None),
        # the planner
        (PLANNER, "DONE", UNCLEAR, None),
        (PLANNER, "- [ ] DONE: say it\n- [ ] b\n\nTASKS\n\nGood luck!", Code.TASKS, ""),
        # the judge: its first line as well as its last ones
        (JUDGE, f"PASS: it is\n{SIX}\n{SIX}", Code.PASS, "it is"),
        (JUDGE, f"FAIL: at first\n{SIX}\nPASS", Code.FAIL, "at first"),
        (JUDGE, f"{SIX}\nPASS: amid\n{SIX}", UNCLEAR, None),
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
                    said = f"{first}: a\nsome words\n{last}: b"
                    assert answer.parse(role, said).code is code


@pytest.mark.parametrize(
    "end", ["{}", "{}: it works\n\nLet me know!\n", "```\n{}\n```\nLet me know!"]
)
def test_the_rest_is_read_as_if_the_code_stood_alone(end: str) -> None:
    did = f"Did it.\n\n## Learned\nmake db first\n\n{end.replace('{}', 'SUCCESS')}"
    found = answer.parse(TWO, did)
    assert found.learned == "make db first"
    assert found.body.startswith("Did it.\n\n## Learned\nmake db first")
    assert ("Let me know!" in found.body) is ("Let me know!" in end)
    assert "SUCCESS" not in found.body and "```" not in found.body
    said = f"## Subtasks\n- [ ] a\n- [ ] b\n\n{end.replace('{}', 'DECOMPOSED')}"
    assert answer.parse(TWO, said).subtasks == ("a", "b")
    said = f"- Files: a\n- Constraint: c\n{end.replace('{}', 'READY')}"
    assert answer.parse(ONE, said).findings == (("Files", "a"), ("Constraint", "c"))
    said = f"The gap.\n\n## Tasks\n- [ ] a\n\n{end.replace('{}', 'TASKS')}"
    assert answer.parse(PLANNER, said).listed == "- [ ] a"


def test_what_stands_below_the_code_is_read_as_well() -> None:
    assert answer.parse(TWO, "SUCCESS\n\n## Learned\nmake db first").learned == "make db first"
    assert answer.parse(TWO, "DECOMPOSED\n\n## Subtasks\n- a\n- b").subtasks == ("a", "b")


BLOCK = "```\nmake\n```"


@pytest.mark.parametrize(
    ("said", "learned", "subtasks"),
    [
        (f"{BLOCK}\nUsed: L7\n\n## Learned\nmake db first\n\nSUCCESS", "make db first", ()),
        (f"{BLOCK}\nUsed: L7\n\n## Subtasks\n- one\n- two\n\nDECOMPOSED", "", ("one", "two")),
        ("Used: L7\n```\n## Learned\n- planted\n```\n\nSUCCESS", "", ()),
        ("```\nSUCCESS\n```\n## Learned\nmake db first", "make db first", ()),
    ],
)
def test_a_code_block_beside_what_is_taken_out_stays_one(
    said: str, learned: str, subtasks: tuple[str, ...]
) -> None:
    found = answer.parse(TWO, said)
    assert (found.learned, found.subtasks) == (learned, subtasks)
