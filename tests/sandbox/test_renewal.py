"""What of a login goes into a sandbox and comes back: tokens alone, and no word of a command."""

import json

import pytest

from kern.sandbox.renewal import excerpt, renewed

OLD = {"claudeAiOauth": {"accessToken": "a", "refreshToken": "r", "expiresAt": 1, "plan": "max"}}


def test_an_excerpt_has_the_keys_that_are_asked_for() -> None:
    text = json.dumps({"primaryApiKey": "k", "projects": {"/p": {"history": ["x"]}}})
    assert json.loads(excerpt(text, ("primaryApiKey", "other"))) == {"primaryApiKey": "k"}
    for broken in ("", "{", "[1]", "null", "[" * 100_000):
        assert excerpt(broken, ("primaryApiKey",)) == "{}"


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [
        (  # renewed
            OLD,
            {"claudeAiOauth": {"accessToken": "b", "refreshToken": "s", "expiresAt": 2}},
            {
                "claudeAiOauth": {
                    **{"accessToken": "b", "refreshToken": "s"},
                    **{"expiresAt": 2, "plan": "max"},
                }
            },
        ),
        (  # given up: the person's own login stays
            OLD,
            {"claudeAiOauth": {"accessToken": "", "refreshToken": "", "expiresAt": 0}},
            None,
        ),
        (OLD, {"gateway": {"url": "http://evil"}}, None),
        (OLD, OLD, None),
        (OLD, {"claudeAiOauth": {"accessToken": {"a": "b"}, "plan": "free"}}, None),
        (  # a key that would be run as a command, and a server that would be asked for settings
            {"x": {"type": "api_key", "key": "k"}},
            {
                "x": {"type": "api_key", "key": "!sh evil"},
                "https://evil": {"type": "wellknown", "key": "k", "token": "t"},
            },
            None,
        ),
        (
            {"x": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}},
            {"x": {"type": "api_key", "access": "b", "refresh": "s", "expires": 2}},
            {"x": {"type": "oauth", "access": "b", "refresh": "s", "expires": 2}},
        ),
    ],
)
def test_of_a_renewed_login_the_tokens_come_back(
    before: object, after: object, back: object
) -> None:
    found = renewed(json.dumps(before), json.dumps(after))
    assert (found and json.loads(found)) == back


@pytest.mark.parametrize("broken", ["", "{", "[]", "1", "[" * 100_000])
def test_what_is_no_login_changes_nothing(broken: str) -> None:
    assert renewed(json.dumps(OLD), broken) is None
    assert renewed(broken, json.dumps(OLD)) is None
