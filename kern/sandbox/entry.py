"""Started within a sandbox that has a network of its own, before its command: opens the ports that
kern serves there, hands them to kern, and becomes the command.

A program of its own, `python entry.py SOCKET PORT… -- COMMAND…`, for each child of a run: it loads
next to nothing (13 ms in place of 27).
"""

import _socket
import os
import struct
import sys

_PROXY = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY")
_LOCAL = "localhost,127.0.0.1,::1"
_JAVA = "-D{0}.proxyHost=127.0.0.1 -D{0}.proxyPort={1}"


def _listening(port: int) -> "_socket.socket":
    found = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    found.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    found.listen(64)
    return found


def _announce(port: int) -> None:
    """To programs that ask for a proxy, each in its own way."""
    for name in _PROXY:
        os.environ[name] = os.environ[name.lower()] = f"http://127.0.0.1:{port}"
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = _LOCAL
    os.environ["NODE_USE_ENV_PROXY"] = "1"
    told = " ".join(_JAVA.format(scheme, port) for scheme in ("http", "https"))
    for name in ("MAVEN_OPTS", "GRADLE_OPTS"):
        os.environ[name] = f"{os.environ.get(name, '')} {told}".strip()


def main(place: str, *rest: str) -> None:
    end = rest.index("--")
    served = [_listening(port) for port in (0, *map(int, rest[:end]))]
    kern = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    kern.connect(place)
    numbers = struct.pack(f"{len(served)}i", *(one.fileno() for one in served))
    kern.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
    os.set_inheritable(kern.fileno(), True)  # its end tells kern that nobody is there any more
    _announce(served[0].getsockname()[1])
    command = rest[end + 1 :]
    try:
        os.execvp(command[0], command)
    except OSError as exc:
        sys.exit(f"{command[0]}: {exc.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
