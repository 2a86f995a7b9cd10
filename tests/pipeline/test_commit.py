"""The task's commit: exactly its change, whatever the agent, the hooks and the person's tree do."""

import time
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Inline

EDIT = {"run": ["sed -i s/seven/SEVEN/ a.txt"], "result": "Shouted.\n\nSUCCESS"}
WORK = {"run": ["echo 1 > n && echo 2 > m"], "result": "SUCCESS"}
DONE = {"result": "do the task"}
ORIGINAL = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def shown(git: Git, what: str) -> str:
    """A blob as it is, its last newline too."""
    return git("cat-file", "blob", what) + "\n"


def paths(git: Git, commit: str = "HEAD") -> set[str]:
    return set(git("show", "--format=", "--name-only", commit).splitlines())


def subjects(git: Git) -> list[str]:
    return git("log", "--reverse", "--format=%s").splitlines()


def hook(repo: Path, name: str, script: str) -> None:
    place = repo / ".git" / "hooks" / name
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)


def committed(git: Git) -> None:
    """The task is done: one commit on the base, ticked, nothing left over."""
    assert git("rev-list", "--count", "HEAD") == "2"
    assert "- [x] add a greeting" in git("show", "HEAD:SPEC.md")
    assert git("for-each-ref", "refs/kern/start") == ""


# ---------------------------------------------------------------- what is the person's


@pytest.mark.unheld
def test_a_commit_of_yours_during_the_task_comes_first_and_stays(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    mine = "echo more >> own.txt && env -u GIT_REFLOG_ACTION git commit -qm mine own.txt"
    fake.script(implement=[{"run": [mine, "echo 1 > n"], "result": "SUCCESS"}])

    told = inline(1)

    assert told.code == 0
    assert subjects(git) == ["start", "mine", "do the task"]
    short = git("rev-parse", "--short=7", "HEAD~1")
    assert f"{short} 'mine'; if that was not you: git revert {short}" in told.err
    assert paths(git, "HEAD~1") == {"own.txt"}
    assert paths(git) == {"n", "SPEC.md"}
    assert git("status", "--porcelain") == ""


@pytest.mark.unheld
def test_moves_deletions_and_a_folder_for_a_file_are_committed(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    script = ["git mv a.txt moved.txt", "rm own.txt && mkdir own.txt && echo x > own.txt/f"]
    fake.script(implement=[{"run": script, "result": "SUCCESS"}])

    assert inline(1).code == 0

    assert set(git("ls-tree", "-r", "--name-only", "HEAD").splitlines()) == {
        "SPEC.md",
        "moved.txt",
        "own.txt/f",
    }
    assert git("status", "--porcelain") == ""


# ---------------------------------------------------------------- the message

TRAILER = "Kern-Task: add a greeting"
PERSON = "env -u GIT_DIR -u GIT_WORK_TREE -u GIT_REFLOG_ACTION -u GIT_INDEX_FILE git"


# ---------------------------------------------------------------- the branch moves meanwhile

MINE = "echo more >> own.txt"
SEES = "[gates]\nsee = 'git rev-parse HEAD >> ../seen; ! grep -qs BROKEN own.txt'\n"
ONCE = f"mkdir ../once 2> /dev/null || exit 0; {MINE}; {PERSON} "
MOVES = {
    "a commit": "commit --no-verify -qm mine own.txt",
    "a commit of all": "commit --no-verify -qam mine",
    "a rewritten one": "commit --no-verify -q --amend -m mine own.txt",
}


@pytest.mark.unheld
@pytest.mark.parametrize(
    ("how", "when"),
    [
        *(
            (how, when)
            for how in MOVES
            for when in ("the agent", "the agent, which commits as well")
        ),
        # For hooks the task is staged: a commit of all would take it.
        *((how, "a hook") for how in MOVES if how != "a commit of all"),
    ],
)
def test_where_you_move_the_branch_nothing_is_committed_and_the_gates_run_on_top(
    repo: Path, git: Git, fake: Fake, inline: Inline, how: str, when: str
) -> None:
    (repo / "kern.toml").write_text(SEES)
    git("add", "--all")
    git("commit", "-qm", "gates")
    moves = ONCE + MOVES[how]
    if when == "a hook":
        hook(repo, "pre-commit", moves)
        moves = "true"
    run = [moves, *(["git commit -qm theirs"] if "as well" in when else [])]
    fake.script(implement=[WORK, WORK], commit=[{"run": run, "result": "do the task"}])

    told = inline(1)

    assert told.code == 0, told.err
    mine = git("rev-parse", "HEAD~1")
    assert subjects(git)[-2:] == ["mine", "do the task"]
    assert f"on top of it: add a greeting: {mine[:7]} 'mine'" in told.err
    assert shown(git, "HEAD:own.txt") == "mine\nmore\n"
    assert "- [x] add a greeting" in git("show", "HEAD:SPEC.md")
    assert "- [x]" not in git("show", "HEAD~1:SPEC.md"), "it took a tick along"
    assert shown(git, "HEAD:n") == "1\n"
    assert mine in (repo.parent / "seen").read_text().split(), "no gate ran on top of it"
    assert fake.stages.count("commit") == 1
    assert git("status", "--porcelain") == ""


@pytest.mark.unheld
def test_your_commit_of_all_is_not_called_done(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    """It holds the task's files beside your own half-done work."""
    (repo / "kern.toml").write_text(SEES)
    git("add", "--all")
    git("commit", "-qm", "gates")
    takes = f"echo BROKEN >> own.txt; {PERSON} add n m; {PERSON} commit -qam 'half done'"
    fake.script(
        implement=[WORK, {"result": "SKIPPED: enough"}],
        commit=[{"run": [takes], "result": "do the task"}],
    )

    told = inline(1)

    assert subjects(git)[-1] == "half done", "your commit stays"
    assert "verified" not in told.err and "- [x]" not in git("show", "HEAD:SPEC.md")
    assert "**Attempt 1:** gate see is red" in spec(repo)
    assert (repo / "own.txt").read_text() == "mine\nBROKEN\n"


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("pre-commit", "git commit -q --no-verify -m again"),
        ("commit-msg", "git reset -q --soft HEAD~1"),
        (
            "pre-commit",
            "unset GIT_REFLOG_ACTION; git update-ref HEAD "
            "$(git commit-tree -p HEAD -m mine HEAD^{tree})",
        ),
        ("commit-msg", "git checkout -q -b elsewhere; git branch -q -D main"),
        (
            "post-commit",
            "git tag strange; git update-ref HEAD $(git commit-tree -p HEAD -m mine HEAD^{tree})",
        ),
    ],
    ids=["commits", "resets", "hides it", "wrecks", "afterwards"],
)
def test_what_a_hook_does_to_git_is_thrown_away(
    repo: Path, git: Git, fake: Fake, inline: Inline, name: str, script: str
) -> None:
    git("commit", "--quiet", "--allow-empty", "--message=base")
    hook(repo, name, f"touch ../ran; {script}")
    fake.script(implement=[WORK])

    told = inline(1)

    assert told.code == 0, told.err
    assert (repo.parent / "ran").exists() and "**Attempt" not in spec(repo)
    assert subjects(git) == ["start", "base", "do the task"]
    assert paths(git) == {"m", "n", "SPEC.md"}
    assert git("status", "--porcelain") == ""
    assert git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


SWAPS = """cat > .git/swap <<'S'
unset GIT_DIR GIT_WORK_TREE GIT_REFLOG_ACTION
was=$(git rev-parse HEAD)
for i in $(seq 600); do sleep 0.05; test $(git rev-parse HEAD) = $was || break; done
export GIT_INDEX_FILE=$(mktemp -u)
git read-tree HEAD
git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),evil
git update-ref HEAD $(git log -1 --format=%B | git commit-tree -p HEAD~1 $(git write-tree))
S
"""


@pytest.mark.parametrize("name", ["pre-commit", "commit-msg"])
def test_no_process_of_a_hook_puts_another_commit_in_the_place_of_the_tasks(
    repo: Path, git: Git, fake: Fake, inline: Inline, name: str
) -> None:
    hook(repo, name, f"{SWAPS}sh .git/swap > /dev/null 2>&1 &\nexit 0")
    fake.script(implement=[WORK])

    assert inline(1).code == 0

    time.sleep(0.5)
    committed(git)
    assert paths(git) == {"m", "n", "SPEC.md"}


# ---------------------------------------------------------------- hooks


def test_the_hooks_have_what_git_commit_gives_them(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    """The index, the author, the message where they look for it, and nothing of it is lost."""
    sees = "git diff --cached --name-only; echo $GIT_AUTHOR_EMAIL; git branch --show-current"
    hook(repo, "pre-commit", f"({sees}) > .git/seen")
    hook(repo, "prepare-commit-msg", 'echo "$2" >> .git/seen; sed -i "1s/^/ABC-1 /" "$1"')
    message = "$(git rev-parse --git-path COMMIT_EDITMSG)"
    hook(repo, "commit-msg", f"cat {message} >> .git/seen; echo 'only this' > \"$1\"")
    fake.script(implement=[WORK])

    assert inline(1).code == 0

    committed(git)
    seen = (repo / ".git" / "seen").read_text()
    start = "SPEC.md\nm\nn\nt@example.com\nmain\nmessage\nABC-1 do the task\n"
    assert seen == f"{start}\n{TRAILER}\n"
    assert git("log", "-1", "--format=%B").rstrip() == f"only this\n\n{TRAILER}"


def test_the_identity_is_the_person_s(
    repo: Path, git: Git, fake: Fake, inline: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set for this folder alone, half of it in the environment, and with a date of theirs."""
    home = repo.parent / "home" / ".gitconfig"
    (home.parent / "work").write_text('[user]\n\tname = "Wörk, Inc. "\n\temail = w@example.com\n')
    home.write_text(
        f'[user]\n\tuseConfigOnly = true\n[includeIf "gitdir:{repo}/"]\n\tpath = work\n'
        "[commit]\n\tcleanup = verbatim\n"
    )
    monkeypatch.setenv("GIT_COMMITTER_NAME", "robot")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01 00:00 +0000")
    fake.script(implement=[WORK])

    assert inline(1).code == 0

    committed(git)
    told = git("log", "-1", "--format=%an %ae %cn %as").splitlines()
    assert told == ["Wörk, Inc w@example.com robot 2001-01-01"]


def test_a_contract_is_not_written_through_a_link_that_a_hook_left(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    """One of kern's own commit: what it leaves is there when the next stage begins."""
    theirs = tmp_path / "theirs"
    theirs.write_text("mine\n")
    link = f"ln -sf '{theirs}' .git/kern/scratch/contract.md"
    hook(repo, "pre-commit", f"git show :n | grep -q bad && {{ {link}; exit 1; }}\nexit 0")
    fake.script(implement=[{"run": ["echo bad > n"], "result": "SUCCESS"}, WORK])
    assert inline(1).code == 0
    assert "**Attempt 1:**" in spec(repo)
    assert theirs.read_text() == "mine\n"
    assert all(call["system"] for call in fake.calls)


# ---------------------------------------------------------------- kern's own commit fails


@pytest.mark.unheld
def test_a_failing_signature_stops_the_run_and_the_next_one_goes_on_with_the_message(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("config", "commit.gpgSign", "true")
    git("config", "gpg.program", "false")
    hook(repo, "pre-commit", "true")
    fake.script(implement=[WORK])

    stopped = inline(1)

    assert stopped.code == 1
    assert "gpg failed to sign" in stopped.err
    assert "signing key" in stopped.err
    assert subjects(git) == ["start"]
    assert "- [~] add a greeting" in spec(repo)
    assert "Attempt" not in spec(repo)

    git("config", "commit.gpgSign", "false")
    resumed = inline(1)

    assert resumed.code == 0
    assert fake.stages == ["research", "implement", "commit"]
    committed(git)
    assert paths(git) == {"m", "n", "SPEC.md"}
    assert git("status", "--porcelain") == ""


# ---------------------------------------------------------------- the index alone


@pytest.mark.unheld
@pytest.mark.parametrize(
    "mess",
    [
        "rm .git/index",
        "git read-tree --empty",
        "git reset -q --mixed HEAD~1",
        "git reset -q",
        "git add -A",
        "git rm -q --cached own.txt",
        "git update-index --assume-unchanged work.txt a.txt",
        "git stash -q; git stash pop -q",
    ],
)
def test_changes_of_the_index_are_no_part_of_the_task(
    repo: Path, git: Git, fake: Fake, inline: Inline, mess: str
) -> None:
    git("commit", "--quiet", "--allow-empty", "--message=another")
    fake.script(implement=[{"run": ["echo work > work.txt", mess], "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    assert git("show", "--format=", "--name-only") == "SPEC.md\nwork.txt"
    assert git("status", "--porcelain") == ""


def test_a_task_that_you_staged_beside_the_current_one_stays_staged_on_top_of_its_tick(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n")
    (repo / "LEARNINGS.md").write_text("# L\n")
    git("add", "--all")
    git("commit", "-qm", "tasks")
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] another\n")
    (repo / "LEARNINGS.md").write_text("# L\n\n## 2020-01-01 - mine\n\nMine.\n")
    git("add", "--all")
    learns = {**EDIT, "result": "## Learned\nGreet late.\n\nSUCCESS"}
    fake.script(implement=[learns])
    ran = inline(1)
    assert ran.code == 0, ran.err
    staged = shown(git, ":SPEC.md")
    assert staged.startswith("- [x] add a greeting\n  > **Research:**")
    assert staged.endswith("- [ ] another\n")
    learned = shown(git, ":LEARNINGS.md")
    assert "Mine." in learned and learned.count("Greet late.") == 1
