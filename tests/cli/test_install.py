"""install.sh under the strictest sh at hand, with real pip and uv, and no network.

What it installs is a stand-in for kern whose build backend lies in its own folder, so that there is
nothing to download. PATH holds only the programs that the script may count on, and a python3 whose
virtual environments are copies of a real one: pip comes into a new one in some ten seconds.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, executable, wait_for

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parent.parent.parent / "install.sh"
SH = shutil.which("dash") or "/bin/sh"
TOOLS = ("date", "dirname", "git", "grep", "ln", "mkdir", "mv", "readlink", "rm")
BACKEND = """
import pathlib, zipfile

INFO = {{
    "METADATA": "Metadata-Version: 2.1\\nName: kern\\nVersion: {version}\\nProvides-Extra: dask\\n",
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


def stand_in(folder: Path, version: str, *, build: str = "pass", cli: str = "") -> Path:
    """A source tree of the same shape as kern's: `kern --version` prints `version`."""
    (folder / "kern").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "kern"\nversion = "{version}"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (folder / "backend.py").write_text(BACKEND.format(version=version, build=build))
    (folder / "kern" / "__init__.py").touch()
    (folder / "kern" / "cli.py").write_text(cli or f"def main():\n    print('kern {version}')\n")
    shutil.copy(SCRIPT, folder)
    return folder


def program(path: Path, text: str) -> None:
    executable(path, f"#!/bin/sh\n{text}\n")


@dataclass(frozen=True)
class Machine:
    """A home folder, and all that is on PATH there."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "the home"  # with a space, which breaks what is not quoted

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    @property
    def command(self) -> Path:
        return self.home / ".local" / "bin" / "kern"

    def env(self, **variables: str) -> dict[str, str]:
        sealed = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "UV_NO_INDEX": "1"}
        return {"HOME": str(self.home), "PATH": str(self.tools), **sealed, **variables}

    def pipe(self, source: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
        """As `curl … | sh` does it."""
        return sh(SCRIPT.read_text(), self.env(KERN_SOURCE=str(source), **variables), cwd=self.root)

    def version(self) -> str:
        return subprocess.check_output([self.command, "--version"], env=self.env(), text=True)

    def files(self) -> list[str]:
        return sorted(str(p) for p in self.home.rglob("*") if p.is_symlink() or not p.is_dir())


def sh(script: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SH], input=script, env=env, cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.home.mkdir()
    made.tools.mkdir()
    for name in TOOLS:
        (made.tools / name).symlink_to(shutil.which(name) or pytest.fail(name))
    given = shlex.quote(str(tmp_path / "made"))
    # A link to a program of root's is linked by root alone.
    cp, rm = shutil.which("cp"), shutil.which("rm")
    copy = f'{cp} -Rl {given} "$3" 2>/dev/null || {{ {rm} -rf "$3"; exec {cp} -R {given} "$3"; }}'
    copies = f'if [ "$2" = venv ] && [ -e {given} ]; then\n{copy}\nexit\nfi'
    program(made.tools / "python3", f'{copies}\nexec {shlex.quote(sys.executable)} "$@"')
    return made


def make_environment(machine: Machine, bundled: Path, source: Path) -> None:
    """pip is in it as it lies there: to have it installed takes twice as long. What pip compiles of
    itself to install something is in each copy.
    """
    folder = machine.root / "made"
    wheels = [*bundled.glob("pip-*.whl")]
    quick = ["--without-pip"] * bool(wheels)
    subprocess.run([sys.executable, "-m", "venv", *quick, folder], check=True)
    (packages,) = (folder / "lib").glob("*/site-packages")
    for wheel in wheels:
        shutil.unpack_archive(wheel, packages, "zip")
    python, tried = str(folder / "bin/python"), str(machine.root / "tried")
    argv = [python, "-m", "pip", "install", "--target", tried, str(source)]
    subprocess.run(argv, env=machine.env(), check=True)


UPDATE = "import sys; from kern.cli import admin; sys.prefix = sys.argv[1]; admin.update()"


def test_it_installs_into_an_empty_home_updates_and_keeps_the_old_one_where_that_fails(
    machine: Machine,
) -> None:
    def updated(*argv: str) -> subprocess.CompletedProcess[str]:
        """By kern's own code, with what was installed as its environment."""
        env = machine.env()
        argv = (sys.executable, *argv)
        return subprocess.run(argv, env=env, cwd=SCRIPT.parent, capture_output=True, text=True)

    ensurepip = pytest.importorskip("ensurepip")
    one = stand_in(machine.root / "one", "1.0")
    make_environment(machine, Path(ensurepip.__file__).with_name("_bundled"), one)
    done = machine.pipe(one)
    assert done.returncode == 0, done.stderr
    assert machine.version() == "kern 1.0\n" and os.listdir(machine.home) == [".local"]
    assert f"kern 1.0 is installed: {machine.command}\n" in done.stdout
    assert f'export PATH="{machine.command.parent}:$PATH"' in done.stdout

    first = machine.command.readlink()
    clone = stand_in(machine.root / "two", "2.0")
    argv = [SH, f"{clone.name}/install.sh"]  # a clone installs itself
    subprocess.run(argv, env=machine.env(KERN_EXTRAS="dask"), cwd=machine.root, check=True)
    assert machine.version() == "kern 2.0\n"
    source = machine.command.readlink().parent.parent / "source"
    assert source.read_text() == f"{clone}\ndask\n" and source.stat().st_mode & 0o777 == 0o600
    assert first.exists(), "which a run may still import from"

    (clone / "kern" / "cli.py").write_text("def main():\n    print('kern 2.1')\n")
    done = updated("-c", UPDATE, str(source.parent))
    assert machine.version() == "kern 2.1\n", done.stderr
    done = updated("-m", "kern", "--update")
    assert done.returncode == 1 and "not installed by install.sh" in done.stderr

    before = machine.files()
    for name, how, why in (
        ("unbuilt", {"build": "raise SystemExit('no wheel')"}, "pip could not install"),
        ("broken", {"cli": "raise SystemExit('no start')"}, "it does not run"),
    ):
        done = machine.pipe(stand_in(machine.root / name, "3.0", **how))
        assert (done.returncode, why in done.stderr, "hint: " in done.stderr) == (1, True, True)
        assert [one for one in machine.files() if "__pycache__" not in one] == [
            one for one in before if "__pycache__" not in one
        ]
    building = machine.root / "building"
    wait = f"import time; pathlib.Path({str(building)!r}).touch(); time.sleep(60)"
    slow = machine.env(KERN_SOURCE=str(stand_in(machine.root / "slow", "4.0", build=wait)))
    with subprocess.Popen([SH, SCRIPT], env=slow, start_new_session=True) as child:
        wait_for(building.exists)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(PATIENCE_S) == 130
    assert machine.version() == "kern 2.1\n" and len([*first.parent.parent.parent.iterdir()]) == 2


def test_where_uv_is_it_does_the_work(machine: Machine) -> None:
    uv = shutil.which("uv") or pytest.skip("no uv")
    all_there = f"PATH={shlex.quote(os.environ['PATH'])}"  # uv itself may be a version manager's
    program(machine.tools / "uv", f'{all_there} exec {shlex.quote(uv)} "$@"')
    for version in ("1.0", "2.0"):
        source = stand_in(machine.root / version, version)
        done = machine.pipe(source, KERN_PYTHON=sys.executable)
        assert done.returncode == 0, done.stderr
        assert machine.version() == f"kern {version}\n"
    tool = machine.home / ".local" / "share" / "uv" / "tools" / "kern"
    assert (tool / "source").read_text() == f"{source}\n\n"


def test_a_kern_of_somebody_else_is_not_overwritten(machine: Machine) -> None:
    machine.command.parent.mkdir(parents=True)
    for target in (SH, "/nonexistent/kern"):
        machine.command.unlink(missing_ok=True)
        machine.command.symlink_to(target)
        done = machine.pipe(stand_in(machine.root / target.strip("/"), "1.0"))
        assert done.returncode == 1
        assert f"mv {machine.command} {machine.command}.old" in done.stderr
        assert machine.files() == [str(machine.command)]


def test_a_truncated_script_does_nothing(machine: Machine) -> None:
    ran = machine.root / "ran"
    for name in machine.tools.iterdir():
        name.unlink()
        program(name, f": > {shlex.quote(str(ran))}; exit 1")
    script = SCRIPT.read_text().rstrip("\n")
    for cut in {*range(0, len(script), 61), *range(len(script) - 40, len(script))}:
        sh(script[:cut], machine.env(), machine.root)
        assert not ran.exists(), script[:cut][-60:]
    sh(script, machine.env(), machine.root)
    assert ran.exists()


REFUSED = [
    *(
        (f"{scheme}://x.invalid/kern", "not fetched without encryption")
        for scheme in ("http", "git")
    ),
    ("git+http://x.invalid/kern.zip", "not fetched without encryption"),
    ("http://127.0.0.1:1@x.invalid/x.whl", "not fetched without encryption"),
    ("/nonexistent/kern", "no such folder: /nonexistent/kern"),
    ("someone/kern", "no such folder: someone/kern"),
]


@pytest.mark.parametrize(("source", "why"), REFUSED)
def test_a_source_that_cannot_be_taken(machine: Machine, source: str, why: str) -> None:
    done = machine.pipe(source)
    assert (done.returncode, why in done.stderr, machine.files()) == (1, True, [])
    assert "hint: " in done.stderr


def test_what_is_missing_is_named_before_anything_is_written(machine: Machine) -> None:
    source = stand_in(machine.root / "source", "1.0")
    program(machine.tools / "python3", "exit 1")  # too old
    assert "no Python 3.11 or newer" in machine.pipe(source).stderr
    assert "HOME is not set" in machine.pipe(source, HOME="relative").stderr
    (machine.tools / "git").unlink()
    assert "git is not on PATH" in machine.pipe(source).stderr
    assert machine.files() == []
