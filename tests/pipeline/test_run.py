"""kern as its users run it, when all goes well: command line, output, files, prompts, commits."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kern.cli import demo
from kern.pipeline import recover
from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern, agents, held, wait_for

Background = Callable[..., "subprocess.Popen[str]"]

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] .*")
READY = "- Files: a.txt:1-1\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"


def write_spec(repo: Path, git: Git, text: str) -> None:
    (repo / "SPEC.md").write_text(text)
    git("commit", "--quiet", "--all", "--message=tasks")


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def committed_tasks(git: Git) -> list[str]:
    """The tasks that HEAD's history names, oldest first."""
    said = git("log", "--reverse", "--format=%(trailers:key=Kern-Task,valueonly)")
    return [line for line in said.splitlines() if line]


def paths_of(git: Git, commit: str = "HEAD") -> list[str]:
    return git("show", "--format=", "--name-only", commit).splitlines()


def listing(*roots: Path) -> dict[str, object]:
    """Every path with all that would tell of a write."""
    found: dict[str, object] = {}
    for root in roots:
        if not root.exists():
            found[str(root)] = "absent"
            continue
        for path in (root, *root.rglob("*")):
            info = path.lstat()
            digest = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b""
            times = (info.st_mtime_ns, info.st_ctime_ns)
            found[str(path)] = (info.st_mode, info.st_ino, info.st_size, times, digest)
    return found


def load(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text())
    assert isinstance(value, dict)
    return value


def alive(pid: int) -> bool:
    if held():  # there it has another number
        return bool(agents())
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------- a run, told from outside


def test_two_tasks_become_two_commits_with_one_pause_between(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    write_spec(repo, git, "# Work\n\n- [ ] first\n* [ ] second\n")
    (tmp_path / "tmp").mkdir()
    at_home = {*(tmp_path / "home").iterdir()}

    ran = kern("5", "0.05", env={"TMPDIR": str(tmp_path / "tmp")})

    assert (ran.code, ran.err) == (0, "")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((repo / ".git" / "kern" / "scratch").iterdir()) == []
    caches = {tmp_path / "home" / ".cache"} if held() else set()
    assert {*(tmp_path / "home").iterdir()} == at_home | caches
    assert fake.stages == ["research", "implement", "commit"] * 2
    assert committed_tasks(git) == ["first", "second"]
    assert git("status", "--porcelain") == ""
    lines = ran.out.splitlines()
    end = lines.index("")
    assert all(LINE.fullmatch(line) for line in lines[:end])
    assert "\x1b" not in ran.said
    told = [line[22:] for line in lines[:end]]
    pauses = [at for at, line in enumerate(told) if line.startswith("next task in 0.05 s")]
    assert len(pauses) == 1
    assert told.index("task: first") < pauses[0] < told.index("task: second")
    assert any(line.startswith("stage 1/3 research (opus)") for line in told)
    assert any(line.startswith("stage 3/3 commit (haiku)") for line in told)
    assert "  Wrote work.txt." in told
    assert not any(line.startswith("debug:") for line in told)
    headline, _, title, look, how, _, *done = lines[end + 1 :]
    assert headline.startswith("2 done, 2 unverified, 0 open; $0.06 (API-equivalent), ")
    assert title == "Look at this:"
    assert look.startswith("  UNVERIFIED: no gate passed for this commit (2 times); git show ")
    assert how == "  To verify such commits, name your checks under [gates] in kern.toml."
    first, second = git("log", "-2", "--reverse", "--format=%h").split()
    assert done == [
        "Done:",
        f"  first  ({first} do the task), UNVERIFIED",
        f"  second  ({second} do the task), UNVERIFIED",
        "",
        "all tasks are done: git log shows them",
    ]


def test_used_up_iterations_are_no_failure_and_the_rest_is_named(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n1. [ ] third\n")
    (repo / "deep" / "er").mkdir(parents=True)

    ran = kern("-v", "1", "7", cwd=repo / "deep" / "er")

    assert ran.code == 0
    assert committed_tasks(git) == ["first"]
    assert {call["cwd"] for call in fake.calls} == {str(repo)}
    assert "next task in" not in ran.said
    assert "debug: " in ran.err
    assert "1 done, 1 unverified, 2 open; " in ran.out
    assert "next: kern 2 takes the other open tasks" in ran.out


def test_research_stays_under_the_finished_task_and_no_other_byte_changes(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    before = "\ufeff# Työ\r\n\r\n- [x] old\r\n\t- not a task\r\n  * [ ] café [[wiki]]  \r\n- [ ] c"
    (repo / "SPEC.md").write_bytes(before.encode())
    git("commit", "--quiet", "--all", "--message=tasks")

    assert inline(1).code == 0

    note = "> **Research:**|>   - Files: a.txt:1-1|>   - Pattern: a.txt:1|>   - Constraint: none|"
    shown = "".join(f"    {line}\r\n" for line in note.split("|") if line)
    after = before.replace("* [ ] café [[wiki]]  \r\n", "* [x] café [[wiki]]  \r\n" + shown)
    assert (repo / "SPEC.md").read_bytes() == after.encode()
    assert git("status", "--porcelain") == ""


def test_work_that_only_adds_files_is_committed(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    script = [
        r"mkdir -p new/deep && printf '\0\377\r\n' > new/deep/b.bin",
        "touch empty && printf '#!/bin/sh\n' > run && chmod +x run",
        "ln -s nowhere link && touch 'ä b' && printf x > '-f'",
    ]
    fake.script(implement=[{"run": script, "result": "SUCCESS"}])

    assert inline(1).code == 0

    new = {"new/deep/b.bin", "empty", "run", "link", "ä b", "-f"}
    shown = git("-c", "core.quotePath=false", "show", "--format=", "--name-only").splitlines()
    assert set(shown) == {*new, "SPEC.md"}
    assert git("ls-files", "-s", "run", "link").split()[::4] == ["100755", "120000"][::-1]
    assert git("status", "--porcelain") == ""


@pytest.mark.unheld
@pytest.mark.parametrize(
    "change", ["echo more >> a.txt", "rm a.txt", "echo x > x; git add x", "echo x > new.txt"]
)
def test_without_a_sandbox_a_tree_with_changes_is_refused_before_anything_is_paid(
    repo: Path, git: Git, fake: Fake, kern: Kern, change: str
) -> None:
    subprocess.run(change, shell=True, cwd=repo, check=True)
    before = git("status", "--porcelain")
    ran = kern("1", "0")
    assert ran.code == 2 and fake.calls == []
    assert f"your tree has changes that are not committed: {before.split()[-1]}" in ran.err
    assert "commit or stash them, or give it a sandbox" in ran.err
    assert git("status", "--porcelain").replace(" M SPEC.md\n", "") == before


@pytest.mark.unheld
def test_without_a_sandbox_kerns_own_files_and_what_git_ignores_are_no_changes(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / ".git" / "info" / "exclude").write_text(".env\n")
    own = (".env", "kern.toml", ".kern/prompts/note.md", "LEARNINGS.md")
    for name in own:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("# mine\n")
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] later\n")
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert {*paths_of(git)} == {"LEARNINGS.md", "SPEC.md", "work.txt"}
    assert all((repo / name).read_text() == "# mine\n" for name in own)


# ---------------------------------------------------------------- what the agents are given


def test_each_stage_is_a_fresh_process_with_its_own_limits(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    assert inline(1).code == 0

    research, implement, commit = fake.calls
    for call in fake.calls:
        argv = call["argv"]
        assert argv[:4] == ["-p", "--output-format", "json", "--verbose"]
        assert call["prompt"].startswith("kern stage ")
        assert not any("add a greeting" in word for word in argv)
        assert call["env"]["KERN_ROOT"] == str(repo)
    assert len({(call["pid"], call["began"]) for call in fake.calls}) == 3
    models = [argv[argv.index("--model") + 1] for argv in (c["argv"] for c in fake.calls)]
    tools = [argv[argv.index("--tools") + 1] for argv in (c["argv"] for c in fake.calls)]
    assert models == ["opus", "opus", "haiku"]
    assert tools[0] == "Read,Glob,Grep,Task,WebSearch,WebFetch"
    assert {"Bash", "Edit", "Write"} < set(tools[1].split(","))
    assert tools[2] == "Read,Glob,Grep"
    for sealed in (research, commit):
        assert "--strict-mcp-config" in sealed["argv"]
        assert "bypassPermissions" not in sealed["argv"]
    denied = " ".join(implement["argv"])
    assert all(word in denied for word in ("SPEC.md", "LEARNINGS.md"))
    assert not {"GIT_INDEX_FILE", "GIT_DIR"} & {*research["env"], *implement["env"]}


def test_each_stage_is_told_what_it_needs_and_no_more(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    nasty = r"use `&&`, \1, $HOME, {{ task }}, {% if x %}, {TASK}, ~~~"
    (repo / "LEARNINGS.md").write_text(f"# Learnings\n\n## 2026-01-01 - shell\n\n{nasty}\n")
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n  in {DIFF} & more\n- [ ] other thing\n")
    git("add", "--all")
    git("commit", "--quiet", r"--message=fix(&): \0 {COMMITS} $1")
    words = "- Files: f-finding\n- Pattern: p\n- Constraint: c\n\nresearch-body\n\nREADY"
    fake.script(
        research=[{"result": words}],
        implement=[
            {"result": "first-answer\n\nFAILED: the parser resists"},
            {"run": ["echo hi > hi.txt"], "result": "second-answer\n\nSUCCESS"},
        ],
    )

    assert inline(1).code == 0

    research, first, second, commit = (call["prompt"] for call in fake.calls)
    common = ["add a greeting", r"fix(&): \0 {COMMITS} $1"]
    for prompt in (research, first, second):
        assert nasty in prompt
        assert "in {DIFF} & more" in prompt
        assert "- after this one: other thing" in prompt
    for prompt in (research, first, second, commit):
        assert all(text in prompt for text in common)
    for prompt in (first, second):
        assert "f-finding" in prompt
        assert "research-body" in prompt
    assert "the parser resists" in second
    assert "the parser resists" not in first
    assert "first-answer" not in commit
    assert "second-answer" in commit
    assert "hi.txt" in commit
    assert "Kern-Task: add a greeting" in commit
    assert not any(text in commit for text in (nasty, "f-finding", "the parser resists"))


def test_answers_of_150_kb_and_a_huge_learnings_file_stay_within_the_budgets(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    body = "".join(f"  line {number} of the task\n" for number in range(80))
    write_spec(repo, git, f"- [ ] a long task\n{body}")
    entries = "".join(f"- n{n} {'task ' * 100}\n" for n in range(400))
    (repo / "LEARNINGS.md").write_text(f"# Learnings\n\n{entries}")
    long = "x" * 79 + "\n"
    fake.script(
        research=[{"result": f"- Files: a.txt\n\n{long * 1900}\nREADY"}],
        implement=[{"run": ["echo 1 > n"], "result": f"{long * 1900}\nSUCCESS"}],
        commit=[{"result": long * 1900}],
    )

    ran = kern("1", "0", "-v")

    assert ran.code == 0
    assert committed_tasks(git) == ["a long task"]
    templates = Path(__file__).parent.parent.parent / "prompts"
    names = ("1_research.md", "2_implement.md", "3_commit.md")
    for call, name, budget in zip(fake.calls, names, (2000, 3000, 3000), strict=True):
        own = len((templates / name).read_text()) + len(body) + 200
        assert len(call["prompt"]) <= own + budget * 4, name
    assert "line 79 of the task" in fake.calls[0]["prompt"]
    assert re.search(r"^- L\d+: n\d+ task", fake.calls[0]["prompt"], re.M)
    assert "learnings told" in ran.err and "(no room)" in ran.err
    saved = next((repo.parent / "kern/project/main/history").iterdir())
    assert len(load(saved / "stage2.json")["result"]) > 150_000


def test_a_project_has_its_own_prompts_and_models(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    own = repo / ".kern" / "prompts"
    own.mkdir(parents=True)
    text = "---\nmodel: sonnet\n---\nOurs. {{ task }} {{ trailer }} {{ diff }}\n"
    (own / "3_commit.md").write_text(text)

    assert inline(1).code == 0

    assert fake.calls[2]["argv"][fake.calls[2]["argv"].index("--model") + 1] == "sonnet"
    assert (
        "Ours. <task>\nadd a greeting\n</task> Kern-Task: add a greeting" in fake.calls[2]["prompt"]
    )
    assert "opus" in fake.calls[0]["argv"]
    assert ".kern/prompts/3_commit.md" not in paths_of(git)


# ---------------------------------------------------------------- what is shown and kept


def test_no_control_character_of_an_agent_reaches_terminal_spec_or_learnings(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    nasty = "\x1b[31mred\x1b[0m \x1b]0;title\x07 bell\x07 \x9b2J \u202eflip \x08\x7f end"
    denied = [{"tool_name": "Write", "tool_input": {"file_path": f"{nasty}.md"}}]
    fake.script(
        research=[
            {
                "result": f"- Files: {nasty}\n- Pattern: p\n\nREADY",
                "fields": {"permission_denials": denied},
            }
        ],
        implement=[
            {"result": f"{nasty}\n\nFAILED: {nasty}"},
            {"run": ["echo 1 > n"], "result": f"{nasty}\n## Learned\n{nasty}\n\nSUCCESS"},
        ],
        commit=[{"run": ["git commit -qm x"], "result": nasty}],
    )

    ran = inline(1)

    assert ran.code == 0
    assert "refused: Write" in ran.err
    raw = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
    texts = {name: (repo / name).read_text() for name in ("SPEC.md", "LEARNINGS.md")}
    for name, text in {**texts, "output": ran.err, "log": git("log", "--format=%B")}.items():
        assert not raw.search(text), name
        assert "[31m" not in text, name
    assert "red" in texts["SPEC.md"]
    assert "red" in texts["LEARNINGS.md"]


def test_what_was_learned_is_an_entry_in_the_tasks_own_commit(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n")
    (repo / "LEARNINGS.md").write_text("# Learnings\n\n## 2025-12-31 - old\n\nkeep me\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=learned")
    step = {"run": ["echo 1 >> n"], "result": "did it\n\n## Learned\nMake & \\1 {TASK}\n\nSUCCESS"}
    fake.script(implement=[step, {"run": ["echo 2 >> n"], "result": "SUCCESS"}])

    assert inline(2).code == 0

    text = (repo / "LEARNINGS.md").read_text()
    before = "# Learnings\n\n## 2025-12-31 - old\n\nkeep me\n"
    assert text == before + "\n## Learnings\n\n- L2 +0 -0 Make & \\1 {TASK}\n"
    assert set(paths_of(git, "HEAD~1")) == {"LEARNINGS.md", "SPEC.md", "n"}
    assert set(paths_of(git)) == {"SPEC.md", "n"}
    assert r"Make & \1 {TASK}" in fake.calls[3]["prompt"]
    assert git("status", "--porcelain") == ""


def test_the_stage_files_are_json_with_one_more_key_and_end_in_history(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    base = git("rev-parse", "HEAD")
    fake.script(
        implement=[
            {"result": "no way\n\nFAILED: no way"},
            {"run": ["echo 1 > n"], "result": "SUCCESS"},
        ]
    )

    assert inline(1).code == 0

    folder = repo.parent / "kern" / "project" / "main"
    (walk,) = (folder / "history").iterdir()
    assert (folder / "last").resolve() == walk
    assert re.fullmatch(r"\d{8}T\d{6}Z-add-a-greeting", walk.name)
    assert {path.name for path in folder.iterdir()} == {"history", "last"}
    first, second, third = (load(walk / f"stage{n}.json") for n in (1, 2, 3))
    assert [v["result"] for v in (first, second, third)] == [READY, "SUCCESS", "do the task"]
    assert first["total_cost_usd"] == 0.01
    common = {"task", "stage", "attempt", "base", "run", "time"}
    assert common <= first["kern"].keys()
    assert common | {"start", "tree", "outcome"} <= second["kern"].keys()
    assert common <= third["kern"].keys()
    facts = [(v["kern"]["stage"], v["kern"]["attempt"], v["kern"]["base"]) for v in (first, second)]
    assert facts == [("research", 1, base), ("implement", 2, base)]
    assert second["kern"]["outcome"] == "proved"
    assert load(walk / "attempt1.json")["result"] == "no way\n\nFAILED: no way"
    assert {path.name for path in walk.iterdir()} >= {f"transcript{n}.json" for n in (1, 2, 3)}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*walk.iterdir(), walk, folder))


# ---------------------------------------------------------------- order of tasks


def test_where_nothing_is_ready_each_blocker_is_named(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    text = (
        "- [ ] egg\n  > **After:** hen\n- [ ] hen\n  > **After:** stuck\n"
        "- [ ] whole\n  > **After:** egg\n  - [ ] part\n- [ ] stuck\n  > **Blocked:** no budget\n"
    )
    write_spec(repo, git, text)

    ran = kern("3", "0")

    assert ran.code == 1
    assert fake.calls == []
    for task, why in (
        ("egg", r"waits for 2 \(hen\)"),
        ("hen", r"waits for 5 \(stuck\)"),
        ("part", r"waits for 1 \(egg\)"),
    ):
        assert re.search(rf"{task}: .*{why}", ran.out), task
    needy = "   5  stuck\n      no budget\n      kern show 5, kern edit, kern retry 5\n"
    assert needy in ran.out
    assert spec(repo) == text


def test_a_checklist_in_which_all_is_done_is_no_failure(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    write_spec(repo, git, "- [x] first\n- [X] second\n```\n- [ ] no task\n```\n")

    ran = kern()

    assert ran.code == 0
    assert fake.calls == []
    assert "all tasks are done" in ran.out


# ---------------------------------------------------------------- looking without touching


def test_a_dry_run_writes_not_one_byte_and_foretells_the_run(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n- [ ] third\n- [ ] fourth\n")
    (repo / "a.txt").write_text("changed\n")
    (repo / "new.txt").write_text("untracked\n")
    watched = (repo, tmp_path / "kern", tmp_path / "home", tmp_path / "fake")
    before = listing(*watched)

    plain, mixed, told = kern("-n", "3", "0"), kern("3", "0", "--dry-run"), kern("-nv", "3", "0")

    assert listing(*watched) == before
    assert not (tmp_path / "kern").exists()
    assert (plain.code, plain.err) == (0, "")
    assert mixed == plain
    assert "task:   first" in plain.out
    assert re.search(r"^next: +attempt 1 of 3$", plain.out, re.M)
    assert "goes on with" not in plain.out
    assert re.search(r"^gates: ", plain.out, re.M)
    for number, stage, model in ((1, "research", r"opus \(effort high\)"), (3, "commit", "haiku")):
        assert re.search(rf"^stage {number} {stage}: claude, model {model}(,|$)", plain.out, re.M)
    assert re.search(r"^stage 2 implement: .* \d+ tokens and what research finds$", plain.out, re.M)
    assert re.search(r"2\. second\n +3\. third\n", plain.out)
    assert "fourth" not in plain.out
    assert "You are the implement stage" in told.out
    assert "You are the implement stage" not in plain.out

    git("checkout", "--quiet", "a.txt")
    (repo / "new.txt").unlink()
    assert kern("1", "0").code == 0

    first = fake.calls[0]
    tokens = -(-len(first["system"] + first["prompt"]) // 4)
    assert f"prompt of {tokens} tokens" in plain.out


def test_a_dry_run_in_the_middle_of_a_task_names_where_it_goes_on(
    repo: Path, git: Git, fake: Fake, kern: Kern, inline: Inline, tmp_path: Path
) -> None:
    overloaded = {"is_error": True, "api_error_status": 529}
    step = {"run": ["echo half > half.txt"], "result": "Overloaded", "fields": overloaded}
    fake.script(implement=[step])
    assert inline(1, wait=False).code == 3
    assert "- [~]" in spec(repo)
    watched = (repo, tmp_path / "kern", tmp_path / "home")
    before = listing(*watched)

    dry, status = kern("-nv"), kern("status", "--json")

    assert listing(*watched) == before
    assert dry.code == 0
    begins = re.search(r"^ +it goes on with: (.*)$", dry.out, re.M)
    assert begins
    assert begins[1].strip() in json.loads(status.out)["resume"]
    assert "- Files: a.txt:1-1" in dry.out


def test_status_shows_the_tasks_as_text_and_as_data(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    text = (
        "- [x] done\n- [ ] whole\n  - [ ] part\n    > **Attempt 1:** no\n"
        "- [ ] later\n  > **After:** part\n- [-] wrong\n"
    )
    write_spec(repo, git, text)
    before = listing(repo, tmp_path / "kern")
    sub = repo / ".git" / ".."

    shown, data = kern("status", cwd=sub), kern("status", "--json")

    assert listing(repo, tmp_path / "kern") == before
    assert (shown.code, data.code, shown.err, data.err) == (0, 0, "", "")
    found = json.loads(data.out)
    assert found["root"] == str(repo)
    assert found["branch"] == "main"
    assert found["folder"] == str(tmp_path / "kern" / "project" / "main")
    assert found["counts"] == {"pending": 3, "active": 0, "done": 1}
    assert found["next"] == "part"
    assert [task["text"] for task in found["tasks"]] == ["done", "whole", "part", "later"]
    assert [task["attempts"] for task in found["tasks"]] == [0, 0, 1, 0]
    assert found["tasks"][3]["blocker"]
    assert [fault["line"] for fault in found["diagnostics"]] == [7]
    assert "1 done, 0 in progress, 2 pending; 1 parent of subtasks, 0 done\n" in shown.out
    assert found["to_do"] == {**dict(done=1, active=0, pending=2), "parents": 1, "parents_done": 0}
    assert "1 attempt" in shown.out
    assert "(waits for 3 (part))" in shown.out


def test_init_writes_both_files_and_never_over_one(repo: Path, git: Git, kern: Kern) -> None:
    before = (repo / "SPEC.md").read_bytes()
    (repo / "sub").mkdir()

    first = kern("init", cwd=repo / "sub")
    learned = (repo / "LEARNINGS.md").read_bytes()
    (repo / "SPEC.md").unlink()
    second = kern("init")

    assert (first.code, first.err, second.code) == (0, "", 0)
    assert f"kept     {repo / 'SPEC.md'}" in first.out
    assert f"written  {repo / 'LEARNINGS.md'}" in first.out
    assert f"kept     {repo / 'LEARNINGS.md'}" in second.out
    assert before == b"- [ ] add a greeting\n"
    assert (repo / "LEARNINGS.md").read_bytes() == learned
    dry = kern("-n")
    assert dry.code == 2
    assert "SPEC.md is still the example that kern init wrote" in dry.err


def test_what_done_tasks_left_goes_with_a_run_s_end_once_it_is_old(
    repo: Path,
    git: Git,
    fake: Fake,
    kern: Kern,
    inline: Inline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n")
    results = ("FAILED: no", "SUCCESS", "NEEDS_ANSWER: which?")
    fake.script(
        implement=[{"run": [f"echo {n} > n"], "result": one} for n, one in enumerate(results)]
    )
    assert inline(2).code == 1
    history = tmp_path / "kern" / "project" / "main" / "history"

    def kept() -> list[str]:
        return git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").splitlines()

    (done, asked) = kept()
    assert [*history.iterdir()]
    assert inline(1).code == 1
    assert [*history.iterdir()] and kept() == [done, asked], "they are young"
    monkeypatch.setattr(recover, "AGE_S", -1.0)
    assert inline(1).code == 1
    assert [*history.iterdir()] == []
    assert kept() == [asked], "that task is open"
    assert git("show", "HEAD:n") == "1"
    for view in ("report", "show 1", "report --html", "report --json"):
        assert done.removeprefix("refs/") not in kern(*view.split()).out, view


def test_path_follows_project_branch_and_kern_dir(
    repo: Path, git: Git, fake: Fake, kern: Kern, inline: Inline, tmp_path: Path
) -> None:
    base = tmp_path / "kern"
    git("switch", "--quiet", "--create", "feature/x")
    assert inline(1).code == 0
    here = kern("path")
    assert (here.code, here.out, here.err) == (0, f"{base}/project/feature/x\n", "")
    assert (base / "project" / "feature" / "x" / "last" / "stage1.json").is_file()

    other = tmp_path / "elsewhere" / "project"
    git("clone", "--quiet", str(repo), str(other))
    digest = hashlib.sha256(os.fsencode(other)).hexdigest()[:6]
    assert kern("path", cwd=other).out == f"{base}/project-{digest}/feature/x\n"

    git("switch", "--quiet", "--detach")
    short = git("rev-parse", "HEAD")[:7]
    assert kern("path").out == f"{base}/project/HEAD-{short}\n"
    moved = kern("path", env={"KERN_DIR": str(tmp_path / "moved")})
    assert moved.out == f"{tmp_path}/moved/project/HEAD-{short}\n"
    assert not (tmp_path / "moved").exists()


def test_a_detached_head_is_refused_and_a_branch_of_it_is_worked_on(
    repo: Path, git: Git, fake: Fake, kern: Kern, inline: Inline, tmp_path: Path
) -> None:
    write_spec(repo, git, "- [ ] first\n- [ ] second\n")
    git("switch", "--quiet", "--detach")
    before = git("for-each-ref"), git("status", "--porcelain"), git("rev-parse", "HEAD")

    for argv in (["2", "0"], ["plan", "--yes", "a goal"]):
        ran = kern(*argv)
        assert (ran.code, ran.out) == (2, "")
        assert "HEAD is detached" in ran.err
        assert "git switch -c NAME" in ran.err
    assert fake.calls == []
    assert not (tmp_path / "kern").exists()
    assert (git("for-each-ref"), git("status", "--porcelain"), git("rev-parse", "HEAD")) == before

    for argv in (["status"], ["path"], ["log"], ["show", "1"], ["-n"]):
        assert kern(*argv).code == 0
    assert "a run would refuse to start: HEAD is detached" in kern("-n").out
    doctor = kern("doctor")
    fix = "git switch -c NAME makes a branch of it; git switch BRANCH goes to one"
    assert doctor.code == 2
    assert re.search(
        rf"problem  branch: HEAD is detached at .{{7}}, on no branch\n +fix: {fix}", doctor.out
    )

    git("switch", "--quiet", "-c", "named")
    assert inline(2).code == 0
    assert committed_tasks(git) == ["first", "second"]
    assert git("rev-parse", "main") == git("rev-parse", "HEAD~2")
    assert git("for-each-ref", "refs/kern/start") == ""


# ---------------------------------------------------------------- words on the command line


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version_and_help_need_no_repository(kern: Kern, tmp_path: Path, flag: str) -> None:
    version, told = kern(flag, cwd=tmp_path), kern("-h" if flag == "-V" else "--help", cwd=tmp_path)

    assert version.code == told.code == 0
    assert re.fullmatch(r"kern \d+\.\d+\.\d+\n", version.out)
    for word in ("kern -n", "--version", "-V", "--update", "status", "init"):
        assert word in told.out


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_kern_is_told_who_works_and_a_signal_ends_the_first(
    repo: Path, git: Git, fake: Fake, kern: Kern, background: Background, signum: signal.Signals
) -> None:
    fake.script(implement=[{"run": ["echo half > half.txt"], "sleep": 30, "result": "SUCCESS"}])
    first = background("1", "0")
    wait_for(lambda: (repo / "half.txt").exists())

    second = kern("1", "0")
    first.send_signal(signum)
    said = "".join(first.communicate(timeout=PATIENCE_S))

    assert second.code == 1
    assert f"pid {first.pid}" in second.err
    assert f"kill {first.pid}" in second.err
    assert first.returncode == 128 + signum
    assert "goes on" in said
    assert fake.stages == ["research", "implement"]
    assert not alive(fake.calls[1]["pid"])
    assert git("log", "--format=%s") == "start"
    assert "- [~]" in spec(repo)


def test_the_demo_can_write_into_its_sample_where_kern_is_installed_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(demo.SAMPLE, installed := tmp_path / "installed")
    for place in (*installed.iterdir(), installed):
        place.chmod(0o555 if place.is_dir() else 0o444)
    monkeypatch.setattr(demo, "SAMPLE", installed)
    demo.sample(root := tmp_path / "sample")
    found = (root, root / "SPEC.md", root / "check.sh")
    assert [one.stat().st_mode & 0o700 for one in found] == [0o700, 0o600, 0o700]
    installed.chmod(0o755)  # or nobody can delete it


def test_the_demo_ends_with_commands_that_work_where_kern_is_not_on_path(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a b" / "kern"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    monkeypatch.setattr("sys.argv", [str(program), "demo"])
    assert demo.own_command() == f"{sys.executable} -m kern"
    program.chmod(0o755)
    assert demo.own_command() == f"'{program}'"
