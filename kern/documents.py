"""SPEC.md and LEARNINGS.md on the disk: read as text without losing a byte, replaced whole."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from kern import config, spec, workspace
from kern.config import FILE, Settings
from kern.errors import KernError, UsageError
from kern.spec import Key, Spec, Task

SPEC = "SPEC.md"
LEARNINGS = "LEARNINGS.md"


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def real(root: Path, name: str) -> Path:
    """Where a file of the working tree really lies. A link out of the tree is refused: what stands
    there may be anybody's.
    """
    place = root / name
    target = Path(os.path.realpath(place))
    if not target.is_relative_to(root):
        raise UsageError(
            f"{name} is a link out of the repository: {target}",
            hint=f"put the file itself into {place.parent}",
        )
    return target


class Documents:
    """The two files that kern alone writes, at the top level of one working tree."""

    def __init__(self, root: Path, scratch: Path | None = None) -> None:
        self.root = root
        self.scratch = scratch
        self._parsed: tuple[str, Spec] = ("", spec.parse(""))

    def read(self, name: str) -> str | None:
        data = workspace.read(real(self.root, name))
        return None if data is None else decode(data)

    def write(self, name: str, text: str) -> None:
        place = real(self.root, name)
        try:
            mode = stat.S_IMODE(os.stat(place).st_mode)
        except FileNotFoundError:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        workspace.replace(place, encode(text), mode=mode, scratch=self.scratch)

    def form(self, name: str) -> str | None:
        """What stands there: the target of a link, "" for a file, None for anything else."""
        place = self.root / name
        if place.is_symlink():
            return os.readlink(place)
        return "" if place.is_file() else None

    def restore_form(self, name: str, form: str | None, text: str) -> bool:
        """Make a file (or the link that it was) of what an agent put in its place; the text that
        can be read there stays, else `text` comes back. Says whether anything was done.
        """
        place = self.root / name
        if form is None or self.form(name) == form or not os.path.lexists(place):
            return False
        with contextlib.suppress(OSError, KernError):
            found = self.read(name)  # no pipe, nothing from elsewhere
            text = text if found is None else found
        if place.is_symlink():
            place.unlink()
        else:
            shutil.move(place, (self.scratch or place.parent) / f"{name}.agent-{os.getpid()}")
        if form:
            place.symlink_to(form)
        self.write(name, text)
        return True

    def settings(self) -> Settings:
        """kern.toml, or the defaults where there is none. A link could lead anywhere: refused."""
        if (form := self.form(FILE)) != "" and os.path.lexists(self.root / FILE):
            what = "no file" if form is None else "a link"
            raise UsageError(f"{FILE} is {what}", hint=f"put the file itself into {self.root}")
        data = workspace.read(self.root / FILE)
        return config.parse(data) if data is not None else Settings()

    def spec_text(self) -> str:
        text = self.read(SPEC)
        if text is None and (target := self.form(SPEC)):
            raise UsageError(
                f"{SPEC} is a link to {target}, which is not there",
                hint=f"make that file, or put {SPEC} itself into {self.root}",
            )
        if text is None:
            raise UsageError(
                f"there is no {SPEC} in {self.root}",
                hint=f"kern init writes one; a task is a line like:  {spec.EXAMPLE}",
            )
        return text

    def spec(self) -> tuple[str, Spec]:
        """The fresh text and what it says; the same text is parsed once."""
        text = self.spec_text()
        if self._parsed[0] != text:
            self._parsed = (text, spec.parse(text))
        return self._parsed

    def edit(self, change: Callable[[str, Spec], str]) -> str:
        """Apply a pure edit to the fresh file. A person who saves in the same moment is not
        overwritten.
        """
        for _ in range(5):
            before = self._stamp()
            text, parsed = self.spec()
            new = change(text, parsed)
            if new == text:
                return text
            if self._stamp() == before:
                self.write(SPEC, new)
                return new
        raise KernError(f"{SPEC} changes faster than it can be written", hint="then run kern again")

    def edit_task(self, key: Key, change: Callable[[str, Spec, Task], str]) -> str:
        """Edit under one task; if it is gone the only `[~]` is meant, else nothing happens (R9)."""

        def apply(text: str, parsed: Spec) -> str:
            task = parsed.find(key)
            if task is None and len(parsed.active) == 1:
                task = parsed.active[0]
            if task is None:
                raise KernError(
                    f"the task is no longer in {SPEC}, nothing was written there: {key.text}",
                    hint="run kern again: it keeps the work and goes on with what SPEC.md says",
                )
            return change(text, parsed, task)

        return self.edit(apply)

    def written(self) -> int:
        """When SPEC.md was last written, seconds since the epoch."""
        return int(os.stat(real(self.root, SPEC)).st_mtime)

    def _stamp(self) -> tuple[int, int, int]:
        found = os.stat(real(self.root, SPEC))
        return found.st_mtime_ns, found.st_size, found.st_ino
