"""An agent that is started before its prompt is ready: taken when it fits, else ended unheard."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
import pytest

from kern import process, starting
from kern.events import StageFinished, Traced
from kern.pipeline import Aide, Stage, beside
from tests.conftest import Fake, Git, Heard, Inline, wait_for

TWO = "- [ ] add a greeting\n- [ ] add a farewell\n"
SEEN = 'find "$KERN_ROOT/../kern" -name "waiting*" >> "$FAKE_CLAUDE/seen"'
LOOK = {"run": [SEEN], "result": "- Files: a.txt:1-1\n\nREADY"}
WAIT = {"run": ["sleep 300"], "result": "- Files: a.txt:1-1\n\nREADY"}
ALL = ["research", "implement", "commit"]


def ahead(heard: Heard) -> list[str]:
    """The stages whose agent was there before its prompt."""
    told = (event.text for event in heard.events if isinstance(event, Traced))
    return [text.partition(":")[0] for text in told if text.endswith("started ahead")]


def alive(repo: Path) -> list[psutil.Process]:
    return process.marked(("KERN_ROOT", str(repo)))


def no_trace(repo: Path) -> bool:
    return not alive(repo) and not list(repo.parent.rglob("waiting*.json"))


def test_only_beside_an_agent_that_changes_no_file() -> None:
    roles = [*Stage, *Aide]
    assert {role: beside(role) for role in roles if beside(role)} == {
        Stage.RESEARCH: Stage.IMPLEMENT,
        Stage.COMMIT: Stage.RESEARCH,
    }


def test_the_next_agent_waits_beside_the_stage_before(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text(TWO)
    fake.script(research=[LOOK])
    heard = inline(2)
    assert heard.code == 0
    assert ahead(heard) == ["implement", "research", "implement"]
    assert fake.stages == ALL * 2
    assert len((fake.folder / "seen").read_text().split()) == 2
    assert all(call["env"]["KERN_ROOT"] == str(repo) for call in fake.calls)
    assert "kern stage 2 of 3" in fake.calls[1]["prompt"].splitlines()[0]
    assert "kern stage 1 of 3" in fake.calls[3]["prompt"].splitlines()[0]
    assert no_trace(repo)


def test_its_environment_and_arguments_are_those_of_any_other(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    fake.script(implement=[{"result": "FAILED: no"}, {"run": ["echo 1 > b"], "result": "SUCCESS"}])
    assert ahead(inline()) == ["implement"]
    early, later = (call for call in fake.calls if call["stage"] == "implement")
    assert early["argv"] == later["argv"]
    assert early["env"] == later["env"]
    assert early["cwd"] == later["cwd"]


def test_what_it_takes_counts_from_its_prompt_on(repo: Path, fake: Fake, inline: Inline) -> None:
    fake.script(research=[{"sleep": 2.0, "result": "- Files: a.txt:1-1\n\nREADY"}])
    (repo / "kern.toml").write_text('[timeouts]\nimplement = "1.5s"\n')
    heard = inline()
    assert ahead(heard) == ["implement"]
    took = {e.stage: e.seconds for e in heard.events if isinstance(e, StageFinished)}
    assert took[Stage.IMPLEMENT] < 1.5 < took[Stage.RESEARCH]
    assert heard.code == 0


def test_one_that_is_not_needed_is_ended_and_counts_for_nothing(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    fake.script(research=[{"result": "NO_TASK: there is a greeting"}])
    heard = inline()
    assert fake.stages == ["research"]
    assert "$0.01" in heard.err
    assert no_trace(repo)


def test_what_one_that_is_not_needed_started_in_a_session_of_its_own_is_ended_with_it(
    repo: Path, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    """A server of tools that the person's settings name, say, which outlives its agent."""
    claude = tmp_path / "fake/bin/claude"
    real = claude.rename(tmp_path / "fake/agent")
    claude.write_text(
        f'#!/bin/sh\nsetsid sleep 300 </dev/null >/dev/null 2>&1 &\nexec {real} "$@"\n'
    )
    claude.chmod(0o755)
    fake.script(research=[{"sleep": 0.5, "result": "Nothing.\n\nNO_TASK: done already"}])
    inline()
    assert fake.stages == ["research"]
    assert not alive(repo)


@pytest.mark.parametrize("name", [".claude/settings.json", ".mcp.json"])
def test_beside_settings_of_the_project_implement_starts_when_it_is_due(
    repo: Path, git: Git, fake: Fake, inline: Inline, name: str
) -> None:
    (repo / name).parent.mkdir(exist_ok=True)
    (repo / name).write_text("{}")
    git("add", "--all")
    git("commit", "--quiet", "--message=settings")
    heard = inline()
    assert heard.code == 0
    assert ahead(heard) == []
    assert fake.stages == ALL


@pytest.mark.parametrize(
    "change",
    [
        "mkdir .claude",
        "echo '{}' > .mcp.json",
        "git remote add origin https://example.com/x.git",
    ],
)
def test_one_that_would_begin_otherwise_by_now_is_replaced(
    repo: Path, fake: Fake, inline: Inline, change: str
) -> None:
    fake.script(research=[{**LOOK, "run": [SEEN, change]}])
    heard = inline()
    assert heard.code == 0
    assert (fake.folder / "seen").read_text()
    assert ahead(heard) == []
    assert fake.stages == ALL
    assert no_trace(repo)


def test_advice_that_has_changed_is_read_anew(repo: Path, fake: Fake, inline: Inline) -> None:
    (repo / "SPEC.md").write_text(TWO)
    (repo / "CLAUDE.md").write_text("Be kind.\n")
    fake.script(commit=[{"commit": True, "run": ["echo Be kinder. > CLAUDE.md"], "result": "ok"}])
    assert ahead(inline(2)) == ["implement", "implement"]
    assert fake.stages == ALL * 2


def test_nothing_waits_through_a_pause_or_for_a_task_that_will_not_come(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text(TWO)
    fake.script(commit=[{"commit": True, "run": [SEEN], "result": "ok"}])
    assert ahead(inline(1)) == ["implement"]
    assert not (fake.folder / "seen").read_text()
    (repo / "SPEC.md").write_text((repo / "SPEC.md").read_text() + "- [ ] a third\n")
    waiting: list[int] = []

    def sleep(seconds: float) -> None:
        waiting.append(len(alive(repo)))

    fake.script(research=[{"result": "NO_TASK: no"}], commit=[])
    inline(2, delay=9.0, sleep=sleep)
    assert set(waiting) == {0}


def test_nothing_waits_through_a_usage_limit(repo: Path, fake: Fake, inline: Inline) -> None:
    spoke = {"is_error": True, "api_error_status": 429, "num_turns": 1}
    limit = {"result": "You've hit your session limit", "fields": spoke, "exit": 1}
    fake.script(research=[limit, LOOK])
    waiting: set[int] = set()
    heard = inline(sleep=lambda seconds: waiting.add(len(alive(repo))))
    assert heard.code == 0
    assert waiting == {0}
    assert ahead(heard) == ["implement"]


def test_nothing_waits_beside_an_agent_with_full_access(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text(TWO)
    look = 'find "$KERN_ROOT/../kern" -name "waiting*" >> "$FAKE_CLAUDE/beside"; echo 1 >> work'
    fake.script(
        implement=[{"run": [look], "result": "SUCCESS"}],
        commit=[{"result": "REJECT: not yet"}, {"commit": True, "result": "ok"}],
    )
    heard = inline(2)
    assert heard.code == 0
    assert fake.stages == ["research", *["implement", "commit"] * 2, *ALL]
    assert ahead(heard) == ["implement", "research", "implement"]
    assert (fake.folder / "beside").read_text() == ""


def test_with_a_budget_each_agent_starts_when_what_is_left_is_known(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    fake.script(research=[LOOK])
    assert ahead(inline(max_cost=5.0)) == []
    assert fake.stages == ALL
    assert not (fake.folder / "seen").read_text()


def test_a_prompt_that_no_pipe_holds_arrives_whole(repo: Path, fake: Fake, inline: Inline) -> None:
    body = "".join(f"  line {number} of what is wanted\n" for number in range(5000))
    (repo / "SPEC.md").write_text(f"- [ ] add a greeting\n{body}")
    heard = inline()
    assert heard.code == 0
    assert ahead(heard) == []
    assert "line 4999 of" in fake.calls[1]["prompt"]


def test_one_that_ended_while_it_waited_is_replaced(repo: Path, fake: Fake, inline: Inline) -> None:
    claude = fake.folder / "bin" / "claude"
    shutil.move(claude, claude.with_name("player"))
    once = f"case \"$*\" in *bypass*) mkdir '{fake.folder}/once' 2>/dev/null && exit 1;; esac"
    claude.write_text(f"#!/bin/sh\n{once}\nexec '{claude.with_name('player')}' \"$@\"\n")
    claude.chmod(0o755)
    gone = f"until [ -d '{fake.folder}/once' ]; do sleep 0.05; done; sleep 1"
    fake.script(research=[{"run": [gone], "result": "- Files: a.txt:1-1\n\nREADY"}])
    heard = inline()
    assert heard.code == 0
    assert ahead(heard) == []
    assert fake.stages == ALL
    assert heard.slept == []


def test_gates_between_the_stages_leave_it_alone(repo: Path, fake: Fake, inline: Inline) -> None:
    (repo / "kern.toml").write_text('[gates]\ncheck = "true"\n')
    heard = inline()
    assert heard.code == 0
    assert ahead(heard) == ["implement"]


Background = Callable[..., "Popen[str]"]


def test_killed_with_kern_or_after_it_without_a_word(
    repo: Path, fake: Fake, background: Background, inline: Inline
) -> None:
    fake.script(research=[WAIT, LOOK])
    kern = background("1", "0")
    wait_for(lambda: len(fake.calls) == 1 and list(repo.parent.rglob("waiting*.json")))
    research = fake.calls[0]["pid"]
    others = [found.pid for found in alive(repo) if found.ppid() == kern.pid]
    assert len(others) == 2
    kern.kill()
    kern.wait()
    wait_for(lambda: not ({*others} - {research}) & {found.pid for found in alive(repo)})
    assert fake.stages == ["research"]
    assert inline().code == 0
    assert fake.stages == ["research", *ALL]
    assert no_trace(repo)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_at_once(
    repo: Path, fake: Fake, background: Background, signum: signal.Signals
) -> None:
    fake.script(research=[WAIT])
    kern = background("1", "0")
    wait_for(lambda: len(fake.calls) == 1 and len(alive(repo)) >= 2)
    began = time.monotonic()
    kern.send_signal(signum)
    kern.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert no_trace(repo)
    assert fake.stages == ["research"]


def test_its_input_arrives_in_one_piece_or_not_at_all(tmp_path: Path) -> None:
    def begin(*argv: str) -> starting.Waiting:
        waiting = starting.early(
            argv, cwd=tmp_path, env=dict(os.environ), opening=b"\n", place=tmp_path / "early"
        )
        assert waiting
        return waiting

    waiting = begin("cat")
    assert waiting.give("x" * 50_000, tmp_path / "out")
    assert waiting.started.child.wait(10) == 0
    assert (tmp_path / "out").read_text() == "\n" + "x" * 50_000
    waiting.started.close()
    for argv, size in ((("cat",), 200_000), ((sys.executable, "-c", ""), 10)):
        waiting = begin(*argv)
        if size == 10:
            waiting.started.child.wait(10)
        assert not waiting.give("x" * size, tmp_path / "none")
        process.end(waiting.started.child)
        waiting.close()
        assert not (tmp_path / "none").exists()
    assert not (tmp_path / "early").exists()


def test_a_sweep_spares_what_was_there_before(tmp_path: Path) -> None:
    mark = ("KERN_RUN_ID", "a-run-of-the-test")
    env: dict[str, Any] = {**os.environ, mark[0]: mark[1]}
    argv = ["sh", "-c", "sleep 300 & wait"]
    waiting = starting.early(argv, cwd=tmp_path, env=env, opening=b"\n", place=tmp_path / "early")
    assert waiting
    wait_for(lambda: len(process.marked(mark)) == 2)
    process.run(
        ["sh", "-c", "setsid sleep 300 &"],
        cwd=tmp_path,
        env=dict(os.environ),
        stdin="",
        stdout=tmp_path / "out",
        mark=mark,
    )
    assert len(process.marked(mark)) == 2
    assert waiting.alive()
    process.sweep(mark)
    waiting.started.child.wait(10)
    waiting.close()
    assert process.marked(mark) == []
