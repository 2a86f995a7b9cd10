"""The branch moves to a commit, and the person's index and files follow it.

A ref says how far they are behind, so that a killed landing goes on. git keeps what the person has
changed: where that is in the way, nothing moves.
"""

import os
import re
from collections.abc import Callable, Mapping

from kern.git import index
from kern.git.faults import GitFailed
from kern.git.ignore import DOCUMENTS, bare
from kern.git.repository import LINK, SUBMODULE, Change, Entry, Head, Repo
from kern.plain import decode, encode

Replay = Callable[[str, str, str], str]  # a document's name, the staged text, the committed text


def _behind(repo: Repo) -> str:
    return f"refs/kern/behind/{repo.worktree}"


def behind(repo: Repo) -> str:
    """The commit that the person's files have yet to follow the branch from; else empty."""
    return repo.store.id(_behind(repo))


def in_the_way(repo: Repo, old: str, new: str) -> list[str]:
    """The person's changes that keep their files from following, by path or in git's words."""
    changes = repo.changed(old, new)
    if gone := _deleted(repo, changes):
        return gone
    files = [path for path, (was, _) in changes.items() if was is None]
    there = [path for path in files if path not in DOCUMENTS and _differs(repo, new, path)]
    known = {*repo.paths("ls-files", "-z", "--", *(f":(top,literal){p}" for p in there))}
    if untracked := [path for path in there if path not in known] if there else []:
        return untracked  # git itself would overwrite what it ignores
    with index.private(repo, copy=True) as env:
        # What a person has marked as unchanged git would overwrite unseen.
        marked = [p for p, mark in index.flagged(repo, changes).items() if mark.islower()]
        given = os.fsencode("".join(f"{path}\0" for path in marked))
        repo.git("update-index", "-z", "--no-assume-unchanged", "--stdin", given=given, env=env)
        _accept_written(repo, old, new, env)
        repo.run("update-index", "-q", "--refresh", env=env)
        how = ("read-tree", "-m", "-u", "-n", *_trees(repo, old, new))
        code, _, told = repo.run(*how, env=env)
    named = re.findall(r"(?m)^error: Entry '(.*)' ", told)
    return (named or told.strip().splitlines()[:1]) if code else []


def _deleted(repo: Repo, changes: Mapping[str, Change]) -> list[str]:
    """Files that are gone from the disk: git itself would bring them back. A sparse checkout leaves
    some out.
    """
    files = [p for p, (was, now) in changes.items() if was and now and was.mode != SUBMODULE]
    gone = [p for p in files if p not in DOCUMENTS and not os.path.lexists(repo.root / p)]
    return sorted({*gone} - index.flagged(repo, gone).keys())


def _differs(repo: Repo, tree: str, path: str) -> bool:
    """Whether something else stands where the file is to be."""
    place, entry = repo.root / path, repo.entry(tree, path)
    if not os.path.lexists(place) or not entry or entry.mode == SUBMODULE:
        return False
    return place.is_dir() or _hash(repo, path, entry.mode == LINK) != entry.blob


def _hash(repo: Repo, path: str, link: bool) -> str:
    if link:
        place = repo.root / path
        return repo.blob(os.fsencode(os.readlink(place))) if place.is_symlink() else ""
    code, out, _ = repo.run("hash-object", "--", path)
    return "" if code else out.decode().strip()


def advance(
    repo: Repo, head: Head, new: str, subject: str, marks: Mapping[str, str] | None = None
) -> bool:
    """The branch, from where `head` has it, with refs that were not there before, or nothing: False
    where it has moved.
    """
    rows = (
        f"update refs/heads/{head.branch} {new} {head.commit}",
        f"create {_behind(repo)} {head.commit}",
        *(f"create {ref} {commit}" for ref, commit in (marks or {}).items()),
    )
    argv = ("update-ref", "--create-reflog", "-m", f"commit: {subject}", "--stdin")
    code, _, told = repo.run(*argv, given=os.fsencode("\n".join((*rows, ""))))
    if code and repo.head() == head:
        raise GitFailed(argv, code, told)
    return not code


def follow(repo: Repo, replay: Replay) -> None:
    """Index and files, from where the ref says to HEAD; twice is once."""
    if not (old := behind(repo)):
        return
    new = repo.head().commit
    _accept_written(repo, old, new)
    repo.run("update-index", "-q", "--refresh")  # what was merely touched is no change
    repo.git("read-tree", "-m", "-u", *_trees(repo, old, new))
    for name in DOCUMENTS:
        _forward(repo, name, old, new, replay)
    repo.git("update-ref", "-d", _behind(repo), old)


def _trees(repo: Repo, *commits: str) -> list[str]:
    """Without the two documents."""
    return [bare(repo, one) for one in commits]


def _accept_written(repo: Repo, old: str, new: str, env: Mapping[str, str] | None = None) -> None:
    """What stands in the files already: a killed git had not yet written the index, or a task was
    carried out in place.
    """
    index.update(
        repo,
        {
            path: entry
            for path, (_, entry) in repo.changed(old, new).items()
            if path not in DOCUMENTS and entry and entry.mode != SUBMODULE
            if os.path.lexists(repo.root / path) and not _differs(repo, new, path)
        },
        env,
    )


def _forward(repo: Repo, name: str, old: str, new: str, replay: Replay) -> None:
    """In the index: what the person has staged of it stays staged."""
    was, now = repo.entry(old, name), repo.entry(new, name)
    there = index.entry(repo, name)
    if now is None or was == now or there == now:
        return
    if there and there != was:
        text = replay(name, decode(repo.data(there.blob)), decode(repo.data(now.blob)))
        now = Entry(there.mode, repo.blob(encode(text)))
    index.update(repo, {name: now})
