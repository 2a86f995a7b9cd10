"""What goes wrong with agents and tasks: retries, attempts, tiers, and limits that were broken."""

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from kern.events import StageRetried
from tests.conftest import Fake, Git, Inline, Kern

Step = dict[str, Any]

READY = "- Files: a.txt\n- Pattern: a.txt:1\n\nREADY"
WORK: Step = {"run": ["echo 1 > n"], "result": "SUCCESS"}
DONE: list[Step] = [{"result": "do the task"}]


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def write_spec(repo: Path, git: Git, text: str) -> None:
    (repo / "SPEC.md").write_text(text)
    git("commit", "--quiet", "--all", "--message=tasks")


def notes(repo: Path, kind: str) -> list[str]:
    return re.findall(rf"> \*\*({kind}.*)", spec(repo))


def kept(git: Git) -> dict[str, str]:
    """What is kept of attempts: the last part of the ref's name to the ref."""
    refs = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").splitlines()
    return {ref.rpartition("/")[2]: ref for ref in refs}


def subjects(git: Git) -> list[str]:
    return git("log", "--reverse", "--format=%s").splitlines()


def error(status: int | None, text: str, **more: object) -> Step:
    """How claude reports an API failure: subtype success, is_error true."""
    fields = {"is_error": True, "api_error_status": status, "terminal_reason": "api_error", **more}
    return {"result": text, "fields": fields, "exit": 1}


def fails(reason: str, *run: str) -> Step:
    return {"run": list(run), "result": f"Tried.\n\nFAILED: {reason}"}


# ---------------------------------------------------------------- retries

PARTIAL = ["echo half > half.txt", "echo two >> a.txt", "git add -A"]
OVERLOADED = error(529, "API Error: 529 Overloaded")
REFUSED = error(None, "API Error: Unable to connect to API (ConnectionRefused)")


def test_transient_faults_are_retried_and_leave_no_trace_in_spec_md(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    fake.script(
        research=[OVERLOADED, {"exit": 0}, {"result": READY}],
        implement=[{**REFUSED, "run": PARTIAL}, {"run": [*PARTIAL, "kill -9 $PPID"]}, WORK],
        commit=[error(503, "oops"), {"stderr": "Segmentation fault\n", "exit": 139}, *DONE],
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert fake.stages == ["research"] * 3 + ["implement"] * 3 + ["commit"] * 3
    waits = [event.wait_seconds for event in ran.events if isinstance(event, StageRetried)]
    assert len(waits) == 6
    assert sum(ran.slept) == pytest.approx(sum(waits))
    for first, second in zip(waits[::2], waits[1::2], strict=True):
        assert 2 <= first <= 3 < 4 <= second <= 5
    assert "529 Overloaded: again in" in ran.err
    assert notes(repo, "Attempt") == []
    assert set(git("show", "--format=", "--name-only").splitlines()) == {"n", "SPEC.md"}
    assert git("status", "--porcelain") == ""
    assert {name.partition("+")[0] for name in kept(git)} == {"1-retry"}
    assert git("show", f"{kept(git)['1-retry']}:half.txt") == "half"


# ---------------------------------------------------------------- attempts

REFUSAL = error(None, "I will not", stop_reason="refusal")
TURNS: Step = {
    "result": "SUCCESS",
    "fields": {"is_error": True, "subtype": "error_max_turns", "errors": ["40 turns"]},
}
UNPROVEN: dict[str, list[tuple[Step, str]]] = {
    "words": [
        (fails("the API lacks it"), "the API lacks it"),
        ({"result": "Could not reach SUCCESS"}, "Could not reach SUCCESS"),
        ({"result": "UNSUCCESSFUL"}, "UNSUCCESSFUL"),
    ],
    "shapes": [
        ({"result": ""}, "empty"),
        ({"result": "It is a SUCCESS, well, almost"}, "well, almost"),
        ({"result": "I call it SUCCESS, but two tests fail"}, "two tests fail"),
    ],
    "errors": [(TURNS, "turns"), (REFUSAL, "I will not"), ({"result": "FAILED"}, "no reason")],
    "claims": [
        ({"result": "SKIPPED"}, "SKIPPED"),
        ({"result": "DECOMPOSED"}, "without usable subtasks"),
        ({"result": "Done.\n\n`SUCCESS`", "unchanged": True}, "nothing changed"),
    ],
}


@pytest.mark.parametrize("group", UNPROVEN)
def test_nothing_unproven_is_committed_and_each_attempt_says_why(
    repo: Path, git: Git, fake: Fake, inline: Inline, group: str
) -> None:
    steps = [
        step if step.get("unchanged") else {**step, "run": [f"echo {number} > half.txt"]}
        for number, (step, _) in enumerate(UNPROVEN[group], 1)
    ]
    fake.script(implement=[*steps, {"result": "It cannot be split."}])

    ran = inline(1)

    assert ran.code == 1
    twice = ["implement", "implement"]
    assert fake.stages == ["research", *twice, "research", *twice]
    assert subjects(git) == ["start"]
    attempts = notes(repo, "Attempt")
    for number, (_, why) in enumerate(UNPROVEN[group], 1):
        assert attempts[number - 1].startswith(f"Attempt {number}:** ")
        assert why in attempts[number - 1]
        assert f"{kept(git)[str(number)].removeprefix('refs/')})" in attempts[number - 1]
        if not steps[number - 1].get("unchanged"):
            assert git("show", f"{kept(git)[str(number)]}:half.txt") == str(number)
        if number < 3:
            assert why in fake.calls[number + 1]["prompt"]
    assert len(attempts) == 3
    assert all(len(note) <= 320 for note in attempts)
    assert len(notes(repo, "Skipped")) == 1
    assert not (repo / "half.txt").exists()
    assert git("status", "--porcelain") == " M SPEC.md"


def tree(repo: Path) -> dict[bytes, tuple[int, bytes]]:
    """Every path of the working tree with its type, permissions and bytes; SPEC.md is kern's."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for folder, names, files in os.walk(os.fsencode(repo)):
        if b".git" in names:
            names.remove(b".git")
        for name in (*names, *files):
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                held = os.readlink(path)
            else:
                held = Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(mode) else b""
            found[os.path.relpath(path, os.fsencode(repo))] = (mode, held)
    found.pop(b"SPEC.md")
    return found


MESS = [
    r"printf '\377\000\001' > image.bin && chmod +x a.txt",
    "rm own.txt && mkdir -p own.txt/deep && echo x > own.txt/deep/f",
    "rm -r pack && echo x > pack",
    "ln -sfn elsewhere link && rm other && echo x > other",
    "rm dos.txt run.sh && ln -s ../outside dos.txt && ln -s ../outside/f run.sh",
    r"printf 'a\nc\n' > crlf.txt && rm crlf2.txt",
    "mkdir -p new/er && echo x > new/er/f && ln -s f new/er/g",
    "echo '*.log' >> .gitignore && echo x > hidden.log && rm -f .gitattributes",
    "rm gone.txt && echo 'by agent' >> dirty.txt",
    "rm -f -- '-dash' 'tab\tand \"quote\"' \"$(printf 'line\\nbreak')\" $(printf '\\351')",
    "echo built > build/out",
    "git add -A && git rm -q --cached a.txt && git stash list",
]


def test_a_failed_attempt_leaves_the_tree_byte_for_byte_as_it_was(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    every_byte = bytes(range(256)) * 40
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("not the repository's\n")
    (repo / "image.bin").write_bytes(every_byte)
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "pack" / "age").mkdir(parents=True)
    (repo / "pack" / "age" / "f").write_text("deep\n")
    (repo / "link").symlink_to("pack")
    (repo / "other").symlink_to("nowhere")
    (repo / ".gitattributes").write_text("crlf2.txt text eol=crlf\n")
    (repo / ".gitignore").write_text("build/\n")
    for name in ("crlf.txt", "crlf2.txt", "dos.txt"):
        (repo / name).write_bytes(b"a\r\nb\r\n")
    for name in ("dirty.txt", "gone.txt", "-dash", 'tab\tand "quote"', "line\nbreak"):
        (repo / name).write_text("first\n")
    (repo / os.fsdecode(b"\xe9")).write_text("latin\n")
    git("config", "core.autocrlf", "true")
    git("-c", "core.safecrlf=false", "add", "--all")
    git("commit", "--quiet", "--message=all")
    git("read-tree", "--empty")
    git("reset", "--quiet", "--hard")  # with the ends of lines that git writes
    (repo / "build").mkdir()
    (repo / "build" / "out").write_text("ignored\n")
    before, index = tree(repo), git("ls-files", "--stage")
    assert git("status", "--porcelain") == ""
    fake.script(implement=[fails("no", *MESS), {"run": MESS, "result": "SKIPPED: no key"}])

    ran = inline(1)

    assert ran.code == 1, ran.err
    assert [note[:9] for note in notes(repo, "")] == ["Research:", "Attempt 1", "Skipped:*"]
    assert tree(repo) == before
    assert git("ls-files", "--stage") == index
    assert git("status", "--porcelain") == " M SPEC.md"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["f"]
    assert (tmp_path / "outside" / "f").read_text() == "not the repository's\n"
    for name in ("1", "2-stopped"):
        shown = git("ls-tree", "-r", "--name-only", kept(git)[name]).splitlines()
        assert {"new/er/f", "own.txt/deep/f", "pack"} <= set(shown)


# ---------------------------------------------------------------- limits broken


@pytest.mark.unheld
def test_what_is_kerns_in_spec_md_comes_back_and_all_else_is_the_persons(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write_spec(
        repo, git, "# Plan\n\n- [ ] first\n- [ ] second\n  > **Attempt 1:** no\n- [ ] third\n"
    )
    (repo / "LEARNINGS.md").write_text("# Learnings\n\n## 2026-01-01 - a\n\nkeep\n")
    agent = [
        "sed -i -e 's/\\[~\\] first/[x] first/' -e 's/\\[ \\] third/[x] third/' SPEC.md",
        "sed -i -e '/second/d' -e '/Attempt 1/d' SPEC.md",
        "printf -- '- [x] forged\\n\\nwords\\n' >> SPEC.md",
        "rm LEARNINGS.md",
        "echo 1 > n",
    ]
    fake.script(implement=[{"run": agent, "result": "SUCCESS"}])

    ran = inline(1)

    assert ran.code == 0, ran.err
    shown = [
        line for line in spec(repo).splitlines() if "Research" not in line and "  >  " not in line
    ]
    assert "- [x] first" in shown
    assert "- [ ] third" in shown
    assert "words" in shown
    assert "- [ ] forged" in shown
    assert (repo / "LEARNINGS.md").read_text() == "# Learnings\n\n## 2026-01-01 - a\n\nkeep\n"
    for said in (
        "words are gone from SPEC.md; as before an agent ran: git show",
        "did not set",
        "LEARNINGS.md was deleted",
    ):
        assert said in ran.err
    assert git("show", "HEAD:SPEC.md") == spec(repo).rstrip("\n")


BRANCH = ["git checkout -q -b evil"]
ORPHAN = ["git checkout -q --orphan orphan"]
RENAMED = ["git branch -m main renamed"]
CONFLICT = [
    "git checkout -q -b side && echo 1 > a.txt && git commit -qam side && git checkout -q main",
    "echo 2 > a.txt && git commit -qam more",
]
BRANCH_COMMIT = ["git checkout -q -b worse && git add n && git commit -qm evil"]


@pytest.mark.unheld
@pytest.mark.parametrize(
    "breaches",
    [
        [BRANCH, BRANCH_COMMIT],
        [["git checkout -q --detach"]],
        [ORPHAN, RENAMED],
        [[*CONFLICT, "git merge -q side"], ["git branch -D side", *CONFLICT, "git rebase -q side"]],
    ],
    ids=["branches", "detached", "no branch", "conflicts"],
)
def test_a_branch_or_a_merge_that_is_left_behind_fails_the_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline, breaches: list[list[str]]
) -> None:
    steps = [
        {"run": [f"echo bad {number} > n", *breach], "result": "SUCCESS"}
        for number, breach in enumerate(breaches)
    ]
    fake.script(implement=[*steps, WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert ran.err.count("broke its limits") >= len(breaches)
    assert len(notes(repo, "Attempt")) == len(breaches)
    assert git("symbolic-ref", "--short", "HEAD") == "main"
    assert subjects(git) == ["start", "do the task"]
    assert git("show", "HEAD:n") == "1"
    for left in ("MERGE_HEAD", "rebase-merge", "sequencer"):
        assert not (repo / ".git" / left).exists()
    assert git("show", f"{kept(git)['1']}:n") == "bad 0"
    assert git("status", "--porcelain") == ""


# ---------------------------------------------------------------- research that writes


@pytest.mark.unheld
def test_what_a_person_edits_in_place_during_research_is_saved_but_for_spec_md_which_is_theirs(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    person = ["echo idea > idea.txt", "sed -i s/one/ONE/ a.txt", "echo '- [ ] more' >> SPEC.md"]
    fake.script(
        research=[{"run": person, "result": READY}],
        implement=[fails("no", "echo half > half.txt"), WORK],
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert fake.stages.count("research") == 1
    said = re.search(r"a\.txt, idea\.txt changed .* saved: git checkout (\S+) -- PATH", ran.err)
    assert said, ran.err
    assert git("show", f"{said[1]}:idea.txt") == "idea"
    assert git("show", f"{said[1]}:a.txt").startswith("ONE\n")
    assert git("status", "--porcelain") == ""
    assert "- [ ] more\n" in spec(repo)
    assert set(git("show", "--format=", "--name-only").splitlines()) == {"n", "SPEC.md"}


HIDING = {
    "a virtual environment": ([".venv/.gitignore", "*"], [".venv/bin/python"]),
    "the top": (
        [".gitignore", "/.gitignore\nsecret.env\nmodules/\n"],
        ["secret.env", "modules/m.js"],
    ),
}


@pytest.mark.parametrize("place", HIDING)
@pytest.mark.parametrize("how", ["fails", "skips", "killed", "takes the rule away"])
def test_what_a_self_hiding_gitignore_hid_before_stays_untouched(
    repo: Path,
    git: Git,
    fake: Fake,
    inline: Inline,
    kern: Kern,
    place: str,
    how: str,
) -> None:
    (name, rules), hidden = HIDING[place]
    for path, text in ((name, rules), *((path, "x\n") for path in hidden)):
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    assert git("status", "--porcelain") == ""
    steps: dict[str, Step] = {
        "fails": fails("no", "echo half > n"),
        "skips": {"run": ["echo half > n"], "result": "SKIPPED: no"},
        "killed": {"run": ["echo half > n"], "kill": "parent"},
        "takes the rule away": fails("no", f"rm {name}", "echo half > n"),
    }
    fake.script(implement=[steps[how], {"run": ["echo 1 > n"], "result": "SUCCESS"}])

    if how == "killed":
        assert kern("1", "0").code < 0
    ran = inline(1)

    assert ran.code == (1 if how == "skips" else 0), ran.err
    assert all((repo / path).read_text() == "x\n" for path in hidden)
    assert (repo / name).read_text() == rules
    assert "changed while kern worked" not in ran.err
    for ref in git("for-each-ref", "--format=%(refname)", "refs/kern").split():
        assert not {*hidden} & set(git("ls-tree", "-r", "--name-only", ref).split())
    if how != "skips":
        assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "n"]
