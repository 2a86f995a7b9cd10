"""What commit hooks change in the task's files is the task's; a message that they refuse costs no
work.
"""

import re
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Inline, Kern
from tests.pipeline.test_commit import WORK, committed, hook, paths, shown, spec, subjects

FORMATS = 'git show :n | grep -q 1 || exit 0; sed -i s/1/one/ n; echo "n was formatted"; exit 1'
DONE = {"result": "do the task"}


def test_a_hook_that_formats_the_tasks_files_is_taken_in_and_the_gates_run_on_the_result(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "kern.toml").write_text("[gates]\nsee = 'cat n >> ../seen; true'\n")
    git("add", "kern.toml")
    git("commit", "--quiet", "--amend", "--no-edit")
    hook(repo, "pre-commit", FORMATS)
    fake.script(implement=[WORK])

    told = inline(1)

    assert told.code == 0
    assert fake.stages == ["research", "implement", "commit"]
    committed(git)
    assert shown(git, "HEAD:n") == "one\n"
    assert (repo.parent / "seen").read_text() == "1\none\n"
    assert "**Attempt" not in spec(repo)
    assert git("status", "--porcelain") == ""
    assert "a commit hook changed n" in told.err


def test_a_hook_that_is_never_content_is_an_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    hook(repo, "pre-commit", "test -e ../quiet || test ! -e n || { echo more >> n; exit 1; }")
    fake.script(implement=[WORK, {"run": ["touch ../quiet", "echo 2 > n"], "result": "SUCCESS"}])

    assert inline(1).code == 0

    assert fake.stages.count("implement") == 2
    assert fake.stages.count("commit") == 2
    assert "**Attempt 1:** the pre-commit hook refused: it said nothing" in spec(repo)
    committed(git)
    assert shown(git, "HEAD:n") == "2\n"


def test_a_refused_message_costs_no_second_stage_2_and_the_next_run_resumes_at_the_commit(
    repo: Path, git: Git, fake: Fake, kern: Kern, inline: Inline
) -> None:
    hook(repo, "commit-msg", "test -e .git/quiet || { echo 'no ticket' >&2; exit 1; }")
    fake.script(implement=[WORK])

    told = inline(1)

    assert told.code == 1
    assert fake.stages == ["research", "implement", "commit", "commit"]  # twice the same words
    assert 'the commit-msg hook refused: "no ticket". No message' in told.err
    bundled = re.search(r"[.]kern/prompts/3_commit[.]md \(a copy of (/.+?)\)", told.err)
    assert bundled and "{{ trailer }}" in Path(bundled[1]).read_text()
    assert "gates and judges run once more, then it resumes at the commit" in told.err
    assert (repo / "n").read_text() == "1\n"
    assert spec(repo).startswith("- [~] ")
    assert "**Attempt" not in spec(repo)

    (repo / ".git" / "quiet").touch()
    text = spec(repo).replace("\n", "\n  the subject begins with its ticket\n", 1)
    (repo / "SPEC.md").write_text(text)

    assert inline(1).code == 0

    assert fake.stages.count("implement") == 1
    assert "the subject begins with its ticket" in fake.calls[-1]["prompt"].partition("</task>")[0]
    committed(git)
    assert subjects(git) == ["start", "do the task"]


TIDIES = """for f in SPEC.md LEARNINGS.md; do
git cat-file -e :$f 2>/dev/null || continue
git show :$f | sed 's/^\\( *\\)- \\[/\\1* [/; $a\\' > .git/tidy
git show :$f | cmp -s .git/tidy - || { cat .git/tidy > $f; echo "tidied $f"; exit 1; }
done"""


def test_a_hook_that_formats_the_documents_alone_burns_no_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n\n  the end")
    git("commit", "--quiet", "--all", "--amend", "--no-edit")
    hook(repo, "pre-commit", TIDIES)
    fake.script(implement=[WORK])

    told = inline(1)

    assert told.code == 0, told.err
    assert fake.stages == ["research", "implement", "commit"]
    assert git("rev-list", "--count", "HEAD") == "2"
    assert shown(git, "HEAD:SPEC.md").startswith("* [x] add a greeting")
    assert git("status", "--porcelain") == ""


def test_before_the_hooks_run_again_the_files_are_as_the_task_left_them(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    """Else a framework takes its own changes for edits that are not staged."""
    clean = "test -z \"$(git diff --name-only)\" || { echo 'not clean' >&2; exit 9; }"
    hook(repo, "pre-commit", f"{clean}; sed -i s/1/one/ n && git add n")
    hook(repo, "commit-msg", 'grep -q ^feat: "$1" || { echo "say feat:" >&2; exit 1; }')
    fake.script(implement=[WORK], commit=[DONE, {"result": "feat: mine"}])

    told = inline(1)

    assert told.code == 0, told.err
    assert fake.stages == ["research", "implement", "commit", "commit"]
    committed(git)
    assert shown(git, "HEAD:n") == "one\n"
    assert git("status", "--porcelain") == ""


@pytest.mark.unheld
def test_what_a_hook_makes_beside_the_task_in_place_is_no_part_of_it_and_saved(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    hook(repo, "pre-commit", f"echo r > report.out; echo x >> own.txt; {FORMATS}")
    fake.script(implement=[WORK])

    told = inline(1)

    assert told.code == 0, told.err
    committed(git)
    assert paths(git) == {"m", "n", "SPEC.md"} and shown(git, "HEAD:n") == "one\n"
    assert git("status", "--porcelain") == ""
    said = re.search(r"own\.txt, report\.out changed .* saved: git checkout (\S+)", told.err)
    assert said and shown(git, f"{said[1]}:report.out") == "r\n", told.err
