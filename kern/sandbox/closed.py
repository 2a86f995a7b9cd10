"""What of a failed child's output was the sandbox's doing, and the setting that opens it.

A false word is worse than none. So a place counts only where it is there for the person, or they
could write there, and the child could not; what is missing in the tree itself never does.
"""

import os
import re
import shutil
import socket
import stat
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kern import plain
from kern.sandbox import wall
from kern.sandbox.wall import Access, Mount

_MOST = 3  # sentences
_BEFORE, _AFTER = 2, 5  # lines around a complaint that may name the place
_SIGNS = {
    name: re.compile("|".join(signs), re.IGNORECASE)
    for name, signs in tomllib.loads(
        Path(__file__).with_name("closed.toml").read_text("utf-8")
    ).items()
}
_PATH = re.compile(
    r"""['"`\u2018\u201c]((?:/|~/)[^'"`\u2018\u2019\u201d\n]+)['"`\u2019\u201d]"""
    r"""|(?:(?<![\w:./~-])|(?<=unix://))(~?/[^\s'"`:,;()<>\[\]\u2019\u201d]+)"""
)
_PROGRAM = re.compile(r"([\w./+-]+): (?:command )?not found|command not found: ([\w./+-]+)")
_PORT = re.compile(
    r"""(?:localhost|127\.0\.0\.1|::1)"""
    r"""(?:[\s\])"',:=]|port|\((?:127\.0\.0\.1|::1))*?[\s:=](\d{2,5})\b"""
)
_HOST = re.compile(r"""(?:https?://(?:[^\s/@]+@)?|host=')([\w.-]+)""")
_DEVICES = ("full", "null", "random", "tty", "urandom", "zero", "ptmx")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one child saw of the machine."""

    mounts: Sequence[Mount]
    root: Path  # of the tree
    home: Path  # the person's
    given: Collection[str] = ()  # names of variables
    apart: bool = False  # it had a network of its own
    listed: bool = False  # and reached the hosts of a list alone
    ports: Collection[int] = ()  # of this machine, that it could reach

    def mount(self, path: Path) -> Mount | None:
        """What the path lies in."""
        found = [one for one in self.mounts if path.is_relative_to(one.target)]
        return max(found, key=lambda one: len(one.target.parts), default=None)

    def has(self, path: Path) -> bool:
        if any(one.target.is_relative_to(path) for one in self.mounts):
            return True
        if (mount := self.mount(path)) is None:
            return path.parts[1:2] == ("proc",)
        rest = path.relative_to(mount.target)
        if mount.access is Access.LINK and mount.source:
            return self.has(mount.source / rest)
        lies = (one / rest for one in (mount.source, *mount.lower) if one)
        return mount.source == mount.target or any(map(os.path.lexists, lies))


def sentences(output: str, bounds: Bounds | None) -> list[str]:
    """A line each. `bounds`: of the child that failed; None where nothing held it."""
    if bounds is None:
        return []
    lines = output.splitlines()
    found: dict[str, None] = {}
    for number, line in enumerate(lines):
        near = [line, *lines[max(0, number - _BEFORE) : number + _AFTER]]
        found |= dict.fromkeys([*_places(line, near, bounds)][:1])
        found |= dict.fromkeys(_network(line, near, bounds) if bounds.apart else ())
    absent = "\n".join(filter(_SIGNS["absent"].search, lines))
    for name in wall.missing(absent, os.environ, bounds.given):
        if not name.startswith("KERN_") and not name.endswith("_PROXY"):  # kern's own to set
            found[f'{name} is not passed on: [sandbox] env = ["{name}"]'] = None
    return [*found][:_MOST]


def _opened_by(key: str, what: str) -> str:
    setting = plain.data([what], indent=None)
    return f"closed by the sandbox: {what} ([sandbox] {key} = {setting} opens it)"


# ---------------------------------------------------------------- places


def _places(line: str, near: Sequence[str], bounds: Bounds) -> Iterator[str]:
    read_only, making = (_SIGNS[name].search(line) for name in ("read_only", "making"))
    if not read_only and not _SIGNS["missing"].search(line):
        return
    paths = [path for one in near for path in _paths(one, bounds.home)]
    words = re.findall(r"[\w./-]+", line) if read_only else ()
    for path in paths or [bounds.root / word for word in words]:
        mount, inside = bounds.mount(path), path.is_relative_to(bounds.root)
        if inside:
            if read_only and mount and mount.access is Access.READ:
                place = path if mount.target == bounds.root else mount.target
                yield _unwritten(os.path.relpath(place, bounds.root))
        elif _is_device(path):
            opened = mount.access is Access.DEVICE if mount else path.name in _DEVICES
            if not opened:
                yield _opened_by("devices", str(path))
        elif (making or read_only) and (folder := _unwritable(path, bounds)):
            root = folder == Path("/")
            yield (
                _unwritten(str(path)) if root else _opened_by("write", _named(folder, bounds.home))
            )
        elif not read_only:
            for one in (path, Path(os.path.realpath(path))):
                if os.path.lexists(one) and not bounds.has(one):
                    yield _opened_by("read", _named(one, bounds.home))


def _unwritten(what: str) -> str:
    return f"closed by the sandbox: {plain.line(what)} cannot be written there"


def _paths(line: str, home: Path) -> Iterator[Path]:
    for match in _PATH.finditer(line):
        text = (match[1] or match[2]).rstrip("./")
        if len(text) > 1 and "\0" not in text:
            whole = f"{home}{text[1:]}" if text[0] == "~" else text
            yield Path(os.path.normpath(whole.replace("//", "/")))
    for match in _PROGRAM.finditer(line):
        if program := shutil.which(match[1] or match[2]):
            yield Path(program)


def _is_device(path: Path) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _unwritable(path: Path, bounds: Bounds) -> Path | None:
    """The folder that the person can write and the child could not."""
    folder = path if os.path.isdir(path) else path.parent
    mount = bounds.mount(folder)
    closed = mount.access is Access.READ if mount and bounds.has(folder) else True
    can = os.path.isdir(folder) and os.access(folder, os.W_OK)
    return folder if closed and can else None


def _named(path: Path, home: Path) -> str:
    """As a person writes it."""
    inside = path.is_relative_to(home) and path != home
    return plain.line(f"~/{path.relative_to(home)}" if inside else str(path))


# ---------------------------------------------------------------- the network


def _network(line: str, near: Sequence[str], bounds: Bounds) -> Iterator[str]:
    if _SIGNS["refused"].search(line):
        ports = {int(one): None for text in near for one in _PORT.findall(text)}
        closed = (one for one in ports if one not in bounds.ports and _listens(one))
        yield from (_opened_by("network", f"localhost:{one}") for one in closed)
    named = _SIGNS["unresolved"].search(line)
    host = re.match(r"\W+(\w[\w.-]*)", line[named.end() :]) if named else None
    nameless = not any(map(_SIGNS["unresolved"].search, near))
    if host or (nameless and _SIGNS["no_network"].search(line)):
        what = plain.line(host[1].rstrip("."), 100) if host else "the network"
        how = '[sandbox] network = ["*"] opens it'
        yield f"closed by the sandbox: {what}, but for programs that use a proxy ({how})"
    if bounds.listed and _SIGNS["forbidden"].search(line):
        hosts = [one for text in near for one in _HOST.findall(text)]
        yield from (_opened_by("network", plain.line(one, 100)) for one in hosts[:1])


def _listens(port: int) -> bool:
    """On this machine, outside."""
    with socket.socket() as client:
        client.settimeout(0.2)
        return port < 65536 and client.connect_ex(("127.0.0.1", port)) == 0
