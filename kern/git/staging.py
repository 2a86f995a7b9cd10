"""What is staged: what stage 2 did to the index alone, and the person's index, as it was before an
attempt and on to the task's commit.

The tree does not show that stage 2 stopped tracking a file, or added one that git ignores, so
stage2.json remembers it beside the tree; the index itself goes back.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kern.frozen import frozen
from kern.git import history, index, operations
from kern.git.history import Commit
from kern.git.refs import StartRef
from kern.git.repository import SUBMODULE, Change, Entry, Repo
from kern.git.snapshot import Snapshots, left_out
from kern.model import LEARNINGS, SPEC, Key
from kern.plain import decode, encode, some

Staged = Mapping[str, Change]
# kern's edits once more: path, the staged text, the committed text, the task.
Replay = Callable[[str, str, str, Key], str]


def tree(repo: Repo, start: StartRef) -> str:
    """The index as stage 2 leaves it; empty where it tells nothing of the task: in the middle of a
    merge, where history was rewritten, where it was thrown away.
    """
    head = repo.store.id("HEAD^{commit}")
    if not head or operations.under_way(repo):
        return ""
    if history.since(repo, start.base, head) is None:
        return ""
    found = index.tree(repo)
    return found if repo.store.tree(found) else ""


def of(repo: Repo, snapshots: Snapshots, start: StartRef, staged: str, after: str) -> Staged:
    """What stands in the index `staged` and not in the working tree as the snapshot `after` has
    it.
    """
    if not staged:
        return {}
    change = repo.changed(f"{start.index}^{{tree}}", staged)
    if not change:
        return {}
    found: dict[str, Change] = {}
    added, watched = [], snapshots.large(start.tree)
    for path, (old, new) in change.items():
        if left_out(path) or SUBMODULE in {entry.mode for entry in (old, new) if entry}:
            continue
        committed = repo.entry(start.base, path)
        if new is None and committed and repo.entry(after, path):
            found[path] = committed, None
        if old is None and committed is None and path not in watched:
            added.append(path)
    hidden = snapshots.ignored_by(after, added)
    forced = [path for path in added if path in hidden or not repo.entry(after, path)]
    return found | {path: (None, entry) for path, entry in snapshots.files(forced).items()}


def words(staged: Staged) -> str:
    out = sorted(path for path, (_, new) in staged.items() if new is None)
    told = [f"stops tracking {some(out)}"] if out else []
    if added := sorted(staged.keys() - {*out}):
        told.append(f"adds {some(added)}, which git ignores")
    return f"the task {' and '.join(told)}"


def noted(staged: Staged) -> dict[str, list[str]]:
    """As stage2.json holds it: the mode and blob before and after, empty for none."""
    return {path: [_row(old), _row(new)] for path, (old, new) in staged.items()}


def _row(entry: Entry | None) -> str:
    return f"{entry.mode} {entry.blob}" if entry else ""


def read(kern: Mapping[str, Any]) -> dict[str, Change]:
    """What `noted` wrote; anything else does not count."""
    value = kern.get("index")
    found: dict[str, Change] = {}
    for path, change in value.items() if isinstance(value, dict) else ():
        if isinstance(change, list) and len(change) == 2:
            found[path] = _entry(change[0]), _entry(change[1])
    return found


def _entry(told: object) -> Entry | None:
    if isinstance(told, str) and re.fullmatch(r"(100644|100755|120000) [0-9a-f]{40,64}", told):
        return Entry(*told.split(" "))
    return None


# -------------------------------------------------------------------- as it was before


@frozen
class Lost:
    """What is to go out of the index: it as a whole, and the paths that hold something else."""

    tree: str
    paths: Collection[str]


def lost(repo: Repo, start: StartRef, touched: Collection[str]) -> Lost:
    """What is not in the index as it was before stage 2."""
    now = index.tree(repo)
    change = repo.changed(f"{start.index}^{{tree}}", now).items()
    new = {path: new for path, (_, new) in change if new and path not in touched}
    return Lost(now, {path for path, entry in new.items() if entry.mode != SUBMODULE})


def back_to(repo: Repo, before: str, touched: Collection[str]) -> str:
    """The index holds what that tree does, but where HEAD's move touched it; the tree of what it
    held instead, empty where nothing had changed.
    """
    now = index.tree(repo)
    change = repo.changed(before, now)
    old = {path: entries[0] for path, entries in change.items() if path not in touched}
    index.update(repo, old)
    return now if old else ""


def alone(repo: Repo, lost: Lost, held: Sequence[str]) -> list[str]:
    """The paths whose staged contents neither HEAD nor one of those trees holds; the two documents,
    which no tree holds, stand on the disk.
    """
    paths = {*lost.paths}
    for one in ("HEAD^{tree}", *held):
        paths &= repo.changed(one, lost.tree).keys()
    return sorted(p for p in paths if not (left_out(p) and _stands(repo, p, lost.tree)))


def _stands(repo: Repo, path: str, tree: str) -> bool:
    try:
        data = (repo.root / path).read_bytes()
    except OSError:
        return False
    entry = repo.entry(tree, path)
    return entry is not None and entry.blob == repo.blob(data, path=path)


# -------------------------------------------------------------------- on to the commit


def forward(repo: Repo, commit: Commit, key: Key | None, replay: Replay) -> list[str]:
    """Lines that the person staged stay staged on top of it; the paths where they cannot."""
    if not commit.parents:
        return []
    parent = f"{commit.parents[0]}^{{tree}}"
    staged = repo.changed(parent, index.tree(repo))
    changes: dict[str, Entry | None] = {}
    behind = []
    for path, (_, new) in history.changed_by(repo, commit).items():
        if path not in staged:
            changes[path] = new
        elif (had := staged[path][1]) != new:
            ours, theirs = (repo.tree_with(parent, {path: one}) for one in (had, new))
            merged, conflicts = index.merge(repo, parent, ours, theirs)
            if not conflicts:
                changes[path] = repo.entry(merged, path)
            elif had and new and key and path in (SPEC, LEARNINGS):
                # kern's edits, which are pure, once more in the staged text.
                text, came = (decode(repo.data(one.blob)) for one in (had, new))
                told = replay(path, text, came, key)
                changes[path] = Entry(had.mode, repo.blob(encode(told)))
            else:
                behind.append(path)
    index.update(repo, changes)
    return behind
