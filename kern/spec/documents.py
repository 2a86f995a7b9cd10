"""SPEC.md and LEARNINGS.md on the disk: read as text without losing a byte, replaced whole."""

import contextlib
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from kern.errors import KernError, UsageError
from kern.model import SPEC, Key
from kern.plain import decode, encode
from kern.spec import checklist, dependencies
from kern.spec.checklist import Spec, Task
from kern.system import workspace

T = TypeVar("T")
_TRUSTED = "trusted.json"
_UTF16 = ("\udcff\udcfe", "\udcfe\udcff")  # how it begins, read as UTF-8
_PATIENCE = 500  # hundredths of a second


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

    def __init__(
        self,
        root: Path,
        scratch: Path | None = None,
        finished: Callable[[Sequence[str]], Collection[str]] = lambda names: (),
        *,
        bare: bool = False,
    ) -> None:
        """`finished` says which of the tasks named so were done that SPEC.md no longer has. `bare`:
        kern.toml does not count.
        """
        self.root = root
        self.scratch = scratch
        self.finished = finished
        self.bare = bare
        self._parsed: tuple[str, Spec] = ("", checklist.parse(""))

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

    def remove(self, name: str) -> None:
        place = real(self.root, name)
        with workspace.reported(place):
            os.unlink(place)

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
                hint=f"kern init writes one; a task is a line like:  {checklist.EXAMPLE}",
            )
        if text.startswith(_UTF16) or "[\0 \0]" in text:
            raise UsageError(
                f"{SPEC} must be UTF-8, and it is UTF-16",
                hint=f"save it as UTF-8 in your editor; or: "
                f"iconv -f UTF-16 -t UTF-8 {SPEC} >new && mv new {SPEC}",
            )
        return text

    def spec(self) -> tuple[str, Spec]:
        """The fresh text and what it says; the same text is parsed once."""
        text = self.spec_text()
        if self._parsed[0] != text:
            parsed = checklist.parse(text)
            if names := dependencies.unknown(parsed):
                parsed = replace(parsed, finished=frozenset(self.finished(names)))
            self._parsed = (text, parsed)
        return self._parsed

    def edit(self, change: Callable[[str, Spec], str]) -> None:
        """Apply a pure edit to the fresh file."""
        self.update(lambda text, parsed: (change(text, parsed), None))

    def update(self, change: Callable[[str, Spec], tuple[str, T]]) -> T:
        """The same for an edit that tells something besides. A person who saves in the same moment
        is not overwritten, another kern waits its turn.
        """
        for _ in range(5):
            with self.alone():
                before = self._stamp()
                text, parsed = self.spec()
                new, told = change(text, parsed)
                if new == text:
                    return told
                if self._stamp() == before:
                    self.write(SPEC, new)
                    return told
        raise KernError(f"{SPEC} changes faster than it can be written", hint="then run kern again")

    def trust(
        self, told: Collection[tuple[str, ...]], by_kern: Callable[[Path, Path], bool]
    ) -> None:
        """Remember, for as long as a run lasts, what a person's command is about to write into
        SPEC.md: an agent that runs meanwhile has not written it. What kern started is no person.
        """
        if told and self.scratch and not by_kern(self.root, self.scratch.parent.parent):
            with workspace.reported(self.scratch):
                self.scratch.mkdir(parents=True, exist_ok=True)
            undone = {checklist.opposite(one) for one in told}  # the last word of a person counts
            known = sorted({*self.trusted(), *told} - undone)
            workspace.replace(self.scratch / _TRUSTED, json.dumps(known).encode())

    def trusted(self) -> set[tuple[str, ...]]:
        raw = workspace.read(self.scratch / _TRUSTED) if self.scratch else None
        try:
            found = json.loads(raw or b"[]")
        except (ValueError, RecursionError):
            return set()
        rows = found if isinstance(found, list) else []
        return {tuple(map(str, row)) for row in rows if isinstance(row, list)}

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Between reading and writing no other kern writes: a command beside a run, or many of them
        at once. The kernel drops the lock with its holder; one that is not to be had (a stopped
        process, a file system without) is done without after a while.
        """
        folder = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC)
        try:
            patience = _PATIENCE
            while not _locked(folder) and patience:
                patience -= 1
                time.sleep(0.01)
            yield
        finally:
            os.close(folder)

    def edit_task(self, key: Key, change: Callable[[str, Spec, Task], str]) -> None:
        """Edit under one task; if it is gone the only `[~]` is meant, else nothing happens."""

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

        self.edit(apply)

    def written(self) -> int:
        """When SPEC.md was last written, seconds since the epoch."""
        return int(os.stat(real(self.root, SPEC)).st_mtime)

    def _stamp(self) -> tuple[int, int, int]:
        try:
            found = os.stat(real(self.root, SPEC))
        except FileNotFoundError:  # which whoever reads it says
            return 0, 0, 0
        return found.st_mtime_ns, found.st_size, found.st_ino


def _locked(descriptor: int) -> bool:
    """False where another process holds it; where nothing can be locked, that is as good."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
