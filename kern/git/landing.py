"""The branch moves to a commit, and the person's index and files follow it.

A ref says how far they are behind, so that a killed landing goes on. git keeps what the person has
changed: where that is in the way, nothing moves.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence

from kern.git import index
from kern.git.faults import GitFailed
from kern.git.ignore import DOCUMENTS, bare
from kern.git.repository import LINK, SUBMODULE, Change, Entry, Head, Repo
from kern.plain import decode, encode

Replay = Callable[[str, str, str], str]  # a document's name, the staged text, the committed text


def _behind(repo: Repo) -> str:
    return f"refs/kern/behind/{repo.worktree}"


def waiting_refs(repo: Repo) -> str:
    return f"refs/kern/waiting/{repo.worktree}/"


def waiting(repo: Repo) -> str:
    """The ref of the last of the commits that wait to land on the branch."""
    return f"{waiting_refs(repo)}{repo.real_head().branch}/@"


def count_waiting(repo: Repo) -> int:
    tip = repo.store.id(waiting(repo))
    return int(repo.text("rev-list", "--count", f"HEAD..{tip}")) if tip else 0


def behind(repo: Repo) -> str:
    """The commit that the person's files have yet to follow the branch from; else empty."""
    return repo.store.id(_behind(repo))


def in_the_way(repo: Repo, old: str, new: str) -> list[str]:
    """The person's changes that keep their files from following, by path or in git's words."""
    changes = _changes(repo, old, new)
    marks = index.flagged(repo, changes)
    files = [p for p, (was, now) in changes.items() if was and now and was.mode != SUBMODULE]
    # git itself would bring back what is gone from the disk; a sparse checkout leaves some out
    if gone := [p for p in files if p not in marks and not os.path.lexists(repo.root / p)]:
        return sorted(gone)
    written, others = _written(repo, changes)
    there = [path for path in others if changes[path][0] is None]
    if untracked := [p for p in there if p not in index.entries(repo, *there)]:
        return untracked  # git itself would overwrite what it ignores
    with index.private(repo, copy=True) as env:
        # What a person has marked as unchanged git would overwrite unseen.
        if marked := [path for path, mark in marks.items() if mark.islower()]:
            given = os.fsencode("".join(f"{path}\0" for path in marked))
            repo.git("update-index", "-z", "--no-assume-unchanged", "--stdin", given=given, env=env)
        index.update(repo, written, env)
        repo.run("update-index", "-q", "--refresh", env=env)
        how = ("read-tree", "-m", "-u", "-n", *_trees(repo, old, new))
        code, _, told = repo.run(*how, env=env)
    named = re.findall(r"(?m)^error: Entry '(.*)' ", told)
    return (named or told.strip().splitlines()[:1]) if code else []


def _changes(repo: Repo, old: str, new: str) -> dict[str, Change]:
    """Without the two documents."""
    return {p: change for p, change in repo.changed(old, new).items() if p not in DOCUMENTS}


def _written(repo: Repo, changes: Mapping[str, Change]) -> tuple[dict[str, Entry], list[str]]:
    """What stands in the files already (a killed git had not yet written the index, or a task was
    carried out in place), and the paths where something else does.
    """
    news = {path: new for path, (_, new) in changes.items() if new and new.mode != SUBMODULE}
    there = [path for path in news if os.path.lexists(repo.root / path)]
    files = [p for p in there if news[p].mode != LINK and not (repo.root / p).is_dir()]
    blobs = dict(zip(files, _hashes(repo, files), strict=True))
    for path in there:
        if news[path].mode == LINK and (place := repo.root / path).is_symlink():
            blobs[path] = repo.blob(os.fsencode(os.readlink(place)))
    same = {path: news[path] for path in there if blobs.get(path) == news[path].blob}
    return same, [path for path in there if path not in same]


def _hashes(repo: Repo, files: Sequence[str]) -> list[str]:
    """As git would add them; empty where it cannot."""
    if not files:
        return []
    given = os.fsencode("".join(f"{path}\n" for path in files))
    code, out, _ = repo.run("hash-object", "--stdin-paths", given=given)
    if len(found := out.decode().split()) == len(files) and not code:
        return found
    if len(files) == 1:
        code, out, _ = repo.run("hash-object", "--", *files)
        return ["" if code else out.decode().strip()]
    return [one for path in files for one in _hashes(repo, [path])]


def advance(
    repo: Repo,
    head: Head,
    new: str,
    subject: str,
    marks: Mapping[str, str] | None = None,
    gone: Mapping[str, str] | None = None,
) -> bool:
    """The branch, from where `head` has it, with refs that were not there before and without those
    that are `gone`, or nothing: False where it has moved.
    """
    rows = (
        f"update refs/heads/{head.branch} {new} {head.commit}",
        f"create {_behind(repo)} {head.commit}",
        *(f"create {ref} {commit}" for ref, commit in (marks or {}).items()),
        *(f"delete {ref} {commit}" for ref, commit in (gone or {}).items()),
    )
    argv = ("update-ref", "--create-reflog", "-m", f"commit: {subject}", "--stdin")
    code, _, told = repo.run(*argv, given=os.fsencode("\n".join((*rows, ""))))
    if code and repo.real_head() == head:
        raise GitFailed(argv, code, told)
    return not code


def follow(repo: Repo, replay: Replay) -> None:
    """Index and files, from where the ref says to HEAD; twice is once."""
    if not (old := behind(repo)):
        return
    new = repo.real_head().commit
    written, _ = _written(repo, _changes(repo, old, new))
    index.update(repo, written | _documents(repo, old, new, replay))
    repo.run("update-index", "-q", "--refresh")  # what was merely touched is no change
    repo.git("read-tree", "-m", "-u", *_trees(repo, old, new))
    repo.git("update-ref", "-d", _behind(repo), old)


def _trees(repo: Repo, *commits: str) -> list[str]:
    """Without the two documents."""
    return [bare(repo, one) for one in commits]


def _documents(repo: Repo, old: str, new: str, replay: Replay) -> dict[str, Entry]:
    """The two for the index: what the person has staged of them stays staged."""
    staged, found = index.entries(repo, *DOCUMENTS), dict[str, Entry]()
    for name in DOCUMENTS:
        was, now, there = repo.entry(old, name), repo.entry(new, name), staged.get(name)
        if now is None or was == now or there == now:
            continue
        if there and there != was:
            text = replay(name, decode(repo.data(there.blob)), decode(repo.data(now.blob)))
            now = Entry(there.mode, repo.blob(encode(text)))
        found[name] = now
    return found
