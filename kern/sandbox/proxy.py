"""The way out of a sandbox without a network: kern serves the ports that `entry` opened within, as
an HTTP proxy to the hosts that are allowed, and to named ports of this machine's loopback.
"""

import base64
import contextlib
import functools
import ipaddress
import re
import select
import socket
import threading
import urllib.request
from collections.abc import Callable, Collection
from socket import socket as Socket
from urllib.parse import unquote, urlsplit

from kern import plain
from kern.sandbox import wall

_CHUNK = 65_536  # bytes: a head is no longer
_ENDS = (OSError, ValueError)  # of a connection
_CONNECT_S = 30.0
_END = b"\r\n\r\n"
_NOT = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_OPEN = b"HTTP/1.1 200 OK\r\n\r\n"
_CLOSE = b"Connection: close"
_OF_CONNECTION = (b"proxy-", b"connection:", b"keep-alive:")
# Beside those of the link: neighbours that hand out a machine's keys.
_METADATA = ["fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"]


def request(head: bytes) -> tuple[str, int, bytes]:
    """Host, port, and the first line for the server there; of a CONNECT, which it does not hear, an
    empty one. Raises ValueError.
    """
    method, url, version = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if method == "CONNECT":
        host, _, port = url.rpartition(":")
        return host.strip("[]"), int(port), b""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.hostname, parts.port or 80, f"{method} {path} {version}".encode("latin-1")


def headed(head: bytes, line: bytes, *fields: bytes) -> bytes:
    """A head with another first line, if one is given, and those fields, without what concerned its
    connection.
    """
    first, *lines = head.split(b"\r\n")
    kept = (one for one in lines if not one.lower().startswith(_OF_CONNECTION))
    return b"\r\n".join((line or first, *filter(None, (*kept, *fields)), b"", b""))


def upstream(host: str) -> tuple[tuple[str, int] | None, bytes]:
    """The proxy behind which this machine stands, by the person's own environment, and the field
    with its password.
    """
    proxies = urllib.request.getproxies()
    parts = urlsplit(proxies.get("https") or proxies.get("http") or "")
    if not parts.hostname or urllib.request.proxy_bypass(host):
        return None, b""
    login = ":".join(unquote(one) for one in (parts.username, parts.password) if one is not None)
    field = b"Proxy-Authorization: Basic " + base64.b64encode(login.encode())
    return (parts.hostname, parts.port or 80), field if login else b""


def leads_here(family: int, address: tuple[object, ...]) -> bool:
    """Whether this machine itself is there, or its neighbour that hands out keys: by a socket that
    sends nothing, as a child is not to learn either what listens here.
    """
    with Socket(family, socket.SOCK_DGRAM) as way, contextlib.suppress(OSError):
        way.connect(address)
        ends = way.getpeername(), way.getsockname()
        there, here = (ipaddress.ip_address(str(end[0]).partition("%")[0]) for end in ends)
        real = getattr(there, "ipv4_mapped", None) or there
        near = real.is_loopback or real.is_link_local or real.is_unspecified
        return there == here or near or str(real) in _METADATA
    return False  # nobody is there


class Relay:
    """Serves in threads of its own, each child for as long as it is there."""

    def __init__(self, place: str, hosts: Collection[str], refused: Callable[[str], None]) -> None:
        """`refused` hears `host:port`, once each."""
        self._hosts, self._ports = hosts, (0, *wall.ports(hosts))
        self._refused = functools.cache(refused)
        self._socket = Socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(place)
        _start(self._listen)

    def _listen(self) -> None:
        while True:
            numbers = socket.recv_fds(self._socket, 1, 1 + len(self._ports))[1]
            _start(self._serve_child, numbers)

    def _serve_child(self, numbers: Collection[int]) -> None:
        """It hands over one end of what tells that it is gone, and its listening sockets."""
        with contextlib.suppress(*_ENDS), contextlib.ExitStack() as served:
            handed = [served.enter_context(Socket(fileno=one)) for one in numbers]
            child, ports = handed[0], dict(zip(handed[1:], self._ports, strict=True))
            while child not in (ready := select.select(handed, (), ())[0]):
                for one in ready:
                    _start(self._serve, one.accept()[0], ports[one], child)

    def _serve(self, client: Socket, port: int, child: Socket) -> None:
        with contextlib.suppress(*_ENDS), client:
            if port:
                with _connected("127.0.0.1", port) as server:
                    _splice(client, server, child)
            else:
                self._forward(client, child)

    def _forward(self, client: Socket, child: Socket) -> None:
        head, more = _head(client)
        host, port, line = request(head)
        proxy, field = upstream(host)
        try:
            server = self._reached(host, port, proxy)
        except PermissionError:
            self._refused(f"{plain.line(host, 100)}:{port}")
            return client.sendall(_NOT % b"403 Forbidden by kern")
        except OSError:
            return client.sendall(_NOT % b"502 Bad Gateway")
        with server:
            if proxy or line:
                close = _CLOSE if line else b""
                server.sendall(headed(head, b"" if proxy else line, field, close))
            if not line:
                answer, early = _head(server) if proxy else (_OPEN, b"")
                client.sendall(answer + early)
                if not re.match(rb"HTTP/\S+ 2\d\d ", answer):
                    return None  # the proxy may wait for another host's name
            server.sendall(more)
            return _splice(client, server, child, once=bool(line))

    def _reached(self, host: str, port: int, proxy: tuple[str, int] | None) -> Socket:
        """The host, or the proxy that leads there. Raises PermissionError for what is not to be
        reached. A name is looked up once: the next time it may lead elsewhere.
        """
        if not wall.reaches(host, self._hosts):
            raise PermissionError(host)
        with contextlib.suppress(socket.gaierror) if proxy else contextlib.nullcontext():
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            if any(leads_here(family, address) for family, *_, address in found):
                raise PermissionError(host)
        for name, there in [proxy] if proxy else [one[4][:2] for one in found]:
            with contextlib.suppress(OSError):
                return _connected(str(name), int(there))
        raise ConnectionError(host)


def _start(work: Callable[..., None], *given: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=given, daemon=True)
    thread.start()
    return thread


def _connected(host: str, port: int) -> Socket:
    server = socket.create_connection((host, port), _CONNECT_S)
    server.settimeout(None)
    return server


def _head(source: Socket) -> tuple[bytes, bytes]:
    """And what follows it already. Raises OSError, ValueError."""
    data = b""
    while _END not in data:
        more = source.recv(_CHUNK)
        if not more or len(data) > _CHUNK:
            raise ValueError("no head")
        data += more
    head, end, rest = data.partition(_END)
    return head + end, rest


def _splice(client: Socket, server: Socket, child: Socket, *, once: bool = False) -> None:
    """Both ways, until the server has said all or the child is gone. `once`: the answer tells
    besides that this connection carries no other request.
    """
    asking = _start(_pump, client, server, child)
    with contextlib.suppress(*_ENDS):
        if once:
            head, more = _head(server)
            client.sendall(headed(head, b"", _CLOSE) + more)
        _pump(server, client, child)
    for one in (client, server):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    asking.join()


def _pump(source: Socket, sink: Socket, child: Socket) -> None:
    with contextlib.suppress(*_ENDS):
        while child not in select.select((source, child), (), ())[0] and (
            data := source.recv(_CHUNK)
        ):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
