"""A sandbox that is missing, too old or fails in mid-run, and settings that would open it: a clear
word, and never less protection than was named.
"""

import os
import shutil
from pathlib import Path

import pytest

from kern.person import FILE
from tests.conftest import Fake, Git, Kern, commit_all, executable, open_to_tests
from tests.sandbox.test_wall import needs_bwrap

BWRAP = {"KERN_SANDBOX": "bwrap"}
FULL = "bwrap: Creating new namespace failed: No space left on device"
ATTEMPT = "Attempt"


@pytest.fixture(autouse=True)
def visible(fake: Fake) -> None:
    """The stand-in's folder."""
    open_to_tests(Path.home(), fake.folder)


def wrapper(fake: Fake, lines: str) -> Path:
    place = fake.folder / "bin/bwrap"
    executable(place, f"#!/bin/sh\n{lines}\n")
    return place


@pytest.mark.parametrize(
    ("how", "why", "remedy"),
    [
        ("missing", "bubblewrap is not installed", "apt install bubblewrap"),
        ("forbidden", "user namespaces are used up", "sysctl"),
    ],
)
def test_where_it_cannot_be_a_named_mode_is_refused_and_auto_says_so(
    repo: Path, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch, how: str, why: str,
    remedy: str,
) -> None:  # fmt: skip
    if how == "missing":
        without_bwrap(fake, monkeypatch)
    else:
        wrapper(fake, f"echo '{FULL}' >&2; exit 1")
    ran = kern("1", "0", env=BWRAP)
    assert ran.code == 2
    assert why in ran.err and remedy in ran.err
    assert fake.calls == []
    ran = kern("1", "0", env={"KERN_SANDBOX": "auto"})
    assert ran.code == 0, ran.said
    assert ran.err.count(why) == 1


def without_bwrap(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH of all programs but that one."""
    folder = fake.folder / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in os.listdir(place) if os.path.isdir(place) else ():
            if program != "bwrap" and not os.path.lexists(folder / program):
                (folder / program).symlink_to(f"{place}/{program}")
    monkeypatch.setenv("PATH", str(folder))


@needs_bwrap
def test_where_it_fails_in_mid_run_the_run_stops_and_no_attempt_is_burnt(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    """At each of its calls but the trial: the agents, the gate before and after, the commit."""
    (repo / "kern.toml").write_text('[gates]\ncheck = "true"\n')
    git("add", "kern.toml")
    git("commit", "-qm", "gates")
    count = fake.folder / "count"
    real = shutil.which("bwrap")
    wrapper(
        fake,
        f'case "$*" in --version | *"/lower/x") exec {real} "$@" ;; esac\n'
        f"n=$(cat {count}); echo $((n - 1)) >{count}\n"
        f'[ "$n" != 1 ] || {{ echo "{FULL}" >&2; exit 1; }}\nexec {real} "$@"',
    )
    stopped = 0
    for turn in range(1, 12):
        count.write_text(f"{turn}\n")
        ran = kern("1", "0", env=BWRAP)
        if ran.code == 0:
            break
        stopped += 1
        assert "No space left on device" in ran.err and "hint: " in ran.err, ran.said
        assert ATTEMPT not in (repo / "SPEC.md").read_text()
    assert stopped >= 4
    assert git("rev-list", "--count", "HEAD") == "3"
    assert "- [x] add a greeting" in git("show", "HEAD:SPEC.md")
    assert fake.stages.count("implement") == 1


@pytest.mark.parametrize("sandbox", ["off", pytest.param("bwrap", marks=needs_bwrap)])
def test_what_a_repository_asks_of_it_is_told_and_not_granted(
    repo: Path, git: Git, fake: Fake, kern: Kern, sandbox: str
) -> None:
    home, own = Path.home(), Path.home() / ".config/kern/config.toml"
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("key")
    asks = """[sandbox]
write = ["/", "~", "link"]
read = ["~/.ssh"]
env = ["GW_KEY"]
"""
    tries = 'echo x > ~/open; cat ~/.ssh/id; echo "$GW_KEY"'
    (repo / "kern.toml").write_text(f"[gates]\ncheck = '{tries} | grep ssh; true'\n{asks}")
    (repo / "link").symlink_to(home)
    commit_all(git, "settings")
    fake.script(implement=[{"run": [tries + " > seen.txt"], "result": "SUCCESS"}])
    held = own.read_text() if own.exists() else ""
    ran = kern("1", "0", env={"KERN_SANDBOX": sandbox, "GW_KEY": "secret"})
    assert ran.code == 0, ran.said
    told = [line for line in ran.err.splitlines() if "asks for" in line]
    if sandbox == "off":
        assert told == []
        return
    assert not (home / "open").exists() and not git("show", "HEAD:seen.txt").strip()
    for line in ('read = ["~/.ssh"]', '"GW_KEY"]', '"/", "~", "link"]'):
        assert any(f"{FILE} this would: " in one and line in one for one in told), told
    assert (own.read_text() if own.exists() else "") == held
