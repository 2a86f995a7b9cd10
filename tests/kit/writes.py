"""The few primitives by which kern writes what the next kern finds, each telling a watcher before
and after. For tests. The stories watch the interpreter instead: tests/scenarios/forked.py.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kern.git.repository import Repo

Watcher = Callable[[str], None]


def watch(begins: Watcher, wrote: Watcher) -> None:
    """Stand between kern and each primitive, in this process, until it ends."""
    replace, unlink, run = os.replace, os.unlink, Repo.run

    def replacing(source: Any, target: Any, **how: Any) -> None:
        place = Path(target)
        name = f"{'swept ' if place.parent.parent.name == 'history' else ''}{place.name}"
        begins(name)
        replace(source, target, **how)
        wrote(name)

    def unlinking(path: Any, **how: Any) -> None:
        name = Path(os.fsdecode(path)).name
        named = re.fullmatch(r"(stage|transcript|attempt)[\w-]*\.json|LEARNINGS\.md", name)
        there = named and os.path.lexists(path)
        if there:
            begins(f"no {name}")
        unlink(path, **how)
        if there:
            wrote(f"no {name}")

    def running(self: Repo, *argv: str, **how: Any) -> tuple[int, bytes, str]:
        if not (name := _git_write(argv, how.get("env") or {})):
            return run(self, *argv, **how)
        begins(name)
        ended = run(self, *argv, **how)
        wrote(name)
        return ended

    os.replace = replacing  # type: ignore[assignment]
    os.unlink = unlinking
    Repo.run = running  # type: ignore[method-assign]


def _git_write(argv: tuple[str, ...], env: Mapping[str, str]) -> str:
    """What a git command writes that lasts; empty where it is nothing."""
    words = argv[2:] if argv[0] in ("-c", "-C") else argv
    name = words[0]
    if name == "clean" or (name == "read-tree" and "-u" in words and "-n" not in words):
        return f"{name} files"
    if name in ("update-ref", "symbolic-ref"):
        return "delete-ref" if "-d" in words else name
    private = not env.keys().isdisjoint(("GIT_INDEX_FILE", "GIT_DIR"))
    return name if name in ("update-index", "read-tree", "reset") and not private else ""
