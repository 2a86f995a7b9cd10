"""`kern add -`: a list on standard input, a yes, and what is no list."""

from pathlib import Path

from tests.conftest import Fake, Git, Kern


def test_the_commit_names_the_issue(repo: Path, git: Git, kern: Kern, fake: Fake) -> None:
    (repo / "SPEC.md").write_text("- [ ] a\n  Refs: o/r#3\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    fake.script(
        implement=[{"run": ["echo x > x.txt"], "result": "Did it.\n\nSUCCESS"}],
        commit=[{"result": "Write x"}],
    )
    assert kern("1", "0").code == 0
    assert git("log", "-1", "--format=%B").strip() == "Write x\n\nRefs: o/r#3\nKern-Task: a"
