"""What of a failed child's output was the sandbox's doing, and the setting that opens it.

A false word is worse than none. So a place counts only where it is there for the person, or they
could write there, and a second child of the same sandbox says that it is not, or cannot; what is
missing in the tree itself never does.
"""

import os
import re
import shutil
import socket
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from kern import plain
from kern.sandbox import wall
from kern.sandbox.confine import Confined, Sandbox
from kern.system import process

_MOST = 3  # sentences
_BEFORE, _AFTER = 2, 5  # lines around a complaint that may name the place
_TABLE = tomllib.loads(Path(__file__).with_name("closed.toml").read_text("utf-8"))
_SIGNS = {name: re.compile("|".join(signs), re.I) for name, signs in _TABLE["signs"].items()}
_NAMED = {name: re.compile(pattern) for name, pattern in _TABLE["names"].items()}
_ASK = 'for x; do [ -e "$x" ] || [ -h "$x" ] && printf e; [ -w "$x" ] && printf w; echo; done'
_ASK_S, _ASKED = 10, 500


def sentences(output: str, held: Confined) -> list[str]:
    """A line each; none where nothing held it."""
    if held.sandbox is None:
        return []
    lines = output.splitlines()
    complaints = list[tuple[Set[str], list[str]]]()
    for number, line in enumerate(lines):
        near = [line, *lines[max(0, number - _BEFORE) : number + _AFTER]]
        complaints.append(({name for name, sign in _SIGNS.items() if sign.search(line)}, near))
    named = [one for complaint in complaints for one in _paths(*complaint, held)]
    seen = _seen(held, named)
    found: dict[str, None] = {}
    for signs, near in complaints:
        found |= dict.fromkeys([*_places(signs, _paths(signs, near, held), held, seen)][:1])
        found |= dict.fromkeys(_network(signs, near, held.sandbox) if held.sandbox.apart else ())
        found |= dict.fromkeys(_variables(near[0], held) if "absent" in signs else ())
    return [*found][:_MOST]


def _opened_by(key: str, what: str) -> str:
    setting = plain.data([what], indent=None)
    return f"closed by the sandbox: {what} ([sandbox] {key} = {setting} opens it)"


def _variables(line: str, held: Confined) -> Iterator[str]:
    """But those that are kern's own to set."""
    for name in _NAMED["variable"].findall(line):
        own = name.startswith("KERN_") or name.endswith("_PROXY")
        if name in os.environ and name not in held.env and not own:
            yield f'{name} is not passed on: [sandbox] env = ["{name}"]'


def _places(
    signs: Set[str], paths: Iterable[Path], held: Confined, seen: Mapping[Path, str]
) -> Iterator[str]:
    assert held.sandbox
    read_only, home, root = "read_only" in signs, held.sandbox.home, held.root
    shut = {one for one in seen if "w" not in seen[one] and os.access(one, os.W_OK)}
    for path in paths:
        folder = path if path.is_dir() else path.parent
        if path.is_relative_to(root):
            above = [one for one in _above(path) if one in shut and one.is_relative_to(root)]
            if read_only and above:
                place = path if root in above else above[-1]
                yield _unwritten(os.path.relpath(place, root))
        elif folder in shut and signs & {"read_only", "making"}:
            written = _name(folder, home)
            yield _unwritten(str(path)) if written == "/" else _opened_by("write", written)
        elif not read_only:
            for one in (one for one in (path, _real(path)) if not seen.get(one, "e")):
                if not os.access(one, os.R_OK) or (one.is_dir() and not os.listdir(one)):
                    continue  # the person cannot read it either, or nothing of it is missing
                key = "devices" if one.is_relative_to("/dev") else "read"
                yield _opened_by(key, _name(one, home))


def _seen(held: Confined, paths: Iterable[Path]) -> dict[Path, str]:
    """Of each that is there `e` if a child of that sandbox sees it, and `w` if it can write it."""
    every = dict.fromkeys(one for path in paths for one in (*_above(path), _real(path)))
    there = [path for path in every if os.path.lexists(path)][:_ASKED]
    argv = (*held.before, "sh", "-c", _ASK, "sh", *map(str, there))
    out = process.heard(argv, _ASK_S, env=held.env)[1] if there else b""
    return dict(zip(there, out.decode().split("\n")[:-1], strict=False))


def _above(path: Path) -> Sequence[Path]:
    return path, *path.parents


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _name(path: Path, home: Path) -> str:
    """As a person writes it."""
    inside = path.is_relative_to(home) and path != home
    return plain.line(f"~/{path.relative_to(home)}" if inside else str(path))


def _unwritten(what: str) -> str:
    return f"closed by the sandbox: {plain.line(what)} cannot be written there"


def _paths(signs: Set[str], near: Sequence[str], held: Confined) -> list[Path]:
    """That may have been closed."""
    assert held.sandbox
    if not signs & {"missing", "read_only"}:
        return []
    found = [path for line in near for path in _named(line, held.sandbox.home)]
    words = re.findall(r"[\w./-]+", near[0]) if "read_only" in signs else ()
    return found or [held.root / word for word in words]


def _named(line: str, home: Path) -> Iterator[Path]:
    for groups in _NAMED["path"].findall(line):
        text = "".join(groups).rstrip("./")
        if len(text) > 1 and "\0" not in text:
            whole = f"{home}{text[1:]}" if text[0] == "~" else text
            yield Path(os.path.normpath(whole.replace("//", "/")))
    for groups in _NAMED["program"].findall(line):
        if program := shutil.which("".join(groups)):
            yield Path(program)


def _network(signs: Set[str], near: Sequence[str], sandbox: Sandbox) -> Iterator[str]:
    if "refused" in signs:
        tried = dict.fromkeys(int(one) for text in near for one in _NAMED["port"].findall(text))
        closed = (p for p in tried if p not in wall.ports(sandbox.hosts) and _listens(p))
        yield from (_opened_by("network", f"localhost:{one}") for one in closed)
    here = _NAMED["unresolved"].search(near[0])
    if here or ("no_network" in signs and not any(map(_NAMED["unresolved"].search, near))):
        what = plain.line(here[1].rstrip("."), 100) if here else "the network"
        how = '[sandbox] network = ["*"] opens it'
        yield f"closed by the sandbox: {what}, but for programs that use a proxy ({how})"
    if wall.ANY not in sandbox.hosts and "forbidden" in signs:
        hosts = [one for text in near for one in _NAMED["host"].findall(text)]
        yield from (_opened_by("network", plain.line(one, 100)) for one in hosts[:1])


def _listens(port: int) -> bool:
    """On this machine, outside."""
    with socket.socket() as client:
        client.settimeout(0.2)
        return port < 65536 and client.connect_ex(("127.0.0.1", port)) == 0
