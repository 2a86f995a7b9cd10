"""The way out of a sandbox without a network: kern serves the ports that `entry` opened within, as
an HTTP proxy to the hosts that are allowed, and to named ports of this machine's loopback.
"""

import base64
import contextlib
import errno
import ipaddress
import os
import re
import socket
import stat
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from urllib.parse import unquote, urlsplit

from kern import plain
from kern.frozen import frozen

_MOST_HEAD = 65_536  # bytes
_CHUNK = 65_536
_CONNECT_S = 30.0
# Of an `accept`: the files of a process are used up for now, or who called is gone.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ECONNABORTED)
_PAUSE_S = 0.2
_REFUSED = b"HTTP/1.1 403 Forbidden by kern\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_OPEN = b"HTTP/1.1 200 OK\r\n\r\n"
ANY = "*.*"  # any host but this machine
_OF_CONNECTION = (b"proxy-", b"connection:", b"keep-alive:")
_LOCAL = ("localhost", "127.0.0.1", "::1", "[::1]")


def ports(hosts: Collection[str] | None) -> tuple[int, ...]:
    """Of this machine's loopback, as `localhost:5432` among the hosts names them."""
    found = [one.rpartition(":") for one in hosts or ()]
    return tuple(sorted({int(p) for name, _, p in found if name in _LOCAL and p.isdecimal()}))


def allowed(host: str, hosts: Collection[str] | None) -> bool:
    """`example.com` is itself alone, `*.example.com` all that ends so."""
    host = host.lower().rstrip(".")
    return (
        hosts is None
        or ANY in hosts
        or any(
            host == one.lower() or (one.startswith("*.") and host.endswith(one[1:].lower()))
            for one in hosts
        )
    )


def target(head: bytes) -> tuple[str, int, bytes]:
    """Host and port that a request's head names, and what the server is to be told first; nothing
    of it after CONNECT. One connection carries one request: the next may be for another host.
    Raises ValueError.
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
    first = f"{method} {path} {version}".encode("latin-1")
    lines = (first, *_of_one_request(rest.split(b"\r\n")), b"", b"")
    return parts.hostname, parts.port or 80, b"\r\n".join(lines)


class Relay:
    """Serves in threads of this process until it is closed."""

    def __init__(
        self,
        place: str,
        hosts: Collection[str] | None,
        refused: Callable[[str], None],
        closed: "Callable[[socket.socket], bool] | None" = None,
    ) -> None:
        """`closed`: whether what was connected to is not to be reached: see `is_own`."""
        self.place = place
        self.hosts = hosts
        self.closed = closed or is_own
        self.ports = ports(hosts)
        self.refused = refused  # told `host:port`, once each
        self._told: set[str] = set()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(place)
        os.chmod(place, 0o600)
        self._socket.listen(64)
        _thread(self._entries)

    def close(self) -> None:
        _end(self._socket)
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self.place)

    def _entries(self) -> None:
        """One for each child: the sockets that it opened are served until it is gone."""
        for child in _accepted(self._socket):
            _thread(self._child, child)

    def _child(self, child: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), child:
            served = _received(child, 1 + len(self.ports))
            servers = set[socket.socket]()  # that it talks to: one may be silent for ever
            for listening, port in zip(served, (0, *self.ports), strict=True):
                _thread(_accept, listening, partial(self._serve, port, servers))
            child.recv(1)
            for listening in served:
                _end(listening)
                listening.close()
            for server in [*servers]:
                _end(server)

    def _serve(self, port: int, servers: set[socket.socket], client: socket.socket) -> None:
        if port:
            with (
                socket.create_connection(("127.0.0.1", port), _CONNECT_S) as server,
                _among(servers, server),
            ):
                _splice(client, server)
            return
        head = _head(client)
        first, gap, body = head.partition(b"\r\n\r\n")
        host, port, told = target(first + gap)
        try:
            server = self._connected(host, port)
        except PermissionError:
            self._refuse(f"{plain.line(host, 100)}:{port}")
            client.sendall(_REFUSED)
            return
        except OSError:
            client.sendall(_FAILED)
            return
        with server, _among(servers, server):
            if proxy := upstream(host):
                server.sendall(proxy.request(first))
            elif told:
                server.sendall(told)
            else:
                client.sendall(_OPEN)
            server.sendall(body)
            _splice(client, server, last=bool(told))

    def _refuse(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            self.refused(name)

    def _connected(self, host: str, port: int) -> socket.socket:
        """To the host, or to the proxy that leads there. Raises PermissionError for what is not to
        be reached.
        """
        if not allowed(host, self.hosts):
            raise PermissionError(host)
        proxy = upstream(host)
        with contextlib.suppress(socket.gaierror) if proxy else contextlib.nullcontext():
            for family, *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                if self._leads_here(family, address):  # the proxy may be on this machine
                    raise PermissionError(host)
        if proxy:
            return socket.create_connection((proxy.host, proxy.port), _CONNECT_S)
        server = socket.create_connection((host, port), _CONNECT_S)
        if self.closed(server):  # by now the name may lead elsewhere
            server.close()
            raise PermissionError(host)
        return server

    def _leads_here(self, family: int, address: tuple[object, ...]) -> bool:
        """By a socket that sends nothing: a child is not to learn either what listens here."""
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            try:
                way.connect(address)
            except OSError:
                return False  # nobody is there
            return self.closed(way)


@frozen
class Upstream:
    """The proxy behind which this machine stands, by the person's own environment."""

    host: str
    port: int
    login: str  # empty, or `name:password`

    def request(self, head: bytes) -> bytes:
        """Of a child's request what this proxy is to hear."""
        line, *fields = filter(None, head.split(b"\r\n"))
        kept = [one for one in fields if not one.lower().startswith(b"proxy-")]
        kept = kept if line.startswith(b"CONNECT ") else _of_one_request(kept)
        word = base64.b64encode(self.login.encode())
        known = [b"Proxy-Authorization: Basic " + word] if self.login else []
        return b"\r\n".join((line, *kept, *known, b"", b""))


def upstream(host: str) -> Upstream | None:
    found = urllib.request.getproxies()
    parts = urlsplit(found.get("https") or found.get("http") or "")
    if not parts.hostname or urllib.request.proxy_bypass(host):
        return None
    names = [unquote(one) for one in (parts.username, parts.password) if one is not None]
    return Upstream(parts.hostname, parts.port or 80, ":".join(names))


def is_own(server: socket.socket) -> bool:
    """Whether this machine itself answers, or its neighbour that hands out keys."""
    there, here = (
        str(end[0]).partition("%")[0] for end in (server.getpeername(), server.getsockname())
    )
    address = ipaddress.ip_address(there)
    mapped = getattr(address, "ipv4_mapped", None) or address
    return there == here or mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified


def _thread(run: Callable[..., None], *given: object) -> threading.Thread:
    thread = threading.Thread(target=run, args=given, daemon=True)
    thread.start()
    return thread


def _received(child: socket.socket, count: int) -> Sequence[socket.socket]:
    """The listening sockets that it hands over. Raises ValueError."""
    _, numbers, _, _ = socket.recv_fds(child, 1, count)
    if len(numbers) != count or not all(stat.S_ISSOCK(os.fstat(one).st_mode) for one in numbers):
        for number in numbers:
            os.close(number)
        raise ValueError("something else")
    return [socket.socket(fileno=number) for number in numbers]


def _accepted(listening: socket.socket) -> Iterator[socket.socket]:
    """Until it is closed."""
    while True:
        try:
            yield listening.accept()[0]
        except OSError as exc:
            if exc.errno not in _PASSING:
                return
            time.sleep(_PAUSE_S)


def _end(one: socket.socket) -> None:
    """Wakes who waits in it."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _among(servers: set[socket.socket], server: socket.socket) -> Iterator[None]:
    servers.add(server)
    try:
        yield
    finally:
        servers.discard(server)


def _accept(listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    def one(client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), client:
            serve(client)

    for client in _accepted(listening):
        _thread(one, client)


def _head(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MOST_HEAD:
        data = client.recv(_CHUNK)
        if not data:
            break
        head += data
    return head


def _pass_answer(server: socket.socket, client: socket.socket) -> None:
    """Its head, which tells the client besides that this connection carries no other request."""
    data = b""
    while part := server.recv(_CHUNK):
        data += part
        while b"\r\n\r\n" in data:
            head, _, data = data.partition(b"\r\n\r\n")
            if re.match(rb"HTTP/\S+ 1\d\d ", head):  # another follows
                client.sendall(head + b"\r\n\r\n")
                continue
            first, *fields = head.split(b"\r\n")
            lines = (first, *_of_one_request(fields), b"", data)
            client.sendall(b"\r\n".join(lines))
            return
    client.sendall(data)


def _of_one_request(fields: Iterable[bytes]) -> list[bytes]:
    kept = [one for one in fields if one and not one.lower().startswith(_OF_CONNECTION)]
    return [*kept, b"Connection: close"]


def _splice(client: socket.socket, server: socket.socket, *, last: bool = False) -> None:
    """Both ways, until both have said all. `last`: the client sends one request."""
    server.settimeout(None)
    back = _thread(_pump, client, server)
    if last:
        _pass_answer(server, client)
    _pump(server, client)
    back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
