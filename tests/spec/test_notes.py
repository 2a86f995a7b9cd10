"""Questions of agents and answers of a person: as notes, and end to end."""

from pathlib import Path

import pytest

from kern.spec import notes
from kern.spec.order import select
from kern.spec.parse import Task
from kern.spec.parse import parse as read
from kern.stages.briefs import task_text
from tests.conftest import Fake, Git, Inline, Kern


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def task(*notes: str) -> Task:
    return read("- [ ] store users\n" + "".join(f"  > **{note}\n" for note in notes)).tasks[0]


def asked(*texts: str) -> Task:
    """A task that was asked these questions, each answered."""
    return task(*(f"{kind}:** {text}" for text in texts for kind in ("Question", "Answer")))


# ------------------------------------------------------------ as values


def test_a_task_waits_until_its_last_question_has_an_answer() -> None:
    def ready(*lines: str) -> bool:
        one = task(*lines)
        text = "- [ ] store users\n" + "".join(f"  > **{line}\n" for line in lines)
        assert (select(read(text)) is None) == (notes.pending(one) is not None)
        return notes.pending(one) is None

    assert not ready("Question:** a?")
    assert ready("Question:** a?", "Answer:** b")
    assert ready("Question:** a?", "Attempt 1:** no", "Answer:** b", "Answer:** and c")
    assert not ready("Question:** a?", "Answer:** b", "Question:** c?")
    assert not ready("Question:** a?", "Answer:**  ")
    assert not ready("Answer:** b", "Question:** a?")
    assert ready("Answer:** b")


def test_a_question_is_asked_once_and_a_task_asks_three() -> None:
    one = asked("Postgres or SQLite? (kept: kern/attempts/x/1-asked)", "Which port?")
    assert notes.objection(one, "Which host?") == ""
    for again in ("postgres or  sqlite?", "Which port"):
        assert "asked again what is answered" in notes.objection(one, again)
    full = asked("a?", "b?", "c?")
    assert "more than 3 questions, the last: d?" in notes.objection(full, "d?")
    # What still waits is no other question: its note stands, and the marker alone goes back.
    assert notes.objection(task("Question:** a?"), "a?") == ""


def test_a_question_that_was_cut_for_its_ref_is_known_again() -> None:
    long = "is it " + "x" * 400
    line = notes.question(long, "kern/attempts/store-users-1a2b3c/1-asked")
    (noted,) = read(f"- [ ] t\n  {line}\n").tasks[0].notes
    assert len(noted.text) == 300 and noted.text.endswith("/1-asked)")
    assert notes.same(long, noted)
    assert not notes.same(long.replace("is it", "was it"), noted)


def test_stages_read_what_is_answered_and_not_what_waits() -> None:
    one = task("Question:** a?", "Answer:** b", "Question:** c?")
    text = task_text(one)
    assert "- Question: a?\n- Answer: b" in text
    assert "c?" not in text
    assert "by hand" in task_text(task("Answer:** by hand"))
    assert task_text(task("Question:** a?")) == "store users"


def test_an_agent_that_asks_without_end_comes_to_an_end(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    notes = "".join(f"    > **Question:** {n}?\n    > **Answer:** {n}\n" for n in "abc")
    (repo / "SPEC.md").write_text(f"- [ ] all\n  - [ ] add a greeting\n{notes}")
    git("commit", "--quiet", "--all", "--message=tasks")
    asks = [{"run": [f"echo {n} > n"], "result": f"NEEDS_ANSWER: greet {n}?"} for n in "defghi"]
    fake.script(implement=asks, research=[{"result": "NEEDS_ANSWER: greet whom?"}])
    ran = inline(1)
    assert ran.code == 1
    assert any("research: it asked more than 3" in str(one) for one in ran.events)
    assert spec(repo).count("it asked more than 3 questions") == 4  # attempts, and the skip
    assert spec(repo).count("**Question:**") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "what is the answer? c?"), ("x" * 301, "at most 300 characters, not 301")],
)
def test_an_answer_stands_below_the_open_question_and_what_is_none_is_refused(
    repo: Path, kern: Kern, text: str, said: str
) -> None:
    before = (
        "- [ ] a\r\n\t> **Question:** b?\r\n\t> **Answer:** c\r\n\t> **Question:** c?\r\n\tmine\r\n"
    )
    (repo / "SPEC.md").write_bytes(before.encode())
    ran = kern("answer", "1", text)
    assert ran.code == 2 and said in ran.err and (repo / "SPEC.md").read_bytes() == before.encode()
    assert kern("answer", "1", "one", "word").code == 0
    after = before.replace("c?\r\n", "c?\r\n\t> **Answer:** one word\r\n")
    assert (repo / "SPEC.md").read_bytes() == after.encode()
