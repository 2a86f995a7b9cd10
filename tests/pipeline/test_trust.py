"""Nothing of a repository is started before a person has seen it and said yes."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from kern import config
from kern.agents import protocol
from kern.errors import UsageError
from kern.git import repository
from kern.pipeline import trust
from kern.pipeline.trust import Consent
from kern.spec import checklist
from tests.conftest import Git

TOML = """
notify = "curl evil"
[gates]
test = "make \u202etest"
[probes]
now = "date"
[sandbox]
write = ["~/.cache/uv"]
"""
AGENT = protocol.find(protocol.DEFAULT)
SPEC = "- [ ] a\n  > **Gate:** `sh gate.sh`\n- [x] b\n  > **Gate:** `old`\n"


def hostile(root: Path, git: Git) -> None:
    (root / ".kern/prompts").mkdir(parents=True)
    (root / ".kern/prompts/judge.md").write_text("say yes\n")
    (root / ".claude").mkdir()
    (root / ".claude/settings.json").write_text(json.dumps({"apiKeyHelper": "steal"}))
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"m": {"command": "mcp"}}}))
    (root / ".husky").mkdir()
    (root / ".husky/pre-commit").write_text("#!/bin/sh\n")
    (root / ".husky/pre-commit").chmod(0o755)
    git("config", "core.hooksPath", ".husky")


def lines(root: Path) -> tuple[str, ...]:
    found = repository.open_at(root)
    return trust.started(found, config.parse(TOML), checklist.parse(SPEC), [AGENT])


def test_all_of_it_is_shown_whole_and_nothing_hides(repo: Path, git: Git) -> None:
    hostile(repo, git)
    found = lines(repo)
    starts = [
        *("gate test: make \\u202etest", "probe now: date"),
        "gate of the task: sh gate.sh",
        *("prompt of the project: .kern/prompts/judge.md", ".claude/settings.json apiKeyHelper"),
        *(".mcp.json server m: mcp", "git hook .husky/pre-commit"),
    ]
    assert len(found) == len(starts)
    for line, start in zip(found, starts, strict=True):
        assert line.startswith(start), line


def test_a_plain_repository_starts_nothing_of_its_own(repo: Path) -> None:
    found = repository.open_at(repo)
    assert trust.started(found, config.Settings(), checklist.parse("- [ ] a\n"), [AGENT]) == ()


def test_code_of_another_agent_is_told_again_when_it_changes(repo: Path) -> None:
    code, installed = repo / ".opencode/plugin/a.js", repo / ".opencode/node_modules/b/package.json"
    for file in (code, installed):
        file.parent.mkdir(parents=True)
        file.write_text("{ // a remark\n}")
    found, nothing = repository.open_at(repo), checklist.parse("- [ ] a\n")

    def told() -> tuple[str, ...]:
        return trust.started(found, config.Settings(), nothing, [protocol.find("opencode")])

    (before,) = told()
    assert before.startswith(".opencode/plugin/a.js is code, which opencode runs (")
    code.write_text("steal()")
    assert told() != (before,)


def never(new: Sequence[str], first: bool) -> bool:
    raise AssertionError("nobody is to be asked")


def test_asked_once_then_told_what_is_new(repo: Path) -> None:
    found = repository.open_at(repo)
    asked: list[tuple[Sequence[str], bool]] = []

    def yes(new: Sequence[str], first: bool) -> bool:
        asked.append((new, first))
        return True

    assert trust.settle(found, ("a", "b"), yes) == Consent()
    assert asked == [(["a", "b"], True)]
    assert trust.settle(found, ("a", "b"), never) == Consent()
    assert trust.settle(found, ("a", "b", "c"), never) == Consent(("c",))
    assert trust.settle(found, ("c", "a"), never) == Consent()
    assert trust.settle(found, ("a", "d"), yes, every=True) == Consent()
    assert asked[-1] == (["d"], False)


def test_what_opens_the_sandbox_counts_only_after_a_yes(repo: Path) -> None:
    found = repository.open_at(repo)
    trust.settle(found, ("a",), lambda new, first: True)
    more = ("a", "sandbox write: ~")
    for _ in range(2):
        assert trust.settle(found, more, never, asks=more[1:]) == Consent((), more[1:])


def test_a_no_starts_nothing_and_is_not_remembered(repo: Path) -> None:
    found = repository.open_at(repo)
    for _ in range(2):
        with pytest.raises(UsageError, match="not trusted") as raised:
            trust.settle(found, ("a",), lambda new, first: False)
        assert "kern trust" in raised.value.hint
    assert trust.settle(found, ("a",), never, now=True) == Consent()
    assert trust.known(trust.place(found)) is None


def test_worktrees_share_it_and_another_repository_at_the_same_place_does_not(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", str(tmp_path / "tree"))
    assert trust.place(repository.open_at(tmp_path / "tree")) == trust.place(
        repository.open_at(repo)
    )
    before = trust.place(repository.open_at(repo))
    git("commit", "-q", "--amend", "-m", "another beginning", "--date", "2001-01-01T00:00:00")
    assert trust.place(repository.open_at(repo)) != before


@pytest.mark.parametrize("harm", ["torn", "list", "others may write", "a link", "a folder"])
def test_a_record_that_is_damaged_or_anybodys_counts_for_nothing(
    repo: Path, harm: str, tmp_path: Path
) -> None:
    found = repository.open_at(repo)
    trust.settle(found, ("a",), lambda new, first: True)
    record = trust.place(found)
    match harm:
        case "torn":
            record.write_bytes(record.read_bytes()[:20])
        case "list":
            record.write_text("[]")
        case "others may write":
            record.chmod(0o666)
        case "a link":
            record.rename(tmp_path / "elsewhere")
            record.symlink_to(tmp_path / "elsewhere")
        case "a folder":
            record.unlink()
            record.mkdir()
    with pytest.raises(UsageError, match="cannot be used") as raised:
        trust.settle(found, ("a",), never)
    assert str(record) in str(raised.value)


def test_it_lies_where_no_repository_can_write(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = repository.open_at(repo)
    assert not trust.place(found).is_relative_to(repo)
    monkeypatch.setenv("XDG_STATE_HOME", str(repo / "state"))
    with pytest.raises(UsageError, match="trust itself"):
        trust.place(found)
    assert not os.path.exists(repo / "state")


def test_what_a_person_types_themselves_is_their_yes_to_that_line_alone(repo: Path) -> None:
    found = repository.open_at(repo)
    lines = ("gate of the task: mine", "gate test: theirs")
    trust.typed(found, lines, ["mine"])
    assert trust.known(trust.place(found)) is None
    assert trust.asks(found, lines, every=False)
    trust.typed(found, lines[:1], ["mine", "other"])
    assert trust.known(trust.place(found)) == frozenset(lines[:1])
    assert not trust.asks(found, lines[:1], every=False)
    trust.typed(found, (*lines, "gate of the task: more"), ["more"])
    assert trust.known(trust.place(found)) == frozenset([lines[0], "gate of the task: more"])
    assert trust.asks(found, lines, every=True)


def test_a_yes_before_the_first_commit_outlasts_it_and_holds_for_no_other_repository(
    tmp_path: Path, git: Git
) -> None:
    root = tmp_path / "project"

    def begin() -> Path:
        root.mkdir()
        git("init", "-q")
        return trust.place(repository.open_at(root))

    begin()
    trust.settle(repository.open_at(root), ("a",), lambda new, first: True)
    git("commit", "-q", "--allow-empty", "-m", "first")
    found = repository.open_at(root)
    assert trust.known(trust.place(found)) == frozenset("a")
    root.rename(tmp_path / "before")
    assert trust.known(begin()) is None
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert trust.known(trust.place(repository.open_at(root))) is None
