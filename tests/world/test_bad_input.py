"""Where kern is not given what it needs it says what, where, what to type, and loses nothing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Inline, Kern
from tests.kit.stable import Ran
from tests.system.test_workspace import spoil

READY = "- Files: a.txt\n- Pattern: a.txt:1\n\nREADY"


def refused(ran: Ran, code: int, *words: str, hint: str) -> None:
    assert "Traceback" not in ran.err
    assert (ran.code, ran.out) == (code, ""), ran.err
    message, _, told = ran.err.partition("\n  hint: ")
    assert message.startswith("kern: ")
    for word in words:
        assert word in message
    assert hint in told


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def snapshot(repo: Path) -> tuple[object, ...]:
    """The person's things: all files with their bytes, the index, the refs."""
    files = {p: p.read_bytes() for p in repo.rglob("*") if p.is_file() and ".git" not in p.parts}
    asked = (("ls-files", "--stage"), ("for-each-ref",), ("status", "--porcelain"))
    said = [subprocess.run(["git", *a], cwd=repo, capture_output=True).stdout for a in asked]
    return files, *said


@pytest.mark.unheld
def test_the_agent_of_the_start_is_the_agent_of_the_whole_run(
    repo: Path, git: Git, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever comes to stand before it on PATH, and from wherever kern was started."""
    early = tmp_path / "early"
    early.mkdir()
    monkeypatch.setenv("PATH", f"{early}{os.pathsep}{os.environ['PATH']}")
    plant = f"printf '#!/bin/sh\\nexit 1\\n' > {early}/claude && chmod +x {early}/claude"
    fake.script(research=[{"run": [plant], "result": READY}])
    ran = kern("1", "0")
    assert ran.code == 0, ran.err
    assert fake.stages == ["research", "implement", "commit"]
    assert os.access(early / "claude", os.X_OK)


@pytest.mark.parametrize("how", ["link in", "link out", "dot"])
def test_an_agent_that_lies_in_the_repository_is_started_only_where_it_is_named(
    repo: Path, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    real = fake.folder / "bin" / "claude"
    folder = tmp_path / "tools" if how == "link in" else repo / "node_modules" / ".bin"
    folder.mkdir(parents=True)
    (repo / ".git" / "info" / "exclude").write_text("node_modules/\n")
    inside = repo / "node_modules" / "claude.js"
    inside.parent.mkdir(exist_ok=True)
    if how == "dot":
        shutil.copy(real, folder / "claude")
    elif how == "link in":
        shutil.copy(real, inside)
        (folder / "claude").symlink_to(inside)
    else:
        (folder / "claude").symlink_to(real)
    on_path = "node_modules/.bin" if how == "dot" else folder
    monkeypatch.setenv("PATH", f"{on_path}{os.pathsep}{os.environ['PATH']}")
    before = snapshot(repo)
    for argv in (["1", "0"], ["plan", "--yes", "x"]):
        refused(kern(*argv), 2, "file of this repository", str(folder), hint="KERN_CLAUDE=/")
    assert "problem  agent: claude is a file of this repository" in kern("doctor").out
    assert (snapshot(repo), fake.calls) == (before, [])
    monkeypatch.setenv("KERN_CLAUDE", str(folder / "claude"))
    assert kern("1", "0").code == 0


def test_a_key_that_makes_the_login_needless_asks_nobody(
    repo: Path, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake.folder / "auth.json").write_text('{"loggedIn": false}')
    monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up-key")
    assert kern("1", "0").code == 0
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    for odd in ("", "[]", '{"loggedIn": "no"}'):  # an older claude does not tell
        (fake.folder / "auth.json").write_text(odd)
        assert re.search("login: (unknown|its own word)", kern("doctor").out)


@pytest.mark.skipif(os.getuid() != 0, reason="only root is refused")
def test_as_root_without_a_sandbox_nothing_is_begun(
    repo: Path, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IS_SANDBOX")
    before = snapshot(repo)
    refused(kern("1", "0"), 1, "root", hint="IS_SANDBOX=1")
    assert (snapshot(repo), fake.calls) == (before, [])


@pytest.mark.parametrize(
    ("part", "how"),
    [("", "foreign"), ("project", "writable by others"), ("project/main", "link")],
)
def test_an_output_folder_that_others_rule_is_refused(
    repo: Path, fake: Fake, kern: Kern, tmp_path: Path, part: str, how: str
) -> None:
    folder = tmp_path / "kern" / part
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    spoil(folder, how, tmp_path)
    before = snapshot(repo)
    refused(kern("1", "0"), 2, str(folder), hint="KERN_DIR")
    assert [*tmp_path.glob("elsewhere/*")] == []
    assert (snapshot(repo), fake.calls) == (before, [])


def test_a_full_disk_for_the_repository_loses_no_work(
    repo: Path, fake: Fake, kern: Kern, small_disk: Path, git: Git
) -> None:
    project = small_disk / "project"
    git("config", "core.hooksPath", "/dev/null")
    subprocess.run(["git", "clone", "--quiet", "--template=", str(repo), str(project)], check=True)
    big = "head -c 2000000 /dev/urandom > big.bin"
    fake.script(implement=[{"run": ["echo 1 > n", big], "result": "SUCCESS"}])
    full = kern("1", "0", cwd=project)
    assert full.code == 1, full.err
    for words in ("o space left", str(project), "free some space"):
        assert words in full.err
    assert "[~] add a greeting" in spec(project)
    assert (project / "n").read_text() == "1\n"
    (project / "big.bin").unlink()
    fake.script(implement=[{"run": ["echo 2 > n"], "result": "SUCCESS"}])
    resumed = kern("1", "0", cwd=project)
    assert resumed.code == 0, resumed.err
    assert "- [x] add a greeting" in spec(project)
    assert git("show", "HEAD:n", cwd=project) == "2"
    assert git("status", "--porcelain", cwd=project) == ""
    assert fake.stages.count("research") == 1


def test_odd_texts_and_a_persons_own_git_settings_do_no_harm(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    odd = b"-m `touch evil` $(touch evil) \"q\" 'x' %s {TASK} #1 \xff \xc3\xa4 " + b"long " * 400
    (repo / "SPEC.md").write_bytes(b"- [ ] " + odd + b"\n- [ ] # heading\n")
    settings = (
        *("color.ui=always", "diff.noprefix=true", "log.showSignature=true", "core.abbrev=40"),
        *("diff.renames=copies", "commit.verbose=true", "merge.conflictStyle=zdiff3"),
        *("diff.external=false", "status.short=true", "log.date=relative", "core.pager=false"),
        *("commit.cleanup=verbatim", "core.commentChar=auto", "index.version=4"),
        *("format.pretty=raw", "log.decorate=full", "core.quotePath=false"),
        *("diff.mnemonicPrefix=1",),
    )
    for setting in settings:
        git("config", *setting.split("=", 1))
    git("commit", "--quiet", "--all", "--message=tasks")
    fake.script(
        implement=[
            {"run": ["echo x >> n"], "result": "FAILED: no"},
            {"run": ["echo y >> n"], "result": "SUCCESS"},
        ],
        commit=[{"result": " "}, {"result": "do the task"}],
    )
    ran = inline(2)
    assert ran.code == 0, ran.err
    lines = (repo / "SPEC.md").read_bytes().split(b"\n")
    assert any(odd.strip() in line for line in lines)
    assert lines[0].startswith(b"- [x] -m `touch evil`") and b"- [x] # heading" in lines
    assert not (repo / "evil").exists()
    assert git("log", "-1", "--format=%s", "HEAD~1").startswith("-m `touch evil` $(touch evil)")
    assert git("log", "-1", "--format=%(trailers:key=Kern-Task,valueonly)").strip() == "# heading"
    assert git("rev-list", "--count", "HEAD") == "4"
