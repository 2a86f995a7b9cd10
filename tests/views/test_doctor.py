"""`kern doctor`: three marks, a fix for each that is not ok, an exit code for problems alone."""

import json
import platform
import re
import subprocess
from pathlib import Path

import pytest

from kern import __version__
from tests.conftest import Fake, Git, Inline, Kern, open_to_tests
from tests.kit.trusting import trust_all
from tests.sandbox.test_wall import needs_bwrap


def rows(kern: Kern) -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in json.loads(kern("doctor", "--json").out)}


@pytest.fixture(autouse=True)
def agent(fake: Fake) -> None:
    """It says its version, and of the login what the file holds."""
    program = fake.folder / "bin" / "claude"
    said = f'case "$1" in --version) echo 2.1.900;; *) cat {fake.folder}/auth.json;; esac'
    program.write_text(f"#!/bin/sh\n{said}\n")


def test_it_names_the_versions_first(repo: Path, kern: Kern) -> None:
    first = kern("doctor").out.splitlines()[0]
    assert first.startswith(f"ok       kern: {__version__}, Python {platform.python_version()} (/")


def test_warnings_end_well_and_have_a_fix(repo: Path, fake: Fake, kern: Kern) -> None:
    (fake.folder / "auth.json").write_text("")  # it does not tell
    found = rows(kern)
    marks = {name: row["mark"] for name, row in found.items()}
    assert {marks[name] for name in ("kern", "git", "repository", "branch", "agent")} == {"ok"}
    assert {marks[name] for name in ("kern.toml", "login")} == {"warning"}
    assert "no gates: commits are unverified" in found["kern.toml"]["detail"]
    assert all(row["fix"] for row in found.values() if row["mark"] != "ok")
    assert all(row["ok"] for row in found.values())
    ran = kern("doctor")
    assert ran.code == 0
    assert re.search(r"^warning  kern.toml: no gates: .*\n         fix: kern init ", ran.out, re.M)
    assert re.fullmatch(r"\d warnings: a run can begin", ran.out.splitlines()[-1])


def test_with_gates_and_a_payer_all_is_well(repo: Path, git: Git, kern: Kern) -> None:
    (repo / "kern.toml").write_text("[gates]\na = 'true'\n")
    git("add", "--all")
    git("commit", "-qm", "gates")
    (Path.home() / ".claude.json").write_text('{"oauthAccount": {"emailAddress": "x"}}')
    trust_all(repo)
    found = rows(kern)
    bad = {name: row for name, row in found.items() if row["mark"] != "ok"}
    assert not bad
    assert kern("doctor").out.splitlines()[-1] == "all is well"


def test_a_problem_ends_with_2(repo: Path, kern: Kern) -> None:
    (repo / "kern.toml").write_text("[gates")
    ran = kern("doctor")
    assert ran.code == 2
    assert re.search(
        r"^problem  kern.toml: kern.toml is not valid TOML.*\n         fix: ", ran.out, re.M
    )
    assert re.match(r"\d problems?, ", ran.out.splitlines()[-1] + ", ")
    (repo / "kern.toml").unlink()
    (repo / "SPEC.md").write_text("- [ ] a\n  > **Gate:** `true`\n")
    found = rows(kern)
    assert "no gates: but for tasks with gates of their own" in found["kern.toml"]["detail"]
    assert found["kern.toml"]["mark"] == "warning"


def test_other_agents_that_are_here_are_named(
    repo: Path, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake.folder / "bin"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert "other agents" not in kern("doctor").out
    (folder / "codex").write_text("#!/bin/sh\necho 'Not logged in'; exit 1\n")
    (folder / "codex").chmod(0o755)
    said = "other agents: codex; kern --agent NAME"
    assert said in kern("doctor").out


def leave_four_files(repo: Path, git: Git) -> None:
    """Not committed, beside one that git ignores."""
    (repo / "SPEC.md").write_text("- [ ] one\n")
    (repo / "a.txt").write_text("mine\n")
    (repo / "src").mkdir()
    for name in ("b.txt", "seen", "src/x", "src/y"):
        (repo / name).touch()
    (repo / ".git/info/exclude").write_text("seen\n")
    git("add", "b.txt")


@needs_bwrap
def test_what_is_not_committed_is_a_warning_there_in_a_dry_run_and_as_a_run_begins(
    repo: Path, fake: Fake, git: Git, kern: Kern, inline: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    open_to_tests(Path.home(), fake.folder)
    assert "changes" not in rows(kern)
    leave_four_files(repo, git)
    said = "4 files have uncommitted changes (a.txt, b.txt, src/x, src/y): they stay yours; tasks"
    row = rows(kern)["changes"]
    assert row["mark"] == "warning"
    assert row["detail"].startswith(said) and "  " not in row["detail"]
    before = (repo / ".git/index").read_bytes()
    assert said in kern("-n").out
    assert (repo / ".git/index").read_bytes() == before
    (repo / "SPEC.md").write_text("- [x] one\n")  # nothing to do
    assert said in inline(1).said

    git("stash", "-qu")
    assert "uncommitted" not in kern("-n").out + inline(1).said


def test_without_rooms_it_is_a_problem_there_and_a_run_and_its_dry_run_refuse(
    repo: Path, fake: Fake, git: Git, kern: Kern
) -> None:
    assert "changes" not in rows(kern)
    leave_four_files(repo, git)
    why = "your tree has changes that are not committed: a.txt, b.txt, src/x, src/y"
    row = rows(kern)["changes"]
    assert (row["mark"], row["detail"]) == ("problem", why)
    assert "commit or stash them" in row["fix"]
    assert f"a run would refuse to start: {why}\n  hint: {row['fix']}" in kern("-n").out
    ran = kern("1", "0")
    assert ran.code == 2 and why in ran.err and not fake.calls

    assert why not in kern("-n", "-j", "2").out  # there they are not in the way
    git("stash", "-qu")
    assert "refuse" not in kern("-n").out


def test_a_repository_without_a_commit_is_one_problem(tmp_path: Path, kern: Kern) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path / "new"], check=True)
    (tmp_path / "new" / "SPEC.md").write_text("- [ ] a\n")
    ran = kern("doctor", cwd=tmp_path / "new")
    assert ran.code == 2 and ran.out.count("this repository has no commit yet") == 1
