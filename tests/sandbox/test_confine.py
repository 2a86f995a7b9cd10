"""The walls themselves: real namespaces, real Landlock, a real relay."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kern.errors import UsageError
from kern.model import Needs
from kern.person import Mode
from kern.sandbox import confine, means
from kern.sandbox.bounds import Kind, Repository, Wishes
from kern.sandbox.confine import Means, Sandbox, chosen
from kern.sandbox.relay import Relay, allowed, target
from tests.conftest import Git

needs_bwrap = pytest.mark.skipif(
    not shutil.which(means.BUBBLEWRAP), reason="bubblewrap is not installed"
)


HOME = (
    *(".ssh/id", ".netrc", "other/x", ".cache/uv/x"),
    *(".claude/settings.json", ".claude/.credentials.json", ".codex/auth.json"),
)


@dataclass
class World:
    wanted: Sandbox
    home: Path
    root: Path

    def sh(
        self, kind: Kind, command: str, held: Sandbox, agent: str = "claude"
    ) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "A_TOKEN": "t", "OPENAI_API_KEY": "o"}
        agent = "" if kind is Kind.CHECK else agent
        confined = held.confine(kind, ["sh", "-c", command], env, agent=agent)
        return subprocess.run(
            confined.argv,
            env=dict(confined.env),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def world(tmp_path: Path, repo: Path, git: Git) -> World:
    home = tmp_path / "home"
    for name in HOME:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")
    (tmp_path / "temp").mkdir()
    tree = Repository(repo, repo / ".git", repo / ".git", guarded=(repo / "SPEC.md",))
    needs = Needs(
        (f"{home}/.claude/.credentials.json",),
        (f"{home}/.claude/settings.json",),
        variables=("ANTHROPIC_",),
    )
    wanted = Sandbox(
        tree,
        home,
        needs={
            "claude": needs,
            "codex": Needs((f"{home}/.codex/auth.json",), variables=("OPENAI_",)),
        },
        hidden=(tmp_path / "kern",),
        programs=confine.programs(sys.executable),
        temp=tmp_path / "temp",
    )
    return World(wanted, home, repo)


@needs_bwrap
@pytest.mark.parametrize(
    ("kind", "command", "works"),
    [
        (Kind.WORKER, "echo x > new.txt && rm new.txt", True),
        (Kind.WORKER, "git status --porcelain && git diff && git log -1", True),
        (Kind.WORKER, "git commit --allow-empty -m x", False),
        (Kind.WORKER, "git branch other", False),
        (Kind.WORKER, "git config core.fsmonitor evil", False),
        (Kind.WORKER, "echo x > .git/hooks/pre-commit", False),
        (Kind.WORKER, "echo x >> SPEC.md", False),
        (Kind.WORKER, 'cat "$HOME/.ssh/id" || cat "$HOME/.netrc"', False),
        (Kind.WORKER, 'echo x > "$HOME/other/x"', False),
        (Kind.WORKER, 'echo x > "$HOME/.claude/settings.json"', False),
        (Kind.WORKER, 'echo x > "$HOME/.claude/history"', True),
        (Kind.WORKER, 'test -n "$A_TOKEN"', False),
        (Kind.CHECK, "echo x > new.txt && rm new.txt", True),
        (Kind.CHECK, "git commit --allow-empty -m x", False),
        (Kind.CHECK, 'echo x > "$HOME/.claude/history"', False),
        (Kind.READER, "echo x > new.txt", False),
        (Kind.READER, "git log -1", True),
        (Kind.COMMITTER, "git commit --allow-empty -m x", True),
        (Kind.COMMITTER, "echo x > .git/hooks/pre-commit", False),
        (Kind.COMMITTER, "git config core.fsmonitor evil", False),
        (Kind.COMMITTER, "mkdir -p .git/kern && echo x > .git/kern/x", True),  # not there yet
    ],
)
def test_behind_namespaces(world: World, kind: Kind, command: str, works: bool) -> None:
    held = chosen(Mode.BWRAP, world.wanted)
    done = world.sh(kind, command, held)
    assert (done.returncode == 0) is works, done.stdout + done.stderr


@needs_bwrap
def test_an_agent_is_given_its_own_login_and_no_command_any(world: World) -> None:
    held = chosen(Mode.BWRAP, world.wanted)
    theirs = {"claude": '"$HOME/.claude/.credentials.json"', "codex": '"$HOME/.codex/auth.json"'}
    for agent in theirs:
        for other, place in theirs.items():
            done = world.sh(Kind.WORKER, f"cat {place}", held, agent)
            assert (done.returncode == 0) is (agent == other), (agent, other)
        key = world.sh(Kind.WORKER, 'test -n "$OPENAI_API_KEY"', held, agent)
        assert (key.returncode == 0) is (agent == "codex")
    for kind in (Kind.CHECK, Kind.COMMITTER):  # gates; hooks, where kern itself commits
        for place in theirs.values():
            assert world.sh(kind, f"cat {place}", held, agent="").returncode, place


@needs_bwrap
def test_nothing_outlives_it_and_nothing_outside_is_seen(world: World) -> None:
    held = chosen(Mode.BWRAP, world.wanted)
    done = world.sh(Kind.WORKER, "(setsid sleep 77 &) ; ls /proc | grep -c '^[0-9]'", held)
    assert int(done.stdout) < 8
    found = subprocess.run(["pgrep", "-f", "^sleep 77"], capture_output=True, check=False)
    assert found.returncode == 1


@needs_bwrap
@pytest.mark.parametrize(
    "target", [".kern", "nowhere", "../home/.ssh/id", "/", "/proc", "/proc/self/environ", "/tmp"]
)
def test_a_link_in_the_repository_opens_nothing_and_costs_nobody_the_sandbox(
    world: World, target: str
) -> None:
    (world.root / ".kern").symlink_to(target)
    tree = replace(world.wanted.repository, guarded=(world.root / ".kern",))
    held = chosen(Mode.AUTO, replace(world.wanted, repository=tree))
    assert held.means is Means.BWRAP
    looks = "! grep secret .kern ../home/.ssh/id; ls /proc | grep -c '^[0-9]'; ls /tmp | wc -l"
    said = world.sh(Kind.WORKER, looks, held).stdout.split()
    assert "secret" not in said and int(said[0]) < 8 and int(said[1]) < 4


@needs_bwrap
def test_a_folder_to_write_that_became_a_link_opens_nothing(world: World) -> None:
    held = chosen(Mode.BWRAP, replace(world.wanted, wishes=Wishes(write=(world.root / "build",))))
    assert world.sh(Kind.WORKER, 'ln -s "$HOME/other" build', held).returncode == 0
    assert world.sh(Kind.CHECK, "echo x > build/x", held).returncode
    assert (world.home / "other/x").read_text() == "secret"


@needs_bwrap
def test_nothing_that_a_repository_hides_chooses_a_weaker_means(world: World) -> None:
    wanted = replace(world.wanted, wishes=Wishes(hide=(Path("/usr"), Path("/proc/self/environ"))))
    held = chosen(Mode.AUTO, wanted)
    assert held.means is Means.BWRAP
    assert world.sh(Kind.WORKER, "true", held).returncode


@needs_bwrap
def test_a_folder_of_programs_that_is_a_link_in_a_private_place_stands_there(
    world: World, tmp_path: Path
) -> None:
    """As /run/current-system/sw/bin is one."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "tool").symlink_to("/bin/true")
    (tmp_path / "bin").symlink_to("store")
    wanted = replace(world.wanted, programs=(*world.wanted.programs, tmp_path / "bin"))
    held = chosen(Mode.BWRAP, wanted)
    assert world.sh(Kind.WORKER, f"{tmp_path}/bin/tool", held).returncode == 0


@needs_bwrap
@pytest.mark.parametrize("name", ["a b", 'o\'dd "$(x)"', "läufe\n2"])
def test_a_repository_on_any_path(world: World, tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    world.root.rename(root)
    tree = Repository(root, root / ".git", root / ".git")
    held = chosen(Mode.BWRAP, replace(world.wanted, repository=tree))
    done = World(held, world.home, root).sh(Kind.WORKER, "pwd && echo x > y", held)
    assert done.returncode == 0 and done.stdout == f"{root}\n", done.stderr


@needs_bwrap
def test_what_a_link_leads_to_is_held_there(world: World, tmp_path: Path) -> None:
    """As those have it who keep their settings in a repository of their own."""
    keep = world.home / "dotfiles"
    keep.mkdir()
    for name in (".claude/settings.json", ".netrc", ".ssh"):
        place = world.home / name
        place.rename(keep / place.name)
        place.symlink_to(keep / place.name)
    (world.home / ".npmrc").symlink_to("nowhere")
    held = chosen(Mode.BWRAP, world.wanted)
    for command in (
        'cat "$HOME/.netrc" | grep .',
        'cat "$HOME/.ssh/id"',
        'cat "$HOME/dotfiles/.ssh/id"',
        'echo x > "$HOME/.claude/settings.json"',
    ):
        assert world.sh(Kind.WORKER, command, held).returncode, command
    assert world.sh(Kind.WORKER, 'cat "$HOME/.claude/settings.json"', held).stdout == "secret"


def test_landlock_holds_writes_and_signals(world: World) -> None:
    held = confine._floor(world.wanted, lambda name: None)
    if held.means is Means.NONE:
        pytest.skip(held.why)
    assert held.means is Means.LANDLOCK
    assert world.sh(Kind.CHECK, "echo x > new.txt && rm new.txt", held).returncode == 0
    assert world.sh(Kind.CHECK, 'echo x > "$TMPDIR/x"', held).returncode == 0
    assert world.sh(Kind.CHECK, 'echo x > "$HOME/other/x"', held).returncode
    assert world.sh(Kind.CHECK, f"kill -0 {os.getpid()}", held).returncode
    assert (world.home / "other/x").read_text() == "secret"


@pytest.mark.parametrize(
    ("complaint", "why"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        (
            "bwrap: Creating new namespace failed: Operation not permitted",
            "user namespaces are off",
        ),
        ("bwrap: No permissions to create new namespace, likely …", "user namespaces are off"),
        ("bwrap: Creating new namespace failed: No space left on device", "used up"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "/proc"),
        ("bwrap: Unknown option --unshare-cgroup-try", "too old"),
        ("bwrap: Can't bind mount /x on /newroot/x: Input/output error", "Can't bind mount /x"),
    ],
)
def test_why_it_cannot_work_here_is_known(
    world: World, tmp_path: Path, complaint: str, why: str
) -> None:
    broken = tmp_path / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text(f'#!/bin/sh\nprintf "%s\\n" "{complaint}" >&2\nexit 1\n')
    broken.chmod(0o755)

    def find(name: str) -> str | None:
        return str(broken) if name == means.BUBBLEWRAP else None

    with pytest.raises(UsageError, match=r"sandbox = .bwrap. cannot be") as raised:
        chosen(Mode.BWRAP, world.wanted, find)
    assert why in str(raised.value) and raised.value.hint
    assert why in chosen(Mode.AUTO, world.wanted, find).why, "auto goes on, with a word"


def test_a_bwrap_of_the_repository_is_none(world: World) -> None:
    planted = world.root / "bwrap"
    planted.write_text('#!/bin/sh\nshift $(($# - 1)); exec "$@"\n')
    planted.chmod(0o755)
    held = chosen(Mode.AUTO, world.wanted, lambda name: str(planted) if "bwrap" in name else None)
    assert held.means is not Means.BWRAP and "a file of this repository" in held.why


def test_a_mode_that_was_named_and_cannot_be_is_refused(world: World) -> None:
    with pytest.raises(UsageError):
        chosen(Mode.BWRAP, world.wanted, lambda name: None)


# ---------------------------------------------------------------- the relay


class _Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[int]:
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield listening.server_port
    listening.shutdown()
    listening.server_close()


FETCH = "import sys,urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read())"


@needs_bwrap
def test_a_list_of_hosts_is_all_that_is_reached(world: World, tmp_path: Path, server: int) -> None:
    sockets = tmp_path / "s"
    sockets.mkdir()
    place = str(sockets / "commands")
    refused: list[str] = []
    relay = Relay(place, ("127.0.0.1",), refused.append)
    wanted = replace(world.wanted, wishes=Wishes(hosts=()), sockets=sockets)
    held = chosen(Mode.BWRAP, wanted)

    def fetch(url: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-c", FETCH, url]
        confined = held.confine(Kind.CHECK, argv, os.environ)
        return subprocess.run(
            confined.argv, env=dict(confined.env), capture_output=True, text=True, check=False
        )

    assert fetch(f"http://127.0.0.1:{server}/").stdout == "b'ok'\n"
    assert "403" in fetch("http://localhost:1/").stderr
    assert refused == ["localhost:1"]
    direct = f"import socket; socket.create_connection(('127.0.0.1', {server}), 2)"
    confined = held.confine(Kind.CHECK, [sys.executable, "-c", direct], os.environ)
    assert subprocess.run(confined.argv, capture_output=True, check=False).returncode
    relay.close()


def test_connect_passes_bytes_both_ways_and_a_refused_one_gets_none(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def echo() -> None:
        client, _ = listening.accept()
        while data := client.recv(100):
            client.sendall(data.upper())
        client.close()

    threading.Thread(target=echo, daemon=True).start()
    relay = Relay(str(tmp_path / "s"), ("127.0.0.1",), lambda name: None)

    def ask(host: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as out:
            out.connect(relay.place)
            out.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\nabc".encode())
            out.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: out.recv(100), b""))

    assert ask("127.0.0.1").endswith(b"\r\n\r\nABC")
    assert ask("example.com").startswith(b"HTTP/1.1 403")
    relay.close()
    listening.close()


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("api.example.com", True),
        ("API.EXAMPLE.COM.", True),
        ("x.wild.org", True),
        ("wild.org", False),
        ("evilwild.org", False),
        ("api.example.com.evil.org", False),
        ("", False),
    ],
)
def test_hosts_are_whole_names(host: str, passes: bool) -> None:
    assert allowed(host, ("api.example.com", "*.wild.org")) is passes


def test_what_is_no_request_is_none() -> None:
    for head in (b"", b"\r\n", b"GET / HTTP/1.1\r\n", b"GET ftp://x/ HTTP/1.1\r\n", b"a b c d\r\n"):
        with pytest.raises(ValueError):
            target(head)
    assert target(b"CONNECT [::1]:443 HTTP/1.1\r\n")[:2] == ("::1", 443)
