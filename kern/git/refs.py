"""kern's own refs: what stage 2 began with, and what was kept of failed work."""

import hashlib
import itertools
import json
import re
from dataclasses import dataclass, replace

from kern import plain
from kern.errors import KernError
from kern.git import history
from kern.git.environment import GitFailed
from kern.git.repository import Head, Repo
from kern.model import Key
from kern.system import workspace

START = "refs/kern/start"
ATTEMPTS = "refs/kern/attempts"


@dataclass(frozen=True, slots=True)
class StartRef:
    """SpecState: stage 2 of `attempt` was begun on `base`, of which `tree` is the tree."""

    ref: str
    commit: str
    tree: str
    base: str
    task: Key
    attempt: int
    mounted: bool  # in a room
    held: tuple[str, ...] = ()  # commits of trees that must last as long


def start(repo: Repo, branch: str) -> StartRef | None:
    """The one of a branch of this working tree. Raises KernError where it is broken."""
    ref = f"{_below(repo)}{branch}/@"
    if not (sha := repo.store.id(ref)):
        if data := workspace.read(repo.common_dir / ref):  # its object is
            raise _broken(ref, data.decode().strip())
        return None
    commit = history.commit(repo, sha)
    if not commit.parents or not (named := read_message(commit.message)):
        return None
    base, *trees = commit.parents
    return StartRef(ref, sha, commit.tree, base, *named, held=tuple(trees))


def starts(repo: Repo) -> list[tuple[str, StartRef]]:
    """(branch, start ref) of every branch of this working tree."""
    listed = repo.text("for-each-ref", "--format=%(refname)", _below(repo).rstrip("/")).split()
    names = [ref.removeprefix(_below(repo)).removesuffix("/@") for ref in listed]
    return [(name, one) for name in names if (one := start(repo, name))]


def _below(repo: Repo) -> str:
    return f"{START}/{repo.worktree}/"


def read_message(message: str) -> tuple[Key, int, bool] | None:
    """What it says of a start ref; None where it is not kern's."""
    line = re.search(r"^Kern-Start: (.*)$", message, re.M)
    try:
        parent, text, *rest = json.loads(line[1] if line else "")
        nth, attempt, mounted, *_ = map(int, rest)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    is_named = isinstance(parent, str) and isinstance(text, str)
    return (Key(parent, text, nth), attempt, bool(mounted)) if is_named else None


def begin(repo: Repo, head: Head, key: Key, attempt: int, *, mounted: bool) -> StartRef:
    """Remember what stage 2 begins with, before its process exists."""
    ref = f"{START}/{repo.worktree}/{head.name}/@"
    tree = repo.tree(head.commit)
    return _written(repo, StartRef(ref, "", tree, head.commit, key, attempt, mounted))


def hold(repo: Repo, start: StartRef, *names: str) -> StartRef:
    """The start ref names these trees and commits as well, until it goes: no collector takes what a
    stage file or a branch yet to be moved counts on.
    """
    there = {*start.held, *(_tree(repo, commit) for commit in start.held)}
    new = [
        repo.store.id(f"{name}^{{commit}}") or repo.commit_object(name, (), "held\n")
        for name in names
        if name not in there
    ]
    return _written(repo, replace(start, held=(*start.held, *new))) if new else start


def _written(repo: Repo, start: StartRef) -> StartRef:
    """The task in ASCII for kern, whatever bytes its text holds, and as text for people."""
    key = start.task
    exact = (key.parent, key.text, key.nth, start.attempt, start.mounted)
    title = f"before attempt {start.attempt}\n\nKern-Task: {plain.line(key.text)}\n"
    message = f"{title}Kern-Start: {json.dumps(exact)}\n"
    commit = repo.commit_object(start.tree, (start.base, *start.held), message)
    repo.git("update-ref", start.ref, commit, *([start.commit] if start.commit else []))
    return replace(start, commit=commit)


def _broken(ref: str, lacking: str) -> KernError:
    """The same end again and again, unless a person decides: nothing but the ref tells what was."""
    what = f"{ref} is broken: git lacks the object {lacking}, on which the attempt was begun"
    hint = f"commit or stash what you want to keep of it, then: git update-ref -d {ref}; kern"
    return KernError(what, hint=hint)


def delete(repo: Repo, ref: str, old: str = "") -> None:
    repo.git("update-ref", "-d", ref, *([old] if old else []))


def keep(repo: Repo, slug: str, name: str, tree: str, message: str, parent: str) -> str:
    """Keep a tree as `refs/kern/attempts/<slug>/<name>`, never over another; returns the short
    name.
    """
    for number in itertools.count():
        ref = f"{ATTEMPTS}/{slug}/{name}" + (f"+{number}" if number else "")
        if not (there := _tree(repo, ref)):
            commit = repo.commit_object(tree, (parent,), message)
            argv = ("update-ref", ref, commit, "0" * len(commit))
            code, _, why = repo.run(*argv)
            if code and "already exists" not in why:
                raise GitFailed(argv, code, why)  # else another kern was quicker, or it is broken
            there = _tree(repo, ref)
        if there == tree:
            break
    return ref.removeprefix("refs/")


def _tree(repo: Repo, ref: str) -> str:
    return repo.store.id(f"{ref}^{{tree}}")


def kept(repo: Repo, slug: str = "") -> list[tuple[str, int]]:
    """(ref, epoch seconds) of what was kept, of one task or of all."""
    how = ("--format=%(committerdate:unix) %(refname)", f"{ATTEMPTS}/{slug}".rstrip("/"))
    rows = (row.partition(" ") for row in repo.text("for-each-ref", *how).splitlines())
    return [(ref, int(when)) for when, _, ref in rows]


def slug(key: Key) -> str:
    """A ref name component for a task: words of its text and 6 hex of its identity."""
    digest = hashlib.sha256(
        f"{key.parent}\0{key.text}\0{key.nth}".encode("utf-8", "surrogateescape")
    )
    return f"{plain.slug(key.text)}-{digest.hexdigest()[:6]}"
