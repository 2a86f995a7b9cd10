"""What of a failed child's output was the sandbox's doing, and the setting that opens it.

A false word is worse than none. So a place counts only where the person reads or writes it, and a
second child of the same sandbox says that it cannot; what is missing in the tree never does.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from kern import plain
from kern.sandbox.confine import Confined
from kern.system import process

_MOST = 3  # sentences
_BEFORE, _AFTER = 2, 5  # lines around a complaint that may name the place
_READ_ONLY = re.compile(r"read-only file ?system|\bEROFS\b|os error 30\b", re.I)
_MISSING = re.compile(
    r"no such file|\bENOENT\b|os error 2\b|nonexistent|NoSuchFile|cannot find|not found"
    r"|permission denied|\bEACCES\b|os error 13\b|AccessDenied|not permitted|cannot connect",
    re.I,
)
# On the line that names a variable.
_ABSENT = re.compile(
    r"\bun(?:set|bound|defined)|not (?:be )?(?:set|found|defined|provided|given|present)|missing"
    r"|requir|KeyError|environ|getenv|\bmust\b|\bempty\b|\bneed|expected|\bnull\b|\bNone\b",
    re.I,
)
# On the same line: a program tried to make something.
_MAKING = re.compile(r"\b(creat|writ|copied\b|(mkdir|mkstemp|touch|copy|cp|mv)\b)", re.I)
_PATH = re.compile(
    """['"`\u2018\u201c]((?:/|~/)[^'"`\u2018\u2019\u201d\\n]+)['"`\u2019\u201d]"""
    r"""|(?:(?<![\w:./~-])|(?<=unix://))(~?/[^\s'"`:,;()<>\[\]\u2019\u201d]+)"""
)
_UNRESOLVED = re.compile(
    r"(?:could ?n.t resolve(?: host(?:name)?)?|could not translate host name|failed to resolve"
    r"|ENOTFOUND|EAI_AGAIN|UnknownHostException|unknown host|dial tcp: lookup)\W+(\w[\w.-]*)",
    re.I,
)
_BUSY = re.compile(r"resource busy|\bEBUSY\b|os error 16\b|failed to delete", re.I)
_ASK = 'for x; do printf :; [ -r "$x" ] || [ -h "$x" ] && printf r; [ -w "$x" ] && printf w; done'
_ASK_S, _ASKED = 10, 500


def sentences(output: str, confined: Confined) -> list[str]:
    """A line each; none where nothing held it."""
    lines, told = output.splitlines() if confined.before else [], list[str]()
    places = list[tuple[str, Path]]()  # with the setting that would open it
    for number, line in enumerate(lines):
        told += _variables(line, confined) if _ABSENT.search(line) else ()
        told += _mounted(line, confined) if _BUSY.search(line) else ()
        if "--unshare-net" in confined.before and (host := _UNRESOLVED.search(line)):
            name = plain.line(host[1].rstrip("."), 100)
            told.append(f"closed by the sandbox: {name}, but for programs that use a proxy")
        read_only = _READ_ONLY.search(line)
        if read_only or _MISSING.search(line):
            near = "\n".join([line, *lines[max(0, number - _BEFORE) : number + _AFTER]])
            for path in _named(near):
                folder = path if os.path.isdir(path) else path.parent
                if (read_only or _MAKING.search(line)) and os.access(folder, os.W_OK):
                    places.append(("write", folder))
                if not read_only and os.access(path, os.R_OK):
                    places.append(("read", path))
    places = [one for one in dict.fromkeys(places) if not one[1].is_relative_to(confined.root)]
    asked = zip(places, access(confined, *(path for _, path in places[:_ASKED])), strict=False)
    shut = [_sentence(*one) for one, can in asked if one[0][0] not in can]
    return [*dict.fromkeys((*shut, *told))][:_MOST]


def access(confined: Confined, *paths: Path) -> list[str]:
    """Of each what a child of the same sandbox can, read and write: `rw`."""
    argv = (*confined.before, "sh", "-c", _ASK, "sh", *map(str, paths))
    out = process.capture(argv, _ASK_S, env=confined.env)[1] if paths else ""
    return out.split(":")[1:]


def _variables(line: str, confined: Confined) -> Iterator[str]:
    """But those that are kern's own to set."""
    for name in re.findall(r"[A-Z][A-Z0-9_]{3,}", line):
        own = name.startswith("KERN_") or name.endswith("_PROXY")
        if name in os.environ and name not in confined.env and not own:
            yield f'{name} is not passed on: [sandbox] env = ["{name}"]'


def _mounted(line: str, confined: Confined) -> Iterator[str]:
    """A place of a mount, which nobody can remove there."""
    for place in dict.fromkeys(confined.before):
        name = place.removeprefix(f"{confined.root}/")
        if name != place and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", line):
            yield f"closed by the sandbox: {plain.line(name)} can be emptied there, not removed"


def _sentence(key: str, path: Path) -> str:
    home = Path.home()
    inside = path.is_relative_to(home) and path != home
    name = plain.line(f"~/{path.relative_to(home)}" if inside else str(path))
    key = "devices" if path.is_relative_to("/dev") else key
    setting = plain.data([name], indent=None)
    return f"closed by the sandbox: {name} ([sandbox] {key} = {setting} opens it)"


def _named(text: str) -> Iterator[Path]:
    for groups in _PATH.findall(text):
        name = "".join(groups).rstrip("./")
        if len(name) > 1 and "\0" not in name:
            yield Path(os.path.normpath(os.path.expanduser(name.replace("//", "/"))))
