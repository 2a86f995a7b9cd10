"""Gates on merged trees, in a worktree of the landing's own."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kern.config import Gate
from kern.errors import KernError
from kern.events import GateEnded
from kern.fleet import landing, worktrees
from kern.fleet.proving import NUMBER, Proving
from kern.fleet.work import Landed, Red
from kern.many import Many
from kern.model import OnRed
from kern.pipeline.options import Leave, Options
from tests.conftest import Git
from tests.fleet.landings import Yard, sh


@pytest.fixture
def yard(repo: Path) -> Yard:
    made = Yard(repo)
    (repo / ".gitignore").write_text("built\nnode_modules\n")
    count = "check = 'echo x >> built; test $(ls *.txt | wc -l) -lt 5'"
    made.spec("one", "two", "three", gates=count)
    return made


@pytest.fixture
def proving(yard: Yard) -> Iterator[Proving]:
    made = opened(yard)
    yield made
    made.close()


def opened(yard: Yard, many: Many | None = None, **chosen: OnRed) -> Proving:
    site = yard.site()
    place = worktrees.yard(site.repo, site.scope)
    options = Options(leave=Leave(trusted=True), **chosen)  # type: ignore[arg-type]
    return Proving(place, site.repo, many or Many(), options, yard.events.append)


def test_a_merged_tree_is_checked_in_a_worktree_of_its_own(
    yard: Yard, git: Git, proving: Proving
) -> None:
    works = [yard.work(one, f"touch {one}.txt") for one in ("one", "two", "three")]
    ends = list(landing.land(yard.site(), works, proving))
    assert [type(end) for end in ends] == [Landed, Landed, Red], "five texts are one too many"
    assert isinstance(ends[0], Landed) and ends[0].proved == "verified by gate check"
    assert not (yard.root / "built").exists() and git("status", "--porcelain") == " M SPEC.md"
    seen = [event.result.red for event in yard.events if isinstance(event, GateEnded)]
    assert seen == [True, False, False], "all; none of them; two, the first of which is proven"
    place = proving.yard.place(NUMBER)
    assert (place / "built").read_text() == "x\n" * 4, "red twice; what git ignores stays"
    proving.close()
    assert not place.exists() and str(place) not in git("worktree", "list")


def test_a_gate_that_is_red_without_the_tasks_blames_none(
    yard: Yard, git: Git, proving: Proving
) -> None:
    works = [yard.work(one, f"touch {one}.md") for one in ("one", "two")]
    sh(yard.root, "touch c.txt d.txt e.txt", "git add -A", "git commit -qm more")
    before = git("rev-parse", "HEAD")
    with pytest.raises(KernError, match="without any task that waits to land"):
        list(landing.land(yard.site(), works, proving))
    assert (
        git("rev-parse", "HEAD") == before and "Attempt" not in (yard.root / "SPEC.md").read_text()
    )
    proving.close()
    lax = opened(yard, on_red=OnRed.ALLOW)
    assert [type(end) for end in landing.land(yard.site(), works, lax)] == [Landed] * 2
    lax.close()


def test_the_worktree_is_equipped_and_set_up_once(yard: Yard, proving: Proving) -> None:
    (yard.root / "node_modules").mkdir()
    (yard.root / "kern.toml").write_text("[gates]\ncheck = 'test -d node_modules && cat built'\n")
    many = Many(link=("node_modules",), setup="echo set up >> built")
    works = [yard.work(one, f"touch {one}.md") for one in ("one", "two")]
    made = opened(yard, many)
    assert [type(end) for end in landing.land(yard.site(), works, made)] == [Landed] * 2
    assert (made.yard.place(NUMBER) / "built").read_text() == "set up\n"
    made.close()
    with pytest.raises(KernError, match=r"the worktree's setup `exit 3` failed \(exit 3\)"):
        opened(yard, Many(setup="exit 3"))(
            "HEAD^{tree}", yard.found.head().commit, [Gate("", "true", 9)]
        )


def test_a_gate_that_cannot_run_there_says_so(yard: Yard, proving: Proving) -> None:
    (yard.root / "kern.toml").write_text("[gates]\ncheck = 'no-such-command'\n")
    works = [yard.work(one, f"touch {one}.md") for one in ("one", "two")]
    with pytest.raises(KernError, match=r"cannot run .*\n.*\nin the worktree where merged tasks"):
        list(landing.land(yard.site(), works, proving))


def test_it_works_in_a_thread_of_its_own(yard: Yard) -> None:
    works = [yard.work(one, f"touch {one}.txt") for one in ("one", "two")]
    ends: list[object] = []

    def land() -> None:
        made = opened(yard)
        try:
            ends.extend(landing.land(yard.site(), works, made))
        finally:
            made.close()

    thread = threading.Thread(target=land)
    thread.start()
    thread.join()
    assert [type(end) for end in ends] == [Landed] * 2
