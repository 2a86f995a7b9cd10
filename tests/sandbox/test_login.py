"""An agent's login in its sandbox, as files on the disk: tokens alone come back, and no word of a
command.
"""

import json
from pathlib import Path

import pytest

from kern.model import Needs
from kern.sandbox import login
from kern.sandbox.login import renewed
from kern.sandbox.wall import Access


@pytest.fixture
def place(tmp_path: Path) -> tuple[Needs, Path, Path]:
    home, own = tmp_path / "home", tmp_path / "own" / "workers"
    (home / ".claude").mkdir(parents=True, exist_ok=True)
    own.mkdir(parents=True)
    (home / ".claude/cred.json").write_text(token("1"))
    (home / ".claude.json").write_text('{"primaryApiKey": "k", "history": ["secret"]}')
    needs = Needs(
        (f"{home}/.claude/cred.json",),
        excerpts={f"{home}/.claude.json": ("primaryApiKey", "other")},
    )
    return needs, home, own


def token(text: str, **more: str) -> str:
    return json.dumps({"oauth": {"accessToken": text, **more}})


def lay(needs: Needs, home: Path, own: Path) -> Path:
    """The file that a child has in the place of its login."""
    (mount,) = (one for one in login.lay(needs, home, own) if one.access is Access.WRITE)
    assert mount.target == home / ".claude" and mount.source
    return mount.source / "cred.json"


def test_it_is_laid_and_what_was_renewed_comes_back(place: tuple[Needs, Path, Path]) -> None:
    _, home, own = place
    copy = lay(*place)
    assert json.loads(copy.read_text()) == json.loads(token("1"))
    assert home / ".claude.json" in {one.target for one in login.lay(*place)}
    assert json.loads((own / ".claude.json").read_text()) == {"primaryApiKey": "k"}
    copy.unlink()
    copy.write_text(token("2", helper="evil"))  # renamed over, as some do
    (home / ".claude.json").write_text("[" * 100_000)
    lay(*place)
    assert json.loads((home / ".claude/cred.json").read_text()) == {"oauth": {"accessToken": "2"}}
    assert "helper" not in copy.read_text()
    assert (own / ".claude.json").read_text() == "{}"


def test_what_the_persons_own_session_renewed_counts_and_a_link_stays_one(
    place: tuple[Needs, Path, Path],
) -> None:
    cred = place[1] / ".claude/cred.json"
    copy = lay(*place)
    copy.write_text(token("2"))
    cred.rename(cred.with_name("dotfile"))
    cred.symlink_to("dotfile")
    cred.write_text(token("3"))
    lay(*place)
    assert "3" in cred.read_text() and "3" in copy.read_text()
    copy.write_text(token("4"))
    lay(*place)
    assert cred.is_symlink() and "4" in cred.read_text()


OLD = {"claudeAiOauth": {"accessToken": "a", "refreshToken": "r", "expiresAt": 1, "plan": "max"}}
NEW = {"accessToken": "b", "refreshToken": "s", "expiresAt": 2}
OAUTH = {"access": "b", "refresh": "s", "expires": 2}


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [
        (OLD, {"claudeAiOauth": NEW}, {"claudeAiOauth": {**NEW, "plan": "max"}}),
        # given up: the person's own login stays
        (OLD, {"claudeAiOauth": {"accessToken": "", "refreshToken": "", "expiresAt": 0}}, OLD),
        (OLD, {"gateway": {"url": "http://evil"}}, OLD),
        (OLD, ["none"], OLD),
        (OLD, {"claudeAiOauth": {"accessToken": {"a": "b"}, "plan": "free"}}, OLD),
        # a key that would be run as a command, and a server that would be asked for settings
        (
            {"x": {"type": "api_key", "key": "k"}},
            {
                "x": {"type": "api_key", "key": "!sh evil"},
                "https://evil": {"type": "wellknown", "key": "k", "token": "t"},
            },
            {"x": {"type": "api_key", "key": "k"}},
        ),
        (
            {"x": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}},
            {"x": {"type": "api_key", **OAUTH}},
            {"x": {"type": "oauth", **OAUTH}},
        ),
    ],
)
def test_of_a_renewed_login_the_tokens_come_back(
    before: object, after: object, back: object
) -> None:
    assert json.loads(renewed(json.dumps(before), json.dumps(after))) == back
