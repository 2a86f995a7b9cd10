"""What git ignores: as it was after an attempt that failed, named after one that succeeded."""

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from kern.git import repository
from kern.git.in_place import InPlace
from tests.conftest import Fake, Git, Inline, Kern, commit_all

Step = dict[str, Any]
RULES = ".env\n*.sqlite*\nkey\nbuild/\nbig/\nvendor/\n__pycache__/\nodd/\n"


@pytest.fixture
def own(repo: Path, git: Git) -> Path:
    """A repository with files of a person's that git ignores."""
    (repo / ".gitignore").write_text(RULES)
    commit_all(git, "rules")
    (repo / ".env").write_text("KEY=mine\n")
    (repo / "data").mkdir()
    (repo / "data" / "dev.sqlite").write_text("rows\n")
    (repo / "build" / "deep").mkdir(parents=True)
    (repo / "build" / "deep" / "out").write_text("built\n")
    return repo


def aside(root: Path) -> dict[str, str]:
    """What was set aside, by its path in the tree."""
    rooms = (root / ".git" / "kern" / "aside").glob("*")
    return {
        str(place.relative_to(room)): place.read_text()
        for room in rooms
        for place in room.rglob("*")
        if place.is_file() and not place.is_symlink()
    }


def failing(*run: str) -> Step:
    return {"run": list(run), "result": "FAILED: no"}


GOOD: Step = {"run": ["echo new > new.txt"], "result": "SUCCESS"}


def test_an_attempt_that_ends_with_a_question_leaves_them_as_they_were(
    own: Path, fake: Fake, kern: Kern
) -> None:
    asks = {"result": "NEEDS_ANSWER: which a.txt?"}
    fake.script(implement=[{"run": ["echo KEY=theirs > .env; rm data/dev.sqlite"], **asks}])
    ran = kern("1", "0")
    assert (own / ".env").read_text() == "KEY=mine\n", ran.said
    assert (own / "data/dev.sqlite").read_text() == "rows\n"


def test_after_a_success_what_changed_is_said_once_with_its_copy(
    own: Path, git: Git, fake: Fake, inline: Inline, kern: Kern
) -> None:
    harm = ["echo KEY=theirs > .env", "rm data/dev.sqlite build/deep/out"]
    fake.script(implement=[{"run": [*GOOD["run"], *harm], "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    assert (own / ".env").read_text() == "KEY=theirs\n", "the task may change it"
    said = [line for line in ran.err.splitlines() if "ignored by git" in line]
    assert len(said) == 1
    assert ".env, data/dev.sqlite: ignored by git, changed while the task was" in said[0]
    place = own / said[0].rpartition("as before: ")[2]
    assert (place / ".env").read_text() == "KEY=mine\n"
    assert (place / "data" / "dev.sqlite").read_text() == "rows\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert aside(own).keys() == {".env", "data/dev.sqlite"}, "the rest was not named"

    fake.script(implement=[{"run": ["echo 2 > new.txt"], "result": "SUCCESS"}])
    (own / "SPEC.md").write_text((own / "SPEC.md").read_text() + "- [ ] another\n")
    git("commit", "--quiet", "--all", "--message=more")
    assert inline().code == 0
    assert (place / ".env").exists(), "it was named, and nothing else has been since"


def test_any_number_stays_and_what_you_ignore_everywhere(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    (repo / ".gitignore").write_text("*.o\n")
    commit_all(git, "rules")
    (tmp_path / "home" / ".config" / "git").mkdir(parents=True)
    (tmp_path / "home" / ".config" / "git" / "ignore").write_text("*.swp\n")
    objects = [repo / f"{number:0200}.o" for number in range(12_000)]  # no command line holds them
    for place in objects:
        place.touch()
    room = InPlace(repository.open_at(repo), ())
    for name in ("new", "edited.swp"):
        (repo / name).write_text("made meanwhile\n")
    room.fill(git("rev-parse", "HEAD^{tree}"))
    assert all(place.exists() for place in objects)
    assert (repo / "edited.swp").exists() and not (repo / "new").exists()


def test_what_is_too_large_or_odd_is_named_once_and_left(
    own: Path, fake: Fake, inline: Inline
) -> None:
    (own / "big").mkdir()
    with (own / "big" / "weights").open("wb") as file:
        file.truncate(65 << 20)
    (own / "odd").mkdir()
    os.mkfifo(own / "odd" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(own / "odd" / "socket"))
    harm = "echo x > big/weights; rm odd/*; echo KEY=theirs > .env"
    fake.script(implement=[failing(harm), failing("echo 2 > n"), GOOD])
    ran = inline()
    assert ran.code == 0, ran.err
    left = [line for line in ran.err.splitlines() if "not restored if an attempt fails" in line]
    assert len(left) == 1
    assert left[0].endswith(" fails: big/ (beyond 64 MB or 10,000 files)")
    assert (own / ".env").read_text() == "KEY=mine\n"
    assert (own / "big" / "weights").read_text() == "x\n"


def test_a_full_disk_is_said_before_an_agent_is_paid(
    repo: Path, fake: Fake, kern: Kern, git: Git, small_disk: Path
) -> None:
    project = small_disk / "project"
    git("clone", "--quiet", "--template=", str(repo), str(project))
    (project / ".git" / "info").mkdir()
    (project / ".git" / "info" / "exclude").write_text("data\n")
    (project / "data").write_bytes(bytes(600_000))
    ran = kern("1", "0", cwd=project)
    assert ran.code == 1
    assert "No space left" in ran.err
    assert "  hint: free some space" in ran.err
    assert "implement" not in fake.stages
    assert not [*(project / ".git" / "kern" / "ignored").iterdir()]
    (project / "data").write_bytes(b"")
    assert kern("1", "0", cwd=project).code == 0
