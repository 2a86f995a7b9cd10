"""What lands, as git's refs have it: each task at most once, and what a kill may cut in two.

One transaction moves the branch. With it comes a ref for each task and base, which can be created
once, and one that says from where the person's files and documents have yet to be brought along;
that one goes last.
"""

import json
from functools import partial

from kern import plain
from kern.errors import KernError
from kern.fleet import papers
from kern.fleet.work import Work
from kern.frozen import frozen
from kern.git import along, history, index, refs
from kern.git.faults import GitFailed
from kern.git.ignore import DOCUMENTS
from kern.git.repository import Entry, Repo
from kern.model import LEARNINGS, SPEC, Key
from kern.pipeline.place import Place
from kern.plain import some

LANDED = "refs/kern/landed"
UNDER_WAY = "refs/kern/landing"


class Moved(Exception):
    """The branch, or a ref that was to be made, is not as it was when the work was merged."""


@frozen
class Arrival:
    """One task that lands."""

    key: Key
    ref: str
    commit: str  # on the branch
    spec: str = ""  # the worker's SPEC.md
    learned: str = ""  # what it wrote into LEARNINGS.md


@frozen
class Move:
    """Of a branch, from the commit `old` to `new`, its descendant."""

    old: str
    new: str
    arrivals: tuple[Arrival, ...]
    record: str = ""  # the commit that the ref names


def ref(work: Work) -> str:
    return f"{LANDED}/{refs.slug(work.key)}/{work.base}"


def already(repo: Repo, work: Work, head: str) -> str:
    """The commit as which it has landed; empty where it has not. One that a person has taken out of
    the branch is forgotten.
    """
    commit = repo.store.id(ref(work))
    if commit and not history.is_within(repo, commit, head):
        refs.delete(repo, ref(work), commit)
        return ""
    return commit


def move(repo: Repo, branch: str, wanted: Move) -> None:
    """All of it or nothing. Raises Moved, and GitFailed where nothing has."""
    record = _record(repo, wanted)
    lines = [f"create {_under_way(repo, branch)} {record}"]
    lines += [f"create {one.ref} {one.commit}" for one in wanted.arrivals]
    lines += [f"update refs/heads/{branch} {wanted.new} {wanted.old}"]
    why = f"kern: land {plain.count(len(wanted.arrivals), 'task')}"
    given = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    argv = ("update-ref", "-m", why, "--stdin")
    code, _, told = repo.run(*argv, given=given)
    if not code:
        return
    there = (_under_way(repo, branch), *(one.ref for one in wanted.arrivals))
    if repo.store.id(f"refs/heads/{branch}") != wanted.old or any(map(repo.store.id, there)):
        raise Moved(told.strip())
    raise GitFailed(argv, code, told)


def finish(here: Place) -> list[str]:
    """Files, index and documents follow the branch, where that has yet to be done; what a person
    should know of it. A second call goes on where a kill ended the first.
    """
    repo, head = here.repo, here.repo.head()
    left = _left(repo, head.branch)
    if left is None:
        return []
    told = []
    if not history.is_within(repo, left.new, head.commit):  # it did not come about
        for one in left.arrivals:
            if repo.store.id(one.ref) == one.commit:
                refs.delete(repo, one.ref, one.commit)
    else:
        if mine := along.follow(repo, left.old, left.new, DOCUMENTS):
            told.append(f"changed while a task landed, and left as it is: {some(mine)}")
        _write(here, left)
    refs.delete(repo, _under_way(repo, head.branch), left.record)
    return told


def forget(repo: Repo) -> None:
    """What has landed before this run comes from no worker any more."""
    told = repo.text("for-each-ref", "--format=delete %(refname)", LANDED)
    if told:
        repo.git("update-ref", "--stdin", given=f"{told}\n".encode())


# ---------------------------------------------------------------- the two documents


def _write(here: Place, left: Move) -> None:
    """In the index, where a person may have staged something, then on the disk."""
    edits = {SPEC: partial(_ticked, left), LEARNINGS: partial(_taught, left)}
    changes: dict[str, Entry | None] = {}
    for name, edited in edits.items():
        was, now = (here.repo.entry(one, name) for one in (left.old, left.new))
        staged = index.entry(here.repo, name) if was != now else now
        if staged == was and now != was:
            changes[name] = now
        elif staged and staged != now:
            text = edited(plain.decode(here.repo.data(staged.blob)))
            changes[name] = Entry(staged.mode, here.repo.blob(plain.encode(text)))
    index.update(here.repo, changes)
    here.papers.edit(lambda text, _: _ticked(left, text))
    text = here.papers.read(LEARNINGS) or ""
    if (new := _taught(left, text)) != text:
        here.papers.write(LEARNINGS, new)


def _ticked(left: Move, text: str) -> str:
    for one in left.arrivals:
        text = papers.ticked(text, one.key, one.spec)
    return text


def _taught(left: Move, text: str) -> str:
    for one in left.arrivals:
        text = papers.taught(text, papers.learned("", one.learned))
    return text


# ---------------------------------------------------------------- the record


def _under_way(repo: Repo, branch: str) -> str:
    return f"{UNDER_WAY}/{repo.worktree}/{branch}/@"


def _record(repo: Repo, wanted: Move) -> str:
    """A commit with both ends as its parents; what the workers wrote is its tree."""
    texts = dict[str, Entry | None]()
    for number, one in enumerate(wanted.arrivals):
        for name, text in ((SPEC, one.spec), (LEARNINGS, one.learned)):
            texts[f"{number}/{name}"] = Entry("100644", repo.blob(plain.encode(text)))
    rows = [[*one.key, one.ref, one.commit] for one in wanted.arrivals]
    tree = repo.tree_with("", texts)
    return repo.commit_object(tree, (wanted.old, wanted.new), f"landing\n\n{json.dumps(rows)}\n")


def _left(repo: Repo, branch: str) -> Move | None:
    name = _under_way(repo, branch) if branch else ""
    record = repo.store.id(name) if name else ""
    if not record:
        return None
    try:
        made = history.commit(repo, record)
        message = (repo.store.read(record, "commit") or b"").partition(b"\n\nlanding\n\n")[2]
        old, new = made.parents
        arrivals = [
            Arrival(
                Key(parent, text, nth),
                *(ref, commit),
                *(_text(repo, record, f"{number}/{paper}") for paper in (SPEC, LEARNINGS)),
            )
            for number, (parent, text, nth, ref, commit) in enumerate(json.loads(message))
        ]
    except (ValueError, TypeError, KernError):
        raise KernError(
            f"{name} cannot be read: it says what has yet to be done for tasks that landed",
            hint=f"git log -3 {branch} shows what landed, git status what is left; then: "
            f"git update-ref -d {name}",
        ) from None
    return Move(old, new, tuple(arrivals), record)


def _text(repo: Repo, record: str, path: str) -> str:
    return plain.decode(repo.content(record, path) or b"")
