"""What an API says, by kern's classes: the words are those that vendors use."""

import pytest

from kern.agents import faults
from kern.agents.protocol import Ended, Grade

HOUR = 3600


@pytest.mark.parametrize(
    ("said", "status", "grade"),
    [
        ("Incorrect API key provided: dummy", 401, Grade.PERMANENT),
        ("API key not valid. Please pass a valid API key.", 400, Grade.PERMANENT),
        ("Your credit balance is too low", 400, Grade.PERMANENT),
        ("Insufficient credits", 402, Grade.PERMANENT),
        ("models/x is not found for API version v1beta", 404, Grade.PERMANENT),
        ("Model not found: fake/x.", None, Grade.PERMANENT),
        ("unexpected field", 400, Grade.PERMANENT),
        ("You exceeded your current quota", 429, Grade.LIMIT),
        ("You've hit your usage limit", None, Grade.LIMIT),
        ("Quota exceeded for requests per minute", 429, Grade.TRANSIENT),
        ("Rate limit reached", 429, Grade.TRANSIENT),
        ("Overloaded", 529, Grade.TRANSIENT),
        ("500 boom", None, Grade.TRANSIENT),
        ("", 503, Grade.TRANSIENT),
        ("Connection error.", None, Grade.TRANSIENT),
        ("prompt is too long: 300 tokens > 200", 400, Grade.FAILED),
        ("The input token count exceeds the maximum number of tokens", 400, Grade.FAILED),
        ("Request too large", 413, Grade.FAILED),
    ],
)
def test_each_answer_has_its_class(said: str, status: int | None, grade: Grade) -> None:
    found = faults.of_api("cli", said, status=status, login="log in")
    assert found.grade is grade
    assert found.message


@pytest.mark.parametrize(
    ("said", "status", "away"),
    [
        ("Overloaded", 529, True),
        ("500 boom", None, True),
        ("", 503, True),
        ("Rate limit reached", 429, True),
        ("Connection error.", None, True),
        ("API Error: Unable to connect to API (ConnectionRefused)", None, True),
        ("API Error: The socket connection was closed unexpectedly", None, True),
        ("connect ECONNREFUSED 127.0.0.1:1", None, True),
        ("read ECONNRESET", None, True),
        ("getaddrinfo ENOTFOUND api.example", None, True),
        ("Temporary failure in name resolution", None, True),
        ("Request timed out", None, True),
        ("[API Error: fetch failed]", None, True),
        ("terminated", None, True),
        ("something new", None, False),
        ("Your limit was changed", None, False),
    ],
)
def test_an_api_that_is_away_is_told_from_what_may_only_pass(
    said: str, status: int | None, away: bool
) -> None:
    found = faults.of_api("cli", said, status=status, login="log in")
    assert (found.grade, found.away) == (Grade.TRANSIENT, away)
    if said:
        told = faults.unanswered("cli", Ended(1, f"Error: {said}\n"), login="log in")
        assert told.grade is Grade.TRANSIENT
        assert told.message.startswith("cli exited 1 without an answer: ")


@pytest.mark.parametrize(
    "said",
    [
        "API Error: Unable to connect to API: SSL certificate verification failed",
        "self-signed certificate in certificate chain",
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
    ],
)
def test_a_certificate_that_nobody_vouches_for_is_a_persons_to_settle(said: str) -> None:
    found = faults.of_api("cli", said, login="log in")
    assert (found.grade, found.away) == (Grade.PERMANENT, False)


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
    assert faults.resets(said, 1000) == 1000 + seconds
    assert faults.resets(said, None) is None
    assert faults.resets("come back later", 1000) is None


def test_a_wait_of_seconds_is_no_limit_and_one_of_hours_is() -> None:
    for after, grade in ((5, Grade.TRANSIENT), (3 * HOUR, Grade.LIMIT)):
        found = faults.of_api("cli", "slow down", status=429, login="", resets_at=after, at=0.5)
        assert found.grade is grade


def test_an_end_without_an_answer_says_what_stderr_says() -> None:
    found = faults.unanswered(
        "cli", Ended(1, "Warning: x\nError: Invalid API key\n"), login="log in"
    )
    assert (found.grade, found.hint) == (Grade.PERMANENT, "log in")
    found = faults.unanswered("cli", Ended(3, ""), login="")
    assert (found.grade, found.message) == (Grade.TRANSIENT, "cli exited 3 without an answer")
    assert faults.unanswered("cli", Ended(-9), login="").grade is Grade.TRANSIENT
    assert faults.unanswered("cli", Ended(-9, overflow=100_000_000), login="").grade is Grade.FAILED
