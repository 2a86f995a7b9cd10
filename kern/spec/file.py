"""SPEC.md and LEARNINGS.md on the disk: read as text without losing a byte, replaced whole."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from kern import config
from kern.config import FILE, Settings
from kern.errors import KernError, UsageError
from kern.model import SPEC, Key
from kern.plain import decode, encode
from kern.spec import order
from kern.spec.parse import EXAMPLE, Spec, Task, parse
from kern.system import waits, workspace

T = TypeVar("T")
_TRIES = 5
_PATIENCE = 3000  # hundredths of a second: many at once wait for each other


def real(root: Path, name: str) -> Path:
    """Where a file of the working tree really lies. A link out of the tree is refused: what stands
    there may be anybody's.
    """
    place = root / name
    target = Path(os.path.realpath(place))
    if not target.is_relative_to(root):
        what = f"{name} is a link out of the repository: {target}"
        raise UsageError(what, hint=f"put the file itself into {place.parent}")
    return target


@dataclass(slots=True)
class Documents:
    """The two files that kern alone writes, at the top level of one working tree."""

    root: Path
    scratch: Path | None = None
    # Which of the tasks named so were done that SPEC.md no longer has.
    finished: Callable[[Sequence[str]], Collection[str]] = lambda names: ()
    _parsed: tuple[str, Spec] = ("", parse(""))

    def read(self, name: str) -> str | None:
        data = workspace.read(real(self.root, name))
        return None if data is None else decode(data)

    def write(self, name: str, text: str) -> None:
        place = real(self.root, name)
        workspace.replace(place, encode(text), private=False, scratch=self.scratch)

    def restore(self, name: str, place: Path, text: str) -> str:
        """Write the text again where it lay, if none can be read or it is another's; what stands
        there is moved aside. What had become of the file, in words.
        """
        here, what = self.root / name, "deleted"
        with contextlib.suppress(UsageError):  # a pipe, a folder, a link to elsewhere
            if real(self.root, name) in (place, here) and self.read(name) is not None:
                return ""
        if os.path.lexists(here):
            what = "made something else"
            shutil.move(here, tempfile.mkdtemp(prefix=f"{name}.", dir=self.scratch or self.root))
        if place != here:
            here.symlink_to(os.path.relpath(place, self.root))
        self.write(name, text)
        return what

    def spec_text(self) -> str:
        text = self.read(SPEC)
        if text is None:
            hint = f"kern init writes one; a task is a line like:  {EXAMPLE}"
            raise UsageError(f"there is no {SPEC} in {self.root}", hint=hint)
        if "\0" in text:
            hint = f"iconv -f UTF-16 -t UTF-8 {SPEC} >new && mv new {SPEC}"
            raise UsageError(f"{SPEC} must be UTF-8", hint=hint)
        return text

    def spec(self) -> tuple[str, Spec]:
        """The fresh text and what it says; the same text is parsed once."""
        text = self.spec_text()
        if self._parsed[0] != text:
            parsed = parse(text)
            if names := {order.name(note.text) for note in order.unknown(parsed)}:
                parsed = replace(parsed, finished=frozenset(self.finished([*names])))
            self._parsed = (text, parsed)
        return self._parsed

    def edit(self, change: Callable[[str, Spec], str]) -> None:
        """Apply a pure edit to the fresh file."""
        self.update(lambda text, parsed: (change(text, parsed), None))

    def update(self, change: Callable[[str, Spec], tuple[str, T]]) -> T:
        """The same for an edit that tells something besides. A person who saves in the same moment
        is not overwritten, another kern waits its turn.
        """
        with self.alone():
            for _ in range(_TRIES):
                text, parsed = self.spec()
                new, value = change(text, parsed)
                if self.spec_text() == text:
                    if new != text:
                        self.write(SPEC, new)
                    return value
        raise KernError(f"{SPEC} changes faster than it can be written", hint="kern, when it rests")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Between reading and writing no other kern writes: a command beside a run, or many of them
        at once. The kernel drops the lock with its holder; one that is not to be had (a stopped
        process, a file system without) is done without after a while.
        """
        folder = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _ in range(_PATIENCE):
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    waits.sleep(0.01)
                except OSError:  # a disk without locks
                    break
            yield
        finally:
            os.close(folder)

    def edit_task(self, key: Key, change: Callable[[str, Spec, Task], str]) -> None:
        """Edit under one task; if it is gone the only `[~]` is meant, else nothing happens."""

        def apply(text: str, parsed: Spec) -> str:
            active = parsed.active if len(parsed.active) == 1 else ()
            if (task := parsed.find(key) or next(iter(active), None)) is None:
                what = f"the task is no longer in {SPEC}, nothing was written there: {key.text}"
                raise KernError(what, hint="run kern again: it goes on with what SPEC.md says")
            return change(text, parsed, task)

        self.edit(apply)

    def settings(self) -> Settings:
        """kern.toml's, the defaults where there is none. A link could lead anywhere: refused."""
        place = self.root / FILE
        if place.is_symlink() or (place.exists() and not place.is_file()):
            raise UsageError(f"{FILE} is a link, or no file", hint=f"put a file into {self.root}")
        return config.parse(workspace.read(place) or b"")
