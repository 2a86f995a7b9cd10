"""Nothing of a repository is started before a person has seen it and said yes."""

from pathlib import Path

import pytest

from kern import config
from kern.agents import protocol
from kern.config import Gate
from kern.git import repository
from kern.pipeline import isolation, trust
from kern.pipeline.trust import Started
from kern.spec.parse import parse
from tests.conftest import Git


def test_code_of_another_agent_is_told_again_when_it_changes(repo: Path) -> None:
    code, installed = repo / ".opencode/plugin/a.js", repo / ".opencode/node_modules/b/package.json"
    for file in (code, installed):
        file.parent.mkdir(parents=True)
        file.write_text("{ // a remark\n}")
    found, nothing = repository.open_at(repo), parse("- [ ] a\n")

    def told() -> tuple[str, ...]:
        return trust.started(found, config.Settings(), nothing, [protocol.find("opencode")]).agents

    (before,) = told()
    assert before.startswith("opencode obeys .opencode/plugin/a.js (")
    code.write_text("steal()")
    assert told() != (before,)


def test_worktrees_share_it_and_another_clone_at_the_same_place_does_not(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    trust.agree(repository.open_at(repo), ("a",))
    git("worktree", "add", "-q", str(tmp_path / "tree"))
    for folder in (repo, tmp_path / "tree"):
        assert trust.known(trust.place(repository.open_at(folder))) == frozenset("a")
    repo.rename(tmp_path / "before")
    git("clone", "-q", str(tmp_path / "before"), str(repo), cwd=tmp_path)
    assert trust.known(trust.place(repository.open_at(repo))) is None


def test_a_record_that_is_damaged_counts_for_nothing(repo: Path) -> None:
    found = repository.open_at(repo)
    trust.agree(found, ("a",))
    record = trust.place(found)
    for text in (record.read_text()[:20], "[]"):
        record.write_text(text)
        assert trust.known(record) is None
        assert trust.unseen(found, Started(("a",)).lines) == ["a"]


@pytest.mark.parametrize("state", ["", "state", "REPO/state", "LINK/state", "OUTSIDE/state"])
def test_what_kern_remembers_lies_where_no_repository_can_write(
    repo: Path, tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(repo)
    for name, place in (("REPO", repo), ("LINK", tmp_path / "link"), ("OUTSIDE", tmp_path)):
        state = state.replace(name, str(place))
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.chdir(repo)
    usual = Path.home() / ".local" / "state"
    folder = Path(state) if state == f"{tmp_path}/state" else usual
    found = repository.open_at(repo)
    assert trust.place(found).parent == folder / "kern" / "trust"
    assert isolation.homes(found).parent == folder / "kern" / "homes"


def test_what_a_person_types_themselves_is_their_yes_to_that_line_alone(repo: Path) -> None:
    found = repository.open_at(repo)
    trust.agree(found, trust.of_gates([Gate("", "mine", 0)]))
    lines = Started(("gate of the task: mine", "gate test: theirs"))
    assert trust.unseen(found, lines.lines) == ["gate test: theirs"]
