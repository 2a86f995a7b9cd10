"""The task's commit: exactly its change, whatever the agent, the hooks and the person's tree do."""

import json
from pathlib import Path

import pytest

from kern.git import trace
from kern.git.trace import Account
from tests.conftest import Fake, Git, Inline, Kern

EDIT = {"run": ["sed -i s/seven/SEVEN/ a.txt"], "result": "Shouted.\n\nSUCCESS"}
WORK = {"run": ["echo 1 > n && echo 2 > m"], "result": "SUCCESS"}
DONE = {"commit": True, "result": "committed"}
ORIGINAL = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
SHOUTED = ORIGINAL.replace("seven", "SEVEN")


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


def test_your_edits_stay_yours_even_in_the_same_file(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    for name in ("gone.txt", "moded.txt"):
        (repo / name).write_text("here\n")
    git("add", "--all")
    git("commit", "--quiet", "--amend", "--message=start")
    (repo / "a.txt").write_text(ORIGINAL.replace("three", "THREE"))
    (repo / "own.txt").write_text("mine, staged\n")
    (repo / "new.txt").write_text("new, staged\n")
    git("add", "a.txt", "own.txt", "new.txt")
    (repo / "a.txt").write_text(ORIGINAL.replace("three", "THREE").replace("one", "ONE"))
    (repo / "own.txt").write_text("mine, staged\nand not\n")
    (repo / "gone.txt").unlink()
    (repo / "moded.txt").chmod(0o755)
    (repo / ".env").write_text("SECRET=1\n")
    fake.script(implement=[EDIT])

    assert inline(1).code == 0

    committed(git)
    assert subjects(git) == ["start", "do the task"]
    assert paths(git) == {"a.txt", "SPEC.md"}
    assert shown(git, "HEAD:a.txt") == SHOUTED
    assert shown(git, ":a.txt") == SHOUTED.replace("three", "THREE")
    assert shown(git, ":own.txt") == "mine, staged\n"
    assert (repo / "a.txt").read_text() == SHOUTED.replace("three", "THREE").replace("one", "ONE")
    assert git("status", "--porcelain").splitlines() == [
        "MM a.txt",
        " D gone.txt",
        " M moded.txt",
        "A  new.txt",
        "MM own.txt",
        "?? .env",
    ]


def test_a_change_over_your_uncommitted_lines_is_an_attempt_that_names_the_file(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    mine = ORIGINAL.replace("seven", "seven of mine")
    (repo / "a.txt").write_text(mine)
    over = {"run": ["sed -i 's/seven.*/SEVEN/' a.txt"], "result": "SUCCESS"}
    fake.script(implement=[over, WORK])

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", "implement", "commit"]
    (note,) = (line for line in spec(repo).splitlines() if "**Attempt 1:**" in line)
    assert "a.txt" in note
    assert "commit or stash it" in note
    assert "uncommitted changes in a.txt" in fake.calls[2]["prompt"]
    assert (repo / "a.txt").read_text() == mine
    assert paths(git) == {"m", "n", "SPEC.md"}
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").splitlines()
    assert shown(git, f"{ref}:a.txt") == SHOUTED
    assert ref.removeprefix("refs/") in note


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
    assert f"{short} 'mine'; if that was not you: git show {short}, git revert {short}" in told.err
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


def test_line_endings_are_committed_as_git_add_would(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("config", "core.autocrlf", "true")
    (repo / "a.txt").unlink()
    git("checkout", "a.txt")
    assert b"\r\n" in (repo / "a.txt").read_bytes()
    script = ["sed -i s/seven/SEVEN/ a.txt", r"printf 'x\r\ny\r\n' > n"]
    fake.script(implement=[{"run": script, "result": "SUCCESS"}])

    assert inline(1).code == 0

    assert shown(git, "HEAD:a.txt") == SHOUTED
    assert shown(git, "HEAD:n") == "x\ny\n"
    assert (repo / "a.txt").read_bytes() == SHOUTED.replace("\n", "\r\n").encode()
    assert git("status", "--porcelain") == ""


# ---------------------------------------------------------------- agents that commit otherwise

TRAILER = "Kern-Task: add a greeting"
COMMIT = f"git commit -qm theirs -m '{TRAILER}'"
AMEND = f"git commit -q --amend -m theirs -m '{TRAILER}'"
OTHERWISE = [
    ("nothing", ["true"], "an empty one", [f"git reset -q && {COMMIT} --allow-empty"]),
    ("everything", [f"git add -A && {COMMIT}"], "some paths", [f"git reset -q -- n && {COMMIT}"]),
    ("without SPEC.md", [f"git reset -q -- SPEC.md && {COMMIT}"], "an amend", [AMEND]),
    (
        *("twice", [COMMIT, "git commit -q --allow-empty -m again"]),
        *("another branch", [f"git checkout -q -b other && {COMMIT}"]),
    ),
    (
        *("a reset", ["git reset -q --soft HEAD~1"]),
        *("other content", [f"echo 3 > m && git add m && {COMMIT}"]),
    ),
]


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(a, b, id=f"{one}, {two}") for one, a, two, b in OTHERWISE],
)
def test_commits_that_are_not_exactly_the_tasks_are_undone_and_kern_commits(
    repo: Path, git: Git, fake: Fake, inline: Inline, first: list[str], second: list[str]
) -> None:
    git("commit", "--quiet", "--allow-empty", "--message=base")
    base = git("rev-parse", "HEAD")
    (repo / "own.txt").write_text("mine\nand more\n")
    (repo / ".env").write_text("SECRET=1\n")
    claim = "Committed: theirs"
    fake.script(
        implement=[WORK], commit=[{"run": first, "result": claim}, {"run": second, "result": claim}]
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert fake.stages == ["research", "implement", "commit", "commit"]
    assert "A first try did not hold" in fake.calls[3]["prompt"]
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert git("rev-parse", "HEAD~1") == base
    assert "- [x] add a greeting" in git("show", "HEAD:SPEC.md")
    assert git("log", "-1", "--format=%s%n%(trailers:key=Kern-Task)").splitlines()[:2] == [
        "add a greeting",
        TRAILER,
    ]
    assert paths(git) == {"m", "n", "SPEC.md"}
    assert shown(git, "HEAD:m") == "2\n"
    dirt = [" M m"] if "echo 3" in second[0] else []
    assert git("status", "--porcelain").splitlines() == [*dirt, " M own.txt", "?? .env"]


def test_an_amend_of_which_kern_died_is_undone_without_losing_the_commit_before(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    git("commit", "--quiet", "--allow-empty", "--message=base")
    base = git("rev-parse", "HEAD")
    fake.script(implement=[WORK], commit=[{"run": [AMEND], "kill": "parent"}, DONE])
    assert kern("1", "0").code == -9
    assert git("rev-parse", "HEAD") != base

    ran = kern("1", "0")

    assert ran.code == 0, ran.err
    assert subjects(git)[:2] == ["start", "base"]
    assert git("rev-parse", "HEAD~1") == base
    assert paths(git) == {"m", "n", "SPEC.md"}


def test_an_agent_that_mends_its_commit_at_the_second_try_keeps_its_message(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    fake.script(
        implement=[WORK],
        commit=[{"result": "I forgot."}, {"run": ["git commit -qm 'feat: mine'"], "result": "ok"}],
    )

    assert inline(1).code == 0

    committed(git)
    assert subjects(git) == ["start", "feat: mine"]  # ticked in SPEC.md: the trailer may be missing
    assert paths(git) == {"m", "n", "SPEC.md"}


def test_a_rejected_change_is_a_failed_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    leak = {"run": ["echo key > n"], "result": "SUCCESS"}
    fake.script(
        implement=[leak, WORK],
        commit=[
            {"result": "Looked at it.\n\nREJECT: n holds a key"},
            {"run": [COMMIT], "result": "theirs"},
        ],
    )

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", "commit", "implement", "commit"]
    assert "> **Attempt 1:** rejected at the commit: n holds a key (kept: kern/att" in spec(repo)
    assert "n holds a key" in fake.calls[3]["prompt"]
    assert subjects(git) == ["start", "theirs"]
    assert shown(git, "HEAD:n") == "1\n"
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").splitlines()
    assert shown(git, f"{ref}:n") == "key\n"


WILL_NOT = {
    "run": ["git commit -q --dry-run"],
    "result": "Looked at it.\n\nI will not commit a key.",
}


def test_what_stage_3_does_not_commit_is_a_failed_attempt_and_never_kerns_commit(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    leak = {"run": ["echo key > n"], "result": "SUCCESS"}
    fake.script(implement=[leak, WORK], commit=[WILL_NOT, WILL_NOT, DONE])

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", *["commit"] * 2, "implement", "commit"]
    said = "the commit stage committed nothing, twice: I will not commit a key. (kept: "
    assert "> **Attempt 1:** the commit stage" in spec(repo)
    assert said in spec(repo)
    assert "nothing was committed" in fake.calls[3]["prompt"]
    committed(git)
    assert shown(git, "HEAD:n") == "1\n"


def test_a_commit_that_was_taken_back_is_no_leave_for_kern_where_the_next_call_makes_none(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    sweeps = {"run": [f"git add -A && {COMMIT}"], "result": "theirs"}
    (repo / ".env").write_text("SECRET=1\n")
    fake.script(implement=[WORK, {**WORK, "run": ["echo 2 > n"]}], commit=[sweeps, WILL_NOT, DONE])

    assert inline(1).code == 0

    assert "the commit stage committed nothing: I will not commit a key." in spec(repo)
    committed(git)
    assert shown(git, "HEAD:n") == "2\n"


def test_a_stage_3_that_calls_git_wrongly_is_a_failed_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    """git gives up as it does without an identity; but here it could make a commit."""
    wrong = {"run": ["git commit -q -F nowhere"], "result": "It fails."}
    fake.script(implement=[WORK, {**WORK, "run": ["echo 2 > n"]}], commit=[wrong, wrong, DONE])

    assert inline(1).code == 0

    assert "the commit stage committed nothing, twice: It fails." in spec(repo)
    committed(git)


# ---------------------------------------------------------------- a person switches the branch

PERSON = "env -u GIT_REFLOG_ACTION -u GIT_INDEX_FILE git"


@pytest.mark.parametrize("whose", ["the agent's", "kern's own"])
@pytest.mark.parametrize(
    ("switch", "hint"),
    [("switch -q other", "git switch main"), ("checkout -q --detach other", "git switch main")],
    ids=["another branch", "detached"],
)
def test_a_commit_on_the_branch_that_you_switched_to_is_taken_back_there(
    repo: Path, git: Git, fake: Fake, inline: Inline, switch: str, hint: str, whose: str
) -> None:
    git("switch", "-qc", "other")
    (repo / "theirs.txt").write_text("of the other branch\n")
    git("add", "theirs.txt")
    git("commit", "-qm", "other work")
    git("switch", "-q", "main")
    tips = git("rev-parse", "main", "other")
    past = {"run": [f"{COMMIT} --no-verify"], "result": "theirs"}
    during = {"run": [f"{PERSON} {switch}", COMMIT], "result": "theirs"}
    if whose == "kern's own":
        hook(repo, "pre-commit", f"test -e .git/was || {{ touch .git/was; {PERSON} {switch}; }}")
    fake.script(implement=[WORK], commit=[during, DONE] if whose == "the agent's" else [past] * 2)

    stopped = inline(1)

    assert stopped.code == 1
    assert hint in stopped.err
    assert ("undone: it committed on" in stopped.err) == (whose == "the agent's")
    assert git("rev-parse", "main", "other") == tips
    assert git("rev-parse", "HEAD") == tips.split()[1], "HEAD stays where the person has it"
    assert git("branch", "--show-current") == ("other" if "--detach" not in switch else "")
    assert spec(repo).startswith("- [~] add a greeting")
    status = git("status", "--porcelain").splitlines()
    assert status == [" M SPEC.md", "?? m", "?? n"]

    git("switch", "-q", "main")
    fake.script(commit=[DONE])
    resumed = inline(1)

    assert resumed.code == 0, resumed.err
    committed(git)
    assert git("rev-parse", "other") == tips.split()[1]
    assert paths(git) == {"m", "n", "SPEC.md"}
    assert git("status", "--porcelain") == ""


def test_a_commit_on_a_branch_from_which_you_are_back_is_taken_back_there_too(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("branch", "other")
    back = f"{PERSON} symbolic-ref HEAD refs/heads/main"
    there_and_back = [f"{PERSON} switch -q other", COMMIT, back]
    fake.script(implement=[WORK], commit=[{"run": there_and_back, "result": "theirs"}, DONE])

    heard = inline(1)

    assert heard.code == 0, heard.err
    assert "undone: it committed on other" in heard.err
    committed(git)
    assert git("rev-parse", "other") == git("rev-parse", "main~1")


def test_a_branch_that_a_person_makes_of_the_tasks_commit_is_theirs(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    kept = f"{PERSON} branch kept; {PERSON} fetch -q . main:other"
    fake.script(implement=[WORK], commit=[{"run": [COMMIT, kept], "result": "theirs"}])

    assert inline(1).code == 0

    committed(git)
    assert git("rev-parse", "kept", "other").split() == [git("rev-parse", "main")] * 2


# ---------------------------------------------------------------- hooks


def test_a_red_hook_becomes_an_attempt_note(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    hook(
        repo, "pre-commit", "git show :n | grep -q bad && { echo 'n is bad' >&2; exit 1; }\nexit 0"
    )
    bad = {"run": ["echo bad > n"], "result": "SUCCESS"}
    fake.script(implement=[bad, WORK])

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", "commit", "implement", "commit"]
    (note,) = (line for line in spec(repo).splitlines() if "**Attempt 1:**" in line)
    assert "hook" in note
    assert "n is bad" in note
    assert "n is bad" in fake.calls[3]["prompt"]
    committed(git)
    assert subjects(git) == ["start", "do the task"]
    assert git("status", "--porcelain") == ""


def test_a_hook_that_refuses_the_message_is_heard_once_more(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    hook(repo, "commit-msg", "grep -q ^feat: \"$1\" || { echo 'say feat:' >&2; exit 1; }")
    feat = {"run": [f"git commit -qm 'feat: mine' -m '{TRAILER}'"], "result": "feat: mine"}
    refused = {**DONE, "result": "The hook says: say feat:"}
    fake.script(implement=[WORK], commit=[refused, feat])

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", "commit", "commit"]
    assert "the commit-msg hook refused it" in fake.calls[3]["prompt"]
    assert "say feat:" in fake.calls[3]["prompt"]
    committed(git)
    assert subjects(git) == ["start", "feat: mine"]


def test_what_git_tells_of_a_commit() -> None:
    def event(sid: str, event: str, **more: object) -> str:
        return json.dumps({"sid": sid, "event": event, **more})

    def ran(sid: str, code: int, **hooks: int) -> list[str]:
        lines = [event(sid, "cmd_name", name="commit")]
        for number, (name, ended) in enumerate(hooks.items()):
            name = name.replace("_", "-")
            lines += [
                event(sid, "child_start", child_class="hook", hook_name=name, child_id=number),
                event(sid, "child_exit", child_id=number, code=ended),
            ]
        return [*lines, event(sid, "exit", code=code)]

    both = {"pre_commit": 0, "commit_msg": 0}
    told = {
        "nothing": ([], Account()),
        "a good one": (ran("1", 0, **both), Account()),
        "refused": (ran("1", 1, pre_commit=1), Account(refused="pre-commit")),
        "its message": (ran("1", 1, pre_commit=0, commit_msg=3), Account(refused="commit-msg")),
        "then good": (ran("1", 1, pre_commit=1) + ran("2", 0, **both), Account()),
        "good, then refused": (
            ran("1", 0, **both) + ran("2", 1, pre_commit=1),
            Account(refused="pre-commit"),
        ),
        "no signature": (ran("1", 128, **both), Account(gave_up=True)),
        "a wrong flag": (ran("1", 129), Account()),
        "nothing staged": (ran("1", 1, pre_commit=0), Account()),
        "a hook that ends badly afterwards": (ran("1", 0, **both, post_commit=1), Account()),
        "one in a hook": (ran("1/2", 1, pre_commit=1), Account()),
        "torn": (["{", "[]", '{"sid": 1}'], Account()),
    }
    for what, (lines, expected) in told.items():
        assert trace.read(lines) == expected, what


def test_a_commit_past_the_hooks_is_undone(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    hook(repo, "pre-commit", "echo ran >> .git/ran")
    fake.script(implement=[WORK], commit=[{"run": [f"{COMMIT} --no-verify"], "result": "theirs"}])

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", "commit", "commit"]
    assert "hook" in fake.calls[3]["prompt"]
    committed(git)
    assert subjects(git) == ["start", "add a greeting"]
    assert (repo / ".git" / "ran").read_text() == "ran\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"git commit -qF ../secret --trailer '{TRAILER}'", "it used `-qF`"),
        (f"git commit -qF - --trailer '{TRAILER}' < ../secret", "it used `-qF`"),
        (f"{COMMIT} --author='Some One <some@one>'", "it used `--author="),
        (f"GIT_AUTHOR_NAME=other {COMMIT}", "its author is not t <t@example.com>"),
        (f"GIT_COMMITTER_EMAIL=o@example.com {COMMIT}", "its committer is not t <t@example.com>"),
        (f"GIT_AUTHOR_DATE='2001-01-01 00:00' {COMMIT}", "its author date is not the time"),
        (f"GIT_COMMITTER_DATE='2037-01-01 00:00' {COMMIT}", "its committer date is not the time"),
        (f"GIT_TRACE2_EVENT=0 {COMMIT}", "it was not made by `git commit`"),
    ],
)
def test_a_commit_with_more_than_a_message_is_undone_and_the_next_try_knows_why(
    repo: Path, git: Git, fake: Fake, inline: Inline, line: str, why: str
) -> None:
    (repo.parent / "secret").write_text("a password\n")
    fake.script(implement=[WORK], commit=[{"run": [line], "result": "theirs"}, DONE])

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", "commit", "commit"]
    assert why in fake.calls[3]["prompt"]
    committed(git)
    assert subjects(git) == ["start", "do the task"]
    assert "password" not in git("log", "--format=%B%an%cn%ae%ce")


def test_an_identity_of_the_person_s_own_making_is_no_forgery(
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
    hook(repo, "prepare-commit-msg", "echo 'by a hook' >> \"$1\"")
    fake.script(implement=[WORK])

    assert inline(1).code == 0

    assert fake.stages == ["research", "implement", "commit"]
    committed(git)
    told = git("log", "-1", "--format=%an %ae %cn %as").splitlines()
    assert told == ["Wörk, Inc w@example.com robot 2001-01-01"]
    assert "by a hook" in git("log", "-1", "--format=%B")


def test_a_hook_may_format_the_tasks_files(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "own.txt").write_text("mine\nand more\n")
    hook(repo, "pre-commit", "sed -i s/1/one/ n && git add n")
    fake.script(implement=[WORK])

    assert inline(1).code == 0

    committed(git)
    assert subjects(git) == ["start", "do the task"]
    assert fake.stages == ["research", "implement", "commit"]
    assert shown(git, "HEAD:n") == "one\n"
    assert (repo / "n").read_text() == "one\n"
    assert git("status", "--porcelain") == " M own.txt"


@pytest.mark.parametrize(
    "script",
    ["echo x > foreign && git add foreign", "git add a.txt", "git reset -q HEAD -- n"],
    ids=["a new file", "the person's lines in the task's file", "less than the task"],
)
def test_a_hook_neither_adds_what_is_not_the_tasks_nor_takes_away_what_is(
    repo: Path, git: Git, fake: Fake, inline: Inline, script: str
) -> None:
    (repo / "own.txt").write_text("mine\nand more\n")
    (repo / "a.txt").write_text(ORIGINAL.replace("one", "ONE"))
    hook(repo, "pre-commit", f"test -e ../quiet || {{ {script}; }}")
    run = [*EDIT["run"], "echo 1 > n"]
    fake.script(
        implement=[{**EDIT, "run": run}, {**EDIT, "run": [*run, "touch ../quiet"]}],
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    (note,) = (line for line in spec(repo).splitlines() if "**Attempt 1:**" in line)
    assert "hook" in note
    committed(git)
    assert paths(git) == {"a.txt", "n", "SPEC.md"}
    assert shown(git, "HEAD:a.txt") == SHOUTED
    assert (repo / "own.txt").read_text() == "mine\nand more\n"
    assert (repo / "a.txt").read_text() == SHOUTED.replace("one", "ONE")
    left = git("status", "--porcelain").splitlines()
    assert [line for line in left if line != "?? foreign"] == [" M a.txt", " M own.txt"]


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


# ---------------------------------------------------------------- SPEC.md outside git


@pytest.mark.parametrize("message", [COMMIT, "git commit -qm theirs"], ids=["trailer", "without"])
def test_where_git_ignores_spec_md_the_trailer_is_the_witness(
    repo: Path, git: Git, fake: Fake, inline: Inline, message: str
) -> None:
    git("rm", "--quiet", "--cached", "SPEC.md")
    (repo / ".gitignore").write_text("SPEC.md\n")
    git("add", ".gitignore")
    git("commit", "--quiet", "--amend", "--message=start")
    fake.script(implement=[WORK], commit=[{"run": [message], "result": "theirs"}])

    ran = inline(1)

    assert ran.code == 0
    assert "git ignores SPEC.md" in ran.err
    assert "- [x] add a greeting" in spec(repo)
    assert subjects(git) == ["start", "theirs" if TRAILER in message else "add a greeting"]
    assert TRAILER in git("log", "-1", "--format=%B")
    assert paths(git) == {"m", "n"}
    assert git("status", "--porcelain") == ""


def test_an_untracked_spec_md_comes_in_with_the_first_commit(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("rm", "--quiet", "--cached", "SPEC.md")
    git("commit", "--quiet", "--amend", "--message=start")
    fake.script(implement=[WORK])

    assert inline(1).code == 0

    committed(git)
    assert paths(git) == {"m", "n", "SPEC.md"}
    assert git("status", "--porcelain") == ""


# ---------------------------------------------------------------- kern's own commit fails


@pytest.mark.unheld
def test_a_failing_signature_stops_the_run_and_the_next_one_asks_stage_3_anew(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    git("config", "commit.gpgSign", "true")
    git("config", "gpg.program", "false")
    hook(repo, "pre-commit", "true")
    (repo / "own.txt").write_text("mine\nand more\n")
    fake.script(implement=[WORK])

    stopped = inline(1)

    assert stopped.code == 1
    assert "gpg failed to sign" in stopped.err
    assert "signing key" in stopped.err
    assert subjects(git) == ["start"]
    assert "- [~] add a greeting" in spec(repo)
    assert "Attempt" not in spec(repo)

    git("config", "commit.gpgSign", "false")
    assert fake.stages == ["research", "implement", "commit", "commit"]
    resumed = inline(1)

    assert resumed.code == 0
    assert fake.stages[4:] == ["commit"]
    committed(git)
    assert paths(git) == {"m", "n", "SPEC.md"}
    assert git("status", "--porcelain") == " M own.txt"


@pytest.mark.parametrize(
    ("mark", "letter"), [("--skip-worktree", "S"), ("--assume-unchanged", "h"), ("both", "s")]
)
def test_what_you_marked_for_git_to_overlook_stays_marked(
    repo: Path, git: Git, fake: Fake, inline: Inline, mark: str, letter: str
) -> None:
    for option in ("--skip-worktree", "--assume-unchanged") if mark == "both" else (mark,):
        git("update-index", option, "a.txt")
    text = (repo / "a.txt").read_text()
    (repo / "a.txt").write_text(f"{text}PASSWORD=x\n")
    wrote = "sed -i s/one/ONE/ a.txt"
    fake.script(
        implement=[
            {"run": [wrote, "echo x > b.txt"], "result": "FAILED: no"},
            {"run": [wrote], "result": "SUCCESS"},
        ]
    )
    ran = inline()
    assert ran.code == 0, ran.err
    assert git("ls-files", "-v", "a.txt") == f"{letter} a.txt"
    assert git("show", "HEAD:a.txt") == text.replace("one", "ONE").rstrip("\n")
    assert (repo / "a.txt").read_text() == f"{text.replace('one', 'ONE')}PASSWORD=x\n"
    assert git("status", "--porcelain") == ""


def test_a_split_index_leaves_no_shared_parts_behind(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    for n in range(50):  # of few entries git itself writes the shared part anew
        (repo / f"{n}.txt").write_text(f"{n}\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=many")
    git("config", "core.splitIndex", "true")
    git("update-index", "--split-index")
    before = sorted(path.name for path in (repo / ".git").glob("sharedindex.*"))
    assert len(before) == 1
    ran = inline()
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in (repo / ".git").glob("sharedindex.*")) == before


def test_a_partial_sparse_clone_needs_no_more_blobs_than_it_has(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    for folder in ("near", "far"):
        (repo / folder).mkdir()
        for n in range(5):
            (repo / folder / f"{n}.txt").write_text(f"{folder} {n}\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=folders")
    git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    origin = f"file://{repo}"
    git("clone", "--quiet", "--filter=blob:none", "--no-checkout", origin, str(clone))
    git("sparse-checkout", "set", "near", cwd=clone)
    git("checkout", "--quiet", cwd=clone)
    missing = git("rev-list", "--objects", "--all", "--missing=print", cwd=clone).count("?")
    assert missing == 5
    git("remote", "set-url", "origin", "file:///gone", cwd=clone)
    fake.script(
        implement=[
            {"run": ["echo x >> near/1.txt"], "result": "FAILED: no"},
            {"run": ["echo work >> near/1.txt"], "result": "SUCCESS"},
        ]
    )
    ran = inline(cwd=clone)
    assert ran.code == 0, ran.err
    assert git("show", "--format=", "--name-only", cwd=clone) == "SPEC.md\nnear/1.txt"
    assert git("ls-files", "-t", "far/1.txt", cwd=clone) == "S far/1.txt"
    assert git("status", "--porcelain", cwd=clone) == ""
    left = git("rev-list", "--objects", "--all", "--missing=print", cwd=clone).count("?")
    assert left == missing


# ---------------------------------------------------------------- the index alone


@pytest.fixture
def tracked(repo: Path, git: Git) -> Path:
    """A repository that tracks a file that it should not, with edits of the person's in it."""
    (repo / "secrets.env").write_text("S=1\n")
    (repo / ".gitignore").write_text(".env*\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=secrets")
    (repo / "secrets.env").write_text("S=mine\n")
    (repo / "staged.txt").write_text("staged\n")
    git("add", "staged.txt")
    return repo


STAGED = "A  staged.txt"


@pytest.mark.unheld
def test_a_task_can_stop_tracking_a_file(
    tracked: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    fake.script(
        implement=[
            {"run": ["git rm -q --cached secrets.env"], "result": "FAILED: no"},
            {"run": ["git rm -q --cached secrets.env"], "result": "SUCCESS"},
        ]
    )
    ran = inline()
    assert ran.code == 0, ran.err
    assert "the task stops tracking secrets.env" in ran.err
    assert git("show", "--format=", "--name-status").split("\n") == [
        "M\tSPEC.md",
        "D\tsecrets.env",
    ]
    assert (tracked / "secrets.env").read_text() == "S=mine\n"
    assert git("status", "--porcelain") == f"{STAGED}\n?? secrets.env"
    ref = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts")
    assert "secrets.env" not in git("ls-tree", "-r", "--name-only", ref)


@pytest.mark.unheld
@pytest.mark.parametrize("rules", ["", "echo 'dist/' >> .gitignore"])
def test_a_task_can_add_a_file_that_git_ignores(
    tracked: Path, git: Git, fake: Fake, inline: Inline, rules: str
) -> None:
    lines = ["echo S= > .env.example", "mkdir dist", "printf 'x' > dist/run", "chmod +x dist/run"]
    add = "git add -f .env.example dist/run"
    step = {"run": [*lines, rules, add], "result": "SUCCESS"}
    fake.script(implement=[{**step, "result": "FAILED: no"}, step])
    ran = inline()
    assert ran.code == 0, ran.err
    assert ".env.example" in git("show", "--format=", "--name-only").split("\n")
    assert git("show", "HEAD:.env.example") == "S="
    assert git("ls-tree", "HEAD", "dist/run").startswith("100755 blob")
    assert git("status", "--porcelain") == f" M secrets.env\n{STAGED}"


@pytest.mark.parametrize(
    "mess",
    [
        "rm .git/index",
        "git read-tree --empty",
        "git reset -q --mixed HEAD~1",
        "git reset -q",
        "git add -A",
        "git rm -q --cached staged.txt",
        "git stash -q; git stash pop -q",
    ],
)
def test_other_changes_of_the_index_are_no_part_of_the_task(
    tracked: Path, git: Git, fake: Fake, inline: Inline, mess: str
) -> None:
    fake.script(implement=[{"run": ["echo work > work.txt", mess], "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    assert git("show", "--format=", "--name-only") == "SPEC.md\nwork.txt"
    assert git("status", "--porcelain") == f" M secrets.env\n{STAGED}"
    assert (tracked / "secrets.env").read_text() == "S=mine\n"


def test_a_commit_that_stage_3_rejects_in_the_same_breath_is_taken_back(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    regrets = {**DONE, "result": "do the task\n\nREJECT: it holds a key, I should not have"}
    fake.script(implement=[WORK, {"run": ["echo 2 > n"], "result": "SUCCESS"}])
    fake.script(commit=[regrets, DONE])

    told = inline(1)

    assert told.code == 0
    assert fake.stages == ["research", "implement", "commit", "implement", "commit"]
    assert "the agent's commit was undone: it rejected the change itself" in told.err
    assert "**Attempt 1:** rejected at the commit: it holds a key" in spec(repo)
    committed(git)
    assert shown(git, "HEAD:n") == "2\n"


def test_what_you_stage_meanwhile_is_kept_where_the_attempt_fails(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    mine = "echo v1 > own.txt; env -u GIT_INDEX_FILE git add own.txt; echo v2 > own.txt"
    fake.script(
        implement=[WORK, {"result": "SKIPPED: no"}],
        commit=[{"run": [mine], "result": "REJECT: no"}],
    )
    ran = inline()
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts/*/1-staged").split()
    assert shown(git, f"{ref}:own.txt") == "v1\n"
    assert (
        f"own.txt; the index is as before, what was staged is saved: git show {ref[5:]}" in ran.err
    )
    assert git("diff", "--cached", "--name-only") == ""
    assert (repo / "own.txt").read_text() == "v2\n"


def test_a_task_that_you_staged_beside_the_current_one_stays_staged_on_top_of_its_tick(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n")
    (repo / "LEARNINGS.md").write_text("# L\n")
    (repo / "a.txt").write_text(ORIGINAL)
    git("add", "--all")
    git("commit", "-qm", "tasks")
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] another\n")
    (repo / "LEARNINGS.md").write_text("# L\n\n## 2020-01-01 - mine\n\nMine.\n")
    (repo / "a.txt").write_text(ORIGINAL.replace("seven", "seven of mine"))
    git("add", "--all")
    (repo / "a.txt").write_text(ORIGINAL)
    learns = {**EDIT, "result": "## Learned\nGreet late.\n\nSUCCESS"}
    fake.script(implement=[learns])
    ran = inline(1)
    assert ran.code == 0, ran.err
    staged = shown(git, ":SPEC.md")
    assert staged.startswith("- [x] add a greeting\n  > **Research:**")
    assert staged.endswith("- [ ] another\n")
    learned = shown(git, ":LEARNINGS.md")
    assert "Mine." in learned and learned.count("Greet late.") == 1
    assert "you had staged a.txt" in ran.err and "git restore --staged PATH" in ran.err


@pytest.mark.unheld
def test_what_stage_2_marks_in_your_index_goes_back(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "own.txt").write_text("of mine\n")
    (repo / "a.txt").write_text("mine\n")
    (repo / "u.txt").write_text("mine\n")
    git("update-index", "--assume-unchanged", "a.txt")
    git("add", "-N", "u.txt")
    before = git("status", "--porcelain"), git("ls-files", "-v", "a.txt", "own.txt", "u.txt")
    marks = (
        "git update-index --no-assume-unchanged a.txt; git update-index --assume-unchanged own.txt"
    )
    fake.script(implement=[{"run": [f"{marks}; git add -A"], "result": "SKIPPED: no"}])
    ran = inline()
    assert git("ls-files", "-v", "a.txt", "own.txt", "u.txt") == before[1]
    assert "M own.txt" in before[0] and " A u.txt" in before[0]
    shown = git("status", "--porcelain").splitlines()
    assert [row for row in shown if "SPEC" not in row] == before[0].splitlines()
    assert "of a.txt, own.txt" in ran.err
