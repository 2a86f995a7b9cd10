"""Whoever meets the sandbox reads its name and the setting: on the screen, in `check`, `show`,
`doctor` and the note, and what goes back to the agent.
"""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kern.person import FILE
from tests.conftest import Fake, Git, Kern, commit_all, executable, open_to_tests
from tests.sandbox.test_wall import needs_bwrap
from tests.views.test_doctor import rows

pytestmark = needs_bwrap
CLOSED = 'closed by the sandbox: ~/out ([sandbox] write = ["~/out"] opens it)'
WRITES = "echo x > ~/out/stamp"
GREEN = f"is green outside of the sandbox: {CLOSED}"


@pytest.fixture(autouse=True)
def held(fake: Fake, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    open_to_tests(Path.home(), fake.folder)
    (Path.home() / "out").mkdir()


def gate(repo: Path, git: Git, command: str) -> None:
    (repo / "kern.toml").write_text(f"[gates]\na = '{command}'\n")
    commit_all(git, "gates")


def hook(repo: Path, lines: str, name: str = "pre-commit") -> None:
    place = repo / ".git/hooks" / name
    executable(place, f"#!/bin/sh\n{lines}\n")


def stamp() -> Path:
    return Path.home() / "out/stamp"


def test_a_hook_that_it_refuses_ends_the_run_and_the_next_goes_on_at_the_commit(
    repo: Path, fake: Fake, git: Git, kern: Kern
) -> None:
    """A temporary file it can make, as by hand."""
    hook(repo, f"mktemp > /dev/null && {WRITES}", "commit-msg")
    ran = kern("1", "0")
    assert ran.code == 1
    assert f"the commit-msg hook failed in the sandbox: {CLOSED}" in ran.err
    assert f"open it in {FILE}" in ran.err
    assert "Attempt" not in (repo / "SPEC.md").read_text()
    paid = fake.stages
    assert paid == ["research", "implement", "commit"]
    open_to_tests(Path.home(), fake.folder, Path.home() / "out")
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert fake.stages == paid and stamp().exists()
    assert "[x]" in git("show", "HEAD:SPEC.md")


def test_check_tells_what_is_red_in_it_alone_where_it_may_run_that_outside(
    repo: Path, git: Git, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate(repo, git, WRITES)
    hook(repo, WRITES)
    monkeypatch.delenv("KERN_TRUST")
    ran = kern("check")
    assert ran.code == 2 and not stamp().exists(), ran.said
    assert f"    {CLOSED}\n" in ran.out
    assert f"the pre-commit hook: {CLOSED}" in ran.out
    assert "not tried outside of the sandbox: kern check --trust" in ran.out
    ran = kern("check", "--trust")
    assert ran.code == 2 and stamp().exists(), ran.said
    assert f"gate a {GREEN}" in ran.out and f"the pre-commit hook: {CLOSED}" in ran.out
    assert FILE in ran.out


def test_the_screen_the_note_the_agent_and_show_say_what_a_gate_met(
    repo: Path, fake: Fake, git: Git, kern: Kern
) -> None:
    gate(repo, git, "test ! -e a.new || cat ~/out/in.csv")
    (Path.home() / "out/in.csv").touch()
    fake.script(
        implement=[
            {"run": ["touch a.new"], "result": "Did it.\n\nSUCCESS"},
            {"result": "No.\n\nFAILED"},
        ]
    )
    ran = kern("1", "0")
    said = 'closed by the sandbox: ~/out/in.csv ([sandbox] read = ["~/out/in.csv"] opens it)'
    assert "sandbox: bubblewrap; your home folder is not in it (kern help safety)" in ran.out
    assert f"    {said}" in ran.out
    assert said in (repo / "SPEC.md").read_text()
    again = [call for call in fake.calls if call["stage"] == "implement"][1]
    assert said in str(again)
    assert said in kern("show", "1").out


def test_doctor_tries_from_within_what_an_agent_needs(
    repo: Path, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake.folder / "bin" / "claude"
    told = 'test -e ~/out && echo "{\\"loggedIn\\": true}" || echo "{\\"loggedIn\\": false}"'
    program.write_text(f'#!/bin/sh\ncase "$1" in --version) echo 2.1.900;; *) {told};; esac\n')
    settings = Path.home() / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"apiKeyHelper": "cat ~/out/key"}')
    (Path.home() / "out/key").write_text("sk-1\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler, False) as server:
        server.server_bind()
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        found = rows(kern)
        assert "/.local/state/kern/homes/project-" in found["sandbox"]["detail"]
        assert found["temporary files"]["mark"] == "ok"
        assert found["network"]["mark"] == "warning"
        assert re.search("closed connection|reset by peer", found["network"]["detail"])
        assert found["key"]["mark"] == "problem"
        assert 'read = ["~/out/key"]' in found["key"]["fix"]
        assert found["login inside"]["mark"] == "problem" and found["login inside"]["fix"]
        server.server_activate()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        open_to_tests(Path.home(), fake.folder, Path.home() / "out")
        found = rows(kern)
        server.shutdown()
    names = ("network", "key", "login inside")
    assert {found[name]["mark"] for name in names} == {"ok"}, found
    monkeypatch.setenv("KERN_SANDBOX", "off")
    assert not {*names, "temporary files"} & {*rows(kern)}
