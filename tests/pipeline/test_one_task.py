"""`kern --task`: exactly that task, refused before anything is started where it cannot be."""

from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern

GOOD = {"run": ["echo hi > hi.txt"], "result": "Did it.\n\nSUCCESS"}
LIST = "- [ ] first\n- [ ] second thing\n- [ ] third thing\n- [x] old\n"


def done(repo: Path) -> list[str]:
    lines = (repo / "SPEC.md").read_text().splitlines()
    return [line[2:] for line in lines if line.startswith("- [x]")]


@pytest.fixture(autouse=True)
def tasks(repo: Path, git: Git, fake: Fake) -> None:
    (repo / "SPEC.md").write_text(LIST)
    git("commit", "--quiet", "--all", "--message=tasks")
    fake.script(implement=[GOOD])


@pytest.mark.parametrize(
    ("argv", "said", "hint"),
    [
        (("--task", "4"), "it is done: 4: old", "[ ] in kern edit"),
        (("--task", "thing"), "   3  third thing", "by its number"),
        (("--task", "7"), "no task is named by '7'", "kern status"),
        (("--task", ""), "--task names no task", "kern --task 7"),
        (("5", "--task", "2"), "exactly one task, not 5", 'kern --task "2"'),
        (("--until-done", "--task", "2"), "leave out --task", "kern --until-done"),
    ],
)
def test_a_task_that_cannot_be_taken_starts_and_changes_nothing(
    repo: Path, kern: Kern, fake: Fake, argv: tuple[str, ...], said: str, hint: str
) -> None:
    for words in (argv, (*argv, "-n")):
        ran = kern(*words)
        assert ran.code == 2, words
        assert said in ran.err and hint in ran.err
    assert fake.stages == []
    assert (repo / "SPEC.md").read_text() == LIST


def test_a_task_that_was_interrupted_is_gone_on_with_by_its_name_only(
    repo: Path, kern: Kern, fake: Fake
) -> None:
    fake.script(implement=[{"kill": "parent"}, GOOD])
    assert kern("--task", "2").code != 0
    assert "[~] second thing" in (repo / "SPEC.md").read_text()
    other = kern("--task", "1")
    assert other.code == 2
    assert "second thing is in progress and comes first: 1: first" in other.err
    assert kern("--task", "2").code == 0
    assert done(repo) == ["[x] second thing", "[x] old"]
