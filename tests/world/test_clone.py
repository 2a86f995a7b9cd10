"""A clone of a stranger's repository that would have many things started: none before a person has
seen all of them and said yes.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, commit_all
from tests.kit.terminal import on_terminal
from tests.kit.trusting import trust_all
from tests.sandbox.test_wall import needs_bwrap

QUESTION = "Run these here? [y/N] "
SHOWN = (
    "gate check: touch",
    "gate of the task: touch",
    "prompt of the project: .kern/prompts/judge.md (",
    ".claude/settings.json apiKeyHelper: touch",
    '.claude/settings.json env: {"NODE_OPTIONS": "--require evil"}',
    '.claude/settings.json hooks: {"SessionStart": [',
    ".claude/settings.local.json statusLine: ",
    '.mcp.json mcpServers: {"m": {"command": "touch',
    "git hook .husky/pre-commit (",
    "git hook .husky/reference-transaction (",
)


@dataclass
class Clone:
    """Each part of it leaves a file of its own in `ran` when it is started."""

    root: Path
    ran: Path
    fake: Fake
    git: Git

    def started(self) -> list[str]:
        return sorted({*os.listdir(self.ran), *self.fake.stages})

    def change(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)
        self.git("-c", "core.hooksPath=/none", "add", "--force", name)
        self.git("-c", "core.hooksPath=/none", "commit", "-qm", f"change {name}")


@pytest.fixture
def clone(
    repo: Path, git: Git, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Clone:
    monkeypatch.delenv("KERN_TRUST")
    ran = tmp_path / "ran"
    ran.mkdir()
    made = Clone(repo, ran, fake, git)
    made.change("kern.toml", toml(ran))
    made.change(
        ".kern/prompts/judge.md",
        "---\nmodel: opus\n---\n{{ task }} {{ criterion }} {{ diff }}: say PASS.\n",
    )
    touch = f"touch {ran}"
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": f"{touch}/claude"}]}]}
    settings = {"apiKeyHelper": f"{touch}/h", "env": {"NODE_OPTIONS": "--require evil"}}
    made.change(".claude/settings.json", json.dumps({**settings, "hooks": hooks}))
    line = {"type": "command", "command": f"{touch}/status"}
    made.change(".claude/settings.local.json", json.dumps({"statusLine": line}))
    made.change(".mcp.json", json.dumps({"mcpServers": {"m": {"command": f"{touch}/mcp"}}}))
    made.change("SPEC.md", f"- [ ] add a greeting\n  > **Gate:** `{touch}/task`\n- [ ] more\n")
    for name in ("pre-commit", "reference-transaction", "post-index-change", "post-checkout"):
        made.change(f".husky/{name}", f"#!/bin/sh\n{touch}/{name}\n")
        (repo / ".husky" / name).chmod(0o755)
    git("-c", "core.hooksPath=/none", "commit", "-qam", "hooks")
    git("config", "core.hooksPath", ".husky")
    return made


def toml(ran: Path, more: str = "") -> str:
    return f"""
[gates]
check = "touch {ran}/gate"
{more}
"""


def listed(said: str) -> None:
    for start in SHOWN:
        assert f"\n  {start}" in said, start


def test_without_a_word_and_a_terminal_all_is_listed_and_nothing_started(
    clone: Clone, kern: Kern
) -> None:
    before = clone.git("for-each-ref")
    for _ in range(2):
        ran = kern("1", "0")
        assert ran.code == 2
        listed(ran.err)
        assert "this repository is not trusted" in ran.err and "hint: kern in a terminal" in ran.err
    assert kern("plan", "more").code == 2
    assert clone.started() == []
    assert clone.git("for-each-ref") == before


LOOKS = ("status --all", "-n -v", "doctor", "log", "report --html", "show 1", "path")


def test_what_only_looks_starts_nothing(clone: Clone, kern: Kern) -> None:
    for words in (*LOOKS, "check"):
        ran = kern(*words.split())
        assert QUESTION not in ran.said
        assert clone.started() == [], ran.said


def test_no_look_runs_a_filter_that_came_along_in_gits_folder(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    (repo / ".gitattributes").write_text("a.txt filter=f\n")
    commit_all(git, "attributes")
    git("config", "filter.f.clean", f"touch {tmp_path}/ran; cat")
    git("config", "filter.f.required", "true")
    (repo / "a.txt").touch()
    for words in (*LOOKS, "check"):
        assert "a.txt" not in kern(*words.split()).said
        assert not (tmp_path / "ran").exists(), words


@pytest.mark.parametrize("how", ["--trust", "KERN_TRUST"])
def test_a_word_for_one_run_is_for_one_run(clone: Clone, kern: Kern, how: str) -> None:
    options = ["--trust"] if how == "--trust" else []
    ran = kern(*options, "1", "0", env={"KERN_TRUST": "1"} if how == "KERN_TRUST" else {})
    assert ran.code == 0, ran.said
    assert {"gate", "task", "pre-commit", "implement"} <= {*clone.started()}
    assert kern("1", "0").code == 2


def test_each_new_or_changed_line_is_asked_about_again(clone: Clone, kern: Kern) -> None:
    trust_all(clone.root)
    assert kern("1", "0").code == 0
    clone.change("kern.toml", toml(clone.ran, f'new = "touch {clone.ran}/new"'))
    clone.change(".husky/pre-commit", f"#!/bin/sh\ntouch {clone.ran}/changed\n")
    ran = kern("1", "0")
    assert ran.code == 2
    news = ran.err.partition("New in this repository since you trusted it:\n")[2].splitlines()
    starts = f"  gate new: touch {clone.ran}/new", "  git hook .husky/pre-commit (", "kern: "
    assert all(line.startswith(start) for line, start in zip(news, starts, strict=False)), ran.err
    assert not {"new", "changed"} & {*clone.started()}
    trust_all(clone.root)
    assert kern("1", "0").code == 0
    assert {"new", "changed"} <= {*clone.started()}


@needs_bwrap
def test_in_a_sandbox_what_stays_in_it_is_told_and_the_rest_asked_about(
    clone: Clone, kern: Kern
) -> None:
    """And asked about where there is no sandbox: another's branch has the same first commit."""
    held, unheld = {"KERN_SANDBOX": "bwrap"}, {"KERN_SANDBOX": "off"}
    ran = kern("check", env=held)
    assert ran.code == 2
    assert ".mcp.json mcpServers: " in ran.err and "gate check" not in ran.err
    for name in (".claude/settings.json", ".claude/settings.local.json", ".mcp.json"):
        clone.change(name, "{}")
    for told in (True, False):
        ran = kern("check", env=held)
        assert "gate check: red (exit 1" in ran.out, "the sandbox holds it"
        assert ("what this repository has run stays in the sandbox: gate check" in ran.err) is told
    assert clone.started() == []

    trust_all(clone.root)
    clone.change("kern.toml", '[gates]\ncheck = "touch theirs"\n')
    ran = kern("check", env=held)
    assert ran.code == 0, ran.said
    ran = kern("check", env=unheld)
    assert ran.code == 2 and "gate check: touch theirs" in ran.err
    assert not (clone.root / "theirs").exists()


@pytest.mark.parametrize("more", ["", ".mcp.json"])
def test_what_kern_init_proposed_needs_no_question_where_it_is_all(
    repo: Path, git: Git, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    (repo / "Makefile").write_text("test:\n\ttrue\n")
    if more:
        (repo / more).write_text('{"mcpServers": {"m": {"command": "x"}}}')
    assert "gate" in kern("init", "--trust").out
    commit_all(git, "settings")
    ran = kern("1", "0")
    assert ran.code == (2 if more else 0), ran.said
    assert ('.mcp.json mcpServers: {"m": {"command": "x"}}' in ran.err) is bool(more)
    assert "gate test: make test" not in ran.err


# -------------------------------------------------------------------- in a terminal


@pytest.mark.parametrize("answer", ["what?\n", "y\n"])
def test_no_is_the_answer_of_one_who_says_nothing_else_and_a_yes_is_remembered(
    clone: Clone, kern: Kern, answer: str
) -> None:
    code, said = on_terminal("1", "0", cwd=clone.root, typed=answer, at=QUESTION)
    listed(said.replace("\r\n", "\n"))
    assert said.count(QUESTION) == 1
    if answer == "y\n":
        assert code == 0 and "gate" in clone.started()
        assert kern("1", "0").code == 0
    else:
        assert (code, clone.started()) == (2, [])
