"""The landing, on real repositories."""

from dataclasses import replace
from pathlib import Path

import pytest

from kern.errors import KernError
from kern.fleet.work import Work
from kern.git import landing
from kern.pipeline import landing as pipeline
from tests.conftest import Git
from tests.fleet.landings import BACK, DROPPED, LANDED, Project, sh

TASKS = ("one", "two", "three", "four")


@pytest.fixture
def project(repo: Path) -> Project:
    made = Project(repo)
    made.spec(*TASKS)
    return made


def subjects(git: Git, count: int) -> list[str]:
    return git("log", f"-{count}", "--format=%s").splitlines()


def kept(git: Git) -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").split()


def test_each_task_is_a_commit_and_checked_where_the_branch_has_moved(
    project: Project, git: Git
) -> None:
    works = [project.work(t, f"echo {t} > {t}.txt", learned=f"About {t}.") for t in TASKS]
    works[0] = replace(works[0], code=-9, proved="")  # no word of a killed kern is proof
    found = project.land(*works)
    assert found == [LANDED] * 4 and project.gates == [False] * 4
    assert subjects(git, 5) == [*(f"Do it: {one}" for one in reversed(TASKS)), "tasks"]
    assert git("status", "--porcelain") == ""
    assert (project.root / "SPEC.md").read_text() == "".join(f"- [x] {one}\n" for one in TASKS)
    for number, one in enumerate(TASKS):
        at = f"HEAD~{3 - number}"
        assert git("show", f"{at}:SPEC.md").count("[x]") == number + 1
        assert git("show", f"{at}:LEARNINGS.md").count("About") == number + 1
        changed = git("show", "--format=", "--name-only", at).split("\n")
        assert changed == ["LEARNINGS.md", "SPEC.md", f"{one}.txt"]
    assert git("log", "-g", "-1", "--format=%gs") == "commit: Do it: four"


@pytest.mark.parametrize(
    "edit",
    ["echo mine >> a.txt", "echo mine >> a.txt; git add a.txt", "rm a.txt", "echo my > one.txt"],
)
def test_what_a_persons_edits_are_in_the_way_of_waits_and_the_others_go_on_from_it(
    project: Project, git: Git, edit: str
) -> None:
    one = project.work("one", "sed -i s/four/4/ a.txt", "touch one.txt")
    two = project.work("two", "touch two.txt")
    sh(project.root, edit)
    before, head = git("diff", "HEAD", "--", "a.txt"), git("rev-parse", "HEAD")
    assert project.land(one, two) == [LANDED] * 2
    assert git("rev-parse", "HEAD") == head and project.gates == [False]
    assert git("diff", "HEAD", "--", "a.txt") == before
    tip = git("rev-parse", landing.waiting(project.site().repo))
    path = "one.txt" if "one.txt" in edit else "a.txt"
    assert f"in the way of 2 finished tasks: {path}:" in str(pipeline.land(project.site()))
    sh(project.root, "git checkout -q HEAD a.txt; rm -f one.txt")
    assert pipeline.land(project.site()) is None and git("rev-parse", "HEAD") == tip
    assert subjects(git, 3) == ["Do it: two", "Do it: one", "tasks"]


def test_spec_md_that_a_person_edits_meanwhile_keeps_every_line(project: Project, git: Git) -> None:
    works = [project.work(one, f"touch {one}") for one in TASKS[:2]]
    spec = project.root / "SPEC.md"
    spec.write_text("# Plan\n" + spec.read_text().replace("two", "two\n  mine") + "- [ ] five\n")
    sh(project.root, "git add SPEC.md; echo mine >> own.txt; git add own.txt; echo more >> own.txt")
    own = git("diff", "--", "own.txt"), git("diff", "--cached", "--", "own.txt")
    spec.write_text(spec.read_text() + "- [ ] six\n")
    assert project.land(*works) == [LANDED] * 2
    text = "# Plan\n- [x] one\n- [x] two\n  mine\n- [ ] three\n- [ ] four\n- [ ] five\n"
    lines = text.splitlines()
    assert spec.read_text().splitlines() == [*lines, "- [ ] six"]
    for place in ("HEAD", ""):
        assert git("show", f"{place}:SPEC.md").splitlines() == [*lines, "- [ ] six"]
    assert (git("diff", "--", "own.txt"), git("diff", "--cached", "--", "own.txt")) == own


def test_nothing_is_begun_while_as_many_wait_to_land(project: Project) -> None:
    fleet = project.fleet(iterations=4)
    fleet.carry_out = Work
    fleet.there = {one.job.key: one for one in map(project.work, TASKS[:2])}
    fleet._hand_out()
    assert not fleet.busy
    fleet.there.popitem()
    fleet._hand_out()
    assert [job.key.text for job in fleet.busy.values()] == ["two"]


def test_nothing_lands_twice(project: Project, git: Git) -> None:
    work = project.work("one", "touch one.txt")
    twin = project.work("one", "echo other > one.txt", base=work.job.base)
    assert project.land(work, twin) == [LANDED, DROPPED]
    assert project.land(twin, work) == [DROPPED] * 2
    assert subjects(git, 2) == ["Do it: one", "tasks"]


def test_a_landing_that_was_killed_counts_where_it_is_finished(project: Project, git: Git) -> None:
    work = project.work("one", "touch one.txt")
    git("update-ref", "refs/heads/main", work.commit)
    git("update-ref", "refs/kern/behind/main", work.job.base)
    assert project.land(work) == [LANDED] and git("rev-parse", "HEAD") == work.commit
    assert git("status", "--porcelain") == "" and git("branch", "--list", "kern/*") == ""


def test_a_branch_that_moves_or_is_rewritten_is_landed_upon(project: Project, git: Git) -> None:
    """Also while gates run: what lands is what they saw."""
    mine = f"test -e {project.root}/moved || (cd {project.root}; touch moved; git add moved; "
    settings = f"[gates]\ncheck = '{mine} git commit -qm mine)'\n"
    (project.root / "kern.toml").write_text(settings)
    sh(project.root, "git commit -qam settings")
    works = [project.work(one, f"echo {one} > {one}.txt") for one in TASKS[:2]]
    sh(project.root, "git commit -q --amend -m 'rewritten tasks'")
    assert project.land(*works) == [LANDED] * 2
    assert subjects(git, 4) == ["Do it: two", "Do it: one", "mine", "rewritten tasks"]
    assert len(project.gates) == 3


def test_the_end_is_told_where_a_full_disk_lets_nothing_be_tidied(project: Project) -> None:
    fleet, work = project.fleet(), project.work("one", "touch one.txt")
    fleet.yard.folder.touch()  # no worktree can be made there
    assert fleet._end(KernError("full"), "") == 1
    assert project.events[-1].record["did"] == "end"
    assert project.site().repo.store.id(work.job.branch) == work.commit


# ---------------------------------------------------------------- gates, where they have no room


def test_a_merged_tree_is_checked_in_a_worktree_of_its_own(project: Project, git: Git) -> None:
    (project.root / ".gitignore").write_text("built\n")
    count = "echo x >> built; cat built > ../built; test $(ls *.txt | wc -l) -lt 5"
    setup = "[worktree]\nsetup = 'echo set up >> built'\n"
    (project.root / "kern.toml").write_text(f"[gates]\ncheck = '{count}'\n{setup}")
    sh(project.root, "git add -A", "git commit -qm settings")
    works = [project.work(one, f"touch {one}.txt") for one in TASKS[:3]]
    fleet = project.fleet()
    found = project.land(*works, fleet=fleet)
    assert found == [LANDED, LANDED, BACK], "five texts are one too many"
    assert fleet.settled[1].proved == "verified by gate check"
    assert not (project.root / "built").exists() and git("status", "--porcelain") == " M SPEC.md"
    assert project.gates == [False, True], "the second; the third, which is known without it"
    place = fleet.yard.place(0)
    built = (place / "built").read_text()
    assert built == "set up\n" + "x\n" * 3, "set up once, red twice; what git ignores stays"
    fleet.stack.close()
    assert not place.exists() and str(place) not in git("worktree", "list")


def test_a_gate_that_is_red_without_the_tasks_blames_none(project: Project, git: Git) -> None:
    (project.root / "kern.toml").write_text("[gates]\ncheck = 'test ! -e c.txt'\n")
    sh(project.root, "git commit -qam settings")
    works = [project.work(one, f"touch {one}.md") for one in TASKS[:2]]
    sh(project.root, "touch c.txt", "git add -A", "git commit -qm more")
    before = git("rev-parse", "HEAD")
    with pytest.raises(KernError, match="without any task that waits to land"):
        project.land(*works)
    assert git("rev-parse", "HEAD") == before
    assert "Attempt" not in (project.root / "SPEC.md").read_text()
    assert project.land(*works, allow_red=True) == [LANDED] * 2
