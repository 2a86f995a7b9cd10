"""SPEC.md and LEARNINGS.md at the commit: HEAD has the task before `[x]` is on the disk."""

from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Inline
from tests.pipeline.test_commit import committed, hook, paths, spec, subjects

LEARNED = {"run": ["echo 1 > n"], "result": "## Learned\nGreet late.\n\nSUCCESS"}
# As pre-commit asks whether there is anything to take out of the way, then as others may.
DIFFERS = "git diff --no-ext-diff --ignore-submodules --exit-code"
STALE = "git diff-files --quiet -- SPEC.md LEARNINGS.md"


@pytest.mark.parametrize("ends", ["lf", "crlf", "autocrlf", "mixed"])
def test_a_hook_finds_nothing_that_differs_from_what_is_committed(
    repo: Path, git: Git, fake: Fake, inline: Inline, ends: str
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
    fake.script(implement=[LEARNED])

    ran = inline(1)

    assert ran.code == 0, ran.err + (repo / ".git" / "told").read_text()
    assert (repo / ".git" / "told").read_text() == ""
    assert subjects(git)[2:] == ["do the task"]
    assert paths(git) == {"n", "SPEC.md", "LEARNINGS.md"}
    assert git("status", "--porcelain") == ""
    data = (repo / "SPEC.md").read_bytes()
    assert data.startswith(text.encode().partition(b"- [ ]")[0] + b"- [x] add")
    assert (b"\r\n" in data) == (b"\r\n" in (repo / "LEARNINGS.md").read_bytes()) == (ends != "lf")


@pytest.mark.parametrize(
    "script",
    [
        "git stash push -q --keep-index && git stash pop -q",
        "git diff > .git/patch; git checkout -q -- . && git apply --allow-empty .git/patch",
        "git checkout -q -- .",
        "git stash push -q --keep-index && git stash drop -q",
    ],
    ids=["stashes", "patches", "checks out", "stashes for good"],
)
def test_a_hook_that_stashes_what_is_not_staged_commits_the_task(
    repo: Path, git: Git, fake: Fake, inline: Inline, script: str
) -> None:
    hook(repo, "pre-commit", script)
    fake.script(implement=[LEARNED])

    ran = inline(1)

    assert ran.code == 0, ran.err
    committed(git)
    assert spec(repo).startswith("- [x] add a greeting")
    assert (repo / "LEARNINGS.md").read_text().count("Greet late.") == 1
    assert git("status", "--porcelain") == ""


@pytest.mark.parametrize("there", [None, "", "# L", "# L\n"])
def test_neither_file_says_that_the_task_is_done_before_head_does(
    repo: Path, git: Git, fake: Fake, inline: Inline, there: str | None
) -> None:
    """Seen by a hook, and by whoever commits beside it."""
    before = "- [ ] all\n  - [x] first\n  - [ ] add a greeting\n- [ ] last\n"
    (repo / "SPEC.md").write_text(before)
    if there is not None:
        (repo / "LEARNINGS.md").write_text(there)
    git("add", "--all")
    git("commit", "-qm", "tasks")
    hook(
        repo,
        "pre-commit",
        "cat SPEC.md > .git/seen; cat LEARNINGS.md >> .git/seen; ! git cat-file -e :n",
    )
    fake.script(implement=[LEARNED, {"result": "SKIPPED: enough"}])

    inline(1)

    seen = (repo / ".git" / "seen").read_text()
    assert "[~] add a greeting" in seen and "Greet late." not in seen
    assert spec(repo).startswith("- [ ] all\n  - [x] first\n  - [ ] add a greeting\n")
    learnings = repo / "LEARNINGS.md"
    assert (learnings.read_text() if learnings.exists() else None) == there
    assert subjects(git) == ["start", "tasks"]


# A person, in another terminal.
MINE = "git -c user.name=me -c user.email=me@x commit --no-verify -qam mine"
