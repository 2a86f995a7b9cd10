"""What goes wrong with agents and tasks: retries, attempts, tiers, and limits that were broken."""

import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kern.events import StageRetried
from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern, wait_for

Step = dict[str, Any]

READY = "- Files: a.txt\n- Pattern: a.txt:1\n\nREADY"
WORK: Step = {"run": ["echo 1 > n"], "result": "SUCCESS"}
DONE: list[Step] = [{"result": "do the task"}]
PARTS = "## Subtasks\n- [ ] part one\n- part two\n2. part three\n\nDECOMPOSED"


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


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


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


def test_these_faults_are_transient(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    aborted = error(None, "x", subtype="error_during_execution", terminal_reason="aborted_tools")
    fake.script(
        research=[error(408, "timeout"), error(409, "conflict"), {"result": READY}],
        implement=[error(429, "Request rejected (429)"), {"stdout": '{"type": "resu'}, WORK],
        commit=[{"stdout": "Killed", "exit": 137}, aborted, *DONE],
    )

    assert inline(1).code == 0

    assert fake.stages == ["research"] * 3 + ["implement"] * 3 + ["commit"] * 3
    assert notes(repo, "Attempt") == []
    assert kept(git) == {}


@pytest.mark.parametrize("stage", ["research", "implement", "commit"])
def test_a_fault_that_lasts_ends_the_run_and_the_next_one_goes_on_there(
    repo: Path, git: Git, fake: Fake, inline: Inline, stage: str
) -> None:
    fake.script(**{stage: [{**OVERLOADED, "run": PARTIAL if stage == "implement" else []}]})

    stopped = inline(3, wait=False)

    order = ["research", "implement", "commit"]
    before = order[: order.index(stage)]
    assert stopped.code == 3
    assert fake.stages == [*before, stage, stage, stage]
    assert "Overloaded" in stopped.err
    assert "next:" not in stopped.err
    assert "- [~] add a greeting" in spec(repo)
    assert not notes(repo, "Attempt") + notes(repo, "Skipped")
    assert subjects(git) == ["start"]

    fake.script(**{stage: DONE if stage == "commit" else []})
    resumed = inline(1)

    assert resumed.code == 0, resumed.err
    again = fake.stages[len(before) + 3 :]
    # a commit stage that answered would not be asked again; one that never did is
    assert again == order[order.index(stage) :]
    assert len(subjects(git)) == 2
    assert "half.txt" not in git("ls-tree", "-r", "--name-only", "HEAD")
    assert git("status", "--porcelain") == ""


# ---------------------------------------------------------------- what a person must settle

ROOT = "--dangerously-skip-permissions cannot be used with root/sudo privileges\n"
BILLING = [{"type": "assistant", "error": "billing_error", "message": {"content": []}}]
PERMANENT: dict[str, tuple[Step, str, str]] = {
    "key": (error(401, "Invalid API key · Fix external API key"), "Invalid API key", "log in"),
    "revoked": (error(403, "Your account does not have access"), "not have access", "log in"),
    "login": (error(None, "Not logged in · Please run /login"), "Not logged in", "log in"),
    "request": (error(400, "API Error: 400 tools.3: bad"), "tools.3: bad", "kern doctor"),
    "model": (error(404, "issue with the selected model (opsu)"), "opsu", "model:"),
    "credit": (
        {**error(400, "Credit balance is too low"), "events": BILLING},
        "Credit balance",
        "pay, then run kern again",
    ),
    "option": ({"stderr": "error: unknown option '--tools'\n", "exit": 1}, "--tools", "doctor"),
    "choice": ({"stderr": "error: option bad choice\n", "exit": 1}, "bad choice", "kern doctor"),
    "root": ({"stderr": ROOT, "exit": 1}, "root", "IS_SANDBOX=1"),
    "command": ({"result": "Unknown command: /x", "fields": {"num_turns": 0}}, "/x", "prompt"),
}


@pytest.mark.parametrize("what", PERMANENT)
def test_what_only_a_person_can_settle_stops_the_run_at_once(
    repo: Path, git: Git, fake: Fake, inline: Inline, what: str
) -> None:
    step, words, hint = PERMANENT[what]
    fake.script(research=[step])

    ran = inline(3)

    assert ran.code == 1
    assert fake.stages == ["research"]
    assert ran.slept == []
    complaint, told = ran.err.split("\nkern: ")[1].split("\n  hint: ")
    assert words in complaint
    assert hint in told
    assert "- [~]" in spec(repo)
    assert not notes(repo, "Attempt") + notes(repo, "Skipped")


def test_a_usage_limit_ends_the_run_with_its_reset_time(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    said = "You've hit your session limit · resets 9:33am (UTC)"
    told = {"status": "rejected", "resetsAt": 1795253606, "rateLimitType": "five_hour"}
    event = {"type": "rate_limit_event", "rate_limit_info": told}
    fake.script(implement=[{**error(429, said), "events": [event], "run": PARTIAL}])

    limited = inline(1, wait=False)

    assert limited.code == 3
    assert limited.slept == []
    assert "resets 2026-11-2" in limited.err
    assert not notes(repo, "Attempt") + notes(repo, "Skipped")

    fake.script(implement=[error(429, said)])
    by_words = inline(1, wait=False)
    assert by_words.code == 3
    assert "resets 9:33am (UTC)" in by_words.err

    warning = {**event, "rate_limit_info": {**told, "status": "allowed_warning"}}
    talk = f"The page now says: {said}\n\nSUCCESS"
    fake.script(implement=[{"run": ["echo 1 > n"], "result": talk, "events": [warning]}])
    assert inline(1).code == 0
    assert fake.stages == ["research", "implement", "implement", "implement", "commit"]
    assert git("ls-tree", "--name-only", "HEAD").splitlines() == [
        "SPEC.md",
        "a.txt",
        "n",
        "own.txt",
    ]


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


def test_decoration_around_the_code_is_no_matter(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    polite = "## Learned\nmake db first\n\n**Status:** SUCCESS — it works\n\nLet me know!"
    ends = ("Not FAILED.\n\n**`SUCCESS`.**\n\n", polite)
    write_spec(repo, git, "- [ ] one\n- [ ] two\n")
    before = len(subjects(git))
    fake.script(
        implement=[{"run": ["echo 1 >> n"], "result": end} for end in ends],
    )

    assert inline(2).code == 0
    assert len(subjects(git)) == before + 2
    assert (repo / "LEARNINGS.md").read_text().count("- L1 +0 -0 make db first\n") == 1


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


def test_what_a_person_ignored_before_the_attempt_is_no_part_of_it(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / ".gitignore").write_text("*.log\ncache/\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=rules")
    (repo / "cache").mkdir()
    (repo / "cache" / "x").write_text("slow to build\n")
    (repo / "my.log").write_text("mine\n")
    agent = ["echo > .gitignore", "echo more > new.txt", "echo more >> my.log"]
    fake.script(implement=[fails("no", *agent), WORK])

    assert inline(1).code == 0

    assert (repo / ".gitignore").read_text() == "*.log\ncache/\n"
    assert (repo / "cache" / "x").read_text() == "slow to build\n"
    assert (repo / "my.log").read_text() == "mine\n"
    assert not (repo / "new.txt").exists()
    assert git("status", "--porcelain") == ""
    assert set(git("show", "--format=", "--name-only").splitlines()) == {"n", "SPEC.md"}


# ---------------------------------------------------------------- tiers


def test_three_attempts_lead_to_subtasks_and_they_finish_the_task(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write_spec(repo, git, "- [ ] whole\n- [ ] other\n")
    split = {"run": ["echo x > scratch"], "result": PARTS}
    works = [{"run": [f"echo {n} > n"], "result": "SUCCESS"} for n in range(3)]
    fake.script(
        implement=[*(fails(n, f"echo {n} > n") for n in ("one", "two", "three")), split, *works]
    )

    ran = inline(4)

    assert ran.code == 0, ran.err
    split_up = [
        "The task failed as a whole" in call["system"]
        for call in fake.calls
        if call["stage"] == "implement"
    ]
    assert split_up == [*[False] * 3, True, *[False] * 3]
    assert all(word in fake.calls[5]["prompt"] for word in ("one", "two", "three"))
    lines = [line for line in spec(repo).splitlines() if ">" not in line]
    assert lines == [
        "- [x] whole",
        "  - [x] part one",
        "  - [x] part two",
        "  - [x] part three",
        "- [ ] other",
    ]
    assert [note[:9] for note in notes(repo, "Attempt")] == [f"Attempt {n}" for n in (1, 2, 3)]
    tasks = git("log", "--reverse", "--format=%(trailers:key=Kern-Task,valueonly,separator=%x20)")
    assert tasks.split("\n")[2:] == ["part one", "part two", "part three"]
    assert not (repo / "scratch").exists()
    assert git("show", f"{kept(git)['4-stopped']}:scratch") == "x"
    assert "split: 3 subtasks" in ran.err
    assert "(part of: whole)" in fake.calls[6]["prompt"]


@pytest.mark.parametrize(
    "answer",
    [
        "No idea.",
        "DECOMPOSED",
        "## Subtasks\n- [ ] add a greeting\n\nDECOMPOSED",
        "SUCCESS",
    ],
    ids=["prose", "no parts", "itself", "success"],
)
def test_an_unusable_decomposition_is_a_skip(
    repo: Path, git: Git, fake: Fake, inline: Inline, answer: str
) -> None:
    noted = "".join(f"  > **Attempt {n}:** no\n" for n in (1, 2, 3))
    write_spec(repo, git, f"- [ ] add a greeting\n{noted}- [x] other\n")
    fake.script(implement=[{"run": ["echo x > scratch"], "result": answer}])

    ran = inline(1)

    assert ran.code == 1
    assert fake.stages == ["research", "implement"]
    assert "The task failed as a whole" in fake.calls[1]["system"]
    assert spec(repo).startswith("- [ ] add a greeting\n")
    assert len(notes(repo, "Attempt")) == 3
    assert len(notes(repo, "Skipped")) == 1
    assert spec(repo).count("- [ ]") == 1
    assert "Needs you:\n   1  add a greeting\n      skipped: " in ran.err
    assert subjects(git) == ["start", "tasks"]
    assert not (repo / "scratch").exists()


def test_a_subtask_is_skipped_after_three_attempts_and_blocked_after_three_more(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write_spec(repo, git, "- [ ] whole\n  - [ ] part\n- [ ] other\n")
    bad = [fails(f"reason {n}", f"echo {n} > n") for n in range(1, 7)]
    fake.script(implement=[*bad[:3], WORK, *bad[3:]])

    ran = inline(5)

    assert ran.code == 1
    once = ["research", "implement", "implement", "research", "implement"]
    assert fake.stages == [*once, "research", "implement", "commit", *once]
    text = spec(repo)
    assert "- [ ] whole\n  - [ ] part\n" in text
    assert "- [x] other\n" in text
    order = [note.partition(":")[0] for note in notes(repo, "(?:Attempt|Skipped|Blocked)")]
    three, more = [f"Attempt {n}" for n in (1, 2, 3)], [f"Attempt {n}" for n in (4, 5, 6)]
    assert order == [*three, "Skipped", *more, "Blocked"]
    assert sorted(kept(git)) == ["1", "2", "3", "4", "5", "6"]
    assert re.search(r"blocked: |kern retry", ran.err)

    calls = len(fake.calls)
    assert inline(1).code == 1
    assert len(fake.calls) == calls


def test_an_agent_that_splits_or_skips_of_itself_is_believed(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write_spec(repo, git, "- [ ] whole\n- [ ] remote\n- [ ] other\n")
    skip = {"run": ["echo x > half"], "result": "SKIPPED: the staging server is down"}
    again = {"result": "SKIPPED: still down"}
    fake.script(
        implement=[{"result": "## Subtasks\n- only part\n\nDECOMPOSED"}, WORK, skip, again],
        commit=DONE,
    )

    ran = inline(3)

    assert ran.code == 1
    assert fake.stages.count("implement") == 3
    assert "- [x] whole\n" in spec(repo)
    assert "  - [x] only part\n" in spec(repo)
    assert "- [ ] remote\n" in spec(repo)
    assert notes(repo, "Skipped") == ["Skipped:** the staging server is down"]
    assert not (repo / "half").exists()
    assert "  remote\n      skipped: the staging server is down\n" in ran.err
    assert "[~]" not in spec(repo)


def test_a_subtask_is_not_split_again(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    write_spec(repo, git, "- [ ] whole\n  - [ ] part\n")
    fake.script(implement=[{"result": PARTS}, WORK])

    assert inline(1).code == 0

    assert "cannot be split again" in notes(repo, "Attempt")[0]
    assert "part one" not in re.sub(r">.*", "", spec(repo))


def test_research_that_finds_no_task_skips_it_but_not_by_a_quotation(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write_spec(repo, git, "- [ ] done already\n- [ ] real\n")
    quoted = "- Files: a.txt\n\nLines like\nNO_TASK: so\nare what prompts ask for.\n\nREADY"
    fake.script(
        research=[{"result": "Looked.\n\nNO_TASK: a.txt has it since v1"}, {"result": quoted}]
    )

    ran = inline(2)

    assert ran.code == 1
    assert fake.stages == ["research", "research", "implement", "commit"]
    assert notes(repo, "Skipped") == ["Skipped:** a.txt has it since v1"]
    assert "- [ ] done already\n" in spec(repo)
    assert "- [x] real\n" in spec(repo)


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
    for said in ("1 task line vanished from SPEC.md", "did not set", "LEARNINGS.md was deleted"):
        assert said in ran.err
    assert git("show", "HEAD:SPEC.md") == spec(repo).rstrip("\n")


def test_what_a_person_orders_by_command_beside_an_agent_stays(
    repo: Path,
    git: Git,
    fake: Fake,
    kern: Kern,
    background: Callable[..., "subprocess.Popen[str]"],
    tmp_path: Path,
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n  > **Question:** which?\n")
    waits = f"touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    fake.script(implement=[{"run": [waits, "echo 1 > n"], "result": "SUCCESS"}])
    run = background("1", "0")
    wait_for((tmp_path / "began").exists)
    third = ("--gate", "test -e n", "--judge", "kind", "--after", "second")
    orders = [
        ("add", "third", *third),
        ("answer", "2", "this one"),
        ("add", "part", "--under", "second"),
    ]
    assert [kern(*order).code for order in orders] == [0, 0, 0]
    (tmp_path / "go").touch()
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, err
    for line in ("- [ ] third", "**Gate:** `test -e n`", "**Judge:** kind", "**After:** second"):
        assert line in spec(repo)
    assert "  > **Answer:** this one\n" in spec(repo)
    assert "  - [ ] part\n" in spec(repo)


def test_a_deleted_spec_md_comes_back(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    fake.script(implement=[{"run": ["rm SPEC.md", "echo 1 > n"], "result": "SUCCESS"}])

    ran = inline(1)

    assert ran.code == 0
    assert "SPEC.md was deleted" in ran.err
    assert spec(repo).startswith("- [x] add a greeting\n")
    assert len(subjects(git)) == 2


def test_a_spec_md_turned_into_a_link_is_a_file_again(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    inside = fails("no", "mv SPEC.md real.md && ln -s real.md SPEC.md")
    outside = ["mv SPEC.md ../real.md && ln -s ../real.md SPEC.md", "echo 1 > n"]
    fake.script(implement=[inside, {"run": outside, "result": "SUCCESS"}])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert not (repo / "SPEC.md").is_symlink()
    assert spec(repo).startswith("- [x] add a greeting\n")
    assert len(notes(repo, "Attempt")) == 1
    assert set(git("show", "--format=", "--name-only").splitlines()) == {"n", "SPEC.md"}
    assert git("status", "--porcelain") == ""


def test_attempt_notes_that_the_agent_wrote_neither_count_twice_nor_hide_its_work(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write = [f"echo '  > **Attempt {n}:** by the agent' >> SPEC.md" for n in (1, 2, 3)]
    fake.script(implement=[fails("no", *write, "echo x > half.txt"), WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert fake.stages == ["research", "implement", "implement", "commit"]
    assert len(notes(repo, "Attempt 1:")) == 1
    assert len(notes(repo, "Attempt")) == 1
    assert not (repo / "half.txt").exists()
    assert git("show", f"{kept(git)['1']}:half.txt") == "x"
    assert git("status", "--porcelain") == ""


@pytest.mark.unheld
def test_commits_of_stage_2_are_kept_undone_and_then_made_properly(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    base = git("rev-parse", "HEAD")
    agent = [
        "sed -i 's/\\[~\\]/[x]/' SPEC.md",
        "echo 1 > n && git add -A && git commit -qm sneaky",
        "echo 2 > m && git add m && git commit -qm again",
    ]
    fake.script(implement=[{"run": agent, "result": "SUCCESS"}])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert "committed by itself" in ran.err
    assert subjects(git) == ["start", "do the task"]
    assert git("rev-parse", "HEAD~1") == base
    assert set(git("show", "--format=", "--name-only").splitlines()) == {"m", "n", "SPEC.md"}
    assert git("status", "--porcelain") == ""
    assert git("log", "--format=%s", f"{base}..{kept(git)['1-commit']}^").splitlines() == [
        "again",
        "sneaky",
    ]


@pytest.mark.parametrize("how", ["git commit -q --amend --no-edit", "git reset -q HEAD~1"])
def test_a_commit_of_yours_that_stage_2_rewrote_comes_back(
    repo: Path, git: Git, fake: Fake, inline: Inline, how: str
) -> None:
    (repo / "own.txt").write_text("mine, committed\n")
    git("commit", "--quiet", "--all", "--message=mine")
    base = git("rev-parse", "HEAD")
    fake.script(implement=[{"run": ["echo 1 > n && git add n", how], "result": "SUCCESS"}, WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert git("rev-parse", "HEAD~1") == base
    assert set(git("show", "--format=", "--name-only").splitlines()) == {"n", "SPEC.md"}
    assert git("status", "--porcelain") == ""


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
def test_what_research_wrote_in_place_is_undone_and_saved(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    wrote: Step = {"run": ["echo x > made.txt", "rm a.txt"], "result": READY}
    fake.script(research=[{"result": "  \n"}, wrote])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert fake.stages == ["research"] * 2 + ["implement", "commit"]
    assert "a.txt, made.txt changed while kern worked in your tree: undone, and saved" in ran.err
    assert notes(repo, "Attempt") == []
    assert not (repo / "made.txt").exists()
    assert git("status", "--porcelain") == ""
    (ref,) = kept(git).values()
    assert git("show", f"{ref}:made.txt") == "x"


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
