"""While stage 3 is at work both documents stand on the disk as its commit is to hold them."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Fake, Git, Inline
from tests.pipeline.test_commit import COMMIT, DONE, committed, hook, paths, spec, subjects

LEARNED = {"run": ["echo 1 > n"], "result": "## Learned\nGreet late.\n\nSUCCESS"}
PAST = {"run": [f"{COMMIT} --no-verify"], "result": "past the hooks"}  # so kern commits itself
# As pre-commit asks whether there is anything to take out of the way, then as others may.
DIFFERS = "git diff --no-ext-diff --ignore-submodules --exit-code"
STALE = "git diff-files --quiet -- SPEC.md LEARNINGS.md"


@pytest.fixture(params=["the agent's", "kern's own"])
def whose(request: pytest.FixtureRequest, fake: Fake) -> str:
    """Whose commit the hooks are run for."""
    fake.script(implement=[LEARNED], commit=[DONE] if request.param == "the agent's" else [PAST])
    return str(request.param)


def subject(whose: str) -> str:
    return "do the task" if whose == "the agent's" else "add a greeting"


@pytest.mark.parametrize("ends", ["lf", "crlf", "autocrlf", "mixed"])
def test_a_hook_finds_nothing_that_differs_from_what_is_committed(
    repo: Path, git: Git, fake: Fake, inline: Inline, whose: str, ends: str
) -> None:
    text = "# Tasks\n\n- [ ] add a greeting\n- [ ] another\n"
    (repo / "LEARNINGS.md").write_text("# L\n")
    if ends == "crlf":
        (repo / ".gitattributes").write_text("*.md text eol=crlf\n")
    if ends == "autocrlf":
        git("config", "core.autocrlf", "true")
    if ends != "lf":
        text = text.replace("\n", "\r\n")
        (repo / "LEARNINGS.md").write_bytes(b"# L\r\n")
    if ends == "mixed":
        text = text.replace("\r\n", "\n", 1)
    (repo / "SPEC.md").write_bytes(text.encode())
    git("add", "--all")
    git("commit", "-qm", "tasks")
    hook(repo, "pre-commit", f"({DIFFERS} && {STALE}) > .git/told 2>&1")

    ran = inline(1)

    assert ran.code == 0, ran.err + (repo / ".git" / "told").read_text()
    assert (repo / ".git" / "told").read_text() == ""
    assert subjects(git)[2:] == [subject(whose)]
    assert paths(git) == {"n", "SPEC.md", "LEARNINGS.md"}
    assert git("status", "--porcelain") == ""
    data = (repo / "SPEC.md").read_bytes()
    assert data.startswith(text.encode().partition(b"- [ ]")[0] + b"- [x] add")
    assert (b"\r\n" in data) == (b"\r\n" in (repo / "LEARNINGS.md").read_bytes()) == (ends != "lf")


def test_the_index_knows_both_files_before_any_commit_looks_at_them(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    """`git commit` would look for itself; a tool that asks before it does not."""
    looks = {**DONE, "run": [f"{STALE} && touch ../known"]}
    fake.script(implement=[LEARNED], commit=[looks])

    assert inline(1).code == 0

    assert (repo.parent / "known").exists()


@pytest.mark.parametrize(
    ("script", "mine"),
    [
        ("git stash push -q --keep-index && git stash pop -q", True),
        ("git diff > .git/patch; git checkout -q -- . && git apply --allow-empty .git/patch", True),
        ("git checkout -q -- .", False),
        ("git stash push -q --keep-index && git stash drop -q", False),
    ],
    ids=["stashes", "patches", "checks out", "stashes for good"],
)
def test_a_hook_that_stashes_what_is_not_staged_commits_the_task(
    repo: Path, git: Git, inline: Inline, whose: str, script: str, mine: bool
) -> None:
    if mine:
        (repo / "own.txt").write_text("mine, not committed\n")
    hook(repo, "pre-commit", script)

    ran = inline(1)

    assert ran.code == 0, ran.err
    committed(git)
    assert subjects(git) == ["start", subject(whose)]
    assert spec(repo).startswith("- [x] add a greeting")
    assert (repo / "LEARNINGS.md").read_text().count("Greet late.") == 1
    assert git("status", "--porcelain") == (" M own.txt" if mine else "")
    if mine:
        assert (repo / "own.txt").read_text() == "mine, not committed\n"


GIVES_UP = {"result": "SKIPPED: enough"}
COMES_NOT: dict[str, tuple[dict[str, Any], str]] = {
    "rejected": ({"result": "REJECT: no"}, ""),
    "nothing, twice": ({"result": "I would rather not"}, ""),
    "a hook": (DONE, "exit 1"),
    "the message": (DONE, "exit 1"),
    "kern's own": (PAST, "exit 1"),
}


@pytest.mark.unheld
@pytest.mark.parametrize(
    ("why", "there"),
    [*zip(COMES_NOT, (None, "", "# L", "# L\n", None), strict=True), ("rejected", "")],
)
def test_where_the_commit_does_not_come_both_files_are_as_before_but_for_your_edits(
    repo: Path, git: Git, fake: Fake, inline: Inline, why: str, there: str | None
) -> None:
    step, refuses = COMES_NOT[why]
    (repo / "SPEC.md").write_text("- [ ] all\n  - [x] first\n  - [ ] add a greeting\n- [ ] last\n")
    if there is not None:
        (repo / "LEARNINGS.md").write_text(there)
    git("add", "--all")
    git("commit", "-qm", "tasks")
    if refuses:
        hook(repo, "commit-msg" if why == "the message" else "pre-commit", refuses)
    seen = [
        "cp SPEC.md ../seen.spec; cp LEARNINGS.md ../seen.learnings",
        "sed -i 's/last$/last of mine/' SPEC.md",
    ]
    fake.script(
        implement=[LEARNED, GIVES_UP], commit=[{**step, "run": [*seen, *step.get("run", [])]}]
    )

    inline(1)

    while_at_work = (repo.parent / "seen.spec").read_text()
    assert while_at_work.startswith("- [x] all\n  - [x] first\n  - [x] add a greeting\n")
    assert (repo.parent / "seen.learnings").read_text().startswith(f"{there or ''}")
    assert "Greet late." in (repo.parent / "seen.learnings").read_text()
    lines = spec(repo).splitlines()
    stopped = why == "the message"  # the work waits in the tree for the next run
    mine = f"  - [{'~' if stopped else ' '}] add a greeting"
    assert lines[:3] == ["- [ ] all", "  - [x] first", mine]
    assert lines[-1] == "- [ ] last of mine"
    learnings = repo / "LEARNINGS.md"
    assert (learnings.read_text() if learnings.exists() else None) == there
    assert subjects(git) == ["start", "tasks"]
    left = {" M SPEC.md"} | ({"?? n"} if stopped else set())
    assert set(git("status", "--porcelain").splitlines()) == left


@pytest.mark.unheld
def test_a_tick_that_you_hide_is_not_taken_for_yours(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    fake.script(implement=[LEARNED], commit=[{"run": ["sed -i '1i <!--' SPEC.md"], "result": "no"}])

    stopped = inline(1)

    assert stopped.code == 1
    assert "SPEC.md line 1: " in stopped.err and "close it" in stopped.err
    (repo / "SPEC.md").write_text(spec(repo).replace("<!--\n", ""))
    fake.script(commit=[DONE])
    ran = inline(1)
    assert ran.code == 0, ran.err
    assert "you ticked it yourself" not in ran.err
    assert spec(repo).startswith("- [x]")


@pytest.mark.unheld
def test_what_you_add_to_the_learnings_meanwhile_stays(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    adds = {"run": ["printf '\\n## mine\\n\\nx\\n' >> LEARNINGS.md"], "result": "REJECT: no"}
    fake.script(implement=[LEARNED, GIVES_UP], commit=[adds])

    inline(1)

    assert (repo / "LEARNINGS.md").read_text() == "\n## mine\n\nx\n"


def test_an_experiment_that_is_concluded_does_so_past_a_hook_that_stashes_too(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text("- [ ] Experiment: greet late\n")
    git("commit", "-qam", "tasks")
    hook(repo, "pre-commit", f"{DIFFERS} > /dev/null || exit 1; git checkout -q -- .")
    fake.script(implement=[{"run": ["echo 1 > n"], "result": "FAILED: nobody saw it"}])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert subjects(git)[2:] == ["Conclude: Experiment: greet late"]
    assert spec(repo).startswith("- [x]")
    assert git("status", "--porcelain") == ""


# A person, in another terminal.
MINE = "git -c user.name=me -c user.email=me@x commit --no-verify -qam mine"


def test_your_commit_that_takes_the_tick_of_an_experiment_along_concludes_nothing(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text("- [ ] Experiment: greet late\n")
    git("commit", "-qam", "tasks")
    hook(repo, "pre-commit", f"mkdir .git/once 2> /dev/null || exit 0; env -i PATH=$PATH {MINE}")
    fake.script(implement=[{"run": ["echo 1 > n"], "result": "FAILED: nobody saw it"}])

    ran = inline(1)

    assert ran.code == 1
    assert "has an [x] that kern had set early: the task is not done by that" in ran.err
    assert git("show", "HEAD:SPEC.md").startswith("- [x]"), "it took nothing along"
    assert spec(repo).startswith("- [~]")
    assert git("status", "--porcelain").split() == ["M", "SPEC.md"]
    assert inline(1).code == 0
    assert subjects(git)[2:] == ["mine", "Conclude: Experiment: greet late"]


def test_where_git_ignores_spec_md_it_stays_as_it_is_until_head_has_the_task(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("rm", "--quiet", "--cached", "SPEC.md")
    (repo / ".gitignore").write_text("SPEC.md\n")
    git("add", ".gitignore")
    git("commit", "--quiet", "--amend", "--message=start")
    fake.script(
        implement=[LEARNED],
        commit=[{"run": ["cp SPEC.md ../seen.spec"], "result": "no"}, {**DONE}],
    )

    assert inline(1).code == 0

    assert (repo.parent / "seen.spec").read_text().startswith("- [~]")
    assert spec(repo).startswith("- [x]")
    assert (repo / "LEARNINGS.md").read_text().count("Greet late.") == 1
    assert git("status", "--porcelain") == ""
