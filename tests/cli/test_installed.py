"""`kern uninstall` and `kern --update` where kern lies as install.sh puts it, and elsewhere."""

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Kern
from tests.kit.terminal import on_terminal

pytestmark = pytest.mark.slow
TOP = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Laid out as install.sh does it; kern itself is this clone."""
    folder = tmp_path / "home" / ".local" / "share" / "kern"
    version = folder / "versions" / "1"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", version], check=True)
    (version / "source").write_text("/nowhere\n")
    (version / "prompts").mkdir()
    command = tmp_path / "home" / ".local" / "bin" / "kern"
    command.parent.mkdir(parents=True)
    for link, target in (
        (folder / "current", "versions/1"),
        (folder / "prompts", "current/prompts"),
        (folder / "source", "current/source"),
        (command, folder / "current" / "bin" / "kern"),
    ):
        link.symlink_to(target)
    return folder


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOP), *site.getsitepackages()])}


def call(data: Path, *argv: str) -> list[str]:
    return [str(data / "versions" / "1" / "bin" / "python"), "-m", "kern", *argv]


def test_it_asks_and_without_a_terminal_it_removes_nothing(data: Path) -> None:
    ran = subprocess.run(
        call(data, "uninstall"), env=environment(), capture_output=True, text=True, stdin=-3
    )
    assert ran.returncode == 2
    assert f"  {data}\n  {data.parent.parent / 'bin' / 'kern'}\n" in ran.stdout
    for stays in ("SPEC.md", "refs/kern", ".git/kern", "~/.config/kern", os.environ["KERN_DIR"]):
        assert stays in ran.stdout
    assert "hint: kern uninstall --yes" in ran.stderr
    assert (data / "current" / "bin" / "python").exists()


@pytest.mark.parametrize("said", ["y", "n"])
def test_at_a_terminal_a_yes_removes_what_the_installer_made_and_nothing_else(
    data: Path, said: str
) -> None:
    (data / "mine").write_text("mine")
    program, env = call(data, "uninstall"), environment()
    code, _ = on_terminal(program=program, env=env, typed=f"{said}\n", at="[y/N]")
    command = data.parent.parent / "bin" / "kern"
    assert (data / "mine").exists()
    if said == "y":
        assert (code, os.listdir(data), command.is_symlink()) == (0, ["mine"], False)
    else:
        assert code == 2 and (data / "current" / "bin" / "python").exists()


def test_an_empty_folder_goes_too_and_a_command_that_is_not_kerns_stays(data: Path) -> None:
    command = data.parent.parent / "bin" / "kern"
    command.unlink()
    command.write_text("mine")
    done = subprocess.run(
        call(data, "uninstall", "--yes"), env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not data.exists()
    assert command.read_text() == "mine" and str(command) not in done.stdout


def test_what_another_tool_installed_is_left_to_that_tool(
    repo: Path, kern: Kern, data: Path, tmp_path: Path
) -> None:
    for argv in (["uninstall"], ["--update"]):
        ran = kern(*argv)
        assert (ran.code, ran.out) == (1, "")
        assert "not installed by install.sh" in ran.err and "clone" in ran.err
    for part, tool in (("uv/tools", "uv tool"), ("pipx/venvs", "pipx")):
        place = tmp_path / part / "kern"
        place.parent.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        for argv, verb in ((["uninstall", "--yes"], "uninstall"), (["--update"], "upgrade")):
            done = subprocess.run(
                [place / "bin" / "python", "-m", "kern", *argv],
                env=environment(),
                capture_output=True,
                text=True,
            )
            assert done.returncode == 1
            assert f"hint: {tool} {verb} kern" in done.stderr
