"""Started within a sandbox before its command: opens the ports that kern serves there, where it has
a network of its own, hands them to kern, and becomes the command.

A program of its own, `python entry.py [SOCKET PORT…] -- COMMAND…`, for each child of a run: it
loads next to nothing.
"""

import _ctypes
import _socket
import os
import struct
import sys

_PROXY = 47128  # where it listens: see seen.toml
_KEYCTL = {"x86_64": 250, "aarch64": 219}  # the system call's number
_JOIN_SESSION = 1  # with no name: a new one, empty


def _listening(port: int) -> "_socket.socket":
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    return listener


def _serve(place: str, *ports: str) -> None:
    served = [_listening(port) for port in (_PROXY, *map(int, ports))]
    here, there = _socket.socketpair()
    numbers = [one.fileno() for one in (there, *served)]
    kern = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    kern.connect(place)
    packed = struct.pack(f"{len(numbers)}i", *numbers)
    kern.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])
    os.set_inheritable(here.detach(), True)  # its end tells kern that nobody is there any more


def _forget_keys() -> None:
    """Those of the person's session, which the kernel hands from process to process."""
    if number := _KEYCTL.get(os.uname().machine):
        call = _ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall")  # type: ignore[arg-type]
        _ctypes.call_function(call, (number, _JOIN_SESSION, None))


def main(*given: str) -> None:
    end = given.index("--")
    if given[:end]:
        _serve(*given[:end])
    _forget_keys()
    command = given[end + 1 :]
    try:
        os.execvp(command[0], command)
    except OSError as exc:
        sys.exit(f"{command[0]}: {exc.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
