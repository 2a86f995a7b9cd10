"""`kern init` as a person types it: what it finds, runs, writes and says; each kind for real."""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kern import config
from kern.cli import project
from kern.git import repository
from kern.model import Aide
from kern.system import lock
from tests.conftest import Git, Kern, commit_all, executable
from tests.kit.kinds import KINDS, Kind
from tests.kit.terminal import on_terminal

TOP = Path(__file__).parent.parent.parent
# What a tool has made for its person: without it each would begin with compiling its own library.
THEIRS = {"RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo", "GOCACHE": ".cache/go-build"}
# Less of what costs a short run more than it brings.
QUICK = {
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "npm_config_update_notifier": "false",
}
BESIDE = Path(sys.executable).parent  # ruff and mypy


@pytest.fixture
def empty(tmp_path: Path, git: Git) -> Path:
    """A repository without a commit, as `git init` leaves it."""
    root = tmp_path / "project"
    root.mkdir()
    git("init", "--quiet")
    return root


@pytest.fixture
def begun(empty: Path, git: Git) -> "Begun":
    """One with a first commit of these files."""

    def commit(files: dict[str, str]) -> Path:
        write(empty, files)
        commit_all(git, "start")
        return empty

    return commit


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


Begun = Callable[[dict[str, str]], Path]


def gates(root: Path) -> dict[str, str]:
    return {gate.name: gate.command for gate in config.parse(toml(root)).gates}


def toml(root: Path) -> str:
    return (root / "kern.toml").read_text()


# -------------------------------------------------------------------- each kind, for real


def absent(tool: str) -> bool:
    program, *words = tool.split()
    argv = [program, *words, "--version"]
    there = shutil.which(program)
    return not there or bool(words and subprocess.run(argv, capture_output=True).returncode)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_gates_of_each_kind_are_green_in_a_project_of_it(
    kind: Kind, empty: Path, git: Git, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{BESIDE}")
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    for name, folder in THEIRS.items():
        if (home / folder).is_dir():
            monkeypatch.setenv(name, str(home / folder))
    if missing := [tool for tool in kind.tools if absent(tool)]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    write(empty, kind.files)
    if kind.made:
        subprocess.run(["sh", "-c", kind.made], cwd=empty, check=True)
    commit_all(git, "start")

    ran = kern("init", env={} if kind.tools else {"KERN_TRUST": ""})
    assert ran.code == 0, ran.said
    assert kind.gates.items() <= gates(empty).items(), ran.said + toml(empty)
    if kind.tools:
        assert all(
            re.search(rf"^{name} = .*  # [\d.]+ (s|min)", toml(empty), re.M) for name in kind.gates
        )
    for name, command in kind.more.items():
        assert re.search(rf"^(# )?{name} = \"{command}\"", toml(empty), re.M)
    assert git("status", "--porcelain", "--untracked-files=no") == ""


# -------------------------------------------------------------------- what it runs


needs_make = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")


@needs_make
def test_each_check_is_run_once_and_what_does_not_pass_is_a_comment(
    begun: Begun, kern: Kern
) -> None:
    make = "test:\n\ttrue\nlint:\n\t@echo 'a.c:1: error: no ;'; exit 3\n"
    root = begun({"Makefile": make + "typecheck:\n\tno-such-program\n", ".flake8": ""})
    ran = kern("init")
    assert ran.code == 0, ran.said
    assert gates(root) == {"test": "make test"}
    lines = toml(root).splitlines()
    assert any(re.fullmatch(r'test = "make test"  # [\d.]+ s', line) for line in lines)
    assert any(one.startswith('# lint = "make lint"  # exit 2: a.c:1: error') for one in lines)
    assert any(line.startswith('# types = "make typecheck"  # exit 2: ') for line in lines)
    assert "gate test: green" in ran.out
    assert re.search(r"gate lint: red \(exit 2.*\n.*a.c:1: error: no ;\n", ran.out)


@needs_make
@pytest.mark.parametrize(("typed", "runs"), [("\n", 1), ("what\n", 0)])
def test_a_person_at_a_terminal_is_asked(
    begun: Begun, monkeypatch: pytest.MonkeyPatch, typed: str, runs: int
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    root = begun({"Makefile": "test:\n\t! test -t 0\n"})
    code, said = on_terminal("init", cwd=root, typed=typed)
    assert code == 0
    assert "Run each of them once now, to see which pass? [Y/n]" in said
    assert ("none of them was run" in said) is (not runs)
    assert bool(re.search(r'test = "make test"  # [\d.]+ s', toml(root))) is bool(runs)


def test_beside_another_kern_and_before_the_first_commit_nothing_is_run(
    begun: Begun, tmp_path: Path, git: Git, kern: Kern
) -> None:
    write(tmp_path / "project", {"Makefile": "test:\n\tfalse\n"})
    ran = kern("init")
    assert ran.code == 0 and "no commit yet" in ran.out
    assert gates(tmp_path / "project") == {"test": "make test"}
    (tmp_path / "project" / "kern.toml").unlink()
    found = repository.open_at(root := begun({}))
    with lock.hold(found.git_dir):
        ran = kern("init")
    assert ran.code == 0, ran.said
    assert "none of them counts as run: another kern is at work in this working tree" in ran.out
    assert gates(root) == {"test": "make test"}


# -------------------------------------------------------------------- what it writes and says


def test_a_kern_toml_that_is_there_is_left_beside_what_was_found(empty: Path, kern: Kern) -> None:
    make = "test:\n\ttrue\nlint:\n\tfalse\n"
    write(empty, {"Makefile": make, "kern.toml": '[gates]\na = "make test"\n'})
    ran = kern("init")
    assert toml(empty) == '[gates]\na = "make test"\n'
    assert f"kept     {empty / 'kern.toml'}" in ran.out
    assert "  lint  make lint  (Makefile)\n" in ran.out
    write(empty, {"kern.toml": "[gates"})
    ran = kern("init")
    assert ran.code == 2 and "kern.toml is not valid TOML" in ran.err
    assert toml(empty) == "[gates"


# -------------------------------------------------------------------- large and odd repositories


def test_many_folders_links_in_a_circle_and_what_others_own(empty: Path) -> None:
    def looked() -> list[str]:
        return [one.path for one in project.folders(repository.open_at(empty)) if one.files]

    packages = ("a", "a/b/c/d", "a/b/c", "a/node_modules/x")
    write(empty, {f"{folder}/package.json": "{}" for folder in packages})
    write(empty, {"vendor/x/go.mod": "", "out/x/go.mod": "", ".gitignore": "out\n"})
    (empty / "a/loop").symlink_to(empty)
    (empty / "package.json").symlink_to("package.json")
    assert looked() == ["a", "a/b/c"]
    write(empty, {f"part{number}/go.mod": "" for number in range(40)})
    assert len(looked()) <= project.MOST_PARTS + 1


def test_garbage_and_ten_megabytes_are_no_checks(empty: Path, kern: Kern) -> None:
    (empty / "package.json").write_bytes(b'{"scripts": {"test": "x", "y": "' + b"z" * 10_000_000)
    (empty / "Makefile").write_bytes(os.urandom(1 << 16))
    assert kern("init").code == 0
    assert gates(empty) == {}


def test_another_agent_is_proposed_where_the_usual_one_is_not(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kern: Kern
) -> None:
    codex = tmp_path / "agents" / "codex"
    codex.parent.mkdir()
    executable(codex, "#!/bin/sh\necho 'Logged in using an API key'\n")
    monkeypatch.setenv("PATH", f"{codex.parent}:/usr/bin:/bin")
    kern("init")
    assert config.parse((empty / "kern.toml").read_bytes()).agents == ("codex",)
    codex.with_name("claude").symlink_to("/bin/true")
    (empty / "kern.toml").unlink()
    kern("init")
    assert config.parse((empty / "kern.toml").read_bytes()).agents == ()
    assert "# codex is logged in here, and may see what claude overlooks\n# agent" in toml(empty)
    named = config.parse(re.sub(r"(?m)^# (?=\[stages.judge|agent =)", "", toml(empty)).encode())
    assert named.stages[Aide.JUDGE].agent == "codex" and [*named.stages] == [Aide.JUDGE]
    codex.write_text("#!/bin/sh\necho Not logged in\n")
    (empty / "kern.toml").unlink()
    kern("init")
    assert "codex" not in toml(empty)
