"""Who decides what the sandbox is: the person."""

from pathlib import Path

import pytest

from kern import config, person
from kern.agents import protocol
from kern.agents.protocol import Program
from kern.errors import UsageError
from kern.git.repository import open_at
from kern.person import Holding
from kern.pipeline import isolation, preflight
from tests.conftest import Git

USUAL = Program(protocol.find(protocol.DEFAULT), protocol.DEFAULT)


@pytest.mark.parametrize(
    "text",
    [
        'sandbox = "off"',
        "sandbox = 1",
        'trust = "content"',
        "gates = 1",
        '[sandbox]\nimage = "x"',
        '[sandbox]\nhide = ["x"]',
        '[sandbox]\nhosts = ["x"]',
        '[sandbox]\nmode = "claude"',
        '[sandbox]\nnetwork = ["https://a.com"]',
        '[sandbox]\nwrite = "x"',
        "[sandbox]\nwrite = [1]",
        "[sandbox]\nroot = []",
        "[sandbox",
    ],
)
def test_what_it_may_not_say(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        person.parse(text)
    assert person.FILE in str(raised.value) and raised.value.hint


def test_a_file_in_the_repository_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "project"))
    with pytest.raises(UsageError, match="which would decide for you"):
        preflight.person_settings(tmp_path / "project")
    (tmp_path / "kern").mkdir()
    (tmp_path / "kern" / "config.toml").write_text("notify = 'true'\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert preflight.person_settings(tmp_path / "project").notify == "true"


def test_what_the_persons_git_reads_is_there(repo: Path, git: Git, tmp_path: Path) -> None:
    home = Path.home()
    (home / "work.gitconfig").write_text("[alias]\n\tx = log\n")
    (home / "ignored").touch()
    (tmp_path / "hooks").mkdir()
    git("config", "--global", "include.path", "~/work.gitconfig")
    git("config", "--global", "core.excludesFile", "~/ignored")
    git("config", "core.hooksPath", str(tmp_path / "hooks"))
    wanted = isolation.chosen(open_at(repo))
    assert {home / "work.gitconfig", home / "ignored", tmp_path / "hooks"} <= {*wanted.programs}


@pytest.mark.parametrize(
    "text", ['[sandbox]\nmode = "off"', 'sandbox = "off"', 'trust = "once"', "[sandbox]\nwrite = 1"]
)
def test_a_repository_that_would_open_it_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"kern\.toml") as raised:
        config.parse(text)
    assert raised.value.hint


def test_what_a_repository_asks_for_beyond_what_is_open_is_named_with_what_to_paste() -> None:
    own = Holding(write=("~/.cache",), network=("a.org",))
    asks = {"write": ("~/.cache/uv", "~/.cachet"), "network": ("a.org", "b.org")}
    write, network = person.refused(own, asks)
    assert write.startswith("kern.toml asks for write of ~/.cachet in the sandbox: not granted; ")
    assert write.endswith('this would: write = ["~/.cache", "~/.cachet"]')
    assert network.endswith('network = ["a.org", "b.org"]')
    (local,) = person.refused(Holding(), {"network": ("pypi.org", "localhost:5432")})
    assert local.endswith('network = ["localhost:5432"]')
    assert [*person.refused(Holding(("/",), ("~",), network=("*",)), asks)] == []
