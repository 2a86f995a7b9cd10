"""What of a failed child's output was the sandbox's doing, and the setting that opens it.

A false word is worse than none. So a place counts only where it is there for the person, or they
could write there, and the child could not; what is missing in the tree itself never does.
"""

import os
import re
import shutil
import socket
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from kern import plain
from kern.sandbox.wall import Access, Wall, ports

_MOST = 3  # sentences
_BEFORE, _AFTER = 2, 5  # lines around a complaint that may name the place
_TABLE = tomllib.loads(Path(__file__).with_name("closed.toml").read_text("utf-8"))
_SIGNS = {name: re.compile("|".join(signs), re.I) for name, signs in _TABLE["signs"].items()}
_NAMED = {name: re.compile(pattern) for name, pattern in _TABLE["names"].items()}


def sentences(output: str, wall: Wall | None) -> list[str]:
    """A line each. `wall`: of the child that failed; None where nothing held it."""
    if wall is None:
        return []
    lines = output.splitlines()
    found: dict[str, None] = {}
    for number, line in enumerate(lines):
        signs = {name for name, sign in _SIGNS.items() if sign.search(line)}
        near = [line, *lines[max(0, number - _BEFORE) : number + _AFTER]]
        if signs & {"missing", "read_only"}:
            found |= dict.fromkeys([*_places(signs, near, wall)][:1])
        if wall.apart:
            found |= dict.fromkeys(_network(signs, near, wall))
        if "absent" in signs:
            found |= dict.fromkeys(_variables(line, wall))
    return [*found][:_MOST]


def _opened_by(key: str, what: str) -> str:
    setting = plain.data([what], indent=None)
    return f"closed by the sandbox: {what} ([sandbox] {key} = {setting} opens it)"


def _variables(line: str, wall: Wall) -> Iterator[str]:
    """But those that are kern's own to set."""
    for name in _NAMED["variable"].findall(line):
        own = name.startswith("KERN_") or name.endswith("_PROXY")
        if name in os.environ and name not in wall.env and not own:
            yield f'{name} is not passed on: [sandbox] env = ["{name}"]'


def _places(signs: Collection[str], near: Sequence[str], wall: Wall) -> Iterator[str]:
    read_only = "read_only" in signs
    words = re.findall(r"[\w./-]+", near[0]) if read_only else ()
    paths = [path for line in near for path in _paths(line, wall.home)]
    for path in paths or [wall.root / word for word in words]:
        if path.is_relative_to(wall.root):
            mount = wall.mount(path)
            if read_only and mount and mount.access is Access.READ:
                place = path if mount.target == wall.root else mount.target
                yield _unwritten(os.path.relpath(place, wall.root))
        elif (read_only or "making" in signs) and (folder := _closed_folder(path, wall)):
            written = _name(folder, wall.home)
            yield _unwritten(str(path)) if written == "/" else _opened_by("write", written)
        elif not read_only:
            for one in (path, Path(os.path.realpath(path))):
                if os.path.lexists(one) and not wall.has(one):
                    key = "devices" if one.is_relative_to("/dev") else "read"
                    yield _opened_by(key, _name(one, wall.home))


def _closed_folder(path: Path, wall: Wall) -> Path | None:
    """The one that the person can write and the child could not."""
    folder = path if path.is_dir() else path.parent
    mount = wall.mount(folder)
    read_only = mount.access is Access.READ if mount and wall.has(folder) else True
    return folder if read_only and folder.is_dir() and os.access(folder, os.W_OK) else None


def _name(path: Path, home: Path) -> str:
    """As a person writes it."""
    inside = path.is_relative_to(home) and path != home
    return plain.line(f"~/{path.relative_to(home)}" if inside else str(path))


def _unwritten(what: str) -> str:
    return f"closed by the sandbox: {plain.line(what)} cannot be written there"


def _paths(line: str, home: Path) -> Iterator[Path]:
    for groups in _NAMED["path"].findall(line):
        text = "".join(groups).rstrip("./")
        if len(text) > 1 and "\0" not in text:
            whole = f"{home}{text[1:]}" if text[0] == "~" else text
            yield Path(os.path.normpath(whole.replace("//", "/")))
    for groups in _NAMED["program"].findall(line):
        if program := shutil.which("".join(groups)):
            yield Path(program)


def _network(signs: Collection[str], near: Sequence[str], wall: Wall) -> Iterator[str]:
    open_ports = ports(wall.hosts)
    if "refused" in signs:
        tried = dict.fromkeys(int(one) for text in near for one in _NAMED["port"].findall(text))
        closed = (one for one in tried if one not in open_ports and _listens(one))
        yield from (_opened_by("network", f"localhost:{one}") for one in closed)
    here = _NAMED["unresolved"].search(near[0])
    if here or ("no_network" in signs and not any(map(_NAMED["unresolved"].search, near))):
        what = plain.line(here[1].rstrip("."), 100) if here else "the network"
        how = '[sandbox] network = ["*"] opens it'
        yield f"closed by the sandbox: {what}, but for programs that use a proxy ({how})"
    if wall.hosts is not None and "forbidden" in signs:
        hosts = [one for text in near for one in _NAMED["host"].findall(text)]
        yield from (_opened_by("network", plain.line(one, 100)) for one in hosts[:1])


def _listens(port: int) -> bool:
    """On this machine, outside."""
    with socket.socket() as client:
        client.settimeout(0.2)
        return port < 65536 and client.connect_ex(("127.0.0.1", port)) == 0
