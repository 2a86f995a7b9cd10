"""Real repositories sealed from the developer's machine, and kern as its users run it."""

import compileall
import contextlib
import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit import stand_in
from tests.kit.stable import Ran, Stable

HERE = Path(__file__).parent
PATIENCE_S = 120.0  # for what ends in a second or two where nothing else is at work


def heed_signals() -> None:
    """Under nohup or a shell's `&` they are ignored, and what a test starts would ignore them too.
    What is caught here has its default there.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def keep_bytecode() -> None:
    """Where the environment forbids it, each worker would compile the tests anew, and each kern
    that a test starts all of kern: some 4 s, and 1 s.
    """
    sys.dont_write_bytecode = False
    compileall.compile_dir(HERE.parent / "kern", quiet=2)


heed_signals()
keep_bytecode()
os.environ["TZ"] = "UTC"
time.tzset()
# Known from now on: where a test's own TMPDIR leads goes with the test. Stories name their folder
# without quotes; kern itself is told of the blank.
tempfile.tempdir = "/tmp" if " " in tempfile.gettempdir() else tempfile.gettempdir()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="see tests/agents/test_recorded.py")
    parser.addoption("--bless", action="store_true", help="write the ends of stories into tables")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts kern, git or an agent is slow; what takes longest is not begun last."""
    items.sort(key=lambda item: "crash" not in item.keywords)
    for item in items:
        asked = set(getattr(item, "fixturenames", ()))
        if asked & {"fake", "background", "kern", "git", "repo"}:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Thousands of tests are no garbage: each look for some would go through them all."""
    gc.freeze()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Many tests wait for processes: two workers more than there are cores."""
    return (os.cpu_count() or 1) + 2 * ("not (crash or real or slow)" not in config.option.markexpr)


GITCONFIG = (
    "[user]\n\tname = t\n\temail = t@example.com\n[init]\n\tdefaultBranch = main\n"
    "[core]\n\tfsync = none\n"  # a repository of a test outlives no power cut
)
# The whole suite passes with it: KERN_TEST_SANDBOX=bwrap pytest
SANDBOX = os.environ.get("KERN_TEST_SANDBOX", "off")
STRIPPED = ("GIT_", "ANTHROPIC_", "CLAUDE", "KERN_", "XDG_", "IS_SANDBOX", "PYTEST_ADDOPTS")
COLOURS = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")  # which rich and typer check_requests


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For each test that asks for no folder of its own: nothing is written there."""
    folder = tmp_path_factory.mktemp("shared")
    settle(folder)
    yield folder
    assert [path.name for path in sorted(folder.rglob("*"))] == ["home", ".gitconfig"]


def settle(folder: Path) -> None:
    (folder / "home").mkdir()
    (folder / "home" / ".gitconfig").write_text(GITCONFIG)


@pytest.fixture(autouse=True)
def sealed(shared: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """No test reads the git configuration of who runs it, or inherits a hook's variables."""
    for name in list(os.environ):
        if name.startswith((*STRIPPED, *COLOURS)) and not name.startswith("KERN_TEST_"):
            monkeypatch.delenv(name)
    folder = shared
    if "tmp_path" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path")
        settle(folder)
    home = folder / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("KERN_DIR", str(folder / "kern"))
    monkeypatch.setenv("IS_SANDBOX", "1")  # tests may run as root in a container
    monkeypatch.setenv("KERN_TRUST", "1")
    monkeypatch.setenv("KERN_TEST_WAITS", "0.2")
    unheld = request.node.get_closest_marker("unheld")
    monkeypatch.setenv("KERN_SANDBOX", "off" if unheld else SANDBOX)
    if held() and folder is not shared:
        open_to_tests(home, folder)


def held() -> bool:
    """Whether this test's kern puts what it starts into a sandbox."""
    return os.environ["KERN_SANDBOX"] != "off"


def open_to_tests(home: Path, *places: Path | str) -> None:
    """The agents and gates of a test leave traces beside the project."""
    own = home / ".config" / "kern" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    write = json.dumps([str(place) for place in places])
    own.write_text(f'[sandbox]\nwrite = {write}\nenv = ["FAKE_CLAUDE"]\n')


Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """The git CLI in the project; the oracle of every test."""

    def run(*argv: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *argv],
            cwd=cwd or tmp_path / "project",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.rstrip("\n")

    return run


def commit_all(git: Git, message: str) -> None:
    git("add", "--all")
    git("commit", "--quiet", f"--message={message}")


def executable(place: Path, text: str) -> None:
    place.write_text(text)
    place.chmod(0o755)


@pytest.fixture(scope="session")
def committed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `repo` is a copy of."""
    home = tmp_path_factory.mktemp("template")
    (home / ".gitconfig").write_text(GITCONFIG)
    root = home / "project"
    root.mkdir()
    (root / "SPEC.md").write_text("- [ ] add a greeting\n")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    (root / "own.txt").write_text("mine\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    # Without git's sample hooks: they would be most of what is copied.
    for words in ("init --quiet --template=", "add --all", "commit --quiet --message=start"):
        subprocess.run(["git", *words.split()], cwd=root, env=env, check=True)
    for name in ("hooks", "info"):
        (root / ".git" / name).mkdir()
    (root / ".git" / "info" / "exclude").touch()
    return root


@pytest.fixture
def repo(tmp_path: Path, git: Git, committed_once: Path) -> Path:
    """A real repository on main with one commit, a SPEC.md of one task and two files."""
    root = tmp_path / "project"
    shutil.copytree(committed_once, root, symlinks=True)
    git("update-index", "--refresh")
    return root


@dataclass
class Fake:
    """The scripted `claude` on PATH, see scenarios/agent.py."""

    folder: Path
    steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def script(self, **stages: list[dict[str, Any]]) -> None:
        """Steps by stage: research=[…], implement=[…], commit=[…]."""
        self.steps.update(stages)
        (self.folder / "script.json").write_text(json.dumps(self.steps))

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def stages(self) -> list[str]:
        return [call["stage"] for call in self.calls]


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it finds its script and keeps its records."""
    monkeypatch.setenv("FAKE_CLAUDE", str(folder))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    folder = stand_in.settle(tmp_path / "fake")
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    at_home(folder, monkeypatch)
    made = Fake(folder)
    made.script()
    return made


Kern = Callable[..., Ran]


@pytest.fixture(scope="session")
def stable() -> Iterator[Stable]:
    made = Stable()
    yield made
    made.close()


@pytest.fixture
def kern(tmp_path: Path, stable: Stable) -> Kern:
    """`kern(*argv, cwd=…, env=…)` from the project's top level, in a process that is forked where
    kern has been imported; `started=True` is for what the start of an interpreter decides.
    """

    def run(
        *argv: str,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        started: bool = False,
    ) -> Ran:
        given = {"PYTHONPATH": str(HERE.parent), **(env or {})}
        folder = cwd or tmp_path / "project"
        if not started:
            return stable.kern(argv, folder, env=given)
        done = subprocess.run(
            [sys.executable, "-m", "kern", *argv],
            cwd=folder,
            env={**os.environ, **given},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """A kern that runs beside the test; ended with it."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str, cwd: Path | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kern", *argv],
            cwd=cwd or tmp_path / "project",
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


@dataclass(frozen=True)
class Heard:
    code: int
    err: str  # what a person reads
    events: list[Any]
    slept: list[float]

    @property
    def said(self) -> str:
        return self.err


Inline = Callable[..., Heard]


@pytest.fixture
def inline(tmp_path: Path) -> Inline:
    """`inline(iterations)`: a run in the test's own process, its waits only written down."""
    from kern.errors import Interrupted, KernError
    from kern.pipeline import loop
    from kern.pipeline.site import Leave, Options
    from kern.views.live import Console

    def run(
        iterations: int = 1,
        *,
        delay: float = 0.0,
        cwd: Path | None = None,
        sleep: Callable[[float], None] | None = None,
        **options: Any,
    ) -> Heard:
        said = io.StringIO()
        console = Console(out=said, err=said)
        events: list[Any] = []
        slept: list[float] = []

        def sink(event: Any) -> None:
            events.append(event)
            console(event)

        options = {"leave": Leave(trusted=True), **options}
        chosen = Options(iterations, delay, sleep=sleep or slept.append, **options)
        try:
            code = loop.run(cwd or tmp_path / "project", chosen, sink)
        except (KernError, Interrupted) as exc:
            code = int(exc.exit_code)
            print(f"kern: {exc}\n  hint: {getattr(exc, 'hint', '')}", file=said)
        return Heard(code, said.getvalue(), events, slept)

    return run


def wait_for(happened: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while (asked := time.monotonic()) < deadline:
        with contextlib.suppress(ValueError):  # a line that is being written
            if happened():
                return
        time.sleep(max(0.02, 2 * (time.monotonic() - asked)))  # others need the cores as well
    raise AssertionError("it did not happen in time")


def agents() -> list[psutil.Process]:
    """What the stand-in, a gate or a hook has started in this test, and lives."""
    named = ((one, one.info["environ"] or {}) for one in psutil.process_iter(["environ"]))
    own = os.environ["FAKE_CLAUDE"]
    return [one for one, env in named if env.get("FAKE_CLAUDE") == own and "KERN_ROOT" in env]


def survivors(pids: Path) -> list[psutil.Process]:
    """Of the processes that wrote their pid into the file those that live; a zombie is gone."""
    written = pids.read_text().split() if pids.exists() else ()
    if held():
        return [process for process in agents() if number_within(process) in written]
    found = []
    for pid in written:
        with contextlib.suppress(psutil.NoSuchProcess):
            candidate = psutil.Process(int(pid))
            if candidate.status() != psutil.STATUS_ZOMBIE:
                found.append(candidate)
    return found


def number_within(process: psutil.Process) -> str:
    """Its pid as a sandbox's own processes see it."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process.pid}/status").read_text()
        return next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]
    return ""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(place)]
    tool = shutil.which("mount") and not os.getuid()
    if not tool or subprocess.run(argv, capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def assert_linear(act: Callable[[int], object], size: int) -> None:
    """Steps are not counted, but compared: those of a tenth, and of all; a square has a hundred."""
    from kern.errors import KernError

    spent = []
    for n in (size // 10, size):
        began = time.process_time()
        with patience(PATIENCE_S), contextlib.suppress(KernError):
            act(n)
        spent.append(time.process_time() - began)
    assert spent[1] < 30 * max(spent[0], 0.02)


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """What would hang fails instead: a regular expression, the reading of a pipe."""

    def lose(*_: object) -> None:
        raise AssertionError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, lose)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
