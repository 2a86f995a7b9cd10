"""`kern init` as a person types it: what it finds, runs, writes and says; each kind for real."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kern import config
from kern.cli import survey
from kern.git import repository
from kern.system import lock, workspace
from tests.conftest import PATIENCE_S, Git, Kern, survivors, wait_for
from tests.kit.kinds import KINDS, Kind
from tests.kit.terminal import on_terminal
from tests.sandbox.test_wall import needs_bwrap

Background = Callable[..., "subprocess.Popen[str]"]
TOP = Path(__file__).parent.parent.parent
LONG_S = 900.0  # a compiler without a cache, on a busy machine
BESIDE = Path(sys.executable).parent  # ruff and mypy
FILES = {"kern.toml", "SPEC.md", "LEARNINGS.md"}


@pytest.fixture
def empty(tmp_path: Path, git: Git) -> Path:
    """A repository without a commit, as `git init` leaves it."""
    root = tmp_path / "project"
    root.mkdir()
    git("init", "--quiet")
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def gates(root: Path) -> dict[str, str]:
    return {gate.name: gate.command for gate in config.parse(toml(root)).gates}


def toml(root: Path) -> str:
    return (root / "kern.toml").read_text()


# -------------------------------------------------------------------- each kind, for real


def absent(tool: str) -> bool:
    program, *words = tool.split()
    if not shutil.which(program):
        return True
    return (
        bool(words)
        and subprocess.run([*tool.split(), "--version"], capture_output=True).returncode != 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_gates_of_each_kind_are_green_in_a_project_of_it(
    kind: Kind, empty: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{BESIDE}")
    for name, folder in (("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")):
        if (home / folder).is_dir():
            monkeypatch.setenv(name, str(home / folder))
    if missing := [tool for tool in kind.tools if absent(tool)]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    write(empty, kind.files)
    if kind.made:
        subprocess.run(["sh", "-c", kind.made], cwd=empty, check=True)
    git("add", "--all")
    git("commit", "-qm", "start")

    words = ["init", *([] if kind.tools else ["--no-run"])]
    ran = subprocess.run(
        [sys.executable, "-m", "kern", *words],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert kind.gates.items() <= gates(empty).items(), said + toml(empty)
    if kind.tools:
        assert all(
            re.search(rf"^{name} = .*  # [\d.]+ (s|min)", toml(empty), re.M) for name in kind.gates
        )
    for name, command in kind.more.items():
        assert re.search(rf"^(# )?{name} = \"{command}\"", toml(empty), re.M)
    assert git("status", "--porcelain", "--untracked-files=no") == ""


# -------------------------------------------------------------------- what it runs


def test_each_check_is_run_once_and_what_does_not_pass_is_a_comment(
    empty: Path, git: Git, kern: Kern
) -> None:
    write(
        empty,
        {
            "Makefile": "test:\n\techo ran >> ../ran\nlint:\n\t@echo 'a.c:1: error: no ;'; exit 3\n"
            "typecheck:\n\tno-such-program\n",
            ".golangci.yml": "",
            ".flake8": "",
        },
    )
    ran = kern("init")
    assert ran.code == 0, ran.said
    assert (empty.parent / "ran").read_text() == "ran\n"
    assert gates(empty) == {"test": "make test"}
    lines = toml(empty).splitlines()
    assert any(re.fullmatch(r'test = "make test"  # [\d.]+ s', line) for line in lines)
    assert '# lint = "make lint"  # red, exit 2: a.c:1: error: no ;' in lines
    assert any(line.startswith('# types = "make typecheck"  # red, exit 2: ') for line in lines)
    assert re.search(r"^test +green +[\d.]+ s$", ran.out, re.M)
    assert re.search(
        r"^lint +red, exit 2 +[\d.]+ s\n    a.c:1: error: no ;\n    full output: /", ran.out, re.M
    )


def test_without_a_run_all_are_written_and_nothing_is_started(empty: Path, kern: Kern) -> None:
    write(empty, {"Makefile": "test:\n\ttouch ran\nlint:\n\tfalse\n"})
    assert kern("init", "--no-run").code == 0
    assert gates(empty) == {"test": "make test", "lint": "make lint"}
    assert not (empty / "ran").exists()


def test_nothing_of_a_repository_is_run_before_a_person_says_so(
    empty: Path, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    write(empty, {"Makefile": "test:\n\ttouch ran\n"})
    ran = kern("init")
    assert "kern init --trust runs them without asking" in ran.out
    assert gates(empty) == {"test": "make test"}
    assert not (empty / "ran").exists()
    (empty / "kern.toml").unlink()
    assert "green" in kern("init", "--trust").out
    assert (empty / "ran").exists()


@pytest.mark.parametrize(
    ("typed", "runs"), [("\n", 1), ("y\n", 1), ("n\n", 0), ("what\n", 0), ("\x04", 0)]
)
def test_a_person_at_a_terminal_is_asked(
    empty: Path, git: Git, kern: Kern, monkeypatch: pytest.MonkeyPatch, typed: str, runs: int
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    write(empty, {"Makefile": "test:\n\ttouch ran; ! test -t 0\n", ".gitignore": "ran\n"})
    code, said = on_terminal("init", cwd=empty, typed=typed)
    assert code == 0
    assert "Run each of them once now, to see which pass? [Y/n]" in said
    assert (empty / "ran").exists() is bool(runs)
    assert ("none of them was run: you said no" in said) is (not runs)
    assert gates(empty) == {"test": "make test"}

    assert kern("add", "one").code == 0
    git("add", "--all")
    git("commit", "-qm", "start")
    ahead = kern("-n").out
    assert "gates:  test: make test" in ahead
    assert ("kern will show 1 line and ask" in kern("doctor").out) is (not runs)


@pytest.mark.parametrize("committed", [True, False])
def test_what_a_check_changes_is_restored_and_what_it_leaves_is_named(
    empty: Path, git: Git, kern: Kern, committed: bool
) -> None:
    make = (
        "test:\n\techo changed > a.txt; rm b.txt; mkdir -p out/x made ignored; touch new src/new\n"
        "\ttouch out/1 out/x/2 ignored/3\n"
    )
    write(
        empty,
        {"Makefile": make, "a.txt": "a\n", "b.txt": "b\n", "src/c": "", ".gitignore": "ignored\n"},
    )
    if committed:
        git("add", "--all")
        git("commit", "-qm", "start")
    ran = kern("init")
    assert ran.code == 0, ran.said
    assert [(empty / name).read_text() for name in ("a.txt", "b.txt")] == ["a\n", "b\n"]
    assert "warning: restored, since a check changed it: a.txt, b.txt" in ran.err
    assert "warning: the checks left new, out/, src/new: add to .gitignore" in ran.err
    assert "ignored" not in ran.err.replace(".gitignore", "")
    assert (empty / "out/x/2").exists()
    assert git("diff", "--cached", "--name-only") == ""


def test_spec_and_index_are_restored_too_where_head_stays(repo: Path, git: Git, kern: Kern) -> None:
    (repo / "LEARNINGS.md").write_text("mine\n")
    write(repo, {"Makefile": "test:\n\techo x >> SPEC.md; rm LEARNINGS.md; git add -A\n"})
    (repo / "own.txt").write_text("staged\n")
    git("add", "own.txt")
    before = git("status", "--porcelain")
    spec = (repo / "SPEC.md").read_bytes()
    ran = kern("init")
    assert ran.code == 0, ran.said
    assert (repo / "SPEC.md").read_bytes() == spec
    assert (repo / "LEARNINGS.md").read_text() == "mine\n"
    assert "restored, since a check changed it: LEARNINGS.md, SPEC.md" in ran.err
    assert git("diff", "--cached", "--name-only") == "own.txt"
    (repo / "kern.toml").unlink()
    assert git("status", "--porcelain") == before
    write(repo, {"Makefile": "test:\n\tgit commit -qm x\n"})
    assert kern("init").code == 0
    assert git("diff", "--cached", "--name-only") == ""


@needs_bwrap
def test_in_a_room_a_check_changes_nothing_and_sees_what_is_not_committed(
    repo: Path, kern: Kern
) -> None:
    write(repo, {"Makefile": "test:\n\tcat new; rm *.txt; touch left; mkdir made ignored\n"})
    write(repo, {"new": "x\n", ".gitignore": "ignored\n"})
    before = sorted(path.name for path in repo.iterdir())
    ran = kern("init", env={"KERN_SANDBOX": "bwrap"})
    assert 'test = "make test"' in toml(repo), ran.said
    assert sorted({path.name for path in repo.iterdir()} - {*before}) == [
        "LEARNINGS.md",
        "kern.toml",
    ]
    assert "warning" not in ran.err


def test_a_check_that_asks_gets_no_answer_and_what_it_starts_is_ended(
    empty: Path, kern: Kern
) -> None:
    write(
        empty,
        {"Makefile": "test:\n\tread answer || exit 3\nlint:\n\tsleep 600 & echo $$! > ../pids\n"},
    )
    began = time.monotonic()
    ran = kern("init")
    assert time.monotonic() - began < PATIENCE_S
    assert gates(empty) == {"lint": "make lint"}
    assert "red, exit 2" in ran.out
    assert survivors(empty.parent / "pids") == []


def test_a_check_that_does_not_end_is_ended_and_a_comment(
    empty: Path, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kern.cli import init
    from kern.pipeline.site import Leave

    write(empty, {"Makefile": "test:\n\techo $$PPID > ../pids; sleep 600\nlint:\n\ttrue\n"})
    monkeypatch.setattr(init, "LIMIT_S", 1.0)
    init.main(empty, Leave(trusted=True), run=True)
    assert '# test = "make test"  # stopped: not done after 1 s' in toml(empty)
    assert gates(empty) == {"lint": "make lint"}
    assert survivors(empty.parent / "pids") == []


def test_beside_another_kern_nothing_is_run(repo: Path, kern: Kern) -> None:
    write(repo, {"Makefile": "test:\n\ttouch ran\n"})
    found = repository.open_at(repo)
    with lock.hold(workspace.scope(repo, "main"), found.git_dir):
        ran = kern("init")
    assert ran.code == 0, ran.said
    assert "none of them counts as run: another kern is at work in this working tree" in ran.out
    assert not (repo / "ran").exists()
    assert gates(repo) == {"test": "make test"}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_writes_no_file_and_leaves_the_tree(
    empty: Path, background: Background, signum: int
) -> None:
    write(
        empty,
        {"Makefile": "test:\n\techo x > a.txt; echo $$PPID > ../pids; sleep 600\n", "a.txt": "a\n"},
    )
    process = background("init")
    wait_for(lambda: (empty.parent / "pids").exists())
    process.send_signal(signum)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signum
    assert "Traceback" not in err
    assert "no file was written; kern init --no-run" in err
    assert not FILES & {*os.listdir(empty)}
    assert (empty / "a.txt").read_text() == "a\n"
    assert survivors(empty.parent / "pids") == []


# -------------------------------------------------------------------- what it writes and says


def test_a_kern_toml_that_is_there_is_left_and_told_what_it_lacks(empty: Path, kern: Kern) -> None:
    write(
        empty,
        {"Makefile": "test:\n\ttrue\nlint:\n\tfalse\n", "kern.toml": '[gates]\na = "make test"\n'},
    )
    before = toml(empty)
    ran = kern("init")
    assert toml(empty) == before
    assert f"kept     {empty / 'kern.toml'}" in ran.out
    assert 'kern would add to its [gates]:\n  # lint = "make lint"  # red, exit 2' in ran.out
    assert "make test" not in ran.out


@pytest.mark.parametrize("text", ["[gates", "\0", "gates = 3\n", "[gates]\na = 3\n"])
def test_a_broken_kern_toml_is_named_and_left(empty: Path, kern: Kern, text: str) -> None:
    write(empty, {"Makefile": "test:\n\ttouch ran\n", "kern.toml": text})
    ran = kern("init")
    assert ran.code == 0, ran.said
    assert "kern.toml was left as it is, and kern cannot use it: kern.toml" in ran.out
    assert toml(empty) == text
    assert not (empty / "ran").exists()


def test_it_ends_with_what_fits_what_it_found(empty: Path, git: Git, kern: Kern) -> None:
    ran = kern("init")
    assert "no checks found" in ran.out
    assert "name your own under [gates] in kern.toml" in ran.out
    assert 'kern add "…"' in ran.out
    assert 'git add --all && git commit -m "Begin with kern"\n' in ran.out
    for name in FILES:
        (empty / name).unlink()

    write(empty, {"SPEC.md": "- [ ] one\n- [x] two\n- [~] three\n", "todo.md": "- [ ] x\n"})
    ran = kern("init")
    assert f"kept     {empty / 'SPEC.md'}" in ran.out
    assert "shows the 2 open tasks" in ran.out
    assert "kern add - < todo.md" in ran.out
    assert 'kern add "…"' not in ran.out
    assert "git add --all && git commit" in ran.out


def test_what_git_does_not_have_yet_is_named_and_added(empty: Path, git: Git, kern: Kern) -> None:
    write(empty, {"a.txt": "a\n", ".gitignore": "out/\n", "out/x": "x\n"})
    git("add", "--all")
    git("commit", "-qm", "start")
    assert '  git add SPEC.md LEARNINGS.md kern.toml && git commit -m "' in kern("init").out
    for name in FILES:
        (empty / name).unlink()

    write(empty, {"wordkit/count.py": "", "tests/test_count.py": "", "SPEC.md": "- [ ] one\n"})
    said = kern("init").out
    assert "git add --all && git commit" in said
    assert "\nnot in git yet: SPEC.md, tests/, wordkit/\nnext:\n" in said


@pytest.mark.parametrize("tracked", [True, False])
def test_a_spec_in_lower_case_is_to_be_renamed_and_gets_no_other_beside_it(
    empty: Path, git: Git, kern: Kern, tracked: bool
) -> None:
    write(empty, {"spec.md": "- [ ] one\n"})
    if (empty / "SPEC.md").exists():
        pytest.skip("the file system knows no case")
    if tracked:
        git("add", "spec.md")
    ran = kern("init")
    assert f"\n  {'git mv' if tracked else 'mv'} spec.md SPEC.md  # kern reads" in ran.out
    assert not (empty / "SPEC.md").exists()
    (empty / "spec.md").write_text("a text without a task\n")
    assert f"written  {empty / 'SPEC.md'}" in kern("init").out


# -------------------------------------------------------------------- large and odd repositories


Looked = Callable[[], list[str]]


@pytest.fixture
def looked(empty: Path) -> Looked:
    def look() -> list[str]:
        found, _ = survey.folders(repository.open_at(empty))
        return [folder.path for folder in found if folder.files]

    return look


def test_many_folders_links_in_a_circle_and_what_others_own(empty: Path, looked: Looked) -> None:
    for number in range(10_000):
        (empty / f"many/{number % 100}/{number}").mkdir(parents=True)
    write(
        empty,
        {
            "a/package.json": "{}",
            "a/b/c/d/package.json": "{}",
            "a/b/c/package.json": "{}",
            "a/node_modules/x/package.json": "{}",
            "vendor/x/go.mod": "",
            "out/x/go.mod": "",
            ".gitignore": "out\n",
        },
    )
    (empty / "a/loop").symlink_to(empty)
    (empty / "package.json").symlink_to("package.json")
    began = time.monotonic()
    assert looked() == ["a", "a/b/c"]
    assert time.monotonic() - began < 10
    for number in range(40):
        write(empty, {f"part{number}/go.mod": ""})
    assert len(looked()) <= survey.MOST_PARTS + 1


@pytest.mark.parametrize("name", ["package.json", "Makefile", "pyproject.toml", "deno.json"])
def test_garbage_and_ten_megabytes_are_no_checks(empty: Path, kern: Kern, name: str) -> None:
    for data in (
        os.urandom(1 << 16),
        b'{"scripts": {"test": "x", "y": "' + b"z" * 10_000_000,
        b"a " * 100_000,
    ):
        (empty / name).write_bytes(data)
        began = time.monotonic()
        assert kern("init", "--no-run").code == 0
        assert time.monotonic() - began < 20
        (empty / "kern.toml").unlink()


def test_outside_of_a_repository_it_says_so(tmp_path: Path, kern: Kern) -> None:
    ran = kern("init", cwd=tmp_path)
    assert ran.code == 2
    assert "not a git repository" in ran.err
    assert not FILES & {*os.listdir(tmp_path)}


# -------------------------------------------------------------------- who runs the stages


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `codex` that says that it is logged in, on a PATH without any other agent."""
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "codex").write_text("#!/bin/sh\necho 'Logged in using an API key'\n")
    (folder / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_another_agent_is_proposed_where_the_usual_one_is_not(
    empty: Path, codex: Path, kern: Kern
) -> None:
    said = kern("init", "--no-run").out
    assert "agent codex, which is installed here" in said
    assert config.parse((empty / "kern.toml").read_bytes()).agents == ("codex",)


def test_the_usual_agent_needs_no_line(empty: Path, codex: Path, kern: Kern) -> None:
    (codex / "claude").symlink_to("/bin/true")
    assert "agent codex" not in kern("init", "--no-run").out
    assert config.parse((empty / "kern.toml").read_bytes()).agents == ()
