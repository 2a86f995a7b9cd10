"""Gates and judges end to end: a commit means that the checks passed."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern, wait_for

GREEN = {"run": ["echo good > n"], "result": "did it\n\nSUCCESS"}
RED = {"run": ["echo bad > n"], "result": "did it\n\nSUCCESS"}


def toml(repo: Path, git: Git, text: str) -> None:
    (repo / "kern.toml").write_text(text)
    git("add", "kern.toml")
    git("commit", "--quiet", "--message=gates")


def task(repo: Path, git: Git, *notes: str, title: str = "add a greeting") -> None:
    lines = "".join(f"  > {note}\n" for note in notes)
    (repo / "SPEC.md").write_text(f"- [ ] {title}\n{lines}")
    git("commit", "--quiet", "--all", "--message=task")


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def attempts(repo: Path) -> list[str]:
    return [line.strip() for line in spec(repo).splitlines() if "**Attempt" in line]


# ---------------------------------------------------------------- before the first paid call


@pytest.mark.parametrize(
    ("gate", "said", "hint"),
    [
        ("'nonesuch --check'", "cannot run (exit 127, command not found): ", "install what it"),
        ("'./a.txt'", "cannot run (exit 126, cannot be executed): ", "correct [gates]"),
        ("{ run = 'nonesuch', red = 'known' }", "cannot run (exit 127", "install what it"),
        (
            "{ run = 'echo sins; exit 3', strict = true }",
            "is strict and red before any task (exit 3): sins",
            "take `strict` off",
        ),
        (
            "'echo ImportError; exit 2'",
            "is red before any task (exit 2): ImportError",
            "kern --allow-red",
        ),
    ],
)
def test_a_gate_that_cannot_run_or_is_red_stops_the_run_before_anyone_is_paid(
    repo: Path, git: Git, fake: Fake, inline: Inline, gate: str, said: str, hint: str
) -> None:
    toml(repo, git, f"[gates]\ngood = 'true'\ncheck = {gate}\n")
    before = git("status", "--porcelain"), spec(repo)
    ran = inline(1, allow_red="allow-red" not in hint)  # which lifts that one alone
    assert ran.code == 2
    assert fake.stages == []
    assert f"kern: gate check {said}" in ran.said
    log = re.search(r"^all that it printed: (.*)", ran.said, re.M)
    assert log and Path(log[1]).exists()
    assert hint in ran.said.partition("hint: ")[2]
    assert (git("status", "--porcelain"), spec(repo)) == before
    assert not git("for-each-ref", "refs/kern")


# ---------------------------------------------------------------- after it


def test_an_agent_cannot_lower_its_own_bar(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "n").write_text("good\n")
    git("add", "n")
    toml(repo, git, "[gates]\ncheck = 'grep -q good n'\n")
    task(repo, git, "**Gate:** `grep -q fine n`")
    lowers = ["echo '[gates]' > kern.toml", "sed -i /Gate/d SPEC.md", "echo bad > n"]
    again = ["echo '[gates]' > kern.toml", "echo fine, bad > n"]
    works = ["echo fine, good > n"]
    fake.script(implement=[{"run": run, "result": "SUCCESS"} for run in (lowers, again, works)])
    ran = inline(1)
    assert ran.code == 0, ran.said
    assert "gate `grep -q fine n` is red" in attempts(repo)[0]
    assert "gate check is red" in attempts(repo)[1]
    assert "**Gate:** `grep -q fine n`" in spec(repo)
    assert "grep -q good n" in git("show", "HEAD:kern.toml")


def test_one_judge_alone_discards_no_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    task(repo, git, "**Judge:** error messages are clear")
    answers = ("FAIL: a.txt:3 is vague", "I cannot tell.", "PASS: they are")
    fake.script(implement=[GREEN], judge=[{"result": said} for said in answers])
    ran = inline(1)
    assert ran.code == 0, ran.said
    assert not attempts(repo)
    assert fake.stages == ["research", "implement", *["judge"] * 3, "commit"]
    assert "the judges disagree, so the change passes: one said FAIL: a.txt:3 is vague" in ran.said
    assert "the judges disagree" in ran.said.partition("Look at this:")[2]
    ended = [event.record["code"] for event in ran.events if "code" in event.record]
    assert ended == [1, 2, 0]
    lines = (repo / ".git" / "kern" / "events.jsonl").read_text().splitlines()
    noted = [record for record in map(json.loads, lines) if record["kind"] == "gate"]
    assert [record["output"] for record in noted] == [
        "a.txt:3 is vague",
        "the answer is neither PASS nor FAIL: I cannot tell.",
        "",
    ]


def test_settings_behind_a_link_are_refused(
    repo: Path, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.toml").write_text("[gates]\ncheck = 'touch evil'\n")
    (repo / "kern.toml").symlink_to(tmp_path / "elsewhere.toml")
    ran = kern("1", "0")
    assert ran.code == 2
    assert "kern.toml is a link" in ran.said
    assert not (repo / "evil").exists()


# ---------------------------------------------------------------- what a gate may do besides


def test_what_another_run_saw_of_a_gate_excuses_nothing(
    repo: Path,
    git: Git,
    fake: Fake,
    kern: Kern,
    background: Callable[..., "subprocess.Popen[str]"],
    tmp_path: Path,
) -> None:
    here, go = tmp_path / "here", tmp_path / "go"
    gate = (
        f"[ ! -e broken ] || {{ touch {here}; while [ ! -e {go} ]; do sleep 0.05; done; exit 1; }}"
    )
    toml(repo, git, f"[gates]\ncheck = '{gate}'\n")
    mends = {**GREEN, "run": ["rm broken", *GREEN["run"]]}
    fake.script(implement=[{"run": ["touch broken"], "result": "SUCCESS"}, mends])
    first = background("1", "0")
    wait_for(here.exists)
    first.kill()
    first.wait(PATIENCE_S)
    go.touch()

    again = kern("1", "0")
    assert again.code == 0, again.err
    assert "gate check is red (exit 1, was green before the task)" in attempts(repo)[0]
    assert git("show", "--format=", "--name-only", "HEAD").split() == ["SPEC.md", "n"]


def test_a_kern_toml_that_the_next_task_could_not_read_fails_the_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    breaks = {"run": ["echo '[gates' > kern.toml"], "result": "SUCCESS"}
    links = {"run": ["ln -s a.txt kern.toml"], "result": "SUCCESS"}
    adds = {"run": ["echo '[gates]' > kern.toml"], "result": "SUCCESS"}
    fake.script(implement=[breaks, links, adds])
    ran = inline(1)
    assert ran.code == 0, ran.said
    assert "kern.toml is not valid TOML" in attempts(repo)[0]
    assert "kern.toml is not valid TOML" in attempts(repo)[1], "a link, too"
    assert "the task changes kern.toml: that counts from the next task on" in ran.said


def test_an_ignored_kern_toml_is_refused(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    (repo / ".git" / "info" / "exclude").write_text("kern.toml\n")
    (repo / "kern.toml").write_text("[gates]\ncheck = 'true'\n")
    ran = kern("1", "0")
    assert ran.code == 2
    assert "git ignores kern.toml" in ran.said
    assert not fake.calls
