"""The branch moves to a commit, and the person's index and files follow it.

A ref says how far they are behind, so that a killed landing goes on. git keeps what the person has
changed: where that is in the way, nothing moves.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kern.git.environment import GitFailed
from kern.git.repository import DOCUMENTS, Change, Entry, Head, Repo

_MOST_NAMED = 1000  # paths on a command line
_NONE = "none"  # where no index is


def _behind(repo: Repo) -> str:
    return f"refs/kern/behind/{repo.worktree}"


def waiting_refs(repo: Repo) -> str:
    return f"refs/kern/waiting/{repo.worktree}/"


def waiting(repo: Repo) -> str:
    """The ref of the last of the commits that wait to land on the branch."""
    return f"{waiting_refs(repo)}{repo.branch()}/@"


def count_waiting(repo: Repo) -> int:
    tip = repo.store.id(waiting(repo))
    return int(repo.text("rev-list", "--count", f"HEAD..{tip}")) if tip else 0


def behind(repo: Repo) -> str:
    """The commit that the person's files have yet to follow the branch from; else empty."""
    return repo.store.id(_behind(repo))


def in_the_way(repo: Repo, old: str, new: str) -> list[str]:
    """The person's changes that keep their files from following, by path or in git's words."""
    if not (changes := _changes(repo, old, new)):
        return []
    if not (repo.git_dir / "index").exists():  # git would take each file for one of nobody's
        return ["nothing is checked out"]
    if unmerged := repo.text("ls-files", "--unmerged"):
        return [unmerged.splitlines()[0].partition("\t")[2]]
    there = {path for path in changes if os.path.lexists(repo.root / path)}
    written = _written(repo, changes)
    # git itself would bring back what a person removed, and overwrite what it ignores
    gone = {path for path, (was, new) in changes.items() if was and new} - there
    if gone and (removed := gone.intersection(repo.paths("ls-files", "-z", "--deleted"))):
        return sorted(removed)
    made = {path for path, (was, _) in changes.items() if not was} & there - written.keys()
    unknown = {path for path in made if not _is_tracked(repo, path, changes)}
    above = {str(one) for path, (_, new) in changes.items() if new for one in Path(path).parents}
    unknown |= {path for path in above - changes.keys() if _is_no_folder(repo.root / path)}
    if unknown:
        return sorted(unknown)
    names = (f":(top,literal){path}" for path in changes) if len(changes) <= _MOST_NAMED else ()
    mine = repo.git("ls-files", "--stage", "-z", "--", *names)
    sides = zip(*changes.values(), strict=True)
    trees = [_tree(repo, dict(zip(changes, side, strict=True))) for side in sides]
    with repo.private_index(repo.scratch / _NONE) as env:
        repo.git("read-tree", "--empty", env=env)  # with no index at all git compares nothing
        repo.git("update-index", "-z", "--index-info", stdin=mine, env=env)
        repo.update_index(written, env)
        complaint = _read(repo, *trees, "-n", env=env)
    if complaint:  # some files only their times, in the whole index, show to be unchanged
        with repo.private_index() as env:
            repo.update_index(written, env)
            complaint = _read(repo, old, new, "-n", env=env)
    entries = re.findall(r"(?m)^error: Entry '(.*)' ", complaint)
    return entries or complaint.splitlines()[:1]


def _tree(repo: Repo, entries: Mapping[str, Entry | None]) -> str:
    """Of these alone: git reads a whole one much longer."""
    with repo.private_index(repo.scratch / _NONE) as env:
        repo.update_index({path: entry for path, entry in entries.items() if entry}, env)
        return repo.text("write-tree", env=env)


def _changes(repo: Repo, old: str, new: str) -> dict[str, Change]:
    """Without the two documents."""
    return {p: change for p, change in repo.changed(old, new).items() if p not in DOCUMENTS}


def _is_tracked(repo: Repo, path: str, changes: Mapping[str, Change]) -> bool:
    """Of a folder all of it, what git ignores too, and nothing merely staged: a file in its place
    would overwrite that.
    """
    kinds, there = ("--cached", "--others"), f":(top,literal){path}"
    listed, others = ({*repo.paths("ls-files", "-z", kind, "--", there)} for kind in kinds)
    return bool(listed and listed <= changes.keys() and not others)


def _is_no_folder(place: Path) -> bool:
    return os.path.lexists(place) and (place.is_symlink() or not place.is_dir())


def _read(repo: Repo, old: str, new: str, *how: str, env: Mapping[str, str] | None = None) -> str:
    """Index and files follow, or what git says against it; against what was merely touched nothing
    once it has looked at all of them.
    """
    argv = ("read-tree", "-m", "-u", *how, repo.bare(old), repo.bare(new))
    code, _, complaint = repo.run(*argv, env=env)
    if code and "not uptodate" in complaint:
        repo.run("update-index", "-q", "--refresh", env=env)
        code, _, complaint = repo.run(*argv, env=env)
    return (complaint.strip() or "git does not say why") if code else ""


def _written(repo: Repo, changes: Mapping[str, Change]) -> dict[str, Entry]:
    """What stands in the files already: a killed git had not yet written the index, or a task was
    carried out in place.
    """
    news = {path: new for path, (_, new) in changes.items() if new and not new.is_submodule}
    there = {path: new for path, new in news.items() if os.path.lexists(repo.root / path)}
    if not there:
        return {}
    with repo.private_index(repo.scratch / _NONE) as env:
        repo.update_index(there, env)
        look = ("-c", "diff.autoRefreshIndex=true", "diff", "--no-ext-diff", "-O/dev/null")
        differs = {*repo.paths(*look, "--name-only", "-z", env=env)}
    return {path: new for path, new in there.items() if path not in differs}


def advance(
    repo: Repo,
    head: Head,
    new: str,
    subject: str,
    marks: Mapping[str, str] | None = None,
    removed: Mapping[str, str] | None = None,
) -> bool:
    """The branch, from where `head` has it, with refs that were not there before and without those
    that are `removed`, or nothing: False where it has moved.
    """
    rows = (
        f"update refs/heads/{head.branch} {new} {head.commit}",
        f"create {_behind(repo)} {head.commit}",
        *(f"create {ref} {commit}" for ref, commit in (marks or {}).items()),
        *(f"delete {ref} {commit}" for ref, commit in (removed or {}).items()),
    )
    argv = ("update-ref", "--create-reflog", "-m", f"commit: {subject}", "--stdin")
    code, _, complaint = repo.run(*argv, stdin=os.fsencode("\n".join((*rows, ""))))
    if code and repo.real_head() == head:
        raise GitFailed(argv, code, complaint)
    return not code


def follow(repo: Repo) -> None:
    """Index and files, from where the ref says to HEAD; twice is once. Of kern's documents the
    index has what was committed, as the files have it already.
    """
    if not (old := behind(repo)):
        return
    new = repo.real_head().commit
    documents = {name: (repo.entry(old, name), repo.entry(new, name)) for name in DOCUMENTS}
    changed = {name: now for name, (was, now) in documents.items() if now and was != now}
    repo.update_index({**changed, **_written(repo, _changes(repo, old, new))})
    if complaint := _read(repo, old, new):
        raise GitFailed(("read-tree", "-m"), 128, complaint)
    repo.git("update-ref", "-d", _behind(repo), old)
