"""Tasks that a person holds: what is not taken, and what waits with them."""

from pathlib import Path

from kern.spec import edit, order
from kern.spec.parse import parse
from tests.conftest import Fake, Git, Kern


def ready(text: str) -> list[str]:
    """The tasks in the order in which runs take them."""
    found = []
    while task := order.select(parse(text)):
        found.append(task.text)
        text = edit.tick(text, parse(text), task)
    return found


def asks(told: str) -> bool:
    return ", 1 need you" in told or "needs you" in told.casefold()


def test_a_held_task_is_not_taken_until_it_is_no_longer_held() -> None:
    text = "- [ ] a\n  > **Held:** the release\n- [ ] b\n- [ ] c\n  > **After:** a\n"
    assert ready(text) == ["b"]
    assert order.ahead(parse(text)) == 2  # what waits may become ready meanwhile


def test_what_belongs_to_it_is_held_with_it() -> None:
    text = "- [ ] whole\n  > **Held:** no\n  - [ ] part\n- [ ] later\n  > **After:** part\n"
    why = order.blockers(spec := parse(text))
    assert [why(task) for task in spec.tasks] == [
        *("held: no", "held with 1 (whole)", "waits for 2 (part)")
    ]


def test_what_is_held_is_told_wherever_tasks_are_shown(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    text = "- [ ] a\n  > **Held:** not yet\n- [ ] b\n  > **After:** a\n"
    (repo / "SPEC.md").write_text(text)
    git("commit", "--quiet", "--all", "--message=tasks")
    shown = kern("status").out
    assert "[ ] a  (held: not yet)" in shown
    assert "(waits for 1 (a))" in shown
    assert ", 1 held" in shown and not asks(shown)
    assert "held:\n   1  not yet\n      kern edit takes its Held line out\n" in shown
    dry = kern("-n").out
    assert "a: held: not yet" in dry and "waits for 1 (a)" in dry
    for argv in (("3", "0"), ("--until-done",)):
        ran = kern(*argv)
        assert ran.code in (1, 2) and fake.stages == [], argv
    for words in ([], ["--html"]):
        told = kern("report", *words).out
        assert "1 held" in told and "kern edit takes its Held line out" in told and not asks(told)
    asked = kern("--task", "2")
    assert asked.code == 2 and "waits for 1 (a)" in asked.err
    assert "hint: kern status tells more, then: kern --task 2" in asked.err
