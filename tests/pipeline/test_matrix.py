"""The crash matrix: see tests/matrix, whose command tells all stories at every boundary.

Here the two main stories are told with everything that can happen at each of their boundaries, and
the others killed at those that are their own.
"""

from collections.abc import Iterator

import pytest

from tests.kit.frameworks import HOOKS
from tests.matrix import table
from tests.matrix.cases import AGAIN, BAD, BEFORE, OK, WHAT, Answer, Case, Worker
from tests.matrix.parked import SIGNALS
from tests.matrix.stories import MAIN, STORIES

pytestmark = pytest.mark.crash

RESEARCHED = ["SPEC.md", "stage1.json", "SPEC.md"]
# The start ref; it holds the agent's tree; that stage 2 has ended; the answer with its outcome.
ATTEMPTED = ["update-ref", "update-ref", "update-ref", "stage2.json"]
# Kept; the votes, first as they are to be; noted.
VOTED = ["stage2.json", "LEARNINGS.md"]
BOOKED = ["update-ref", *VOTED, "SPEC.md", "attempt1.json"]
# The message; the tree is held by the start ref, the commit noted, the branch moves to it, and the
# person's files have followed.
COMMITTED = ["stage3.json", "update-ref", "stage2.json", "update-ref", "delete-ref"]
ORDER = {
    "learns": [*RESEARCHED, *ATTEMPTED, *COMMITTED, "LEARNINGS.md", "SPEC.md", "delete-ref"],
    "fails once": [
        *(*RESEARCHED, *ATTEMPTED, *BOOKED, *ATTEMPTED, *COMMITTED),
        *("SPEC.md", "delete-ref"),
    ],
}
WHOLE = {"SPEC.md", "LEARNINGS.md", "stage1.json", "stage2.json", "stage3.json"}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    made = Worker(tmp_path_factory.mktemp("matrix"))
    yield made
    made.close()


def nothing_is_bad(answer: Answer) -> None:
    assert "\n".join(table.faults(answer.cases)) == ""


def without_copies(writes: list[str]) -> list[str]:
    """Each run file is written again, into git's folder."""
    pairs = zip(["", *writes], writes, strict=False)
    return [name for last, name in pairs if name != last or not name.endswith(".json")]


# The second main story is the first with a failed attempt: of the rest only what is new in it.
MAINLY = {"learns": (WHAT, ()), "fails once": ((), WHAT)}


@pytest.mark.parametrize("story", MAIN)
def test_whatever_happens_at_any_write_the_next_run_leaves_what_an_undisturbed_one_does(
    worker: Worker, story: str
) -> None:
    told = worker.ask(story, *MAINLY[story])
    nothing_is_bad(told)
    happened = {case.what for case in told.cases if case.outcome != BAD}
    assert happened == {*WHAT} and len(told.cases) > 60
    steps = without_copies([name for name in told.writes if name in {*ORDER[story]}])
    assert steps[: len(ORDER[story])] == ORDER[story]
    swept = told.writes[told.writes.index("delete-ref") + 1 :]
    kept = [name for name in swept if not name.startswith("no ")]  # copies go after it
    assert kept[-2:] == ["swept stage1.json", "last"]
    loose = [
        name
        for before, name in zip(told.writes, told.writes[1:], strict=False)
        if name in WHOLE and before != "fsync"
    ]
    assert not loose, "put in place before it was on the disk"


@pytest.mark.parametrize(
    "story", [name for name, told in STORIES.items() if told.own and name not in MAIN]
)
def test_killed_at_any_write_of_its_own_it_comes_to_the_same_end(
    worker: Worker, story: str
) -> None:
    told = worker.ask(story, (), ("SIGKILL", BEFORE))
    nothing_is_bad(told)
    assert told.cases


@pytest.mark.parametrize("story", [name for name, told in STORIES.items() if told.framework])
@pytest.mark.skipif(not HOOKS, reason="KERN_TEST_HOOKS names no folder with hook frameworks")
def test_ended_while_a_hook_framework_has_your_edits_it_comes_to_the_same_end(
    worker: Worker, story: str
) -> None:
    told = worker.ask(story, (), tuple(SIGNALS))
    nothing_is_bad(told)
    assert {case.name for case in told.cases} == {STORIES[story].hooked}


def test_killed_again_and_again_it_still_gets_there(worker: Worker) -> None:
    deaths, problems = worker.relentless("fails once")
    assert problems == []
    assert deaths > 12


def test_the_table_has_a_row_for_each_boundary_and_names_what_is_bad() -> None:
    good = [
        Case("no task", "SELECT", "SPEC.md", "SIGKILL", OK),
        Case("no task", "RESEARCH", "stage1.json", "SIGKILL", OK),
        Case("succeeds", "SELECT", "SPEC.md", "SIGKILL", OK),
        Case("succeeds", "IMPLEMENT", "attempt1.json", "SIGKILL", OK),
        Case("succeeds", "IMPLEMENT", "attempt2.json", "SIGKILL", AGAIN),
    ]
    bad = Case("no task", "SELECT", "SPEC.md", "EIO", BAD, ["it was lost"])
    rows = [line.split() for line in table.lines([*good, bad])]
    assert rows[:2] == [["no", "succeeds"], ["task"]]
    assert ["select:", "SPEC.md", ".", "!", "."] in rows
    assert ["implement:", "attemptN.json", "a"] in rows
    assert rows.index(["implement:", "attemptN.json", "a"]) == 3  # behind what comes before it
    said = ["no task: EIO at select: SPEC.md", "    it was lost"]
    assert [*table.faults([*good, bad])] == said
