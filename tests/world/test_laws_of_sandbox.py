"""Laws of the sandbox: whatever a child sends to the way out, leaves in the place of its login, or
prints where it fails.
"""

import contextlib
import os
import random
import socket
import threading
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import BinaryIO

import pytest

from kern.sandbox.proxy import Relay
from kern.sandbox.wall import ANY
from tests.conftest import patience
from tests.words.test_plain import UNSAFE
from tests.world.test_laws import even_law, noise

# -------------------------------------------------------------------- the way out

ELSEWHERE = "127.0.0.2"  # stands for a host of the world's
OURS = ("localhost", "[::1]", "127.0.0.1", "169.254.169.254", "168.63.129.16", "[::]")
NAMED = (ELSEWHERE, "open.invalid", "*.wild.invalid")
OPEN = (ELSEWHERE, "open.invalid", "OPEN.INVALID.", "x.wild.invalid")
OTHERS = ("wild.invalid", "evilwild.invalid", "open.invalid.evil.invalid", "255.255.255.255", "")
HOSTS = (*[ELSEWHERE] * 3, *OPEN, *OURS, *OTHERS)
FIELDS = ("Proxy-Authorization: own", "Connection: keep-alive", "Keep-Alive: 9", "X: 1")
END, BODY = b"\r\n\r\n", b"what follows\r\n\r\n"
ANSWERS = (*[b"HTTP/1.1 200 x" + END, b"HTTP/1.1 503 x" + END] * 2, b"x", b"")


class World(Relay):
    """To it one address of this machine is elsewhere."""

    def leads_here(self, family: int, address: tuple[object, ...]) -> bool:
        return address[0] != ELSEWHERE and super().leads_here(family, address)


class Server:
    """What may be reached, and the proxy behind which this machine stands."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.heard, self.busy = answer, b"", threading.Lock()
        self.listening = socket.create_server(("", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                with self.busy, client, contextlib.suppress(OSError):
                    self.hear(client, client.makefile("rb"))

    def hear(self, client: socket.socket, file: BinaryIO) -> None:
        for line in file:
            self.heard += line
            if not line.strip():
                break
        client.sendall(self.answer)
        if not self.answer.endswith(END):
            client.shutdown(socket.SHUT_WR)
        self.heard += file.read()

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()


@contextlib.contextmanager
def standing(hosts: tuple[str, ...], behind: str) -> Iterator[tuple[Relay, list[str]]]:
    """A relay on a machine that reaches the world by that proxy, and what it refuses."""
    refused = list[str]()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        patch.setenv("https_proxy", behind)
        with contextlib.closing(World(f"{folder}/relay", hosts, refused.append)) as relay:
            yield relay, refused


def answered(relay: Relay, data: bytes, kinds: str) -> bytes:
    """What a child hears on the last port that it hands over; `f`: a file in the place of one."""
    here, there = socket.socketpair()
    with contextlib.ExitStack() as stack, contextlib.suppress(ConnectionError):
        stack.enter_context(here)
        ports = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in kinds]
        address, null = ports[-1].getsockname(), os.open(os.devnull, os.O_RDONLY)
        handed = [
            one.fileno() if kind == "s" else null for kind, one in zip(kinds, ports, strict=True)
        ]
        with there, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.connect(relay.place)
            socket.send_fds(way, [b"\0"], [there.fileno(), *handed])
        os.close(null)
        for one in ports:
            one.close()
        client = stack.enter_context(socket.create_connection(address))
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return stack.enter_context(client.makefile("rb")).read()
    return b""


@even_law
def test_whatever_a_child_sends_reaches_no_host_that_is_not_open_to_it(
    chance: random.Random,
) -> None:
    hosts, answer = chance.choice((*[(ANY,), NAMED] * 3, ())), chance.choice(ANSWERS)
    behind = chance.choice(("", "http://me:pw@127.0.0.1:{}", "http://127.0.0.1:{}"))
    with contextlib.closing(Server(answer)) as server, patience(60):
        local = chance.choice((*[()] * 4, (f"localhost:{server.port}",)))
        with standing((*hosts, *local), behind.format(server.port)) as (relay, refused):
            for _ in range(8):
                server.heard = b""
                refused.clear()
                host, port = chance.choice(HOSTS), chance.choice((*[server.port] * 5, 1, "x", ""))
                is_open = bool(hosts) and (host in OPEN if hosts == NAMED else host not in OURS)
                line, data = sent(chance, host, port)
                kinds = "ss" if local else chance.choice((*"ssssssf", "ss"))
                back = answered(relay, data, kinds)
                with server.busy:
                    heard = server.heard
                ours = tuple(b"HTTP/1.1 " + status for status in (b"200 OK", b"403 ", b"502 "))
                assert not back or back.startswith((answer[:14], *ours))
                if local:  # it asks that port, not the way out
                    assert data.startswith(heard)
                    continue
                assert (is_open and kinds == "s") or not heard, "it got out"
                refuses = behind and line.startswith("CONNECT") and b"503" in back
                assert b"own" not in heard and not (refuses and END + BODY in heard)
                assert not any(UNSAFE.search(one) for one in refused)
                if kinds == "s" and line == f"CONNECT {host}:{server.port}" and END + BODY in data:
                    assert is_open is (b"403" not in back)


def sent(chance: random.Random, host: str, port: object) -> tuple[str, bytes]:
    """The first line, and all that a child sends."""
    url = chance.choice((f"http://{host}:{port}/x?y", f"http://{host}:{port}", "/", "file:///"))
    connect = f"CONNECT {host}:{port}"
    line = chance.choice((*[connect] * 4, *[f"GET {url}"] * 4, f"CONNECT {host}", ""))
    fields = chance.sample(FIELDS, chance.randrange(len(FIELDS)))
    head = "\r\n".join((f"{line} HTTP/1.1", *fields)).encode() + END
    return line, chance.choice((*[head] * 6, head[:-2], noise(chance))) + BODY
