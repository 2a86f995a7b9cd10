"""Who decides what the sandbox is: the person; a repository may close more, and ask for more."""

from pathlib import Path

import pytest

from kern import person
from kern.agents import protocol
from kern.agents.protocol import Program
from kern.config import Holding
from kern.errors import UsageError
from kern.git.repository import open_at
from kern.person import Mode, Person
from kern.pipeline import isolation, preflight
from kern.sandbox.bounds import Wishes
from kern.system import workspace

NONE = Holding()
USUAL = Program(protocol.find(protocol.DEFAULT), protocol.DEFAULT)


def made(own: Holding, theirs: Holding, *refused: str) -> Wishes:
    return isolation.wishes(own, theirs, refused, Path.home() / "project")


def test_a_repository_asks_and_the_person_may_refuse() -> None:
    theirs = Holding(write=("~/.cache/uv", "build"), env=("DB_URL",), hosts=("pypi.org",))
    home = Path.home()
    assert made(NONE, theirs).write == (home / ".cache/uv", home / "project/build")
    assert made(NONE, theirs, *theirs.asks) == Wishes()
    assert made(NONE, theirs, "sandbox env: DB_URL").env == ()


@pytest.mark.parametrize("path", ["/", "~/.ssh", "~/.config", "/etc", "..", "~/.cache/../.ssh"])
def test_what_no_repository_may_open(path: str) -> None:
    with pytest.raises(UsageError, match=r"kern\.toml asks to write"):
        made(NONE, Holding(write=(path,)))
    assert made(Holding(write=(path,)), NONE).write, "the person may"


@pytest.mark.parametrize(
    ("own", "theirs", "hosts"),
    [
        (None, None, None),
        (None, ("a",), ("a",)),
        (("a", "b"), None, ("a", "b")),
        (("a", "b"), ("b", "c"), ("b",)),
        (("a",), (), ()),
    ],
)
def test_a_repository_narrows_the_network_and_never_opens_it(
    own: tuple[str, ...] | None, theirs: tuple[str, ...] | None, hosts: tuple[str, ...] | None
) -> None:
    assert made(Holding(network=own), Holding(network=theirs)).hosts == hosts


def test_more_hosts_count_where_there_is_a_list() -> None:
    theirs = Holding(hosts=("pypi.org",))
    assert made(NONE, theirs).hosts is None
    assert made(Holding(network=("a",)), theirs).hosts == ("a", "pypi.org")
    assert made(Holding(network=("a",)), theirs, *theirs.asks).hosts == ("a",)


def test_the_command_line_is_before_the_environment_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KERN_SANDBOX")
    own = Person(mode=Mode.DOCKER)
    assert isolation.mode("", own) is Mode.DOCKER
    monkeypatch.setenv("KERN_SANDBOX", "off")
    assert isolation.mode("", own) is Mode.OFF
    assert isolation.mode("bwrap", own) is Mode.BWRAP
    with pytest.raises(UsageError, match=r"--sandbox must be one of auto, bwrap"):
        isolation.mode("yes", own)


def test_the_persons_file_and_its_two_forms() -> None:
    assert person.parse('sandbox = "off"').mode is Mode.OFF
    full = person.parse(
        'trust = "content"\n[sandbox]\nmode = "docker"\nimage = "x"\nhide = ["~/d"]'
    )
    assert (full.mode, full.image, full.holding.hide) == (Mode.DOCKER, "x", ("~/d",))


@pytest.mark.parametrize(
    "text",
    [
        'sandbox = "on"',
        "sandbox = 1",
        'trust = "never"',
        "gates = 1",
        "[sandbox]\nimage = 1",
        '[sandbox]\nwrite = "x"',
        "[sandbox]\nwrite = [1]",
        "[sandbox]\nroot = []",
        "[sandbox",
    ],
)
def test_what_it_may_not_say(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        person.parse(text)
    assert person.FILE in str(raised.value)


def test_a_file_in_the_repository_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "project"))
    with pytest.raises(UsageError, match="which would decide for you"):
        preflight.person_settings(tmp_path / "project")
    (tmp_path / "kern").mkdir()
    (tmp_path / "kern" / "config.toml").write_text('sandbox = "off"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert preflight.person_settings(tmp_path / "project").mode is Mode.OFF


def test_hooks_save_edits_where_their_framework_does(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saves() -> tuple[Path, ...]:
        scope = workspace.scope(repo, "main")
        wanted = isolation.wanted(open_at(repo), scope, [USUAL], Person())
        return wanted.repository.saves

    assert saves() == (tmp_path / "home" / ".cache" / "pre-commit",)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert saves() == (Path("/cache/pre-commit"),)
    monkeypatch.setenv("PRE_COMMIT_HOME", "/own")
    (repo / ".lefthook.toml").touch()
    assert saves() == (Path("/own"), repo / ".git" / "info")
