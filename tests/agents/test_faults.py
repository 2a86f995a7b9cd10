"""What an API says, by kern's classes: the words are those that vendors use."""

import json

import pytest

from kern.agents import command, faults, opencode, protocol
from kern.agents.protocol import Answer, AtLimit, Ended, Failed, TryAgain, Unusable
from kern.model import Stage

HOUR = 3600
CLI = command.agent("cli", ["cli"])


@pytest.mark.parametrize(
    ("said", "status", "grade"),
    [
        ("Your credit balance is too low", 400, Unusable),
        ("unexpected field", 400, Unusable),
        ("You've hit your usage limit", None, AtLimit),
        ("slow down: try again in 5 s", 429, TryAgain),
        ("slow down: try again in 3 h", 429, AtLimit),
        ("to use Codex with your plan, upgrade", None, Unusable),
        ("Quota exceeded for requests per minute", 429, TryAgain),
        ("", 503, TryAgain),
        ("Request too large", 413, Failed),
    ],
)
def test_each_answer_has_its_class(said: str, status: int | None, grade: type) -> None:
    found = faults.of_api(CLI, said, status=status)
    assert type(found) is grade and (said or f"the API answers {status}") in found.message


@pytest.mark.parametrize(
    ("said", "status", "away"),
    [
        ("Overloaded", 529, True),
        ("500 boom", None, True),
        ("", 503, True),
        ("Temporary failure in name resolution", None, True),
        ("Request timed out", None, True),
        ("something new", None, False),
    ],
)
def test_an_api_that_is_away_is_told_from_what_may_only_pass(
    said: str, status: int | None, away: bool
) -> None:
    found = faults.of_api(CLI, said, status=status)
    assert isinstance(found, TryAgain) and found.away == away
    if said:
        told = faults.unanswered(CLI, Ended(1, f"Error: {said}\n"))
        assert type(told) is TryAgain
        assert told.message.startswith("cli exited 1 without an answer: ") is not away


@pytest.mark.parametrize(
    "said",
    [
        "API Error: Unable to connect to API: SSL certificate verification failed",
        "self-signed certificate in certificate chain",
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
    ],
)
def test_a_certificate_that_nobody_vouches_for_is_a_persons_to_settle(said: str) -> None:
    assert type(faults.of_api(CLI, said)) is Unusable


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Try again in ~47 min.", 47 * 60),
        ("Your quota will reset after 18h32m10s.", 18 * HOUR + 32 * 60 + 10),
        ("Please retry in 3.5s", 4),
        ("try again in 2 days and 3 hours", 51 * HOUR),
    ],
)
def test_the_time_of_a_reset_is_read(said: str, seconds: int) -> None:
    assert round(faults.wait(said) + 0.1) == seconds
    assert faults.wait("come back later") == 0


def test_an_end_without_an_answer_says_what_stderr_says() -> None:
    found = faults.unanswered(CLI, Ended(1, "Warning: x\nError: Invalid API key\n"))
    assert (type(found), found.hint) == (Unusable, CLI.login)
    found = faults.unanswered(CLI, Ended(3, ""))
    assert (type(found), found.message) == (TryAgain, "cli exited 3 without an answer: no word")
    assert type(faults.unanswered(CLI, Ended(-9))) is TryAgain
    assert type(faults.unanswered(CLI, Ended(-9, overflow=100_000_000))) is Failed


def test_opencode_keeps_a_persons_settings_and_does_not_ask_a_full_context_again() -> None:
    own = {"OPENCODE_CONFIG_CONTENT": '{"share": "auto", "theme": "x"}'}
    env = opencode.start(protocol.Call("o", Stage.IMPLEMENT, "", given=own)).env
    found = json.loads(env["OPENCODE_CONFIG_CONTENT"])
    assert (found["theme"], found["share"]) == ("x", "disabled")
    error = {"name": "ContextOverflowError", "data": {"message": "it is too much"}}
    with pytest.raises(Failed, match="context is full: ContextOverflowError: it is too much"):
        opencode.read([{"type": "error", "error": error}], Ended(1))


def test_a_last_message_that_is_no_end_has_its_class() -> None:
    found = Answer("half")
    for reason, grade in (("length", Failed), ("content-filter", Failed), ("tool-calls", TryAgain)):
        error = faults.unfinished(reason, found)
        assert (type(error), error.answer) == (grade, found)
