"""The way out of a sandbox without a network: an HTTP proxy behind a Unix socket, which passes on
what goes to a list of hosts and refuses the rest.

Within the sandbox this file is started as a program of its own, between the sandbox and the
command: `python relay.py SOCKET -- COMMAND…`. It listens on the loopback of that network, says so
in the variables that programs heed, and hands everything on to the socket.
"""

import contextlib
import os
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

_MOST_HEAD = 65_536  # bytes
_CHUNK = 65_536
_CONNECT_S = 30.0
_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_REFUSED = b"HTTP/1.1 403 Forbidden by kern\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_OPEN = b"HTTP/1.1 200 OK\r\n\r\n"


def allowed(host: str, hosts: Collection[str]) -> bool:
    """`example.com` is itself alone, `*.example.com` all that ends so."""
    host = host.lower().rstrip(".")
    return any(
        host == one.lower() or (one.startswith("*.") and host.endswith(one[1:].lower()))
        for one in hosts
    )


def target(head: bytes) -> tuple[str, int, bytes]:
    """Host and port that a request's head names, and what the server is to be told first; nothing
    of it after CONNECT. Raises ValueError.
    """
    line, _, rest = head.partition(b"\r\n")
    method, url, version = line.decode("latin-1").split(" ")
    if method == "CONNECT":
        host, _, port = url.rpartition(":")
        return host.strip("[]"), int(port), b""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = [one for one in rest.split(b"\r\n") if not one.lower().startswith(b"proxy-")]
    told = f"{method} {path} {version}\r\n".encode("latin-1") + b"\r\n".join(fields)
    return parts.hostname, parts.port or 80, told


class Relay:
    """Serves in threads of this process until it is closed."""

    def __init__(self, place: str, hosts: Collection[str], refused: Callable[[str], None]) -> None:
        self.place = place
        self.hosts = hosts
        self.refused = refused  # told `host:port`, once each
        self._told: set[str] = set()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(place)
        os.chmod(place, 0o600)
        self._socket.listen(64)
        threading.Thread(target=_accept, args=(self._socket, self._serve), daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self.place)

    def _serve(self, client: socket.socket) -> None:
        head = _head(client)
        first, gap, body = head.partition(b"\r\n\r\n")
        host, port, told = target(first + gap)
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if not (allowed(host, self.hosts) or name in self.hosts):
            if name not in self._told:
                self._told.add(name)
                self.refused(name)
            client.sendall(_REFUSED)
            return
        with socket.create_connection((host, port), _CONNECT_S) as server:
            server.settimeout(None)
            if told:
                server.sendall(told + body)
            else:
                client.sendall(_OPEN)
                server.sendall(body)
            _splice(client, server)


def _accept(listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:  # closed
            return
        threading.Thread(target=_one, args=(client, serve), daemon=True).start()


def _one(client: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with contextlib.suppress(OSError, ValueError), client:
        serve(client)


def _head(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD:
        data = client.recv(_CHUNK)
        if not data:
            break
        head += data
    return head


def _splice(one: socket.socket, other: socket.socket) -> None:
    """Both ways, until both have said all."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while ready.get_map():
            for key, _ in ready.select():
                source, sink = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                if data := source.recv(_CHUNK):
                    sink.sendall(data)
                else:
                    ready.unregister(source)
                    with contextlib.suppress(OSError):
                        sink.shutdown(socket.SHUT_WR)


# ---------------------------------------------------------------- within the sandbox


def _hand_on(place: str) -> Callable[[socket.socket], None]:
    def serve(client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as out:
            out.connect(place)
            _splice(client, out)

    return serve


def _within(place: str, command: list[str]) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    if os.fork() == 0:  # ends with the sandbox's processes
        _accept(listening, _hand_on(place))
        os._exit(0)
    listening.close()
    for name in _VARIABLES:
        os.environ[name] = os.environ[name.lower()] = url
    for name in ("NO_PROXY", "no_proxy"):
        os.environ.pop(name, None)
    os.execvp(command[0], command)


if __name__ == "__main__":
    _within(sys.argv[1], sys.argv[3:])
