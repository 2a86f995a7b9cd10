"""The few primitives by which kern writes, each telling a watcher before and after. For tests.

What kern writes is found by watching, never listed: a new write is seen as soon as it is made.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import kern.pipeline.loop
from kern.git.repository import Repo
from kern.system import process


class Kind(StrEnum):
    DURABLE = "durable"  # the next kern finds it
    SCRATCH = "scratch"  # nothing points to it yet, but the disk can be full here as well
    CALL = "call"  # an agent, or whatever else kern runs and waits for


# What git writes at kern's command: names that stand, and objects or private files.
_MOVES = ("update-ref", "symbolic-ref")
_OBJECTS = ("commit-tree", "write-tree", "mktree", "merge-tree")
_INDEX = ("update-index", "read-tree", "reset")
_SAYS = {errno.ENOSPC: "No space left on device", errno.EIO: "Input/output error"}


class Watcher:
    """Hears of each write; `begins` may have it fail with an errno instead of being made."""

    def begins(self, name: str, kind: Kind) -> int:
        return 0

    def wrote(self, name: str, kind: Kind) -> None:
        pass

    def step(self, name: str) -> None:
        """The engine has decided what is next."""


def watch(watcher: Watcher) -> None:
    """Stand between kern and each primitive, in this process, until it ends."""
    _watch_files(watcher)
    _watch_git(watcher)
    engine = vars(kern.pipeline.loop)
    decide, call = engine["resume"], process.run

    def deciding(facts: Any) -> Any:
        do = decide(facts)
        watcher.step(do.name)
        return do

    def calling(argv: Any, **how: Any) -> process.Ran:
        name = Path(how.get("stdout", argv[0])).name
        watcher.begins(name, Kind.CALL)
        ran = call(argv, **how)
        watcher.wrote(name, Kind.CALL)
        return ran

    engine["resume"] = deciding
    process.run = calling


def _fail(fault: int, *names: object) -> None:
    if fault:
        raise OSError(fault, os.strerror(fault), *map(str, names))


def _watch_files(watcher: Watcher) -> None:
    replace, unlink, fsync = os.replace, os.unlink, os.fsync
    copyfile, temporary = shutil.copyfile, tempfile.TemporaryFile

    def replacing(source: Any, target: Any, **how: Any) -> None:
        place = Path(target)
        name = f"{'swept ' if place.parent.parent.name == 'history' else ''}{place.name}"
        _fail(watcher.begins(name, Kind.DURABLE), target)
        replace(source, target, **how)
        watcher.wrote(name, Kind.DURABLE)

    def unlinking(path: Any, **how: Any) -> None:
        name = Path(os.fsdecode(path)).name
        if not re.fullmatch(r"(stage|transcript|attempt)[\w-]*\.json|LEARNINGS\.md", name):
            unlink(path, **how)
            return
        _fail(watcher.begins(f"no {name}", Kind.DURABLE), path)
        there = os.path.lexists(path)
        unlink(path, **how)
        if there:
            watcher.wrote(f"no {name}", Kind.DURABLE)

    def syncing(descriptor: int) -> None:
        _fail(watcher.begins("fsync", Kind.SCRATCH))  # what stands for the write before it as well
        fsync(descriptor)

    def copying(source: Any, target: Any, **how: Any) -> Any:
        _fail(watcher.begins("copy", Kind.SCRATCH), target)
        return copyfile(source, target, **how)

    def spooling(*how: Any, **more: Any) -> Any:
        _fail(watcher.begins("spool", Kind.SCRATCH))
        return temporary(*how, **more)

    shutil.copyfile = copying  # type: ignore[assignment]
    tempfile.TemporaryFile = spooling
    os.replace = replacing  # type: ignore[assignment]
    os.unlink = unlinking
    os.fsync = syncing  # type: ignore[assignment]


def _watch_git(watcher: Watcher) -> None:
    run = Repo.run

    def running(self: Repo, *argv: str, **how: Any) -> tuple[int, bytes, str]:
        name, kind = _git_write(argv, how.get("env") or {})
        if not kind:
            return run(self, *argv, **how)
        if fault := watcher.begins(name, kind):
            said = _SAYS[fault]
            return 128, b"", f"error: unable to write file: {said}\nfatal: cannot write: {said}\n"
        ended = run(self, *argv, **how)
        watcher.wrote(name, kind)
        return ended

    Repo.run = running  # type: ignore[method-assign]


def _git_write(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, Kind | None]:
    """What a git command writes; no kind where it writes nothing."""
    words = argv[2:] if argv[0] in ("-c", "-C") else argv
    name = words[0]
    if name == "clean" or (name == "read-tree" and "-u" in words and "-n" not in words):
        return f"{name} files", Kind.DURABLE
    if name == "hook":  # its own name stands behind the options
        return f"{words[3]} hook", Kind.CALL
    if name in _MOVES:
        return "delete-ref" if "-d" in words else name, Kind.DURABLE
    if name in _INDEX:
        private = not env.keys().isdisjoint(("GIT_INDEX_FILE", "GIT_DIR"))  # or the mirror's
        return name, Kind.SCRATCH if private else Kind.DURABLE
    writes = name in _OBJECTS or (name == "hash-object" and "-w" in words)
    return name, Kind.SCRATCH if writes else None
