"""install.sh under the strictest sh at hand, with real virtual environments and pip, no network.

What it installs is a stand-in for kern whose build backend lies in its own folder, so that pip has
nothing to download. PATH holds only the programs that the script may count on.
"""

import fcntl
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, wait_for

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parent.parent.parent / "install.sh"
SH = shutil.which("dash") or "/bin/sh"
TOOLS = (
    "basename",
    "date",
    "dirname",
    "git",
    "grep",
    "mkdir",
    "readlink",
    "rm",
    "rmdir",
    "sleep",
    "tee",
)
NOWHERE = "http://127.0.0.1:9"  # nobody listens there

BACKEND = """
import pathlib, zipfile

INFO = {{
    "METADATA": "Metadata-Version: 2.1\\nName: kern\\nVersion: {version}\\nProvides-Extra: http\\n"
        "Provides-Extra: more\\nRequires-Dist: nowhere-to-be-had; extra == 'more'\\n",
    "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "entry_points.txt": "[console_scripts]\\nkern = kern.cli:main\\n",
    "RECORD": "",
}}

def build_wheel(folder, config_settings=None, metadata_directory=None):
    {build}
    name = "kern-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for file in pathlib.Path("kern").rglob("*.*"):
            wheel.write(file)
        for file, text in INFO.items():
            wheel.writestr("kern-{version}.dist-info/" + file, text)
    return name
"""


def stand_in(
    folder: Path,
    version: str = "1.0",
    *,
    name: str = "kern",
    requires: str = "[]",
    build: str = "pass",
    init: str = "",
    cli: str = "",
    prompts: bool = True,
) -> Path:
    """A source tree of the same shape as kern's: `kern --version` prints `version`."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kern").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
        f'[build-system]\nrequires = {requires}\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (folder / "backend.py").write_text(BACKEND.format(version=version, build=build))
    (folder / "kern" / "__init__.py").write_text(init)
    (folder / "kern" / "cli.py").write_text(cli or f"def main():\n    print('kern {version}')\n")
    if prompts:
        (folder / "kern" / "bundled" / "prompts").mkdir(parents=True)
        (folder / "kern" / "bundled" / "prompts" / "1_research.md").write_text("research\n")
    shutil.copy(SCRIPT, folder)
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@dataclass(frozen=True)
class Machine:
    """A home folder, and all that is on PATH there."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "the home"  # with a space, which breaks what is not quoted

    @property
    def data(self) -> Path:
        return self.home / ".local" / "share" / "kern"

    @property
    def command(self) -> Path:
        return self.home / ".local" / "bin" / "kern"

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    def env(self, **variables: str) -> dict[str, str]:
        sealed = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
        place = {"HOME": str(self.home), "PATH": str(self.tools), "TMPDIR": str(self.root / "tmp")}
        return {**sealed, **place, **self.variables, **variables}

    def pipe(self, source: Path | str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """As `curl … | sh` does it."""
        if source:
            variables["KERN_SOURCE"] = str(source)
        return sh(SCRIPT.read_text(), self.env(**variables), self.root)

    def version(self) -> str:
        done = subprocess.run(
            [self.command, "--version"], env=self.env(), capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def versions(self) -> list[str]:
        """Oldest first; a failed install must leave nothing here."""
        return sorted(p.name for p in (self.data / "versions").iterdir() if p.name != ".lock")

    def files(self) -> list[str]:
        """What is in the home folder, without the folders."""
        return sorted(str(p) for p in self.home.rglob("*") if p.is_symlink() or not p.is_dir())


def sh(script: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SH], input=script, env=env, cwd=cwd, capture_output=True, text=True)


def machine(root: Path, python: str = sys.executable) -> Machine:
    made = Machine(root)
    for folder in (made.home, made.tools, root / "tmp"):
        folder.mkdir(parents=True)
    for name in TOOLS:
        found = shutil.which(name)
        assert found, name
        (made.tools / name).symlink_to(found)
    program(made.tools / "python3", f'exec {shlex.quote(python)} "$@"')
    return made


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Installed once with ensurepip, which takes seconds; what fails must leave it as it is."""
    pytest.importorskip("ensurepip")
    made = machine(tmp_path_factory.mktemp("installed"))
    done = made.pipe(stand_in(made.root / "source"))
    assert done.returncode == 0, done.stderr
    (made.root / "said").write_text(done.stdout + done.stderr)
    return made


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without the venv module, as Debian's is without python3-venv."""
    root = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    (packages,) = root.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(
        "import sys\nsys.modules.update(venv=None, virtualenv=None, ensurepip=None)\n"
    )
    return str(root / "bin" / "python")


@pytest.fixture
def fresh(tmp_path: Path, installed: Machine, bare_python: str) -> Machine:
    """A machine that has virtualenv instead of venv; this one borrows its pip and is fast."""
    made = machine(tmp_path / "fresh", bare_python)
    pip = importlib.util.find_spec("pip")
    assert pip and pip.origin
    (made.root / "pip").mkdir()
    (made.root / "pip" / "pip").symlink_to(Path(pip.origin).parent)
    program(
        made.tools / "virtualenv",
        'for folder; do :; done; [ "$1" = --quiet ] || exit 1\n'
        f'{shlex.quote(sys.executable)} -m venv --without-pip "$folder" || exit\n'
        f'for packages in "$folder"/lib/python*/site-packages; do :; done\n'
        f'echo {shlex.quote(str(made.root / "pip"))} > "$packages/pip.pth"',
    )
    return made


@pytest.fixture
def unchanged(installed: Machine) -> Iterator[Machine]:
    """The installed machine, for an update that fails."""
    before = installed.files()
    yield installed
    assert installed.version() == "kern 1.0"
    assert installed.files() == before


def test_a_piped_script_installs_into_an_empty_home(installed: Machine) -> None:
    assert installed.version() == "kern 1.0"
    assert installed.command.readlink() == installed.data / "current" / "bin" / "kern"
    assert (installed.data / "prompts" / "1_research.md").read_text() == "research\n"
    assert (installed.data / "source").read_text() == f"{installed.root / 'source'}\n"
    assert (installed.data / "source").stat().st_mode & 0o777 == 0o600
    assert os.listdir(installed.home) == [".local"]
    assert not os.listdir(installed.root / "tmp")
    said = (installed.root / "said").read_text()
    assert f"kern 1.0 is installed: {installed.command}" in said
    assert "claude is not on PATH" in said
    assert "jq is not on PATH" in said
    assert 'export PATH="$HOME/.local/bin:$PATH"' in said


def test_run_from_a_clone_it_installs_the_clone(fresh: Machine) -> None:
    clone = stand_in(fresh.root / "clone")
    (fresh.root / "venv.py").write_text("raise SystemExit('imported from where it was started')")
    elsewhere = fresh.root / "xdg"
    on_path = f"{fresh.tools}:{fresh.command.parent}/"
    for name in ("claude", "jq"):
        program(fresh.tools / name, "exit 1")
    done = subprocess.run(
        [SH, "clone/install.sh"],
        env=fresh.env(XDG_DATA_HOME=str(elsewhere), PATH=on_path, CDPATH=str(fresh.root)),
        cwd=fresh.root,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (elsewhere / "kern" / "source").read_text() == f"{clone}\n"
    assert "PATH" not in done.stdout  # it holds ~/.local/bin, and no other kern
    assert fresh.version() == "kern 1.0"
    assert not fresh.data.exists()


WATCH = """
import os, sys

def watch(event, args):
    if event.startswith("os.") and not os.path.exists({command!r}):
        open({gone!r}, "w").close()

sys.addaudithook(watch)
"""


# The script that switches to the new version comes from stdin; nothing else imports kern that way.
AT_THE_SWITCH = """
import atexit, os, sys, time

if sys.argv[0] == "-":
"""


def test_a_second_run_updates_and_one_previous_version_stays(fresh: Machine) -> None:
    gone = fresh.root / "gone"
    watch = WATCH.format(command=str(fresh.command), gone=str(gone))
    (fresh.root / "venv.py").write_text("raise SystemExit('imported from PYTHONPATH')")
    program(fresh.tools / "kern", "echo another")
    seen: list[str] = []
    for version in ("1.0", "2.0", "3.0"):
        source = stand_in(fresh.root / f"source {version}", version, init=watch if seen else "")
        done = fresh.pipe(
            source.name,  # relative, and remembered whole
            PATH=f"{fresh.tools}:{fresh.command.parent}",
            PYTHONPATH=str(fresh.root),
            PIP_USER="1",
            PIP_TARGET=str(fresh.root / "target"),
        )
        assert done.returncode == 0, done.stderr
        assert f"`kern` starts {fresh.tools / 'kern'}, which comes before" in done.stderr
        assert fresh.version() == f"kern {version}"
        assert (fresh.data / "source").read_text() == f"{source}\n"
        seen.append((fresh.data / "current").readlink().name)
    assert not gone.exists(), "there was a moment without a kern"
    assert fresh.versions() == sorted(seen[1:])
    old = fresh.data / "versions" / seen[1] / "bin" / "kern"
    assert subprocess.run([old], capture_output=True, check=True).stdout == b"kern 2.0\n"


def test_extras_come_with_it_and_with_its_updates(fresh: Machine) -> None:
    source = stand_in(fresh.root / "source")
    had = fresh.data / "current" / "extras"
    for given in ("http;", ",http", "../x"):
        done = fresh.pipe(source, KERN_EXTRAS=given)
        assert done.returncode == 1 and f"is no list of names: {given}" in done.stderr
    done = fresh.pipe(source, KERN_EXTRAS="http")
    assert done.returncode == 0 and "Installing kern with http from" in done.stdout, done.stderr
    again = fresh.pipe(source)
    assert "is up to date" in again.stdout and had.read_text() == "http"
    missing = fresh.pipe(source, KERN_EXTRAS="http,more")  # pip was told of them
    assert missing.returncode == 1 and "nowhere-to-be-had" in missing.stderr
    done = fresh.pipe(source, KERN_EXTRAS="")
    assert "is installed" in done.stdout and had.read_text() == ""


def test_what_takes_long_gives_signs_of_life_and_a_second_time_nothing_is_newer(
    fresh: Machine,
) -> None:
    first = fresh.pipe(stand_in(fresh.root / "source", build="import time; time.sleep(5)"))
    assert (first.returncode, "is installed: " in first.stdout) == (0, True), first.stderr
    assert "  fetching kern and the libraries that it uses: 3 s\n" in first.stdout
    again = fresh.pipe(stand_in(fresh.root / "source"))
    assert again.returncode == 0
    assert again.stdout.endswith(
        f"kern 1.0 is up to date: {fresh.root / 'source'} has nothing newer\n"
    )
    assert "nothing newer" not in fresh.pipe(stand_in(fresh.root / "source", "2.0")).stdout


def test_signs_of_life_can_end_as_soon_as_they_begin() -> None:
    own = re.findall(r"^\w*ticking\(\) \{.*?^\}", SCRIPT.read_text(), re.M | re.S)
    often = "for _ in $(seq 300); do ticking x; done; stop_ticking"
    lines = "\n".join(("ticker=", "say() { :; }", "trap 'exit 143' TERM", *own, often))
    subprocess.run([SH, "-c", lines], check=True, timeout=PATIENCE_S)


def test_a_uv_that_cannot_install_leaves_it_to_pip(fresh: Machine) -> None:
    program(
        fresh.tools / "uv",
        f'case $1 in venv) exec {shlex.quote(sys.executable)} -m venv --without-pip "$5";; esac\n'
        "echo error: no certificate >&2; exit 2",
    )
    done = fresh.pipe(stand_in(fresh.root / "source"))
    assert done.returncode == 0
    assert "error: no certificate" in done.stderr
    assert "uv could not install it; pip tries\n" in done.stdout
    assert fresh.version() == "kern 1.0"


def test_a_signal_right_after_the_switch_does_not_take_the_new_version_back(
    fresh: Machine,
) -> None:
    init = AT_THE_SWITCH + "    atexit.register(os.kill, os.getppid(), 15)\n"
    assert fresh.pipe(stand_in(fresh.root / "source", init=init)).returncode == 143
    assert fresh.version() == "kern 1.0"


def test_installs_at_the_same_time_all_end_well_and_an_old_broken_one_goes(fresh: Machine) -> None:
    ready = fresh.root / "ready"
    ready.mkdir()
    init = AT_THE_SWITCH + (
        f"    open({str(ready)!r} + '/' + str(os.getpid()), 'w').close()\n"
        "    atexit.register(time.sleep, 0.3)\n"  # the others switch before this one ends
    )
    sources = [stand_in(fresh.root / f"source {n}", f"{n}.0", init=init) for n in range(1, 4)]
    killed = fresh.data / "versions" / "killed"
    killed.mkdir(parents=True)
    long_ago = time.time() - 2 * 86400
    os.utime(killed, (long_ago, long_ago))
    with (fresh.data / "versions" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = [
            subprocess.Popen(
                [SH, SCRIPT],
                env=fresh.env(KERN_SOURCE=str(source)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for source in sources
        ]
        wait_for(lambda: len(os.listdir(ready)) == len(running))
        time.sleep(0.1)
        assert not (fresh.data / "current").exists()
    said = [child.communicate()[0] for child in running]
    assert [child.returncode for child in running] == [0] * 3, said
    assert not killed.exists()
    assert len(fresh.versions()) == 2
    for name in fresh.versions():
        subprocess.run([fresh.data / "versions" / name / "bin" / "kern"], check=True)
    assert fresh.version() in {f"kern {n}.0" for n in range(1, 4)}


BROKEN = {
    "build": ({"build": "raise SystemExit('cannot build')"}, "pip could not install"),
    "run": ({"cli": "raise SystemExit('cannot start')"}, "does not run"),
    "prompts": ({"prompts": False}, "could not be put in place"),
}


@pytest.fixture
def update(installed: Machine, fresh: Machine) -> Machine:
    """The installed home with the fast machine's programs."""
    return Machine(installed.root, {"PATH": str(fresh.tools)})


@pytest.mark.parametrize("fault", BROKEN)
def test_a_failing_update_leaves_the_old_version_working(
    unchanged: Machine, update: Machine, tmp_path: Path, fault: str
) -> None:
    how, message = BROKEN[fault]
    done = update.pipe(stand_in(tmp_path / "broken", "2.0", **how))  # type: ignore[arg-type]
    assert done.returncode == 1
    assert message in done.stderr
    assert "hint: " in done.stderr
    assert "The installed kern is as it was." in done.stderr


def test_an_interrupted_update_leaves_the_old_version_working(
    unchanged: Machine, update: Machine, tmp_path: Path
) -> None:
    building = tmp_path / "building"
    wait = f"import time; pathlib.Path({str(building)!r}).touch(); time.sleep(30)"
    source = stand_in(tmp_path / "slow", "2.0", build=wait)
    with subprocess.Popen(
        [SH, SCRIPT],
        env=update.env(KERN_SOURCE=str(source)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        wait_for(building.exists)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(PATIENCE_S) == 130


def test_python_too_old_or_missing(fresh: Machine) -> None:
    source = stand_in(fresh.root / "source")
    program(fresh.tools / "python3", "exit 0")  # says nothing of itself
    none = fresh.pipe(source)
    assert none.returncode == 1
    assert "no Python 3.11 or newer (tried python3 " in none.stderr
    assert "hint: " in none.stderr

    real = shlex.quote(sys.executable)
    pretend = "import sys; sys.version_info = (3, 9, 18, 'final', 0); exec(sys.argv[1])"
    program(fresh.tools / "python3", f'shift; exec {real} -c "{pretend}" "$@"')
    program(fresh.tools / "python3.13", "echo not set up >&2; exit 127")  # as pyenv's stubs do
    old = fresh.pipe(source)
    assert old.returncode == 1
    assert "no Python 3.11 or newer (python3 is 3.9.18)" in old.stderr
    asked = fresh.pipe(source, KERN_PYTHON="python3.13")
    assert asked.returncode == 1
    assert "(tried python3.13)" in asked.stderr
    assert fresh.files() == []

    program(fresh.tools / "python3.12", f'exec {real} "$@"')
    (fresh.tools / "git").unlink()  # the next thing that is looked for
    assert "git is not on PATH" in fresh.pipe(source).stderr


def test_git_missing(fresh: Machine) -> None:
    (fresh.tools / "git").unlink()
    done = fresh.pipe(stand_in(fresh.root / "source"))
    assert done.returncode == 1
    assert "git is not on PATH" in done.stderr
    assert "hint: install git" in done.stderr
    assert fresh.files() == []


def test_no_way_to_make_a_virtual_environment(fresh: Machine) -> None:
    (fresh.tools / "virtualenv").unlink()
    done = fresh.pipe(stand_in(fresh.root / "source"))
    assert done.returncode == 1
    assert "cannot make a virtual environment" in done.stderr
    assert "apt install python3-venv" in done.stderr
    assert fresh.files() == []
    assert not fresh.data.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling"])
def test_a_foreign_kern_is_not_overwritten(fresh: Machine, kind: str) -> None:
    fresh.command.parent.mkdir(parents=True)
    match kind:
        case "file":
            fresh.command.write_text("mine")
        case "folder":
            fresh.command.mkdir()
        case "link":
            fresh.command.symlink_to(SH)
        case _:
            fresh.command.symlink_to("/nonexistent/kern")
    before = fresh.command.lstat().st_ino
    done = fresh.pipe(stand_in(fresh.root / "source"))
    assert done.returncode == 1
    assert f"mv {fresh.command} {fresh.command}.old" in done.stderr
    assert fresh.command.lstat().st_ino == before
    assert not fresh.data.exists()


def test_what_stands_where_a_link_of_kern_belongs_is_not_overwritten(fresh: Machine) -> None:
    (fresh.data / "prompts").mkdir(parents=True)
    done = fresh.pipe(stand_in(fresh.root / "source"))
    assert done.returncode == 1
    assert f"{fresh.data / 'prompts'} is not kern's link" in done.stderr
    assert os.listdir(fresh.data) == ["prompts"]


def test_a_truncated_script_does_nothing(tmp_path: Path) -> None:
    made = machine(tmp_path / "machine")
    ran = tmp_path / "ran"
    program(made.tools / "python3", f": > {shlex.quote(str(ran))}; exit 1")
    script = SCRIPT.read_text().rstrip("\n")
    for cut in {*range(0, len(script), 61), *range(len(script) - 40, len(script))}:
        sh(script[:cut], made.env(), tmp_path)
        assert not ran.exists(), script[:cut][-60:]
    assert made.files() == []
    sh(script, made.env(), tmp_path)
    assert ran.exists()


def test_a_source_that_is_not_there_or_no_project(fresh: Machine) -> None:
    (fresh.root / "empty").mkdir()
    for source, message in (
        ("/nonexistent/kern", "no such folder: /nonexistent/kern"),
        ("someone/kern", "no such folder: someone/kern"),
        ("empty", f"no pyproject.toml in {fresh.root / 'empty'}"),
    ):
        done = fresh.pipe(source)
        assert done.returncode == 1
        assert message in done.stderr
        assert "hint: KERN_SOURCE=" in done.stderr
    assert fresh.files() == []


@pytest.mark.parametrize(
    ("source", "cloned"),
    [
        ("https://example.invalid/a/kern", "https://example.invalid/a/kern"),
        ("git@example.invalid:a/kern.git", "ssh://git@example.invalid/a/kern.git"),
    ],
)
def test_a_git_url_is_cloned(fresh: Machine, source: str, cloned: str) -> None:
    asked = fresh.root / "asked"
    (fresh.tools / "git").unlink()
    program(
        fresh.tools / "git",
        f'[ "$1" = version ] && echo git version 2.40.0 && exit\n'
        f'echo "$@" >> {shlex.quote(str(asked))}; exit 1',
    )
    done = fresh.pipe(source)
    assert done.returncode == 1
    assert f" {cloned} " in asked.read_text()
    assert f"pip could not install {source}" in done.stderr


@pytest.mark.parametrize(
    "source",
    [
        *(
            "http://example.invalid/kern.tar.gz",
            "http://example.invalid/kern",
            "HTTP://example.invalid/x",
        ),
        *(
            "git+http://example.invalid/kern",
            "git://example.invalid/kern",
            "ftp://example.invalid/x.zip",
        ),
        *("http://127.0.0.1:1@example.invalid/x.whl", "git+git://example.invalid/kern"),
    ],
)
def test_a_source_without_encryption_is_refused(fresh: Machine, source: str) -> None:
    done = fresh.pipe(source)
    assert done.returncode == 1
    assert f"not fetched without encryption: {source}" in done.stderr
    assert "hint: use https://" in done.stderr
    assert fresh.files() == []


def test_without_a_source_it_is_the_repository_on_github(fresh: Machine) -> None:
    alien = stand_in(fresh.root / "alien", name="another")
    done = subprocess.run(
        [SH, "install.sh"],  # the folder of a project that is not kern
        env=fresh.env(KERN_REPO="some.one/kern", https_proxy=NOWHERE, PIP_RETRIES="0"),
        cwd=alien,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "https://github.com/some.one/kern/archive/refs/heads/main.tar.gz" in done.stdout
    assert "pip could not reach the network" in done.stderr
    for wrong in ("kern", "https://github.com/a/kern", "a/b/c", "a/"):
        assert "KERN_REPO is not owner/name" in fresh.pipe(KERN_REPO=wrong).stderr
    assert fresh.files() == []


def test_a_first_install_that_fails_for_want_of_a_network_leaves_nothing(fresh: Machine) -> None:
    source = stand_in(fresh.root / "source", requires='["a-build-backend"]')
    done = fresh.pipe(source, PIP_NO_INDEX="0", PIP_INDEX_URL=NOWHERE, PIP_RETRIES="1")
    assert done.returncode == 1
    assert "a-build-backend" in done.stderr  # pip's own words
    assert "pip could not reach the network" in done.stderr
    assert fresh.files() == []
    assert not fresh.data.exists()


def test_no_home_or_none_to_write_to(fresh: Machine) -> None:
    source = stand_in(fresh.root / "source")
    for home in ("", "relative"):
        done = fresh.pipe(source, HOME=home)
        assert done.returncode == 1
        assert "HOME is not set" in done.stderr
    (fresh.home / ".local").write_text("in the way")
    done = fresh.pipe(source)
    assert done.returncode == 1
    assert f"cannot write to {fresh.data}" in done.stderr
    assert "hint: " in done.stderr
    assert os.listdir(fresh.home) == [".local"]


def test_help_and_arguments_install_nothing(fresh: Machine) -> None:
    for argument, status in (("--help", 0), ("--prefix=/usr", 2)):
        done = subprocess.run([SH, SCRIPT, argument], env=fresh.env(), capture_output=True)
        assert done.returncode == status
        assert b"KERN_SOURCE" in done.stdout
    assert fresh.files() == []
