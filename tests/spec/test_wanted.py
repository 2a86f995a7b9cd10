"""One certain task for a run: which one is meant, and what to type where it cannot be taken."""

import pytest

from kern.errors import UsageError
from kern.model import Key
from kern.spec import needs
from kern.spec.checklist import parse

SPEC = """\
- [x] begun
- [ ] first thing
- [ ] second thing
  > **After:** first thing
- [ ] whole
  > **After:** second thing
  - [ ] part
  - [x] done part
- [ ] stuck
  > **Blocked:** no key
- [ ] asks
  > **Question:** which?
- [ ] free whole
  - [ ] free part
"""


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("2", Key("", "first thing")),
        ("FIRST", Key("", "first thing")),
        ("free part", Key("free whole", "free part")),
    ],
)
def test_a_number_or_a_part_of_its_text_names_it(words: str, key: Key) -> None:
    assert needs.can_begin(parse(SPEC), words) == key


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("1", "it is done: 1: begun", "kern reopen 1, then: kern --task 1"),
        ("3", "waits for 2 (first thing): 3: second thing", "kern --task 2"),
        ("5", "waits for 3", "kern --task 3"),
        ("4", "it is done with its last subtask: 4: whole", "say: kern --task 5"),
        ("stuck", "it needs you first: 7: stuck", "kern unblock 7, then: kern --task 7"),
        ("8", "it waits for your answer: 8: asks", 'kern answer 8 "…", then: kern --task 8'),
        ("nobody", "no task is named by 'nobody'", "kern status"),
        ("99", "no task is named by '99'", "kern status"),
        ("thing", "2 tasks are named by 'thing'", "name it by its number"),
    ],
)
def test_what_cannot_be_taken_is_told_with_what_to_type(words: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        needs.can_begin(parse(SPEC), words)
    assert said in str(caught.value)
    assert hint in caught.value.hint


def test_the_task_in_progress_is_gone_on_with_and_no_other_is_begun_beside_it() -> None:
    text = SPEC.replace("- [ ] second", "- [~] second")
    assert needs.can_begin(parse(text), "3", Key("", "second thing")) == Key("", "second thing")
    with pytest.raises(UsageError, match="another task is in progress: second thing") as caught:
        needs.can_begin(parse(text), "2", Key("", "second thing"))
    assert caught.value.hint == (
        "kern 1 goes on with that one, or kern reopen 3 gives it back; then: kern --task 2"
    )
