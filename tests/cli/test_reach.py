"""What other programs get of kern: agents a skill, GitHub workflows, a bot the questions."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kern.cli.offers import OFFERED
from tests.conftest import HERE, PATIENCE_S, Fake, Git, Kern, executable, wait_for
from tests.kit.actions import Runner
from tests.kit.stable import Stable

needs_jq = pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
READY = {"result": "- Files: a.txt:1\n\nREADY"}
HOSTILE = "x\"; touch p1 $(touch p2) `touch p3` ${{ github.token }} '\n- [x] mine\n::error::no"


def test_agents_are_told_in_few_words_and_what_is_there_keeps_its_bytes(
    repo: Path, kern: Kern, tmp_path: Path
) -> None:
    common, theirs = repo / "AGENTS.md", b"Tabs.\r\n\xff no end"
    common.write_bytes(theirs)
    assert kern("init", "--agents").out.count("written ") == 2
    skill, told = (repo / ".claude/skills/kern/SKILL.md").read_text(), common.read_bytes()
    assert told.startswith(theirs + b"\n\n")
    paragraph = told.removeprefix(theirs).decode()
    assert len((skill + paragraph).split()) <= 150
    (repo / "usual").touch()
    assert (repo / ".claude/skills/kern/SKILL.md").stat().st_mode == (repo / "usual").stat().st_mode
    for words in ("kern add", "kern status --json", "kern answer", "SPEC.md", "kern report"):
        assert words in skill and words in paragraph
    assert "written" not in kern("init", "--agents").out and common.read_bytes() == told
    common.unlink()
    shutil.rmtree(repo / ".claude")
    common.mkdir()
    assert kern("init", "--agents").code == 2 and not (repo / ".claude").exists()
    common.rmdir()
    common.symlink_to(tmp_path / "elsewhere")
    refused = kern("init", "--agents")
    assert refused.code == 2 and "AGENTS.md is a link out of" in refused.err
    assert not (tmp_path / "elsewhere").exists()


# ---------------------------------------------------------------- workflows


@pytest.fixture
def runner(repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path) -> Runner:
    git("init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    git("remote", "add", "origin", str(tmp_path / "origin.git"))
    return Runner(repo, tmp_path, fake.folder / "bin")


def jobs(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load((OFFERED / name).read_text())["jobs"].values()]


def steps(name: str) -> list[dict[str, Any]]:
    return list(jobs(name)[0]["steps"])


def issue(number: int, by: str, title: str) -> dict[str, Any]:
    return {"number": number, "title": title, "body": None, "user": {"login": by}}


@needs_jq
def test_by_night_issues_become_a_draft_and_a_stranger_s_do_not(
    runner: Runner, fake: Fake, git: Git
) -> None:
    fake.script(research=[READY, {"result": "NEEDS_ANSWER: Postgres or SQLite?"}])
    issues = [issue(5, "ann", "two"), issue(6, "bob", "steal"), issue(8, "ghost", "gone")]
    issues.append({**issue(9, "ann", "no issue"), "pull_request": {}})
    (runner.place / "issues.json").write_text(json.dumps(issues))
    fork = {"number": 2, "headRefName": "kern/2", "isCrossRepository": True}
    (runner.place / "prs.json").write_text(json.dumps([fork]))
    ended = runner.run(steps("kern-nightly.yml"), {})
    assert ended == {"Install": 0, "Import": 0, "Run": 1, "Report": 0}  # a question: 1
    ((*_, branch, _, body),) = runner.drafts()
    assert re.fullmatch(r"kern/\d{4}-\d\d-\d\d-\d{4}", branch)
    spec = git("show", f"origin/{branch}:SPEC.md")
    assert "- [x] add a greeting\n" in spec and "- [ ] two\n" in spec and "Refs: #5" in spec
    assert "> **Question:** Postgres or SQLite?" in spec and len(re.findall("^- ", spec, re.M)) == 2
    assert "add a greeting" in Path(body).read_text()
    assert Path(body).read_text() in runner.text("summary")
    (runner.place / "prs.json").write_text(f'[{{"number": 3, "headRefName": "{branch}"}}]')
    assert runner.run(steps("kern-nightly.yml"), {}) == {"Install": 0, "Import": 0}
    assert runner.text("summary") == "Nothing new: #3 waits for a review.\n"


@needs_jq
def test_a_label_brings_one_issue_to_a_draft_that_closes_it_whatever_its_title(
    runner: Runner, git: Git
) -> None:
    event = {"issue": issue(5, "ann", HOSTILE), "sender": {"login": "ann"}}
    assert not any(runner.run(steps("kern-issue.yml"), event).values())
    ((*argv, body),) = runner.drafts()
    assert f"--title={HOSTILE}" in argv and Path(body).read_text().startswith("Closes #5\n")
    spec = git("show", "origin/kern/issue-5-7:SPEC.md")
    assert spec.startswith('- [ ] add a greeting\n- [x] x"; touch p1 $(touch p2)')
    assert not list(runner.repo.glob("p[123]"))


@needs_jq
@pytest.mark.parametrize(("author", "sender"), [("bob", "ann"), ("ann", "bob"), ("ghost", "ann")])
def test_who_may_not_write_brings_nothing(runner: Runner, author: str, sender: str) -> None:
    event = {"issue": issue(5, author, "steal"), "sender": {"login": sender}}
    assert runner.run(steps("kern-issue.yml"), event) == {"Install": 0, "Import": 1}
    assert "steal" not in (runner.repo / "SPEC.md").read_text()


@pytest.mark.parametrize("name", ["kern-nightly.yml", "kern-issue.yml"])
def test_a_workflow_keeps_the_rules_of_the_field(name: str) -> None:
    text = (OFFERED / name).read_text()
    flow, (job,) = yaml.safe_load(text), jobs(name)
    assert {*flow} == {"name", True, "permissions", "concurrency", "defaults", "env", "jobs"}
    may = {"contents": "write", "issues": "read", "pull-requests": "write"}
    assert flow["permissions"] == may and flow["concurrency"]["group"].startswith("kern-")
    assert {*job} - {"if"} == {"runs-on", "timeout-minutes", "steps"}
    assert 0 < job["timeout-minutes"] <= 360 and flow["env"]["KERN_SANDBOX"] == "bwrap"
    given = {"Import": ["GH_TOKEN"], "Report": ["GH_TOKEN"], "Run": ["ANTHROPIC_API_KEY"]}
    for step in job["steps"]:
        assert {*step} <= {"name", "uses", "with", "if", "env", "run", "timeout-minutes"}
        assert ("uses" in step) != ("run" in step) and "${{" not in step.get("run", "")
        assert [*step.get("env", ())] == given.get(step.get("name", ""), [])
    assert job["steps"][0]["with"]["persist-credentials"] is False
    # With the token no hook runs, which an agent may have written.
    assert not re.search(r"git (commit|push)", job["steps"][-1]["run"])
    filled_in = re.findall(r"\$\{\{ (.*?) \}\}", text)
    known = {"github.token", "secrets.ANTHROPIC_API_KEY", "github.event.issue.number"}
    assert {*filled_in} <= known and len(text.splitlines()) <= 55


def test_a_workflow_of_yours_is_shown_and_stays_until_a_yes(repo: Path, kern: Kern) -> None:
    place = repo / ".github/workflows/kern-issue.yml"
    place.parent.mkdir(parents=True)
    place.write_text("mine\n")
    ran = kern("ci", "init")
    assert "-mine\n" in ran.out and f"kept     {place.relative_to(repo)}" in ran.out
    tools = repo.parent / "tools"
    tools.mkdir()
    (tools / "git").symlink_to(shutil.which("git") or "")
    ran = kern("ci", "init", env={"PATH": str(tools)})
    assert "written" not in ran.out and "gh (https://cli.github.com) does not run" in ran.out
    executable((tools / "gh"), "#!/bin/sh\nexit 1\n")
    assert "gh is not logged in: gh auth login" in kern("ci", "init", env={"PATH": str(tools)}).out


# ---------------------------------------------------------------- questions


def answered(stable: Stable, repo: Path, data: bytes) -> tuple[int, str]:
    """From a second terminal."""
    files = {name: str(repo.parent / f"answer.{name}") for name in ("stdin", "out", "err")}
    for name, file in files.items():
        Path(file).write_bytes(data if name == "stdin" else b"")
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    job = {"argv": ["answer", "-"], "cwd": str(repo), "env": env, "at": None, **files}
    return stable.ask(job), Path(files["err"]).read_text()


def test_a_question_is_answered_beside_the_run_by_the_json_that_notify_was_given(
    repo: Path, git: Git, fake: Fake, stable: Stable, background: Callable[..., Any]
) -> None:
    (repo / "SPEC.md").write_text("- [ ] it's $(touch p1)\n- [ ] other\n")
    git("commit", "--quiet", "--all", "--message=two")
    own, told = Path.home() / ".config/kern/config.toml", fake.folder / "told"
    own.parent.mkdir(parents=True, exist_ok=True)
    there = own.read_text() if own.exists() else ""
    own.write_text(f"notify = 'cat >> \"{told}\"'\n{there}")
    waits = "until [ -e $FAKE_CLAUDE/go ]; do sleep 0.1; done"
    work = [{"run": [f"{waits}; echo > {name}"], "result": "SUCCESS"} for name in "mn"]
    fake.script(research=[{"result": "NEEDS_ANSWER: Postgres or SQLite?"}, READY], implement=work)
    run = background("3", "0")
    wait_for(lambda: told.exists() and told.read_text().endswith("\n"))
    notice = json.loads(told.read_text())
    asked = {"number": 1, "task": notice["task"], "text": notice["why"]}
    last = {**asked, "answer": "SQLite\n- [ ] forged"}
    assert (notice["event"], notice["why"]) == ("needs-help", "Postgres or SQLite?")
    for data, why in (
        (b"rubbish", "no JSON object"),
        (b"[" * 5000, "no JSON object"),
        (b" " * (1 << 20) + b"{}", "at most 1 MiB"),
        (notice, "and an answer"),
        ({**notice, "answer": 1}, "and an answer"),
        ({**notice, "answer": "x" * 400}, "at most 300 characters"),
        ({**notice, "answer": "x", "why": "which?"}, "not open any more"),
        # Of a run's end, the first of them answered meanwhile.
        ({"questions": [{**asked, "text": "which?", "answer": "x"}, last]}, "more: which?"),
        ({**notice, "answer": "SQLite"}, "not open any more"),
    ):
        given = data if isinstance(data, bytes) else json.dumps(data).encode()
        code, said = answered(stable, repo, given)
        assert bool(code) == bool(why) and why in said, said
    (fake.folder / "go").touch()
    _, said = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, said
    spec = (repo / "SPEC.md").read_text()
    assert "> **Answer:** SQLite - [ ] forged\n" in spec and spec.count("- [x] ") == 2
    assert json.loads(told.read_text().splitlines()[-1])["questions"] == []
    shell = f"kern() {{ pwd; printf '%s\\n' \"$@\"; }}; {notice['command']}"
    typed = subprocess.check_output(["sh", "-c", shell], text=True, cwd="/").splitlines()
    assert typed == [str(repo), "answer", "--", "it's $(touch p1)", "YOUR ANSWER"]


@needs_jq
def test_the_example_for_a_phone_sends_what_is_needed(tmp_path: Path) -> None:
    page = (HERE.parent / "kern/help/settings.md").read_text()
    (line,) = re.findall(r"^notify = .*curl.*$", page, re.M)
    executable((tmp_path / "curl"), "#!/bin/sh\ncat\n")
    sent = subprocess.check_output(
        ["sh", "-c", tomllib.loads(line)["notify"]],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        input='{"event": "needs-help", "task": "a", "why": "b?", "command": "kern answer", "n": 1}',
        text=True,
    )
    assert sent == "needs-help\na\nb?\nkern answer\n"
