"""kern's own refs: what stage 2 began with, and what was kept of failed work."""

import hashlib
import json
import re
from dataclasses import dataclass

from kern import plain
from kern.errors import KernError
from kern.repo import GitFailed, Head, Repo
from kern.spec import Key, Marker, Spec

START = "refs/kern/start"
ATTEMPTS = "refs/kern/attempts"
_KEPT = re.compile(r"\bkern/attempts/([^/\s)]+)/")


@dataclass(frozen=True, slots=True)
class StartRef:
    """Standing: stage 2 of `attempt` was begun on `base` with the working tree as `tree`."""

    ref: str
    commit: str
    tree: str
    base: str
    index: str  # tree of the person's index
    guard: str  # tree of git's own configuration and hooks
    task: Key
    attempt: int


def starts(repo: Repo) -> list[tuple[str, StartRef]]:
    """(branch, start ref) of every branch of this working tree."""
    prefix = f"{START}/{repo.worktree}/"
    if _none(repo, prefix):
        return []
    form = "%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(contents)%01"
    out = repo.text("for-each-ref", f"--format={form}", prefix.rstrip("/"))
    found = []
    for record in out.split("\x01"):
        fields = record.strip("\n").split("\0")
        if len(fields) < 5:
            continue
        ref, commit, tree, parents, message = fields
        ids = parents.split()
        read = said(message)
        if len(ids) < 2 or read is None:
            continue
        key, attempt = read
        guard = ids[2] if len(ids) > 2 else ""
        start = StartRef(ref, commit, tree, ids[0], ids[1], guard, key, attempt)
        found.append((ref.removeprefix(prefix).removesuffix("/@"), start))
    return found


def detached(branch: str) -> str:
    """The short id of a commit, where a start ref names one instead of a branch."""
    match = re.fullmatch(r"HEAD-([0-9a-f]{7})", branch)
    return match[1] if match else ""


def said(message: str) -> tuple[Key, int] | None:
    """Task and attempt in the message of a start ref; None where it is not kern's."""
    lines = dict(re.findall(r"^(Kern-[A-Za-z]+): ?(.*)$", message, re.M))
    try:
        parent, text, nth = json.loads(lines["Kern-Key"])
        attempt = int(lines.get("Kern-Attempt", "1"))
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    known = isinstance(parent, str) and isinstance(text, str) and isinstance(nth, int)
    return (Key(parent, text, nth), attempt) if known else None


def _none(repo: Repo, prefix: str) -> bool:
    """Whether the files say plainly that no ref begins so; git is asked where they do not."""
    if (repo.common_dir / "reftable").exists() or (repo.common_dir / prefix).exists():
        return False
    try:
        return prefix.encode() not in (repo.common_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return True


def write_start(
    repo: Repo, head: Head, tree: str, index: str, guard: str, key: Key, attempt: int
) -> StartRef:
    """Remember what stage 2 begins with, before its process exists."""
    start = begun(repo, head, tree, index, guard, key, attempt)
    repo.git("update-ref", start.ref, start.commit)
    return start


def begun(
    repo: Repo, head: Head, tree: str, index: str, guard: str, key: Key, attempt: int
) -> StartRef:
    """The same as a value alone: nothing stands yet that a later run would see."""
    # The task in ASCII for kern, whatever bytes its text holds, and as text for people.
    exact = json.dumps([key.parent, key.text, key.nth])
    staged = repo.commit_object(index, (), "index\n")
    guarded = repo.commit_object(guard, (), "git's own\n")
    shown = f"Kern-Task: {plain.line(key.text)}\nKern-Key: {exact}\nKern-Attempt: {attempt}"
    message = f"before attempt {attempt}\n\n{shown}\n"
    commit = repo.commit_object(tree, (head.commit, staged, guarded), message)
    ref = f"{START}/{repo.worktree}/{head.name}/@"
    return StartRef(ref, commit, tree, head.commit, staged, guarded, key, attempt)


def before(repo: Repo, start: StartRef) -> str:
    """What a kept attempt stands on: the tree before it, and not git's own configuration, in which
    a password may stand: a person may push what was kept.
    """
    return repo.commit_object(start.tree, (start.base,), f"before attempt {start.attempt}\n")


def delete(repo: Repo, ref: str, old: str = "") -> None:
    repo.git("update-ref", "-d", ref, *([old] if old else []))


def keep(repo: Repo, slug: str, name: str, tree: str, message: str, parent: str) -> str:
    """Keep a tree as `refs/kern/attempts/<slug>/<name>`, never over another; returns the short
    name.
    """
    for suffix in range(1000):
        ref = f"{ATTEMPTS}/{slug}/{name}" + (f"+{suffix}" if suffix else "")
        there = _tree(repo, ref)
        if not there:
            commit = repo.commit_object(tree, (parent,), message)
            argv = ("update-ref", ref, commit, "0" * len(commit))
            code, _, err = repo.run(*argv)
            there = _tree(repo, ref) if code else tree
            if not there:  # else the kern of another worktree was quicker
                raise GitFailed(argv, code, err)
        if there == tree:
            return ref.removeprefix("refs/")
    raise KernError(
        f"more than 1000 refs under {ATTEMPTS}/{slug}", hint="kern clean --older 0d --all"
    )


def _tree(repo: Repo, ref: str) -> str:
    code, out, _ = repo.run("rev-parse", "--verify", "-q", f"{ref}^{{tree}}")
    return "" if code else out.decode().strip()


def kept(repo: Repo, slug: str = "") -> list[tuple[str, int]]:
    """(ref, epoch seconds) of what was kept, of one task or of all."""
    where = f"{ATTEMPTS}/{slug}".rstrip("/")
    out = repo.text("for-each-ref", "--format=%(refname) %(committerdate:unix)", where)
    rows = (line.rpartition(" ") for line in out.splitlines())
    return [(ref, int(when)) for ref, _, when in rows]


def named(spec: Spec) -> set[str]:
    """The slugs under which work of open tasks is kept: their own, and those that their notes name,
    from before a task was worded anew.
    """
    still = [task for task in spec.tasks if task.marker is not Marker.DONE]
    noted = (_KEPT.findall(note.text) for task in still for note in task.notes)
    return {slug(task.key) for task in still}.union(*noted)


def slug(key: Key) -> str:
    """A ref name component for a task: words of its text and 6 hex of its identity."""
    words = re.sub(r"[^a-z0-9]+", "-", key.text.lower()).strip("-")[:40].strip("-") or "task"
    digest = hashlib.sha256(
        f"{key.parent}\0{key.text}\0{key.nth}".encode("utf-8", "surrogateescape")
    )
    return f"{words}-{digest.hexdigest()[:6]}"
