"""kern's own refs: what stage 2 began with, and what was kept of failed work."""

import hashlib
import json
import re
from dataclasses import dataclass, replace

from kern import plain
from kern.errors import KernError
from kern.git import objects
from kern.git.faults import GitFailed
from kern.git.repository import Head, Repo
from kern.model import Key

START = "refs/kern/start"
ATTEMPTS = "refs/kern/attempts"


@dataclass(frozen=True, slots=True)
class StartRef:
    """Standing: stage 2 of `attempt` was begun on `base` with the working tree as `tree`."""

    ref: str
    commit: str
    tree: str
    base: str
    how: str  # a commit that says where it was begun
    task: Key
    attempt: int
    held: tuple[str, ...] = ()  # commits of what else must last as long
    spec: str = ""  # the one of SPEC.md's text before stage 2, until that is known to have ended


def are_below(repo: Repo, *names: str) -> bool:
    """Whether there is a ref below one of these names; nobody asks git. Where refs lie in a table
    it is not known, and yes.
    """
    return any(repo.plain_refs(f"{name}/") != {} for name in names)


def starts(repo: Repo) -> list[tuple[str, StartRef]]:
    """(branch, start ref) of every branch of this working tree."""
    prefix = f"{START}/{repo.worktree}/"
    rows = _plain(repo, prefix)
    if rows is None:
        rows = _told(repo, prefix)
    found = []
    for ref, commit, tree, parents, message in rows:
        ids = parents.split()
        read = said(message)
        if len(ids) < 2 or read is None:
            continue
        key, attempt = read
        start = StartRef(ref, commit, tree, ids[0], ids[1], key, attempt, held := tuple(ids[2:]))
        start = replace(start, spec=_spec(message, held))
        found.append((ref.removeprefix(prefix).removesuffix("/@"), start))
    return found


_Row = tuple[str, str, str, str, str]  # ref, commit, tree, parents, message


def _told(repo: Repo, prefix: str) -> list[_Row]:
    form = "%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(contents)%01"
    argv = ("for-each-ref", f"--format={form}", prefix.rstrip("/"))
    code, out, err = repo.run(*argv)
    if lacking := re.search(r"missing object ([0-9a-f]+) for (\S+)", err):
        raise broken(lacking[2], lacking[1])
    if code:
        raise GitFailed(argv, code, err)
    records = out.decode("utf-8", "surrogateescape").strip().split("\x01")
    fields = (record.strip("\n").split("\0") for record in records)
    return [(row[0], row[1], row[2], row[3], row[4]) for row in fields if len(row) > 4]


def _plain(repo: Repo, prefix: str) -> list[_Row] | None:
    """The same without a git; None where one is to be asked, or a commit is gone."""
    names = repo.plain_refs(prefix)
    if names is None:
        return None
    found: list[_Row] = []
    for ref, commit in sorted(names.items()):
        raw = repo.store.read(commit, "commit")
        if raw is None:
            return None
        head, _, message = raw.decode("utf-8", "surrogateescape").partition("\n\n")
        parents = " ".join(re.findall(r"^parent (\w+)$", head, re.M))
        found.append((ref, commit, head[5:].split("\n", 1)[0], parents, message))
    return found


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


def _spec(message: str, held: tuple[str, ...]) -> str:
    found = re.search(r"^Kern-Spec: ([0-9a-f]+)$", message, re.M)
    return found[1] if found and found[1] in held else ""


def write_start(repo: Repo, start: StartRef) -> StartRef:
    """Remember what stage 2 begins with, before its process exists."""
    repo.git("update-ref", start.ref, start.commit)
    return start


_MOUNTED, _IN_PLACE = "in a room\n", "in place\n"


def begun(
    repo: Repo, head: Head, tree: str, key: Key, attempt: int, mounted: bool, spec: str = ""
) -> StartRef:
    """What stage 2 begins with, as a value alone: nothing stands yet that a later run would see.
    `mounted`: in a room; `spec`: a tree with SPEC.md.
    """
    none = repo.tree_with("", {})
    how = repo.commit_object(none, (), _MOUNTED if mounted else _IN_PLACE)
    before = repo.commit_object(tree, (head.commit,), f"before attempt {attempt}\n")
    text = repo.commit_object(spec, (), "SPEC.md before stage 2\n") if spec else ""
    held = (before, text) if text else (before,)
    ref = f"{START}/{repo.worktree}/{head.name}/@"
    start = StartRef(ref, "", tree, head.commit, how, key, attempt, held, text)
    return replace(start, commit=_written(repo, start))


def is_of_room(repo: Repo, start: StartRef) -> bool:
    """Whether the attempt began in a room."""
    raw = repo.store.read(start.how, "commit")
    return raw is not None and raw.endswith(b"\n\n" + _MOUNTED.encode())


def _written(repo: Repo, start: StartRef) -> str:
    parents = (start.base, start.how, *start.held)
    return repo.commit_object(start.tree, parents, _message(start))


def _message(start: StartRef) -> str:
    """The task in ASCII for kern, whatever bytes its text holds, and as text for people."""
    key, attempt = start.task, start.attempt
    exact = json.dumps([key.parent, key.text, key.nth])
    shown = f"Kern-Task: {plain.line(key.text)}\nKern-Key: {exact}\nKern-Attempt: {attempt}\n"
    open_ = f"Kern-Spec: {start.spec}\n" if start.spec else ""
    return f"before attempt {attempt}\n\n{shown}{open_}"


def hold(repo: Repo, start: StartRef, *trees: str) -> StartRef:
    """The start ref names these trees as well, until it goes: no collector takes what a stage file
    or a commit yet to be made counts on.
    """
    there = {_tree(repo, commit) for commit in start.held}
    held = [repo.commit_object(tree, (), "held\n") for tree in {*trees} - there]
    if not held:
        return start
    return _moved(repo, start, replace(start, held=(*start.held, *held)))


def seal(repo: Repo, start: StartRef) -> StartRef:
    """Stage 2 has ended, and what it did to SPEC.md is settled: from now on its stage file counts,
    and what stands in SPEC.md is a person's.
    """
    if not start.spec:
        return start
    held = tuple(commit for commit in start.held if commit != start.spec)
    return _moved(repo, start, replace(start, held=held, spec=""))


def _moved(repo: Repo, start: StartRef, new: StartRef) -> StartRef:
    commit = _written(repo, new)
    repo.git("update-ref", start.ref, commit, start.commit)
    return replace(new, commit=commit)


def damage(repo: Repo, start: StartRef) -> str:
    """What git lacks of the files as they were before stage 2."""
    if start.commit in repo.whole:
        return ""
    parts = (start.held[0], start.how) if start.held else (start.commit,)
    return objects.lacks(repo, start.base, *parts)


def broken(ref: str, lacking: str) -> KernError:
    """The same end again and again, unless a person decides: nothing but the ref tells what was."""
    return KernError(
        f"{ref} is broken: git lacks the object {lacking}, so the files as they were before the "
        "interrupted attempt cannot be restored",
        hint=f"git update-ref -d {ref}, then: kern; what you have not committed, with the agent's "
        "unfinished work among it, is for you to commit or stash first",
    )


def before(repo: Repo, start: StartRef) -> str:
    """What a kept attempt stands on: the tree before it."""
    if start.held:
        return start.held[0]
    # An earlier kern wrote the start ref.
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
            if not there and not _names(
                repo, ref
            ):  # else it is broken, or another kern was quicker
                raise GitFailed(argv, code, err)
        if there == tree:
            return ref.removeprefix("refs/")
    raise KernError(
        f"more than 1000 refs under {ATTEMPTS}/{slug}", hint="kern clean --older 0d --all"
    )


def _tree(repo: Repo, ref: str) -> str:
    return repo.store.id(f"{ref}^{{tree}}")


def _names(repo: Repo, ref: str) -> bool:
    return not repo.run("rev-parse", "--verify", "-q", ref)[0]


def kept(repo: Repo, slug: str = "") -> list[tuple[str, int]]:
    """(ref, epoch seconds) of what was kept, of one task or of all; 0 where git lacks it."""
    where = f"{ATTEMPTS}/{slug}".rstrip("/")
    out = repo.text("for-each-ref", "--format=%(objectname) %(refname)", where)
    rows = [line.split(" ", 1) for line in out.splitlines()]
    if not rows:
        return []
    given = "".join(f"{sha}\n" for sha, _ in rows).encode()
    form = ("--no-walk=unsorted", "--ignore-missing", "--stdin", "--format=%H %ct")
    dated = repo.text("log", "--no-show-signature", *form, given=given).splitlines()
    times = dict(line.split(" ") for line in dated)
    return [(ref, int(times.get(sha, 0))) for sha, ref in rows]


def slug(key: Key) -> str:
    """A ref name component for a task: words of its text and 6 hex of its identity."""
    digest = hashlib.sha256(
        f"{key.parent}\0{key.text}\0{key.nth}".encode("utf-8", "surrogateescape")
    )
    return f"{plain.slug(key.text)}-{digest.hexdigest()[:6]}"
