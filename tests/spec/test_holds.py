"""Tasks that a person holds: what is not taken, what waits with them, and that no agent decides."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kern.errors import UsageError
from kern.spec import commands, dependencies, edit, needs, reconcile
from kern.spec.checklist import Spec, directives, parse, taken_back
from kern.spec.documents import Documents
from tests.conftest import Fake, Git, Kern, wait_for

Background = Callable[..., "subprocess.Popen[str]"]

LIST = """\
- [ ] first
- [ ] whole
  - [ ] part
  - [x] done part
- [ ] after part
  > **After:** part
- [ ] later
  > **After:** after part
- [x] old
- [~] busy
- [ ] around busy
  - [~] busy below
"""
HELD = "- [ ] a\n  > **Held:** waits for the release\n- [~] b\n- [ ] c\n"


def ready(text: str) -> list[str]:
    """The tasks in the order in which runs take them."""
    found = []
    while task := dependencies.select(parse(text)):
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
    assert now.said == "held 1: a; waiting for it: 3: c"
    assert ready(now.text) == ["b"]
    assert dependencies.ahead(parse(now.text)) == 2  # what waits may become ready meanwhile
    assert held(now.text, "a").said == "held already: 1: a"
    assert held(now.text, "a", "the release") == (now.text, "held already: 1: a")
    later = held(now.text, "a", "until Friday")
    assert later.said == "held already, now for another reason: 1: a"
    assert later.text == now.text.replace("the release", "until Friday")
    back = commands.unhold(now.text, parse(now.text), "1")
    assert back == (text, "no longer held: 1: a")
    assert commands.unhold(text, parse(text), "1") == (text, "not held: 1: a")


def test_a_hold_without_a_reason_and_one_written_by_hand_count_too() -> None:
    assert "  > **Held:** by a person\n" in held("- [ ] a\n", "a").text
    for note in ("> **Held:**", "> **Held:** ", "> **Held:** x", ">  **Held:** not yet"):
        assert ready(f"- [ ] a\n  {note}\n- [ ] b\n") == ["b"], note


def test_what_belongs_to_it_is_held_with_it_and_what_waits_is_named_as_such() -> None:
    said = held(LIST, "whole").said
    assert said == "held 2: whole; its subtasks with it: 3; waiting for it: 5: after part, 6: later"
    text = held(LIST, "whole", "not yet").text.replace("[~]", "[x]").replace("[ ] around", "[x] a")
    why = dependencies.blockers(spec := parse(text))
    assert [why(task) for task in spec.tasks[:6]] == [
        "",
        "held: not yet",
        "held with 2 (whole)",
        "held with 2 (whole)",
        "waits for 3 (part), which is held",
        "waits for 5 (after part)",
    ]
    assert ready(text) == ["first"]


def test_what_cannot_be_held_or_given_back_is_told_and_nothing_changes() -> None:
    assert held(LIST, "old") == (LIST, "done already: 7: old")
    for words in ("busy", "around busy"):
        with pytest.raises(UsageError, match=r"in progress: (8: busy|10: busy below)") as caught:
            held(LIST, words)
        assert caught.value.hint
    text = held(LIST, "whole").text
    with pytest.raises(UsageError, match=r"3 is held with the whole .*: 2: whole") as caught:
        commands.unhold(text, parse(text), "part")
    assert caught.value.hint == "kern unhold 2"
    for words in ("2", "3"):
        with pytest.raises(UsageError, match="held") as caught:
            needs.can_begin(parse(text.replace("[~]", "[ ]")), words)
        assert caught.value.hint == f"kern unhold 2, then: kern --task {words}"


def test_what_waits_is_found_in_a_long_chain_without_delay() -> None:
    lines = ["- [ ] t0"]
    for number in range(1, 3000):
        lines += [f"- [ ] t{number}", f"  > **After:** t{number - 1}"]
    spec: Spec = parse("\n".join(lines))
    assert dependencies.behind(spec, 0) == list(range(1, 3000))
    assert dependencies.behind(spec, 2999) == []


# -------------------------------------------------------------------- no agent's word


def test_an_agent_neither_holds_a_task_nor_ends_a_hold() -> None:
    gone = HELD.replace("  > **Held:** waits for the release\n", "")
    assert reconcile.spec(HELD, gone, trusted=False)[0] == HELD
    planted = HELD + "  > **Held:** mine\n"
    fixed, told = reconcile.take_out(HELD, planted, set())
    assert fixed == HELD
    assert "if it is yours: kern hold c mine" in told[0]
    by_command = directives(planted) - directives(HELD)
    assert reconcile.take_out(HELD, planted, by_command) == (planted, [])
    assert "Held under c: mine" in reconcile.let_in(HELD, planted, by_command)[0]


def test_a_hold_that_came_again_after_its_end_is_not_the_agents_to_end(tmp_path: Path) -> None:
    papers = Documents(tmp_path, tmp_path / "scratch" / "run")
    ended = taken_back(HELD, gone := HELD.replace("  > **Held:** waits for the release\n", ""))
    papers.trust(ended, lambda *_: False)
    assert reconcile.released(HELD, papers.trusted()) == gone
    papers.trust(directives(HELD) - directives(gone), lambda *_: False)
    assert reconcile.released(HELD, papers.trusted()) == HELD


def test_after_a_kill_a_hold_comes_back_but_for_one_that_a_command_ended() -> None:
    gone = commands.unhold(HELD, parse(HELD), "a").text
    assert reconcile.recovered(HELD, gone, set())[0] == HELD
    assert reconcile.recovered(HELD, gone, taken_back(HELD, gone))[0] == gone
    assert taken_back(gone, HELD) == set()


def test_an_agent_at_work_can_do_neither_and_a_person_can_hold_beside_it(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background
) -> None:
    (repo / "SPEC.md").write_text(
        "- [ ] a\n- [ ] b\n  > **Held:** no\n- [ ] c\n- [ ] d\n- [ ] e\n  > **Held:** wait\n"
        "- [ ] f\n  > **Held:** wait too\n"
    )
    git("commit", "--quiet", "--all", "--message=tasks")
    does = [
        "echo work >> work.txt",
        "sed -i -e '/Held:.. no/d' -e 's/^- \\[ \\] c/&\\n  > **Held:** x/' SPEC.md",
        'while [ ! -e "$FAKE_CLAUDE/go" ]; do sleep 0.05; done',
    ]
    good = {"run": ["echo more >> work.txt"], "result": "Wrote it.\n\nSUCCESS"}
    fake.script(implement=[{**good, "run": does}, good, good, good])
    run = background("5", "0")
    wait_for(lambda: "**Held:** x" in (repo / "SPEC.md").read_text())
    assert kern("hold", "d", "not today").out == "held 4: d\n"
    assert kern("unhold", "e").out == "no longer held: 5: e\n"
    assert kern("unhold", "f").out == "no longer held: 6: f\n"
    assert kern("hold", "f", "wait too").out == "held 6: f\n"
    (fake.folder / "go").touch()
    out, err = run.communicate(timeout=120)

    assert run.returncode == 1, err
    text = (repo / "SPEC.md").read_text()
    assert [line for line in text.split("\n") if line.startswith("- [x]")] == [
        *("- [x] a", "- [x] c", "- [x] e")
    ]
    assert "- [ ] b\n  > **Held:** no\n" in text
    assert "- [ ] d\n  > **Held:** not today\n" in text
    assert "- [ ] f\n  > **Held:** wait too\n" in text
    assert "**Held:** x" not in text
    assert (
        "3 done, 3 held, 3 unverified, 3 open; " in out and not asks(out) and " need you" not in out
    )
    assert "Held:\n   2  b\n      no\n      kern unhold 2\n" in out
    assert "next: kern unhold 2 lets a held task be taken, then: kern" in out


def test_what_is_held_is_told_wherever_tasks_are_shown(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] a\n- [ ] b\n  > **After:** a\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    assert kern("hold", "1", "not yet").out == "held 1: a; waiting for it: 2: b\n"
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
    assert "hint: kern unhold 1, then: kern --task 1, then: kern --task 2" in asked.err
    assert kern("unhold", "1").out == "no longer held: 1: a\n"
    old = kern("skip", "1")
    assert (old.code, old.out) == (0, "deferred 1: a\n")
    assert "kern skip is called kern defer now" in old.err
