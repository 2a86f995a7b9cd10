"""The tools of an endpoint's model: which there are, what a call of one must give, what it does."""

import contextlib
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from kern.agents.http_talk import Call
from kern.agents.http_tree import Refused, Tree
from kern.agents.protocol import PUBLISHES
from kern.model import Role, Stage

Given = Mapping[str, Any]

MOST_RESULT = 30_000  # characters of a tool's
_LOOK_S = 30  # seconds that a look at files may take
_LINES = 1000
_HITS = 200
_LISTED = 500
_WIDEST = 400  # characters of a line that is searched or shown
_PRINTED = 100_000_000  # bytes at which a command is ended
_POLL_S = 0.2
_GIT = re.compile(PUBLISHES, re.M)
_READING = ("read", "list", "search")
_TOOLS: Mapping[str, Mapping[str, Any]] = {
    one["name"]: one for one in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
}
_KINDS: Mapping[str, tuple[type, str]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
}


def offered(role: Role) -> tuple[str, ...]:
    return (*_TOOLS,) if role is Stage.IMPLEMENT else _READING


def schemas(role: Role) -> list[dict[str, Any]]:
    """As a request has them."""
    return [_schema(_TOOLS[name]) for name in offered(role)]


def _schema(about: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {"type": "object", **{name: about[name] for name in ("properties", "required")}}
    named = {name: about[name] for name in ("name", "description")}
    return {"type": "function", "function": {**named, "parameters": wanted}}


def read(call: Call, role: Role) -> tuple[dict[str, Any], str]:
    """What a call gives to its tool, or why it is none."""
    if call.name not in offered(role):
        return {}, f"there is no tool {call.name!r} here; there are {', '.join(offered(role))}"
    try:
        given = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as exc:
        return {}, f"the arguments of {call.name} are no JSON: {exc}"
    if not isinstance(given, dict):
        return {}, f"the arguments of {call.name} are no JSON object"
    about = _TOOLS[call.name]
    for name, parameter in about["properties"].items():
        if given.get(name) is None:
            if name in about["required"]:
                return {}, f"{call.name} needs {name!r}"
            given.pop(name, None)
            continue
        wanted, words = _KINDS[parameter["type"]]
        value = given[name]
        if wanted is int and isinstance(value, float | str) and _is_whole(value):
            given[name] = value = int(float(value))
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            return {}, f"{name!r} of {call.name} must be {words}"
    if call.name == "run" and _GIT.search(given["command"]):
        return {}, "kern commits, and nothing is pushed: run everything else, and leave the tree"
    return given, ""


def _is_whole(value: float | str) -> bool:
    return bool(re.fullmatch(r"\d{1,9}(\.0+)?", str(value)))


def clipped(text: str) -> str:
    """A tool's result, without its middle where it is too long."""
    if len(text) <= MOST_RESULT:
        return text
    first = MOST_RESULT // 3
    left = len(text) - MOST_RESULT
    return f"{text[:first]}\n[{left} characters left out here]\n{text[first + left :]}"


class Tools:
    """`patience`: seconds that a command may take, 0 for as long as it likes. `secret`: the
    variable of the environment that no command is to see.
    """

    def __init__(self, tree: Tree, *, patience: float, secret: str) -> None:
        self._tree = tree
        self._patience = patience
        hidden = (secret,) if secret else ()  # by the names' beginnings, as a sandbox lets through
        self._env = {name: one for name, one in os.environ.items() if not name.startswith(hidden)}
        self._tools: Mapping[str, Callable[[Given], str]] = {
            "read": self._read,
            "list": self._list,
            "search": self._search,
            "edit": self._edit,
            "write": self._write,
            "run": self._run,
        }

    def use(self, name: str, given: Given) -> str:
        """Raises Refused."""
        try:
            if name == "run":
                return self._run(given)
            with _in_time(name):
                return clipped(self._tools[name](given))
        except ValueError as exc:  # letters that no file system and no shell takes
            raise Refused(f"{name} cannot take that: {exc}") from None

    def _read(self, given: Given) -> str:
        data = self._tree.read(given["path"])
        if b"\0" in data[:8192]:
            raise Refused(f"{given['path']} is no text: {len(data)} bytes")
        lines = data.decode("utf-8", "replace").split("\n")
        if lines and not lines[-1]:
            lines.pop()
        first = max(given.get("first", 1), 1)
        most = max(given.get("lines", _LINES), 1)
        shown: list[str] = []
        size = 0
        for number, line in enumerate(lines[first - 1 : first - 1 + most], first):
            shown.append(f"{number}\t{line.rstrip(chr(13))}")
            size += len(shown[-1]) + 1
            if size > MOST_RESULT - 200:
                break
        last = first + len(shown) - 1
        if last < len(lines):
            shown.append(f"[{len(lines)} lines in all; to go on: first = {last + 1}]")
        return "\n".join(shown) or "[the file is empty]"

    def _list(self, given: Given) -> str:
        path, pattern = given.get("path", "."), given.get("pattern")
        found = (
            [name for name in self._tree.files(path) if _matches(name, pattern)]
            if pattern
            else self._tree.entries(path)
        )
        more = [f"[{len(found) - _LISTED} more]"] if len(found) > _LISTED else []
        return "\n".join([*found[:_LISTED], *more]) or "[nothing]"

    def _search(self, given: Given) -> str:
        try:
            wanted = re.compile(given["pattern"])
        except (re.error, RecursionError, OverflowError) as exc:
            raise Refused(f"that is no regular expression: {exc}") from None
        hits: list[str] = []
        for name in self._tree.files(given.get("path", ".")):
            if given.get("files") and not _matches(name, given["files"]):
                continue
            if (text := self._tree.text(name)) is None:
                continue
            for number, line in enumerate(text.split("\n"), 1):
                if wanted.search(line[: 10 * _WIDEST]):
                    hits.append(f"{name}:{number}: {line.strip()[:_WIDEST]}")
            if len(hits) >= _HITS:
                hits[_HITS:] = ["[there is more: search for less, or in fewer files]"]
                break
        return "\n".join(hits) or "[nothing found]"

    def _edit(self, given: Given) -> str:
        path, old, new = given["path"], _encoded(given["old"]), _encoded(given["new"])
        if not old:
            raise Refused("the old text is empty: write makes a file")
        before = self._tree.read(path)
        if old not in before and b"\r\n" in before:
            old, new = (re.sub(rb"\r?\n", b"\r\n", one) for one in (old, new))
        times = before.count(old)
        if not times:
            raise Refused(f"the old text is not in {path}: read it, and copy the text exactly")
        if times > 1 and not given.get("all"):
            raise Refused(
                f"the old text is {times} times in {path}: take more of what is around it"
            )
        self._tree.write(path, before.replace(old, new))
        return f"changed {path}{f' in {times} places' if times > 1 else ''}"

    def _write(self, given: Given) -> str:
        new = self._tree.write(given["path"], _encoded(given["content"]))
        return f"{'made' if new else 'wrote'} {given['path']}"

    def _run(self, given: Given) -> str:
        bounds = [one for one in (self._patience, given.get("seconds", 0)) if one > 0]
        most = min(bounds, default=0.0)
        shell = shutil.which("bash") or "/bin/sh"
        with tempfile.TemporaryFile() as printed:
            child = subprocess.Popen(
                [shell, "-c", given["command"]],
                cwd=self._tree.root,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                why = _attended(child, printed.fileno(), most)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            said = clipped(_ends(printed.fileno()).decode("utf-8", "replace"))
        end = why or f"exit {child.returncode}"
        return f"{said.rstrip()}\n[{end}]".lstrip()


def failed(name: str, said: str) -> bool:
    """Whether a result tells of a command that did not end well."""
    return name == "run" and not said.endswith("[exit 0]")


def _attended(child: "subprocess.Popen[bytes]", printed: int, most: float) -> str:
    """Until the shell has ended; or why it must be."""
    began = time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)
            return ""
        if most and time.monotonic() - began >= most:
            return f"ended: not done after {most:g} seconds"
        if os.fstat(printed).st_size > _PRINTED:
            return f"ended: it printed more than {_PRINTED // 1_000_000} MB"


def _ends(file: int) -> bytes:
    """The beginning and the end of what was printed, more of each than is told."""
    size, part = os.fstat(file).st_size, 8 * MOST_RESULT
    if size <= 2 * part:
        return os.pread(file, size, 0)
    return os.pread(file, part, 0) + b"\n[...]\n" + os.pread(file, part, size - part)


def _matches(name: str, pattern: str) -> bool:
    """A pattern without a slash is one of the last name alone."""
    if "/" not in pattern:
        return fnmatch.fnmatchcase(name.rpartition("/")[2], pattern)
    return fnmatch.fnmatchcase(name, pattern.removeprefix("./").replace("**/", "*"))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@contextlib.contextmanager
def _in_time(name: str) -> Iterator[None]:
    """A regular expression can take longer than anybody lives."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Refused(f"{name} took more than {_LOOK_S} seconds: ask for less")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
