"""Gates on merged trees, in a worktree of the landing's own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kern.errors import KernError
from kern.events import GateEnded
from kern.fleet import land, worktree
from kern.fleet.proving import NUMBER, Proving
from kern.fleet.work import Landed, Landing, SentBack, Work
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


def opened(yard: Yard, **chosen: OnRed) -> Proving:
    site = yard.site()
    place = worktree.yard(site.repo, site.scope)
    options = Options(leave=Leave(trusted=True), **chosen)  # type: ignore[arg-type]
    return Proving(site, place, options)


def landed(yard: Yard, works: Sequence[Work], proving: Proving) -> list[Landing]:
    return [land.land(yard.site(), one, proving) for one in works]


def test_a_merged_tree_is_checked_in_a_worktree_of_its_own(
    yard: Yard, git: Git, proving: Proving
) -> None:
    works = [yard.work(one, f"touch {one}.txt") for one in ("one", "two", "three")]
    ends = landed(yard, works, proving)
    assert [type(end) for end in ends] == [Landed, Landed, SentBack], "five texts are one too many"
    assert isinstance(ends[0], Landed) and ends[0].proved == "verified by gate check"
    assert not (yard.root / "built").exists() and git("status", "--porcelain") == " M SPEC.md"
    seen = [event.result.red for event in yard.events if isinstance(event, GateEnded)]
    assert seen == [False, True], "the second; the third, which is known without it"
    place = proving.yard.place(NUMBER)
    assert (place / "built").read_text() == "x\n" * 3, "red twice; what git ignores stays"
    proving.close()
    assert not place.exists() and str(place) not in git("worktree", "list")


def test_a_gate_that_is_red_without_the_tasks_blames_none(
    yard: Yard, git: Git, proving: Proving
) -> None:
    works = [yard.work(one, f"touch {one}.md") for one in ("one", "two")]
    sh(yard.root, "touch c.txt d.txt e.txt", "git add -A", "git commit -qm more")
    before = git("rev-parse", "HEAD")
    with pytest.raises(KernError, match="without any task that waits to land"):
        landed(yard, works, proving)
    assert (
        git("rev-parse", "HEAD") == before and "Attempt" not in (yard.root / "SPEC.md").read_text()
    )
    proving.close()
    lax = opened(yard, on_red=OnRed.ALLOW)
    assert [type(end) for end in landed(yard, works, lax)] == [Landed] * 2
    lax.close()


def test_the_worktree_is_set_up_once(yard: Yard, git: Git) -> None:
    settings = "[gates]\ncheck = 'cat built'\n[worktree]\nsetup = 'echo set up >> built'\n"
    (yard.root / "kern.toml").write_text(settings)
    git("commit", "-qam", "settings")
    works = [yard.work(one, f"touch {one}.md") for one in ("one", "two", "three")]
    made = opened(yard)
    assert [type(end) for end in landed(yard, works, made)] == [Landed] * 3
    assert (made.yard.place(NUMBER) / "built").read_text() == "set up\n"
    made.close()


def test_a_gate_that_cannot_run_there_says_so(yard: Yard, proving: Proving) -> None:
    (yard.root / "kern.toml").write_text("[gates]\ncheck = 'no-such-command'\n")
    works = [yard.work(one, f"touch {one}.md") for one in ("one", "two")]
    with pytest.raises(KernError, match=r"cannot run .*\n.*\nwhere merged tasks"):
        landed(yard, works, proving)
