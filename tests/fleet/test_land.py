"""The landing, on real repositories."""

import os
import re
from pathlib import Path

import pytest

from kern.errors import KernError
from kern.events import AttemptNoted
from kern.fleet import land
from kern.fleet.work import Dropped, Landed, SentBack, Waiting
from kern.git import landing
from tests.conftest import Git
from tests.fleet.landings import Yard, sh

TASKS = ("one", "two", "three", "four")


@pytest.fixture
def yard(repo: Path) -> Yard:
    made = Yard(repo)
    made.spec(*TASKS)
    return made


def subjects(git: Git, count: int) -> list[str]:
    return git("log", f"-{count}", "--format=%s").splitlines()


def refs(git: Git) -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/kern").splitlines()


def test_what_was_proven_on_the_newest_commit_lands_as_it_is(yard: Yard, git: Git) -> None:
    work = yard.work("one", "echo new > new.txt", "echo ONE > a.txt")
    assert yard.land(work) == [Landed(work, work.commit, "verified by gate check")]
    assert git("rev-parse", "HEAD") == work.commit and yard.checked == []
    assert git("status", "--porcelain") == "" and (yard.root / "new.txt").read_text() == "new\n"
    assert "- [x] one\n" in (yard.root / "SPEC.md").read_text()
    assert refs(git) == [land.mark(work)]


def test_each_task_is_a_commit_and_checked_where_the_branch_has_moved(yard: Yard, git: Git) -> None:
    works = [yard.work(one, f"echo {one} > {one}.txt", learned=f"About {one}.") for one in TASKS]
    ends = yard.land(*works)
    assert [type(end) for end in ends] == [Landed] * 4 and len(yard.checked) == 3
    assert subjects(git, 5) == [*(f"Do it: {one}" for one in reversed(TASKS)), "tasks"]
    assert ends[0].commit == works[0].commit, "the first stays as it was made"  # type: ignore[union-attr]
    assert git("status", "--porcelain") == ""
    assert (yard.root / "SPEC.md").read_text() == "".join(f"- [x] {one}\n" for one in TASKS)
    for number, one in enumerate(TASKS):
        at = f"HEAD~{3 - number}"
        assert git("show", f"{at}:SPEC.md").count("[x]") == number + 1
        assert git("show", f"{at}:LEARNINGS.md").count("About") == number + 1
        assert git("show", "--format=", "--name-only", at).split("\n") == [
            *("LEARNINGS.md", "SPEC.md"),
            f"{one}.txt",
        ]
        assert (
            git("log", "-1", "--format=%an %ae %(trailers:key=Kern-Task,valueonly)", at).split()[-1]
            == one
        )
    assert git("rev-parse", "HEAD^{tree}") == yard.checked[-1], "exactly what was checked"
    assert git("log", "-g", "-1", "--format=%gs") == "commit: Do it: four"


def test_what_is_red_with_what_has_landed_goes_back_and_the_others_land(
    yard: Yard, git: Git
) -> None:
    works = [yard.work(one, f"echo {one} > {one}.txt") for one in TASKS]

    def red(tree: Path) -> bool:
        return (tree / "three.txt").exists() and (tree / "one.txt").exists()

    ends = {end.work.text: end for end in yard.land(*works, red=red)}
    assert [type(ends[one]) for one in TASKS] == [Landed, Landed, SentBack, Landed]
    assert subjects(git, 4) == ["Do it: four", "Do it: two", "Do it: one", "tasks"]
    assert git("status", "--porcelain") == "", "the note came with the last commit"
    note = re.findall(r"Attempt 1:\*\* (.*)", (yard.root / "SPEC.md").read_text())
    assert len(note) == 1 and re.fullmatch(
        r"gate check is red \(exit 1.*\): it does not add up; it was green without \w{7} "
        r"\(Do it: one\), \w{7} \(Do it: two\) \(kept: kern/attempts/three-\w+/1\)",
        note[0],
    )
    ref = note[0].rpartition("kept: ")[2].removesuffix(")")
    assert git("diff", "--name-only", f"{ref}^", ref) == "three.txt"
    assert [type(one) for one in yard.events].count(AttemptNoted) == 1


def test_a_conflict_goes_back_with_what_it_collided_with(yard: Yard, git: Git) -> None:
    works = [yard.work(one, f"sed -i s/four/{one}/ a.txt", f"touch {one}.txt") for one in TASKS[:3]]
    ends = yard.land(*works)
    first = git("rev-parse", "HEAD")
    assert [type(end) for end in ends] == [Landed, SentBack, SentBack]
    assert isinstance(ends[1], SentBack) and f"it collides with {first[:7]}" in ends[1].why
    assert yard.checked == []
    text = (yard.root / "SPEC.md").read_text()
    head = (
        f"- [ ] two\n  > **Attempt 1:** it collides with {first[:7]} (Do it: one) in a.txt (kept: "
    )
    assert head in text and "- [x] one\n" in text
    ref = text.partition(head)[2].partition(")")[0]
    kept = git("show", f"{ref}:a.txt")
    assert "<<<<<<< branch\none\n=======\ntwo\n>>>>>>> task" in kept
    assert git("rev-parse", f"{ref}^") == first and git("cat-file", "-t", f"{ref}:two.txt")
    again = yard.land(works[1])
    assert [type(end) for end in again] == [SentBack]
    assert (yard.root / "SPEC.md").read_text() == text, "noted once, however often it is seen"
    assert git("status", "--porcelain") == " M SPEC.md"


def test_the_same_change_twice_is_no_conflict(yard: Yard, git: Git) -> None:
    works = [yard.work(one, "sed -i s/four/4/ a.txt", f"touch {one}") for one in TASKS[:2]]
    assert [type(end) for end in yard.land(*works)] == [Landed] * 2
    assert git("show", "--format=", "--name-only").split() == ["SPEC.md", "two"]


def test_a_rename_and_an_edit_are_merged(yard: Yard, git: Git) -> None:
    one = yard.work("one", "git mv a.txt b.txt")
    two = yard.work("two", "sed -i s/four/4/ a.txt")
    assert [type(end) for end in yard.land(one, two)] == [Landed] * 2
    assert "4\n" in (yard.root / "b.txt").read_text() and not (yard.root / "a.txt").exists()


@pytest.mark.parametrize(
    "edit",
    ["echo mine >> a.txt", "echo mine >> a.txt; git add a.txt", "rm a.txt", "echo my > one.txt"],
)
def test_a_persons_edits_are_waited_for_and_the_others_land(
    yard: Yard, git: Git, edit: str
) -> None:
    one = yard.work("one", "sed -i s/four/4/ a.txt", "touch one.txt")
    two = yard.work("two", "touch two.txt")
    sh(yard.root, edit)
    before = git("status", "--porcelain")
    path = "one.txt" if "one.txt" in edit else "a.txt"
    assert yard.land(one, two)[0] == Waiting(one, f"you have uncommitted changes in {path}")
    assert subjects(git, 2) == ["Do it: two", "tasks"] and git("status", "--porcelain") == before
    sh(yard.root, "git stash -qu")
    assert [type(end) for end in yard.land(one)] == [Landed]


def test_edits_elsewhere_stay_as_they_are_staged_or_not(yard: Yard, git: Git) -> None:
    work = yard.work("one", "sed -i s/four/4/ a.txt", "touch one.txt")
    sh(yard.root, "echo mine >> own.txt; git add own.txt; echo more >> own.txt; echo x > untracked")
    before = git("diff"), git("diff", "--cached"), git("status", "--porcelain")
    assert [type(end) for end in yard.land(work)] == [Landed]
    assert (git("diff"), git("diff", "--cached"), git("status", "--porcelain")) == before


def test_spec_md_that_a_person_edits_meanwhile_keeps_every_line(yard: Yard, git: Git) -> None:
    works = [yard.work(one, f"touch {one}") for one in TASKS[:2]]
    spec = yard.root / "SPEC.md"
    spec.write_text("# Plan\n" + spec.read_text().replace("two", "two\n  mine") + "- [ ] five\n")
    sh(yard.root, "git add SPEC.md")
    spec.write_text(spec.read_text() + "- [ ] six\n")
    assert [type(end) for end in yard.land(*works)] == [Landed] * 2
    lines = [
        "# Plan",
        "- [x] one",
        "- [x] two",
        "  mine",
        "- [ ] three",
        "- [ ] four",
        "- [ ] five",
    ]
    assert spec.read_text().splitlines() == [*lines, "- [ ] six"]
    assert git("show", ":SPEC.md").splitlines() == lines, "what was staged stays staged"
    assert git("show", "HEAD:SPEC.md").splitlines() == [*lines, "- [ ] six"]


def test_tasks_under_way_are_no_matter_of_history(yard: Yard, git: Git) -> None:
    spec = yard.root / "SPEC.md"
    work = yard.work("one", "touch one")
    spec.write_text(spec.read_text().replace("- [ ]", "- [~]", 2))
    assert [type(end) for end in yard.land(work)] == [Landed]
    assert spec.read_text().startswith("- [x] one\n- [~] two\n")
    assert git("show", "HEAD:SPEC.md").startswith("- [x] one\n- [ ] two\n")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("- [ ] one\n", "", "it is no longer in SPEC.md"),
        ("] one\n", "] one and more\n", "it is no longer in SPEC.md"),
        ("- [ ] one\n", "- [x] one\n", "you ticked it yourself"),
    ],
)
def test_a_task_that_a_person_took_away_does_not_land_and_its_work_is_kept(
    yard: Yard, git: Git, old: str, new: str, why: str
) -> None:
    work = yard.work("one", "touch one.txt")
    spec = yard.root / "SPEC.md"
    spec.write_text(spec.read_text().replace(old, new))
    before, text = git("rev-parse", "HEAD"), spec.read_text()
    (end,) = yard.land(work)
    assert isinstance(end, Dropped) and (end.why, git("rev-parse", "HEAD")) == (why, before)
    assert "one.txt" in git("ls-tree", "--name-only", end.ref) and spec.read_text() == text
    assert yard.land(work) == [end], "kept once"
    assert len(refs(git)) == 1


def test_nothing_lands_twice(yard: Yard, git: Git) -> None:
    work = yard.work("one", "touch one.txt")
    twin = yard.work("one", "echo other > one.txt", base=work.base)
    assert [type(end) for end in yard.land(work, twin)] == [Landed, Dropped]
    assert [type(end) for end in yard.land(twin, work)] == [Dropped] * 2
    assert subjects(git, 2) == ["Do it: one", "tasks"]


def test_what_a_person_took_out_of_the_branch_can_land_again(yard: Yard, git: Git) -> None:
    work = yard.work("one", "touch one.txt")
    yard.land(work)
    sh(yard.root, "git reset -q --hard HEAD~1")
    assert [type(end) for end in yard.land(work)] == [Landed]


def test_a_branch_that_a_person_moved_or_rebased_is_landed_upon(yard: Yard, git: Git) -> None:
    works = [yard.work(one, f"echo {one} > {one}.txt") for one in TASKS[:2]]
    sh(yard.root, "echo more >> own.txt", "git commit -qam mine")
    assert [type(end) for end in yard.land(works[0])] == [Landed] and len(yard.checked) == 1
    sh(yard.root, "git reset -q --hard HEAD~2", "git commit -q --amend -m 'rewritten tasks'")
    assert [type(end) for end in yard.land(works[1])] == [Landed]
    assert subjects(git, 2) == ["Do it: two", "rewritten tasks"]


def test_a_branch_that_moves_while_gates_run_is_merged_and_checked_anew(
    yard: Yard, git: Git
) -> None:
    works = [yard.work(one, f"echo {one} > {one}.txt") for one in TASKS[:2]]
    moves = iter([True])

    def red(tree: Path) -> bool:
        if next(moves, False):
            sh(yard.root, "echo more >> own.txt", "git commit -qam mine")
        return False

    assert [type(end) for end in yard.land(*works, red=red)] == [Landed] * 2
    assert len(yard.checked) == 2 and git("rev-parse", "HEAD^{tree}") == yard.checked[1]
    assert subjects(git, 3) == ["Do it: two", "mine", "Do it: one"]


def test_a_merge_under_way_is_waited_for(yard: Yard, git: Git) -> None:
    work = yard.work("one", "touch one.txt")
    sh(
        yard.root,
        "git switch -qc side",
        "echo s > a.txt",
        "git commit -qam side",
        "git switch -q -",
    )
    sh(yard.root, "echo m > a.txt", "git commit -qam main", "git merge -q side || true")
    (end,) = yard.land(work)
    assert isinstance(end, Waiting) and end.why == "a merge is under way"


def test_a_task_without_gates_lands_unchecked_and_a_tasks_own_gate_counts(
    yard: Yard, git: Git
) -> None:
    yard.spec(*TASKS, gates="")
    works = [yard.work(one, f"touch {one}") for one in TASKS[:2]]
    yard.land(*works)
    assert yard.checked == [] and subjects(git, 1) == ["Do it: two"]
    spec = yard.root / "SPEC.md"
    spec.write_text(spec.read_text().replace("three\n", "three\n  > **Gate:** `true`\n"))
    late = [yard.work(one, f"touch {one}", base="HEAD~1") for one in TASKS[2:]]
    yard.land(*late)
    assert len(yard.checked) == 1


def test_a_lock_that_nobody_lets_go_is_named_and_the_next_run_lands(yard: Yard, git: Git) -> None:
    work = yard.work("one", "touch one.txt")
    lock = yard.root / ".git/refs/heads/main.lock"
    lock.touch()
    site = yard.site()
    site.repo.patience = 0
    with pytest.raises(KernError, match=r"another git holds main\.lock"):
        yard.land(work, at=site)
    assert subjects(git, 1) == ["tasks"] and refs(git) == []
    lock.unlink()
    assert [type(end) for end in yard.land(work)] == [Landed]


def test_what_landed_is_brought_along_by_the_next_call(yard: Yard, git: Git) -> None:
    """As after a kill right behind the transaction."""
    work = yard.work("one", "touch one.txt", "sed -i s/four/4/ a.txt", learned="It can.")
    site = yard.site()
    assert landing.advance(
        site.repo, site.repo.head(), work.commit, "Do it", {land.mark(work): work.commit}
    )
    assert "[x]" not in (yard.root / "SPEC.md").read_text()
    assert [type(end) for end in yard.land(work)] == [Dropped]
    assert (yard.root / "one.txt").exists() and "4\n" in (yard.root / "a.txt").read_text()
    assert git("status", "--porcelain") == "" and refs(git) == [land.mark(work)]
    assert "- [x] one" in (yard.root / "SPEC.md").read_text()


def test_documents_that_git_ignores_are_written_on_the_disk_alone(yard: Yard, git: Git) -> None:
    (yard.root / ".gitignore").write_text("SPEC.md\nLEARNINGS.md\n")
    sh(yard.root, "git rm -q --cached SPEC.md", "git add -A", "git commit -qm ignore")
    (yard.root / "LEARNINGS.md").write_text("## 2025-01-01 - mine\n\nMy own.\n")
    works = [yard.work(one, f"touch {one}.txt", learned=f"About {one}.") for one in TASKS[:2]]
    assert [type(end) for end in yard.land(*works)] == [Landed] * 2
    assert git("show", "--format=", "--name-only", "HEAD") == "two.txt"
    assert git("log", "-2", "--format=%(trailers:key=Kern-Task,valueonly)").split() == [
        "two",
        "one",
    ]
    assert (yard.root / "SPEC.md").read_text().count("[x]") == 2
    learned = (yard.root / "LEARNINGS.md").read_text()
    assert [learned.count(one) for one in ("My own.", "About one.", "About two.")] == [1, 1, 1]


def test_no_hook_runs_where_work_lands(yard: Yard, git: Git) -> None:
    works = [yard.work(one, f"touch {one}.txt") for one in TASKS[:2]]
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
    ):
        hook = yard.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{yard.root.parent}/ran'\n")
        hook.chmod(0o755)
    assert [type(end) for end in yard.land(*works)] == [Landed] * 2
    assert not (yard.root.parent / "ran").exists()


def test_modes_links_and_submodules_land(yard: Yard, git: Git) -> None:
    sh(yard.root.parent, "git init -q lib", "git -C lib commit -q --allow-empty -m lib")
    one = yard.work("one", "touch run.sh", "chmod +x run.sh", "ln -s a.txt link")
    add = "git -c protocol.file.allow=always submodule -q add ../lib sub"
    two = yard.work("two", "mkdir -p folder/deep", "echo x > folder/deep/f", add)
    assert [type(end) for end in yard.land(one, two)] == [Landed] * 2
    assert os.access(yard.root / "run.sh", os.X_OK) and os.readlink(yard.root / "link") == "a.txt"
    assert git("ls-files", "--stage", "sub").startswith("160000 ")
    assert git("status", "--porcelain") == ""
