"""What other programs get of kern: agents a skill, GitHub workflows, a bot the questions."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kern.cli.skill import OFFERED
from tests.conftest import HERE, PATIENCE_S, Fake, Git, Kern, wait_for
from tests.kit.stable import Stable
from tests.kit.terminal import on_terminal

needs_jq = pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
Background = Callable[..., "subprocess.Popen[str]"]
READY = "- Files: a.txt:1\n\nREADY"
WRITE = {"contents": "write", "issues": "read", "pull-requests": "write"}
HOSTILE = "x\"; touch p1 $(touch p2) `touch p3` ${{ github.token }} '\n- [x] mine\n::error::no"


# ---------------------------------------------------------------- agents


def test_agents_are_told_in_few_words_and_nothing_that_is_there_is_changed(
    repo: Path, kern: Kern, tmp_path: Path
) -> None:
    common, theirs = repo / "AGENTS.md", b"Tabs.\r\n\xff no end"
    common.write_bytes(theirs)
    assert kern("init", "--agents").out.count("written ") == 2
    skill = (repo / ".claude/skills/kern/SKILL.md").read_text()
    told = common.read_bytes()
    assert told.startswith(theirs) and told.count(b"\n") == told.count(b"\r\n")
    paragraph = told.removeprefix(theirs).decode()
    assert len((skill + paragraph).split()) <= 150
    for words in ("kern add", "kern status --json", "kern answer", "SPEC.md", "kern report"):
        assert words in skill and words in paragraph
    again = kern("init", "--agents")
    assert "written" not in again.out and again.code == 0
    assert (common.read_bytes(), (repo / "SPEC.md").read_text()) == (told, "- [ ] add a greeting\n")
    common.unlink()
    common.symlink_to(tmp_path / "elsewhere")
    out = kern("init", "--agents")
    assert out.code == 2 and "AGENTS.md is a link out of" in out.err
    assert not (tmp_path / "elsewhere").exists()


# ---------------------------------------------------------------- workflows


@pytest.fixture
def runner(repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path) -> "Runner":
    bare = tmp_path / "origin.git"
    git("init", "--quiet", "--bare", str(bare))
    git("remote", "add", "origin", str(bare))
    programs = {
        "gh": f'exec {sys.executable} {HERE / "kit/fake_gh.py"} {tmp_path} "$@"',
        "kern": f'PYTHONPATH={HERE.parent} exec {sys.executable} -m kern "$@"',
        **dict.fromkeys(("sudo", "npm", "pipx"), f'echo "$0 $*" >>{tmp_path}/installed'),
    }
    for name, line in programs.items():
        (fake.folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (fake.folder / "bin" / name).chmod(0o755)
    assert kern("ci", "init").code == 0
    git("add", "--all")
    git("commit", "--quiet", "--message=workflows")
    git("push", "--quiet", "origin", "main")
    return Runner(repo, tmp_path)


class Runner:
    """GitHub's, as far as the workflows use it: a step's block by bash, what it may leave to the
    next.
    """

    def __init__(self, repo: Path, place: Path) -> None:
        self.repo, self.place = repo, place
        for name in ("env", "summary"):
            (place / name).touch()

    def run(self, workflow: str, event: Mapping[str, Any]) -> dict[str, int]:
        """Each step's exit code."""
        (self.place / "event").write_text(json.dumps(event))
        sha = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=self.repo, text=True)
        env = {**os.environ, "GITHUB_SHA": sha.strip(), "GITHUB_REPOSITORY": "o/r"}
        env |= {"GITHUB_REF_NAME": "main", "GITHUB_RUN_NUMBER": "7", "RUNNER_TEMP": str(self.place)}
        files = {"ENV": "env", "STEP_SUMMARY": "summary", "EVENT_PATH": "event"}
        env |= {f"GITHUB_{name}": str(self.place / file) for name, file in files.items()}
        ended = dict[str, int]()
        for step in steps(workflow):
            left = dict(
                line.split("=", 1) for line in (self.place / "env").read_text().splitlines()
            )
            wanted = step.get("if", "")
            skipped = ("BRANCH" in wanted and "BRANCH" not in left) or (
                any(ended.values()) and "always()" not in wanted
            )
            if "run" in step and not skipped:
                argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
                done = subprocess.run(argv, cwd=self.repo, env=env | left, timeout=PATIENCE_S)
                ended[step["name"]] = done.returncode
        return ended

    def asked(self, what: str) -> list[list[str]]:
        """How gh was called."""
        lines = (self.place / "gh.log").read_text().splitlines()
        return [argv for line in lines if (argv := json.loads(line))[:2] == what.split()]


def steps(workflow: str) -> list[dict[str, Any]]:
    (job,) = yaml.safe_load((OFFERED / workflow).read_text())["jobs"].values()
    return list(job["steps"])


def issue(number: int, by: str, title: str) -> dict[str, Any]:
    return {"number": number, "title": title, "body": None, "user": {"login": by}}


@needs_jq
def test_by_night_issues_become_a_draft_and_those_of_strangers_are_left(
    runner: Runner, fake: Fake, git: Git
) -> None:
    issues = [issue(5, "ann", HOSTILE), issue(6, "bob", "steal"), issue(8, "ghost", "gone")]
    issues.append({**issue(9, "ann", "no issue"), "pull_request": {}})
    (runner.place / "issues.json").write_text(json.dumps(issues))
    ended = runner.run("kern-nightly.yml", {})
    assert ended == dict.fromkeys(("Install", "Import", "Run", "Report"), 0)
    ((*_, title, _, body),) = runner.asked("pr create")
    assert re.fullmatch(r"kern/\d{4}-\d\d-\d\d-\d{4}", title)
    spec = git("show", f"origin/{title}:SPEC.md")
    assert len(re.findall(r"^- \[x\] ", spec, re.M)) == 2 and "Refs: #5" in spec
    assert "steal" not in spec and "gone" not in spec and "no issue" not in spec
    report = Path(body).read_text()
    assert "add a greeting" in report and report in (runner.place / "summary").read_text()
    assert not list(runner.repo.glob("p[123]"))
    assert "--draft" in runner.asked("pr create")[0]
    (runner.place / "prs.json").write_text(f'[{{"number": 3, "headRefName": "{title}"}}]')
    (runner.place / "env").write_text("")
    assert runner.run("kern-nightly.yml", {}) == {"Install": 0, "Import": 0}
    assert "#3 waits for a review" in (runner.place / "summary").read_text()


@needs_jq
def test_a_label_brings_one_issue_to_a_draft_that_closes_it(
    runner: Runner, fake: Fake, git: Git
) -> None:
    event = {"issue": issue(5, "ann", HOSTILE), "sender": {"login": "ann"}}
    assert not any(runner.run("kern-issue.yml", event).values())
    ((*argv, body),) = runner.asked("pr create")
    assert f"--title={HOSTILE}" in argv and "--draft" in argv
    assert Path(body).read_text().startswith("Closes #5\n")
    spec = git("show", "origin/kern/issue-5-7:SPEC.md")
    assert spec.startswith('- [ ] add a greeting\n- [x] x"; touch p1 $(touch p2)')
    assert not list(runner.repo.glob("p[123]"))


@needs_jq
@pytest.mark.parametrize(("author", "sender"), [("bob", "ann"), ("ann", "bob"), ("ghost", "ann")])
def test_who_may_not_write_brings_nothing(runner: Runner, author: str, sender: str) -> None:
    event = {"issue": issue(5, author, "steal"), "sender": {"login": sender}}
    assert runner.run("kern-issue.yml", event) == {"Install": 0, "Import": 1}
    assert "steal" not in (runner.repo / "SPEC.md").read_text()


@needs_jq
def test_the_step_ends_with_what_kern_says_and_the_work_is_handed_on(
    runner: Runner, fake: Fake
) -> None:
    fake.script(research=[{"result": READY}, {"result": "NEEDS_ANSWER: which?"}])
    (runner.place / "issues.json").write_text(json.dumps([issue(5, "ann", "two")]))
    assert runner.run("kern-nightly.yml", {})["Run"] == 1
    assert len(runner.asked("pr create")) == 1


@pytest.mark.parametrize("name", ["kern-nightly.yml", "kern-issue.yml"])
def test_a_workflow_keeps_the_rules_of_the_field(name: str) -> None:
    text = (OFFERED / name).read_text()
    flow = yaml.safe_load(text)
    assert {*flow} == {"name", True, "permissions", "concurrency", "defaults", "env", "jobs"}
    assert flow["permissions"] == WRITE and flow["concurrency"]["group"].startswith("kern-")
    (job,) = flow["jobs"].values()
    assert {*job} - {"if"} == {"runs-on", "timeout-minutes", "steps"}
    assert 0 < job["timeout-minutes"] <= 360 and flow["env"]["KERN_SANDBOX"] == "bwrap"
    for step in job["steps"]:
        assert {*step} <= {"name", "uses", "with", "if", "env", "run", "timeout-minutes"}
        assert ("uses" in step) != ("run" in step)
        assert "${{" not in step.get("run", "")
        secret = {"Import": "GH_TOKEN", "Report": "GH_TOKEN", "Run": "ANTHROPIC_API_KEY"}
        assert [*step.get("env", ())] == [*filter(None, [secret.get(step.get("name", ""))])]
    assert job["steps"][0]["with"]["persist-credentials"] is False
    given = re.findall(r"\$\{\{ (.*?) \}\}", text)
    assert {*given} <= {"github.token", "secrets.ANTHROPIC_API_KEY", "github.event.issue.number"}
    assert len(text.splitlines()) <= 55


def test_a_workflow_of_yours_is_shown_and_stays_until_a_yes(
    repo: Path, kern: Kern, tmp_path: Path
) -> None:
    (repo / ".github/workflows").mkdir(parents=True)
    place = repo / ".github/workflows/kern-issue.yml"
    place.write_text("mine\n")
    shown = kern("ci", "init")
    assert "-mine\n" in shown.out and "kept     .github/workflows/kern-issue.yml" in shown.out
    for typed, left in (("n\n", "mine\n"), ("y\n", (OFFERED / "kern-issue.yml").read_text())):
        code, said = on_terminal("ci", "init", cwd=repo, typed=typed, at="[y/N]")
        assert code == 0 and "-mine" in said and place.read_text() == left
    assert "written" not in kern("ci", "init").out


# ---------------------------------------------------------------- questions


def answered(stable: Stable, repo: Path, data: bytes) -> tuple[int, str]:
    """From a second terminal."""
    files = {name: str(repo.parent / f"answer.{name}") for name in ("stdin", "out", "err")}
    for name, content in (("stdin", data), ("out", b""), ("err", b"")):
        Path(files[name]).write_bytes(content)
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    job = {"argv": ["answer", "-"], "cwd": str(repo), "env": env, "at": None, **files}
    return stable.ask(job), Path(files["err"]).read_text()


def test_a_question_is_answered_by_the_json_that_notify_was_given(
    repo: Path, git: Git, fake: Fake, stable: Stable, background: Background
) -> None:
    (repo / "SPEC.md").write_text("- [ ] it's $(touch p1)\n- [ ] other\n")
    git("commit", "--quiet", "--all", "--message=two")
    own, told = Path.home() / ".config/kern/config.toml", fake.folder / "told"
    own.parent.mkdir(parents=True, exist_ok=True)
    there = own.read_text() if own.exists() else ""
    own.write_text(f"notify = 'cat >> \"{told}\"'\n{there}")
    asks, waits = {"result": "NEEDS_ANSWER: Postgres or SQLite?"}, "until [ -e $FAKE_CLAUDE/go ]"
    work = [
        {"run": [f"{waits}; do sleep 0.1; done; echo > {n}.txt"], "result": "SUCCESS"} for n in "12"
    ]
    fake.script(research=[asks, {"result": READY}], implement=work)
    run = background("3", "0")
    wait_for(told.exists)
    wait_for(lambda: told.read_text().endswith("\n"))
    notice = json.loads(told.read_text())
    assert (notice["event"], notice["why"]) == ("needs-help", "Postgres or SQLite?")
    answer = json.dumps({**notice, "answer": "SQLite\n- [ ] forged"}).encode()
    for data, why in (
        (b"rubbish", "no JSON object"),
        (b"[" * 5000, "no JSON object"),
        (b" " * (1 << 20) + b"{}", "at most 1 MiB"),
        (json.dumps(notice).encode(), "no answer is in it"),
        (json.dumps({**notice, "answer": 1}).encode(), "are texts"),
        (json.dumps({**notice, "answer": "x", "root": "/"}).encode(), "is not of"),
        (json.dumps({**notice, "answer": "x" * 400}).encode(), "at most 300 characters"),
        (json.dumps({**notice, "answer": "x", "why": "which?"}).encode(), "not open any more"),
        (answer, ""),
        (answer, "not open any more"),
    ):
        code, said = answered(stable, repo, data)
        assert bool(code) == bool(why) and why in said, said
    (fake.folder / "go").touch()
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, (repo / "SPEC.md").read_text() + out + err
    spec = (repo / "SPEC.md").read_text()
    assert "> **Answer:** SQLite - [ ] forged\n" in spec and len(re.findall("^- ", spec, re.M)) == 2
    assert spec.count("- [x] ") == 2
    ended = json.loads(told.read_text().splitlines()[-1])
    assert ended["questions"] == []
    shell = f"kern() {{ pwd; printf '%s\\n' \"$@\"; }}; {notice['command']}"
    typed = subprocess.check_output(["sh", "-c", shell], text=True, cwd="/").splitlines()
    assert typed == [str(repo), "answer", "--", "it's $(touch p1)", "YOUR ANSWER"]


@needs_jq
def test_the_example_for_a_phone_sends_what_is_needed(tmp_path: Path) -> None:
    page = (HERE.parent / "kern/help/settings.md").read_text()
    (line,) = re.findall(r"^notify = .*curl.*$", page, re.M)
    curl = tmp_path / "curl"
    curl.write_text("#!/bin/sh\ncat\n")
    curl.chmod(0o755)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    given = {
        "event": "needs-help",
        "task": "a",
        "why": "b?",
        "command": "kern answer -- a",
        "open": 1,
    }
    sent = subprocess.run(
        ["sh", "-c", tomllib.loads(line)["notify"]],
        env=env,
        input=json.dumps(given),
        capture_output=True,
        text=True,
    )
    assert sent.stdout == "needs-help\na\nb?\nkern answer -- a\n"
