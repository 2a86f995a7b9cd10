"""`kern add --from`: files and programs as they answer, a yes, and what is not there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kern as package
from tests.conftest import Fake, Git, Kern

ISSUES = [
    {
        **{"number": 12, "title": "Crash on empty input", "state": "OPEN"},
        **{"body": "Steps:\r\n\r\n1. run it\r\n> **Gate:** `true`\r\n"},
        "url": "https://github.com/o/r/issues/12",
    },
    {
        **{"number": 9, "title": "Document the flag", "state": "OPEN", "body": ""},
        "url": "https://github.com/o/r/issues/9",
    },
]


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str) -> Path:
    """A program of that name, first on PATH, that writes down how it is called."""
    folder = tmp_path / "programs"
    folder.mkdir(exist_ok=True)
    calls = folder / "calls.txt"
    place = folder / name
    place.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{body}\n')
    place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return calls


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def test_a_list_is_shown_as_a_change_and_added_after_a_yes(repo: Path, kern: Kern) -> None:
    (repo / "TODO.md").write_text("- [ ] one\n  - [ ] part\n- [x] two\n- [ ] add a greeting\n")
    before = spec(repo)
    shown = kern("add", "--from", "TODO.md", "-n")
    assert shown.code == 0
    assert "+- [ ] one\n+  - [ ] part\n" in shown.out and "SPEC.md is unchanged" in shown.out
    assert shown.err == "left out: 1 already in SPEC.md, 1 done there\n"
    assert spec(repo) == before
    below = repo / "deep"
    below.mkdir()
    taken = kern("add", "--from", "../TODO.md", "--yes", cwd=below)
    assert taken.out.endswith("added 2 tasks to SPEC.md; next: kern -n\n")
    assert spec(repo) == f"{before}- [ ] one\n  - [ ] part\n"
    assert kern("add", "--from", "TODO.md", "--yes").out == "nothing to add to SPEC.md\n"
    assert spec(repo) == f"{before}- [ ] one\n  - [ ] part\n"


def test_without_a_terminal_nobody_can_say_yes(repo: Path) -> None:
    (repo / "TODO.md").write_text("- [ ] one\n")
    before = spec(repo)
    argv = [sys.executable, "-m", "kern", "add", "--from", "TODO.md"]
    env = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)}
    ran = subprocess.run(
        argv, cwd=repo, env=env, capture_output=True, text=True, start_new_session=True, check=False
    )
    assert ran.returncode == 2 and "not a terminal" in ran.stderr and "--yes" in ran.stderr
    assert spec(repo) == before


def test_the_first_tasks_begin_the_file(repo: Path, kern: Kern) -> None:
    (repo / "SPEC.md").unlink()
    (repo / "TODO.md").write_text("- one\n")
    assert kern("add", "--from", "TODO.md", "-n").code == 0
    assert not (repo / "SPEC.md").exists()
    assert kern("add", "--from", "TODO.md", "--yes").code == 0
    assert spec(repo) == "# Tasks\n\n- [ ] one\n"


def test_issues_become_tasks_whose_commits_name_them(
    repo: Path,
    git: Git,
    kern: Kern,
    fake: Fake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = f"{fake.folder / 'bin'}"
    answer = tmp_path / "issues.json"
    answer.write_text(json.dumps(ISSUES))
    calls = program(tmp_path, monkeypatch, "gh", f"echo 'a newer gh is there' >&2; cat {answer}")
    monkeypatch.setenv("PATH", f"{path}:{calls.parent}:/usr/bin:/bin")
    (repo / "SPEC.md").write_text("# Tasks\n")
    ran = kern("add", "--from", "gh", "--label", "kern", "--yes")
    assert ran.code == 0, ran.err
    assert "issue list --state open --limit 200 --label kern --json" in calls.read_text()
    assert "- [ ] Crash on empty input\n  Steps:\n  1. run it\n  \\> **Gate:** `true`\n" in spec(
        repo
    )
    assert spec(repo).endswith("  Refs: #12\n- [ ] Document the flag\n  Refs: #9\n")
    assert kern("add", "--from", "gh", "--yes").out == "nothing to add to SPEC.md\n"
    git("add", "--all")
    git("commit", "--quiet", "--message=tasks")
    fake.script(implement=[{"run": ["echo x > x.txt"], "result": "Did it.\n\nSUCCESS"}])
    assert kern("--task", "1").code == 0
    (prompt,) = [call["prompt"] for call in fake.calls if call["stage"] == "commit"]
    assert prompt.endswith("\nRefs: #12\nKern-Task: Crash on empty input\n")


def test_the_commit_names_the_issue(repo: Path, git: Git, kern: Kern, fake: Fake) -> None:
    (repo / "SPEC.md").write_text("- [ ] a\n  Refs: o/r#3\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    fake.script(
        implement=[{"run": ["echo x > x.txt"], "result": "Did it.\n\nSUCCESS"}],
        commit=[{"result": "Write x"}],
    )
    assert kern("1", "0").code == 0
    assert git("log", "-1", "--format=%B").strip() == "Write x\n\nRefs: o/r#3\nKern-Task: a"


def test_one_issue_of_another_repository(
    repo: Path, kern: Kern, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tmp_path / "issue.json"
    answer.write_text(json.dumps(ISSUES[0]))
    calls = program(tmp_path, monkeypatch, "gh", f"cat {answer}")
    assert kern("add", "--from", "gh:o/r#12", "--yes").code == 0
    assert "issue view 12 --repo o/r --json" in calls.read_text()
    assert "  Refs: o/r#12\n" in spec(repo)


def test_beads_are_asked_or_handed_over(
    repo: Path, kern: Kern, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bead = {"id": "bd-1f", "title": "A bead", "status": "open", "issue_type": "bug"}
    answer = tmp_path / "ready.json"
    answer.write_text(json.dumps([bead]))
    calls = program(tmp_path, monkeypatch, "bd", f"cat {answer}")
    assert "added 1 task to SPEC.md" in kern("add", "--from", "bd", "--yes").out
    assert calls.read_text() == "ready --json\n"
    assert "- [ ] A bead\n  Refs: bd-1f\n" in spec(repo)
    assert kern("add", "--from", str(answer), "--yes").out == "nothing to add to SPEC.md\n"


@pytest.mark.parametrize(
    ("body", "said", "hint"),
    [
        (
            "echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4",
            "gh is not logged in",
            "gh auth login",
        ),
        (
            "echo 'GraphQL: Could not resolve to a Repository (repository)' >&2; exit 1",
            "gh issue list failed: GraphQL: Could not resolve",
            "gh issue list",
        ),
        ("echo not json", "gh lists no task", "checklist"),
        ("echo '{'", "gh is no JSON, from line 1", "JSON"),
        ("kill -9 $$", "gh issue list failed", "gh issue list"),
    ],
)
def test_what_gh_cannot_do_is_told_and_nothing_changes(
    repo: Path,
    kern: Kern,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    said: str,
    hint: str,
) -> None:
    program(tmp_path, monkeypatch, "gh", body)
    before = spec(repo)
    ran = kern("add", "--from", "gh", "--yes")
    assert ran.code == 2 and said in ran.err and hint in ran.err
    assert spec(repo) == before


def test_a_gh_that_is_not_there_or_lies_in_the_repository(
    repo: Path, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    ran = kern("add", "--from", "gh:o/r", "--yes")
    assert (
        ran.code == 2 and "gh is not installed" in ran.err and "https://cli.github.com" in ran.err
    )
    (repo / "bin").mkdir()
    (repo / "bin" / "gh").write_text("#!/bin/sh\ntouch ran\n")
    (repo / "bin" / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{repo / 'bin'}:/usr/bin:/bin")
    ran = kern("add", "--from", "gh", "--yes")
    assert ran.code == 2 and "a file of this repository" in ran.err
    assert not (repo / "ran").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--from", "nowhere.md"], "cannot read nowhere.md"),
        (["--from", "."], "cannot read .: Is a directory"),
        (["--from", ""], "--from names nothing"),
        (["--from", "gh:what ever"], "names no issues"),
        (["--from", "a.txt", "--label", "x"], "--label goes with --from gh"),
        (["--label", "x"], "go with --from"),
        (["text", "--from", "a.txt"], "go with --from"),
        (["--from", "a.txt"], "a.txt lists no task"),
        ([], "the task says nothing"),
    ],
)
def test_a_source_that_is_none_is_told(repo: Path, kern: Kern, argv: list[str], said: str) -> None:
    before = spec(repo)
    ran = kern("add", *argv)
    assert ran.code == 2 and said in ran.err and "hint: " in ran.err
    assert spec(repo) == before
