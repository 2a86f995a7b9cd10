"""Tasks that a person holds: what is not taken, and what waits with them."""

from kern.spec import edit, order
from kern.spec.parse import parse


def ready(text: str) -> list[str]:
    """The tasks in the order in which runs take them."""
    found = []
    while task := order.select(parse(text)):
        found.append(task.text)
        text = edit.tick(text, parse(text), task)
    return found


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
