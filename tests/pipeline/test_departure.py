"""What would end a night is told before the first paid stage, while a person is there."""

import json
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, executable
from tests.kit.terminal import on_terminal

SIGNED = (
    'cat > /dev/null; echo x >> "{seen}"; printf "\\n[GNUPG:] SIG_CREATED \\n" >&2; echo SIGNATURE'
)


def signs(repo: Path, git: Git, script: str) -> None:
    program = repo.parent / "signer"
    executable(program, f"#!/bin/sh\n{script}\n")
    git("config", "commit.gpgSign", "true")
    git("config", "gpg.program", str(program))


@pytest.mark.parametrize(
    ("script", "told"),
    [("echo no key >&2; exit 1", "gpg failed to sign"), ("sleep 600", "does it ask?")],
)
def test_a_program_that_cannot_sign_or_waits_is_told_before_the_first_paid_stage(
    repo: Path, git: Git, fake: Fake, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    monkeypatch.setenv("KERN_TEST_WAITS", "0.02")
    signs(repo, git, script)
    code, said = on_terminal("1", "0", cwd=repo)
    assert code == 1
    assert told in said and "--no-sign" in said
    assert fake.calls == []


def test_unsigned_commits_are_named_with_what_signs_them(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    seen = repo.parent / "seen"
    signs(repo, git, SIGNED.format(seen=seen))
    ran = kern("1", "0", "--no-sign")
    assert ran.code == 0, ran.said
    assert not seen.exists()
    told = ran.out.partition("Look at this:")[2].partition("1 commit of this run not signed: ")[2]
    assert told.startswith("git rebase --force-rebase -S ")
    git(*told.partition("git ")[2].partition(" signs")[0].split())
    assert seen.exists() and "gpgsig" in git("cat-file", "commit", "HEAD")


def test_on_a_terminal_you_may_leave_once_the_first_stage_has_answered(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    notice = repo.parent / "notice"
    own = repo.parent / "home" / ".config" / "kern" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    before = own.read_text() if own.exists() else ""
    own.write_text(f"notify = \"cat >> '{notice}'\"\n{before}")
    signs(repo, git, SIGNED.format(seen=repo.parent / "seen"))
    code, said = on_terminal("1", "0", cwd=repo)
    assert code == 0, said
    assert said.count("the first stage has answered: you may leave") == 1
    assert (repo.parent / "seen").read_text() == "x\nx\n", "once to try, once for the commit"
    events = [json.loads(line)["event"] for line in notice.read_text().splitlines()]
    assert events == ["run-started", "run-ended"]
