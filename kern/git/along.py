"""The person's index and files go along with their branch, from one commit to another, on or back;
what they have not committed stays as it is.

`keep` are paths that stay as they are, whatever the commits say of them. Nothing here decides
whether a commit is to be taken back.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath

from kern.git import faults, index
from kern.git.history import Commit
from kern.git.repository import SUBMODULE, Change, Entry, Repo

_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_AT_ONCE = 500  # paths in a command line
_MOST = 20  # commits in a message


def blocked(repo: Repo, old: str, new: str, keep: Collection[str]) -> list[str]:
    """The paths in which something uncommitted lies in the way; nothing is written."""
    changes = {path: both for path, both in repo.changed(old, new).items() if path not in keep}
    return sorted({*_in_the_way(repo, changes), *uncommitted(repo, changes)})


def follow(repo: Repo, old: str, new: str, keep: Collection[str]) -> list[str]:
    """Files and index, as `old` has them, become what `new` has. A second call goes on where a kill
    ended the first. Returns what a person has changed meanwhile: that stays as it is.
    """
    changes = {path: both for path, both in repo.changed(old, new).items() if path not in keep}
    way = _in_the_way(repo, changes)
    if not changes or (not (way or _deleted(repo, changes)) and _read(repo, old, new, keep)):
        return []
    before = {path: was for path, (was, _) in changes.items()}
    after = {path: now for path, (_, now) in changes.items()}
    staged = _staged(repo, changes)
    own = {path for path in changes if staged[path] not in changes[path]}
    behind, ahead = _unlike(repo, after), _unlike(repo, before)
    due = sorted(behind - ahead - own - way)
    # First what goes: a folder may have become a file.
    gone = [path for path in due if not after[path]]
    _with_paths(repo, gone, "rm", "--quiet", "--force", "--ignore-unmatch")
    _with_paths(repo, [path for path in due if after[path]], "checkout", new)
    index.update(repo, {path: now for path, now in after.items() if path not in own})
    repo.run("update-index", "-q", "--refresh")
    return sorted(behind & (ahead | own | way))


def _in_the_way(repo: Repo, changes: Mapping[str, Change]) -> set[str]:
    """New paths where something stands that git does not track, or above which it does: git itself
    overwrites what it ignores.
    """
    way = set[str]()
    for path, (was, now) in changes.items():
        place = repo.root / path
        if was is not None or now is None:
            continue
        if any(_is_file(repo.root / one) for one in PurePath(path).parents if str(one) in changes):
            continue
        above = [one for one in PurePath(path).parents if _is_file(repo.root / one)]
        inner = place.rglob("*") if not _is_file(place) and place.is_dir() else ()
        kept = any(
            _is_file(one) and str(one.relative_to(repo.root)) not in changes for one in inner
        )
        if above or kept or _is_file(place):
            way.add(path)
    return way


def _deleted(repo: Repo, changes: Mapping[str, Change]) -> set[str]:
    """Files that are gone from the disk: git itself would bring them back. A sparse checkout leaves
    some out.
    """
    held = {path for path, (was, now) in changes.items() if was and now and was.mode != SUBMODULE}
    gone = {path for path in held if not os.path.lexists(repo.root / path)}
    return gone - index.flagged(repo, gone).keys() if gone else gone


def _is_file(place: Path) -> bool:
    return os.path.lexists(place) and (place.is_symlink() or not place.is_dir())


def _read(repo: Repo, old: str, new: str, keep: Collection[str]) -> bool:
    """git's own way to go from one commit to another: all of it, or nothing where a file that it
    would write is not as the index has it. It is looked at again where only its times differ.
    """
    shown = repo.tree_with(new, {path: repo.entry(old, path) for path in keep})
    argv = ("read-tree", "-m", "-u", old, shown)
    if not repo.run(*argv)[0]:
        return True
    repo.run("update-index", "-q", "--refresh")
    return not repo.run(*argv)[0]


def _staged(repo: Repo, paths: Collection[str]) -> dict[str, Entry | None]:
    """What the index has of them; of one in conflict something that no commit has."""
    found: dict[str, Entry | None] = dict.fromkeys(paths)
    names = sorted(paths)
    for at in range(0, len(names), _AT_ONCE):
        argv = ("ls-files", "--stage", "-z", "--", *names[at : at + _AT_ONCE])
        for row in repo.git(*argv, env=_LITERAL).split(b"\0"):
            head, _, path = os.fsdecode(row).partition("\t")
            if path in found:
                mode, blob, stage = head.split(" ")
                found[path] = Entry(mode, blob if stage == "0" else "")
    return found


def _unlike(repo: Repo, wanted: Mapping[str, Entry | None]) -> set[str]:
    """The paths that stand otherwise on the disk. Of a submodule nothing is there to tell."""
    files = {path: it for path, it in wanted.items() if it is None or it.mode != SUBMODULE}
    how = ("--no-renames", "--untracked-files=all", "--ignored", "--ignore-submodules=all")
    found: set[str] = set()
    names = sorted(files)
    with index.private(repo, copy=True) as env:  # a new entry is looked at, whatever it was marked
        index.update(repo, files, env)
        for at in range(0, len(names), _AT_ONCE):
            argv = ("status", "--porcelain", "-z", *how, "--", *names[at : at + _AT_ONCE])
            rows = repo.git(*argv, env={**env, **_LITERAL}).split(b"\0")
            found |= {os.fsdecode(row[3:]) for row in rows if row[1:2].strip()}
    return found & files.keys()


def _with_paths(repo: Repo, paths: Sequence[str], *argv: str) -> None:
    if paths:
        given = os.fsencode("\0".join([*paths, ""]))
        flags = ("--pathspec-from-file=-", "--pathspec-file-nul")
        repo.git(*argv, *flags, given=given, env=_LITERAL)


# -------------------------------------------------------------------- a commit taken back


def without(repo: Repo, commit: Commit, keep: Sequence[str]) -> tuple[str, list[str]]:
    """HEAD's tree without the commit's change, or the paths in conflict; the `keep` files stay."""
    now = {path: repo.entry(commit.sha, path) for path in keep}
    above = repo.tree(commit.parents[0]) if commit.parents else ""
    before = repo.tree_with(above, now)
    return index.merge(repo, commit.sha, repo.head().commit, before)


def later(repo: Repo, commit: Commit, paths: Collection[str]) -> list[str]:
    """The commits since then that touch the paths, the newest first."""
    argv = ("log", f"-{_MOST}", "--no-show-signature", "--format=%h %s", f"{commit.sha}..HEAD")
    _, out, _ = repo.run(*argv, "--", *list(paths)[:_MOST], env=_LITERAL)
    return out.decode("utf-8", "replace").splitlines()


def uncommitted(repo: Repo, paths: Collection[str]) -> list[str]:
    """Those that a person has changed, staged or put there and not committed: ignored or not, and
    marked in the index as unchanged or not.
    """
    argv = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored")
    names, head = sorted(paths), repo.head().commit
    # git does not look into a folder that is ignored as a whole.
    found = [p for p in names if _is_file(repo.root / p) and repo.entry(head, p) is None]
    with index.private(repo, copy=True) as env:
        if marked := [
            path for path, letters in index.flagged(repo, names).items() if "h" in letters
        ]:
            given = os.fsencode("\0".join([*marked, ""]))
            repo.git("update-index", "-z", "--no-assume-unchanged", "--stdin", given=given, env=env)
        for at in range(0, len(names), _AT_ONCE):
            raw = repo.git(*argv, "--", *names[at : at + _AT_ONCE], env={**env, **_LITERAL})
            found += [os.fsdecode(row[3:]) for row in raw.split(b"\0") if row]
    return found


def committed(repo: Repo, tree: str, parent: str, message: str) -> str:
    """A commit of the person's, signed where they sign; no ref names it yet."""
    sign = ("-S",) if repo.is_set("commit.gpgsign") else ()
    argv = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", *sign, "-p", parent, tree)
    code, out, told = repo.run(*argv, given=message.encode("utf-8", "surrogateescape"))
    if code:
        raise faults.no_commit(told)
    return out.decode().strip()
