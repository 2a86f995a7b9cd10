"""Which agent runs a stage, and what becomes of a stage whose agent is at its limit."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kern.agents import protocol
from kern.journal import store
from tests.checks.test_gates import toml
from tests.conftest import Fake, Git, Inline, executable
from tests.kit import made_up_agent

HERE = Path(__file__).parents[2]
PAL = """#!/bin/sh
cat > "$FAKE_CLAUDE/prompt"
echo "$@" >> "$FAKE_CLAUDE/pals"
name=$(sed -n 's/^kern stage . of 3: //p' "$FAKE_CLAUDE/prompt" | tail -n 1)
sh "$FAKE_CLAUDE/pal-$name.sh"
"""
READY = "echo 'did: Read a.txt'; echo '- Files: a.txt:1-1'; echo; echo READY"
DONE = "echo more >> work.txt; echo 'spent: 0.25'; echo 'Wrote work.txt.'; echo; echo SUCCESS"
WORDS = "echo '```'; echo 'Write work.txt'; echo; echo 'As the task says.'; echo '```'"


@pytest.fixture
def pal(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`pal` on PATH, known to kern by its row; the folder where each stage's script lies."""
    monkeypatch.setattr(protocol, "AGENTS", (*protocol.AGENTS, "pal"))
    monkeypatch.setitem(sys.modules, "kern.agents.pal", made_up_agent)
    program = fake.folder / "bin" / "pal"
    executable(program, PAL)
    for stage, script in (("research", READY), ("implement", DONE), ("commit", WORDS)):
        (fake.folder / f"pal-{stage}.sh").write_text(script)
    return fake.folder


def ran(folder: Path) -> list[str]:
    place = folder / "pals"
    return place.read_text().splitlines() if place.exists() else []


def test_another_stands_in_at_a_limit_and_the_first_is_asked_after_its_reset(
    repo: Path, fake: Fake, pal: Path, inline: Inline, git: Git
) -> None:
    toml(repo, git, 'agents = ["pal", "claude"]\n')
    reset = int(time.time()) + 3600
    (pal / "pal-research.sh").write_text(f"echo 'limit: {reset}'")
    heard = inline(1)
    assert heard.code == 0, heard.said
    assert "claude takes the research stage over from pal: usage limit" in heard.err
    records = [json.loads(line) for line in store.place(repo / ".git").read_text().splitlines()]
    assert [one["agent"] for one in records if one["kind"] == "stand-in"] == ["claude"]
    # One that rests is asked for none of the later stages either.
    assert len(ran(pal)) == 1
    assert [call["stage"] for call in fake.calls] == ["research", "implement", "commit"]


def test_a_stop_counts_before_another_takes_over(
    repo: Path, fake: Fake, pal: Path, inline: Inline, git: Git
) -> None:
    toml(repo, git, 'agents = ["pal", "claude"]\n')
    stop = f'PYTHONPATH="{HERE}" "{sys.executable}" -m kern stop >&2'
    (pal / "pal-research.sh").write_text(f"{stop}; echo 'limit: {int(time.time()) + 3600}'")
    heard = inline(1)
    assert heard.code == 0, heard.said
    assert "stopped, as asked" in heard.said
    assert len(ran(pal)) == 1
    assert fake.calls == []


def test_half_a_change_is_put_back_before_another_takes_over(
    repo: Path, fake: Fake, pal: Path, inline: Inline, git: Git
) -> None:
    toml(repo, git, 'agents = ["pal", "claude"]\n')
    half = "echo half > half.txt; echo 'broken: the line is dead'"
    (pal / "pal-implement.sh").write_text(half)
    heard = inline(1)
    assert heard.code == 0, heard.said
    assert "claude takes the implement stage over from pal" in heard.err
    assert not (repo / "half.txt").exists()
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "work.txt"]


@pytest.mark.slow
def test_one_file_and_its_row_make_an_agent_known(
    repo: Path, pal: Path, git: Git, tmp_path: Path
) -> None:
    """As CONTRIBUTING.md has it, in a copy of kern."""
    copy = tmp_path / "copy"
    for name in ("kern", "prompts"):
        shutil.copytree(HERE / name, copy / name)
    for example in HERE.glob("*.example.md"):
        shutil.copy(example, copy)
    shutil.copy(HERE / "tests/kit/made_up_agent.py", copy / "kern/agents/pal.py")
    table = copy / "kern/agents/protocol.py"
    row = "AGENTS = (DEFAULT, "
    assert row in table.read_text()
    table.write_text(table.read_text().replace(row, f'{row}"pal", '))
    ran_by = [sys.executable, "-m", "kern", "1", "0", "--trust", "--agent", "pal"]
    env = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(ran_by, cwd=repo, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    message = git("log", "-1", "--format=%B")
    assert message.startswith("Write work.txt\n\nAs the task says.\n\nKern-Task: ")
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "work.txt"]
    assert ["--read" in one for one in ran(pal)] == [True, False, True]
