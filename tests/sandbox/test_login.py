"""An agent's login in its sandbox, as files on the disk."""

import json
import os
from pathlib import Path

import pytest

from kern.model import Needs
from kern.sandbox import login


@pytest.fixture
def place(tmp_path: Path) -> tuple[Needs, Path, Path]:
    home, own = tmp_path / "home", tmp_path / "own" / "workers"
    (home / ".claude").mkdir(parents=True, exist_ok=True)
    own.mkdir(parents=True)
    (home / ".claude/cred.json").write_text(token("1"))
    (home / ".claude.json").write_text('{"primaryApiKey": "k", "history": ["secret"]}')
    needs = Needs(
        (f"{home}/.claude/cred.json",), excerpts={f"{home}/.claude.json": ("primaryApiKey",)}
    )
    return needs, home, own


def token(text: str, **more: str) -> str:
    return json.dumps({"oauth": {"accessToken": text, **more}})


def test_it_is_laid_and_what_was_renewed_comes_back(place: tuple[Needs, Path, Path]) -> None:
    needs, home, own = place
    login.lay(needs, home, own)
    mount, link = login.mounts(needs, home, own)
    assert link.target == home / ".claude.json"
    assert mount.target == home / ".claude" and mount.source
    copy = mount.source / "cred.json"
    assert json.loads(copy.read_text()) == json.loads(token("1"))
    assert json.loads((own / ".claude.json").read_text()) == {"primaryApiKey": "k"}
    copy.unlink()
    copy.write_text(token("2", helper="evil"))  # renamed over, as some do
    login.lay(needs, home, own)
    assert json.loads((home / ".claude/cred.json").read_text()) == {"oauth": {"accessToken": "2"}}
    assert "helper" not in copy.read_text()


def test_what_the_persons_own_session_renewed_counts(place: tuple[Needs, Path, Path]) -> None:
    needs, home, own = place
    login.lay(needs, home, own)
    copy = login.mounts(needs, home, own)[0].source
    assert copy
    (copy / "cred.json").write_text(token("2"))
    (home / ".claude/cred.json").write_text(token("3"))
    login.lay(needs, home, own)
    assert "3" in (home / ".claude/cred.json").read_text()
    assert "3" in (copy / "cred.json").read_text()


@pytest.mark.parametrize("left", ["link", "pipe", "folder", "nonsense", "endless", "nothing"])
def test_what_an_agent_left_in_its_place_comes_back_as_nothing(
    place: tuple[Needs, Path, Path], left: str
) -> None:
    needs, home, own = place
    (home / ".ssh").write_text(token("stolen"))
    login.lay(needs, home, own)
    source = login.mounts(needs, home, own)[0].source
    assert source
    copy = source / "cred.json"
    copy.unlink()
    if left == "link":
        copy.symlink_to(home / ".ssh")
    elif left == "pipe":
        os.mkfifo(copy)
    elif left == "folder":
        (copy / "x").mkdir(parents=True)
    elif left == "nonsense":
        copy.write_text("[[[")
    elif left == "endless":
        copy.touch()
        os.truncate(copy, 1 << 40)
    login.lay(needs, home, own)
    assert (home / ".claude/cred.json").read_text() == token("1")
    assert (home / ".ssh").read_text() == token("stolen")
    assert copy.read_text() == token("1") and not copy.is_symlink()


def test_a_login_that_is_a_link_stays_one(place: tuple[Needs, Path, Path]) -> None:
    needs, home, own = place
    (home / ".claude/cred.json").rename(home / "dotfile")
    (home / ".claude/cred.json").symlink_to(home / "dotfile")
    login.lay(needs, home, own)
    source = login.mounts(needs, home, own)[0].source
    assert source
    (source / "cred.json").write_text(token("2"))
    login.lay(needs, home, own)
    assert (home / ".claude/cred.json").is_symlink() and "2" in (home / "dotfile").read_text()
