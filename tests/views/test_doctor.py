"""`kern doctor`: three marks, a fix for each that is not ok, an exit code for problems alone."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, commit_all
from tests.kit.trusting import trust_all


def rows(kern: Kern) -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in json.loads(kern("doctor", "--json").out)}


@pytest.fixture(autouse=True)
def agent(fake: Fake) -> None:
    """It says its version, and of the login what the file holds."""
    program = fake.folder / "bin" / "claude"
    said = f'case "$1" in --version) echo 2.1.900;; *) cat {fake.folder}/auth.json;; esac'
    program.write_text(f"#!/bin/sh\n{said}\n")


def test_warnings_end_well_and_have_a_fix(repo: Path, fake: Fake, kern: Kern) -> None:
    (fake.folder / "auth.json").write_text("")  # it does not tell
    found = rows(kern)
    marks = {name: row["mark"] for name, row in found.items()}
    assert {marks[name] for name in ("kern", "repository", "branch", "agent")} == {"ok"}
    assert {marks[name] for name in ("kern.toml", "login")} == {"warning"}
    assert "no gates: commits are unverified" in found["kern.toml"]["detail"]
    assert all(row["fix"] for row in found.values() if row["mark"] != "ok")
    assert all(row["ok"] for row in found.values())
    ran = kern("doctor")
    assert ran.code == 0
    assert re.search(r"^warning  kern.toml: no gates: .*\n         fix: kern init ", ran.out, re.M)
    assert ran.out.endswith("\na run can begin, with these warnings\n")


def test_with_gates_and_a_payer_all_is_well(repo: Path, git: Git, kern: Kern) -> None:
    (repo / "kern.toml").write_text("[gates]\na = 'true'\n")
    commit_all(git, "gates")
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
        r"^problem  project: kern.toml is not valid TOML.*\n         fix: ", ran.out, re.M
    )
    assert ran.out.endswith("\nno run can begin\n")
    (repo / "kern.toml").unlink()
    (repo / "SPEC.md").write_text("- [ ] a\n  > **Gate:** `true`\n")
    found = rows(kern)
    assert "but for tasks with gates of their own" in found["kern.toml"]["detail"]
    assert found["kern.toml"]["mark"] == "warning"
    (repo / ".kern" / "prompts").mkdir(parents=True)
    (repo / ".kern" / "prompts" / "1_research.md").write_text("---\nmodel: opus\n---\nLook.\n")
    assert (bad := rows(kern)["project"])["mark"] == "problem"
    assert "1_research.md lacks the placeholder" in bad["detail"]
