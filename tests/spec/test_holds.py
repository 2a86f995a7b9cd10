"""Tasks that a person holds: what is not taken, and what waits with them."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kern.errors import UsageError
from kern.spec import commands, edit, order
from kern.spec.parse import parse
from tests.conftest import Fake, Git, Kern, wait_for

Background = Callable[..., "subprocess.Popen[str]"]


def ready(text: str) -> list[str]:
    """The tasks in the order in which runs take them."""
    found = []
    while task := order.select(parse(text)):
        found.append(task.text)
        text = edit.tick(text, parse(text), task)
    return found


def asks(told: str) -> bool:
    return ", 1 need you" in told or "needs you" in told.casefold()


def held(text: str, words: str, reason: str = "") -> commands.Edited:
    return commands.hold(text, parse(text), words, reason)


def test_a_held_task_is_not_taken_until_it_is_no_longer_held() -> None:
    text = "- [ ] a\n- [ ] b\n- [ ] c\n  > **After:** a\n"
    now = held(text, "a", "the \n release")
    assert now.text == "- [ ] a\n  > **Held:** the release\n- [ ] b\n- [ ] c\n  > **After:** a\n"
    assert now.said == "held 1: a"
    assert ready(now.text) == ["b"]
    assert order.ahead(parse(now.text)) == 2  # what waits may become ready meanwhile
    assert held(now.text, "a") == held(now.text, "a", "the release")
    assert held(now.text, "a").said == "held already: 1: a"
    assert held(now.text, "a", "May") == held(text, "a", "May")
    back = commands.unhold(now.text, parse(now.text), "1")
    assert back == (text, "no longer held: 1: a")
    assert commands.unhold(text, parse(text), "1") == (text, "not held: 1: a")


def test_what_belongs_to_it_is_held_with_it() -> None:
    text = held("- [ ] whole\n  - [ ] part\n- [ ] later\n  > **After:** part\n", "1", "no").text
    why = order.blockers(spec := parse(text))
    assert [why(task) for task in spec.tasks] == [
        *("held: no", "held with 1 (whole)", "waits for 2 (part), which is held")
    ]
    with pytest.raises(UsageError, match=r"held with 1 \(whole\): 2: part") as caught:
        commands.unhold(text, spec, "part")
    assert caught.value.hint == "kern unhold 1"
    asks = text.replace("[ ] part\n", "[ ] part\n    > **Question:** which?\n")
    with pytest.raises(UsageError, match="held with 1") as caught:
        commands.unhold(asks, parse(asks), "part")
    assert caught.value.hint == "kern unhold 1"
    for marker in ("[~] part", "[x] whole"):
        other = text.replace(f"[ ] {marker[4:]}", marker)
        with pytest.raises(UsageError, match=r"in progress|it is done"):
            held(other, "1")


def test_a_person_can_hold_beside_a_run(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background
) -> None:
    (repo / "SPEC.md").write_text("- [ ] a\n- [ ] b\n- [ ] c\n  > **Held:** wait\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    waits = ["touch began", 'while [ ! -e "$FAKE_CLAUDE/go" ]; do sleep 0.05; done', "date > n"]
    good = {"run": ["date >> work.txt"], "result": "Wrote it.\n\nSUCCESS"}
    fake.script(implement=[{**good, "run": waits}, good])
    run = background("5", "0")
    wait_for((repo / "began").exists)
    assert kern("hold", "b", "not today").out == "held 2: b\n"
    assert kern("unhold", "c").out == "no longer held: 3: c\n"
    (fake.folder / "go").touch()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 1, err
    text = (repo / "SPEC.md").read_text()
    assert [line for line in text.split("\n") if line.startswith("- [x]")] == ["- [x] a", "- [x] c"]
    assert "- [ ] b\n  > **Held:** not today\n" in text
    assert "Held:\n   2  b\n      not today\n      kern unhold 2\n" in out


def test_what_is_held_is_told_wherever_tasks_are_shown(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] a\n- [ ] b\n  > **After:** a\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    assert kern("hold", "1", "not yet").out == "held 1: a\n"
    shown = kern("status").out
    assert "[ ] a  (held: not yet)" in shown
    assert "(waits for 1 (a), which is held)" in shown
    assert ", 1 held" in shown and not asks(shown)
    assert "held:\n   1  not yet\n      kern unhold 1\n" in shown
    dry = kern("-n").out
    assert "a: held: not yet" in dry and "waits for 1 (a), which is held" in dry
    for argv in (("3", "0"), ("--until-done",)):
        ran = kern(*argv)
        assert ran.code in (1, 2) and fake.stages == [], argv
    for words in ([], ["--html"]):
        told = kern("report", *words).out
        assert "1 held" in told and "kern unhold 1" in told and not asks(told)
    asked = kern("--task", "2")
    assert asked.code == 2 and "which is held" in asked.err
    assert "hint: kern status tells more, then: kern --task 2" in asked.err
    assert kern("unhold", "1").out == "no longer held: 1: a\n"
