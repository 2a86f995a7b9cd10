"""The way out of a sandbox without a network: kern serves the ports that `entry` opened within, as
an HTTP proxy to the hosts that are allowed, and to named ports of this machine's loopback.
"""

import asyncio
import base64
import contextlib
import functools
import ipaddress
import os
import re
import socket
import stat
import threading
import urllib.request
from asyncio import StreamReader, StreamWriter, TaskGroup
from collections.abc import Callable, Collection
from urllib.parse import unquote, urlsplit

from kern import plain
from kern.sandbox import wall

_CHUNK = 65_536
_ENDS = (OSError, ValueError, EOFError, asyncio.LimitOverrunError)  # of a connection
_CONNECT_S = 30.0
_END = b"\r\n\r\n"
_REFUSED = b"HTTP/1.1 403 Forbidden by kern\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_OPEN = b"HTTP/1.1 200 OK\r\n\r\n"
_CLOSE = b"Connection: close"
_OF_CONNECTION = (b"proxy-", b"connection:", b"keep-alive:")
Stream = tuple[StreamReader, StreamWriter]
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


def headed(head: bytes, first: bytes, *fields: bytes) -> bytes:
    """A head with that line and those fields, without what concerned its connection."""
    lines = (one for one in head.split(b"\r\n")[1:] if not one.lower().startswith(_OF_CONNECTION))
    return b"\r\n".join((first, *filter(None, (*lines, *fields)), b"", b""))


def upstream(host: str) -> tuple[str, int, bytes] | None:
    """The proxy behind which this machine stands, by the person's own environment: its host, its
    port, the field with its password.
    """
    proxies = urllib.request.getproxies()
    parts = urlsplit(proxies.get("https") or proxies.get("http") or "")
    if not parts.hostname or urllib.request.proxy_bypass(host):
        return None
    login = ":".join(unquote(one) for one in (parts.username, parts.password) if one is not None)
    field = b"Proxy-Authorization: Basic " + base64.b64encode(login.encode())
    return parts.hostname, parts.port or 80, field if login else b""


class Relay:
    """Serves in a thread of its own until it is closed."""

    def __init__(self, place: str, hosts: Collection[str], refused: Callable[[str], None]) -> None:
        """`refused` hears `host:port`, once each."""
        self.place, self.hosts, self.refused = place, hosts, functools.cache(refused)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(place)
        self._loop, self._ended = asyncio.new_event_loop(), asyncio.Event()
        self._loop.set_exception_handler(lambda *_: None)  # the screen is the person's
        self._loop.add_reader(self._socket, self._arrive)
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.remove_reader, self._socket)
        self._loop.call_soon_threadsafe(self._ended.set)

    def _run(self) -> None:
        """It ends what is still under way."""
        with self._socket, asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._ended.wait())

    def _arrive(self) -> None:
        """A child hands over one end of what tells that it is gone, and its listening sockets."""
        numbers = socket.recv_fds(self._socket, 1, 2 + len(wall.ports(self.hosts)))[1]
        if all(stat.S_ISSOCK(os.fstat(one).st_mode) for one in numbers):
            handed = [socket.socket(fileno=one) for one in numbers]
            self._loop.create_task(self._serve_child(*handed))
        else:
            for one in numbers:
                os.close(one)

    async def _serve_child(self, *handed: socket.socket) -> None:
        """Until it is gone, which ends what is under way."""
        with contextlib.suppress(*_ENDS, ExceptionGroup), contextlib.ExitStack() as served:
            child, *listening = map(served.enter_context, handed)
            child.setblocking(False)
            async with TaskGroup() as connections:
                for one, port in zip(listening, (0, *wall.ports(self.hosts)), strict=True):
                    serve = functools.partial(self._begin, connections, port)
                    served.callback((await asyncio.start_server(serve, sock=one)).close)
                await self._loop.sock_recv(child, 1)
                raise EOFError

    def _begin(self, tasks: TaskGroup, port: int, client: StreamReader, back: StreamWriter) -> None:
        tasks.create_task(self._serve(port, (client, back)))

    async def _serve(self, port: int, child: Stream) -> None:
        with contextlib.suppress(*_ENDS), contextlib.closing(child[1]):
            if port:
                await _splice(child, await _connected("127.0.0.1", port))
            else:
                await self._forward(*child)

    async def _forward(self, client: StreamReader, back: StreamWriter) -> None:
        head = await client.readuntil(_END)
        host, port, line = request(head)
        proxy = upstream(host)
        try:
            server, out = await self._reached(host, port, proxy and proxy[:2])
        except PermissionError:
            self.refused(f"{plain.line(host, 100)}:{port}")
            back.write(_REFUSED)
            return
        except OSError:
            back.write(_FAILED)
            return
        if proxy or line:
            first = head.partition(b"\r\n")[0] if proxy else line
            out.write(headed(head, first, proxy[2] if proxy else b"", _CLOSE if line else b""))
        with contextlib.closing(out):
            if not line:
                answer = await server.readuntil(_END) if proxy else _OPEN
                back.write(answer)
                if not re.match(rb"HTTP/\S+ 2\d\d ", answer):
                    return  # the proxy may wait for another host's name
            await _splice((client, back), (server, out), once=bool(line))

    async def _reached(self, host: str, port: int, proxy: tuple[str, int] | None) -> Stream:
        """The host, or the proxy that leads there. Raises PermissionError for what is not to be
        reached. A name is looked up once: the next time it may lead elsewhere.
        """
        if not wall.reaches(host, self.hosts):
            raise PermissionError(host)
        with contextlib.suppress(socket.gaierror) if proxy else contextlib.nullcontext():
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            if any(self.leads_here(family, address) for family, *_, address in found):
                raise PermissionError(host)
        for name, there in [proxy] if proxy else [one[4][:2] for one in found]:
            with contextlib.suppress(OSError):
                return await _connected(str(name), int(there))
        raise ConnectionError(host)

    def leads_here(self, family: int, address: tuple[object, ...]) -> bool:
        """Whether this machine itself answers there, or its neighbour that hands out keys: by a
        socket that sends nothing, as a child is not to learn either what listens here.
        """
        ip = ipaddress.ip_address(str(address[0]).partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if ip.is_loopback or ip.is_link_local or ip.is_unspecified or str(ip) in _METADATA:
            return True
        with socket.socket(family, socket.SOCK_DGRAM) as way, contextlib.suppress(OSError):
            way.connect(address)
            return bool(way.getpeername()[0] == way.getsockname()[0])
        return False  # nobody is there


async def _connected(host: str, port: int) -> Stream:
    async with asyncio.timeout(_CONNECT_S):
        return await asyncio.open_connection(host, port)


async def _splice(child: Stream, server: Stream, *, once: bool = False) -> None:
    """Both ways, until the server has said all. `once`: for one request."""
    asks = asyncio.create_task(_pump(child[0], server[1]))
    with contextlib.closing(server[1]):
        try:
            await _pump(server[0], child[1], ends=once)
        finally:
            asks.cancel()


async def _pump(source: StreamReader, sink: StreamWriter, *, ends: bool = False) -> None:
    """`ends`: its head tells besides that this connection carries no other request."""
    with contextlib.suppress(*_ENDS):
        if ends:
            head = await source.readuntil(_END)
            sink.write(headed(head, head.partition(b"\r\n")[0], _CLOSE))
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.write_eof()
