"""The way out of a sandbox: a real relay, real namespaces, servers on loopback."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kern.model import Needs
from kern.person import Holding, Mode
from kern.sandbox import confine
from kern.sandbox.confine import Sandbox, chosen
from kern.sandbox.proxy import Relay, upstream
from kern.sandbox.wall import ANY, Kind, Tree, ports
from tests.conftest import wait_for
from tests.sandbox.test_wall import needs_bwrap


class _Told(BaseHTTPRequestHandler):
    """Answers what it was asked, and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        said = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *args: object) -> None:
        pass


ELSEWHERE = "127.0.0.2"  # for clients no localhost


@pytest.fixture(params=["127.0.0.1"])
def server(request: pytest.FixtureRequest) -> Iterator[int]:
    listening = ThreadingHTTPServer((request.param, 0), _Told)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield listening.server_port
    listening.shutdown()
    listening.server_close()


elsewhere = pytest.mark.parametrize("server", [ELSEWHERE], indirect=True)


class _Open(Relay):
    """To it what is on this machine counts as any other host."""

    def leads_here(self, family: int, address: tuple[object, ...]) -> bool:
        return False


class Net:
    """A sandbox with a relay."""

    def __init__(self, tmp_path: Path, grants: Holding, *, open_to_me: bool = True) -> None:
        confine.homes(tmp_path / "own")
        root = tmp_path / "tree"
        (root / ".git").mkdir(parents=True)
        tree = Tree(root, root / ".git", root / ".git")
        programs = confine.programs(tmp_path / "home", sys.executable)
        wanted = Sandbox(tree, tmp_path / "home", tmp_path / "own", grants, programs=programs)
        self.held = chosen(Mode.BWRAP, replace(wanted, relay=tmp_path / "relay"))
        self.refused: list[str] = []
        relay = _Open if open_to_me else Relay
        self.relay = relay(str(self.held.relay), self.held.hosts, self.refused.append)

    def python(self, code: str) -> "subprocess.CompletedProcess[str]":
        confined = self.held.confine(Kind.CHECK, [sys.executable, "-c", code], os.environ)
        return subprocess.run(
            confined.argv, env=dict(confined.env), capture_output=True, text=True, check=False
        )

    def fetch(self, url: str) -> "subprocess.CompletedProcess[str]":
        """By a client that asks for a proxy."""
        return self.python(
            f"import urllib.request as u; print(u.urlopen({url!r}, timeout=60).read())"
        )


@needs_bwrap
@elsewhere
def test_any_host_is_reached_but_this_machine(tmp_path: Path, server: int) -> None:
    net = Net(tmp_path, Holding(), open_to_me=False)
    said = net.fetch(f"http://{ELSEWHERE}:{server}/")
    assert "403" in said.stderr and net.refused == [f"{ELSEWHERE}:{server}"]
    assert "403" in net.fetch(f"http://{ELSEWHERE}:1/").stderr, "nor what listens there"
    assert "502" in net.fetch("http://nowhere.invalid/").stderr
    direct = f"import socket; socket.create_connection(('{ELSEWHERE}', {server}), 2)"
    assert net.python(direct).returncode, "its loopback is its own"


@needs_bwrap
@elsewhere
def test_a_kept_connection_carries_each_request_to_its_host(tmp_path: Path, server: int) -> None:
    net = Net(tmp_path, Holding())
    code = (
        "import http.client, os; from urllib.parse import urlsplit\n"
        "proxy = urlsplit(os.environ['http_proxy'])\n"
        "c = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=60)\n"
        "for x in ('/one', '/two'):\n"
        f"    url = 'http://{ELSEWHERE}:{server}' + x\n"
        "    c.request('GET', url, headers={'Connection': 'keep-alive'})\n"
        "    print(c.getresponse().read().decode())\n"
    )
    assert net.python(code).stdout.split() == ["/one", "/two"]


@needs_bwrap
def test_a_server_of_its_own_answers_on_localhost(tmp_path: Path) -> None:
    net = Net(tmp_path, Holding(network=()))
    code = (
        "import http.server, threading, urllib.request as u\n"
        "s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
        "print(u.urlopen(f'http://localhost:{s.server_port}/', timeout=60).status)\n"
    )
    assert net.python(code).stdout == "200\n"


@needs_bwrap
def test_a_named_port_of_this_machine_is_there(tmp_path: Path, server: int) -> None:
    net = Net(tmp_path, Holding(network=(f"localhost:{server}",)), open_to_me=False)
    assert net.fetch(f"http://localhost:{server}/x").stdout == "b'/x'\n"


@needs_bwrap
def test_abstract_sockets_are_closed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0kern-test-abstract")
        listening.listen()
        ask = "import socket; socket.socket(socket.AF_UNIX).connect('\\0kern-test-abstract')"
        assert Net(tmp_path, Holding()).python(ask).returncode


def test_what_a_child_may_reach_is_the_persons_list_and_what_agents_need() -> None:
    tree = Tree(Path("/r"), Path("/r/.git"), Path("/r/.git"))
    needs = {"a": Needs(hosts=("api.example", "127.0.0.1:4141"))}

    def hosts(network: tuple[str, ...] | None, **agents: Needs) -> tuple[str, ...]:
        return Sandbox(tree, Path("/h"), Path("/o"), Holding(network=network), agents).hosts

    assert hosts(None) == (ANY,)
    assert hosts(None, **needs) == (ANY, "api.example", "127.0.0.1:4141")
    assert hosts(("localhost:5432",)) == ("localhost:5432", ANY), "a port narrows nothing"
    assert hosts(("x.org",)) == ("x.org",)
    assert hosts(()) == ()
    assert hosts((), **needs) == ("api.example", "127.0.0.1:4141")
    assert ports(hosts(None, **needs)) == (4141,)


@needs_bwrap
def test_behind_a_proxy_of_the_persons_own_it_asks_that_one(
    tmp_path: Path, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which hears the whole address, and its password, which no child has seen."""
    net = Net(tmp_path, Holding(network=("open.invalid",)))
    monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{server}")
    monkeypatch.delenv("no_proxy", raising=False)
    asked = net.fetch("http://open.invalid/x")
    assert asked.stdout == "b'http://open.invalid/x'\n", asked.stderr
    assert "secret" not in net.python("import os; print(dict(os.environ))").stdout
    assert "403" in net.fetch("http://other.invalid/").stderr
    *_, field = upstream("open.invalid") or ("",)
    assert field == b"Proxy-Authorization: Basic bWU6c2VjcmV0"


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Relay]:
    """Its children are sockets of this process."""
    relay = _Open(str(tmp_path / "relay"), (ANY,), lambda host: None)
    yield relay
    relay.close()


def _child(relay: Relay, handed: int) -> socket.socket:
    here, there = socket.socketpair()
    with there, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
        way.connect(relay.place)
        socket.send_fds(way, [b"\0"], [there.fileno(), handed])
    return here


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def connected(relay: Relay) -> Iterator[tuple[socket.socket, socket.socket, socket.socket]]:
    """A child, its connection through the relay, and what that has reached."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        child = _child(relay, listening.fileno())
        with socket.create_connection(listening.getsockname(), 5) as client:
            client.sendall(f"CONNECT 127.0.0.1:{server.getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
            assert b"200" in client.recv(100)
            reached = server.accept()[0]
            with child, reached:
                yield child, client, reached


@pytest.mark.skipif(sys.platform != "linux", reason="counts by /proc")
def test_nothing_is_left_of_a_child_whose_server_stays_silent(bare: Relay) -> None:
    before = _files()
    with connected(bare) as (child, _, _):
        child.close()
        wait_for(lambda: _files() == before + 4)  # two listen, and these two


def test_who_has_said_all_is_answered(bare: Relay) -> None:
    with connected(bare) as (_, client, server):
        client.sendall(b"x" * 100_000)
        client.shutdown(socket.SHUT_WR)
        with server.makefile("rb") as asked:
            assert len(asked.read()) == 100_000
        server.sendall(b"answer")
        assert client.recv(100) == b"answer"


@pytest.mark.skipif(sys.platform != "linux", reason="counts by /proc")
def test_nothing_is_left_of_what_is_no_socket(bare: Relay, tmp_path: Path) -> None:
    before = _files()
    with (tmp_path / "file").open("w") as file, socket.socket(socket.AF_UNIX) as own:
        for handed in ((file, file), (own, file), (file, own), (own, own), (file,), (own,) * 3):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
                way.connect(bare.place)
                socket.send_fds(way, [b"\0"], [one.fileno() for one in handed])
    wait_for(lambda: _files() <= before)
