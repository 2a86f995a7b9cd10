"""Keep, then put back: nothing that an agent or a person made is lost when the tree returns to what
it was.
"""

from collections.abc import Collection, Mapping, Sequence

from kern import guard, history, index, operations, plain, refs
from kern.documents import SPEC, encode
from kern.events import Sink, Warned
from kern.history import Commit
from kern.refs import StartRef
from kern.repo import Entry, Head, Repo
from kern.snapshot import Snapshots
from kern.spec import Key


class Keeper:
    def __init__(self, repo: Repo, snapshots: Snapshots, sink: Sink) -> None:
        self.repo = repo
        self.snapshots = snapshots
        self.sink = sink

    def warn(self, text: str) -> None:
        self.sink(Warned(text))

    def keep(self, key: Key, name: str, tree: str, parent: str) -> str:
        """A commit of the whole tree under the task's attempts; its short ref name. With what was
        there before as its parent, `git show` shows what the attempt changed and nothing else.
        """
        text = plain.line(key.text)
        message = f"kern attempt {name}: {plain.line(text, 60)}\n\nKern-Task: {text}\n"
        return refs.keep(self.repo, refs.slug(key), name, tree, message, parent)

    # ---------------------------------------------------------------- the working tree

    def undo(self, key: Key, name: str, before: str, parent: str) -> None:
        """What an agent wrote that may only read."""
        after = self.snapshots.take(before)
        if changed := self.repo.changed(before, after):
            ref = self.keep(key, name, after, parent)
            self.snapshots.put_back({path: old for path, (old, _) in changed.items()})
            self.warn(f"the research agent wrote: put back, kept as {ref}")

    def name_strangers(self, before: str) -> None:
        """Where an agent could not have written, a person did."""
        if changed := sorted(self.repo.changed(before, self.snapshots.take(before))):
            self.warn(f"changed during research, not by the agent; kept as yours: {some(changed)}")

    def put_back(
        self,
        key: Key,
        wanted: Mapping[str, Entry | None],
        *,
        start: str,
        known: str,
        base: str,
        name: str,
        by: str = "you",
    ) -> None:
        """Per path. Contents that stand in the tree `known` or in a kept ref go silently; anything
        else is kept first, and that is said. What HEAD's move since `base` touched is left alone.
        """
        if not wanted:
            return
        now = self.snapshots.take(start)
        touched = self.touched(base)
        held = self.repo.entries(now)
        todo = {
            path: entry
            for path, entry in wanted.items()
            if held.get(path) != entry and path not in touched
        }
        unknown = set(todo) & self.repo.changed(known, now).keys()
        for ref, _ in refs.kept(self.repo, refs.slug(key)) if unknown else ():
            unknown &= self.repo.changed(f"{ref}^{{tree}}", now).keys()
        if unknown:
            ref = self.keep(key, name, now, base)
            self.warn(
                f"{by} changed {some(sorted(unknown))} since stage 2: put back, kept as {ref}"
            )
        self._put_back(todo)

    def back_to(self, start: StartRef, name: str) -> str:
        """The whole tree as it was before stage 2, after keeping what is there; the ref, if one was
        needed.
        """
        now = self.snapshots.take(start.tree)
        touched = self.touched(start.base)
        change = self.repo.changed(start.tree, now)
        old = {path: entries[0] for path, entries in change.items() if path not in touched}
        ref = ""
        if old:
            ref = self.keep(start.task, name, now, refs.before(self.repo, start))
            self._put_back(old)
        self.index_back(start)
        return ref

    def _put_back(self, wanted: Mapping[str, Entry | None]) -> None:
        self.snapshots.put_back(wanted)
        # What the index remembers of the files on the disk (size, time) may be the agent's: renew
        # it.
        if wanted:
            held = self.repo.entries(index.tree(self.repo))
            fixed = index.flagged(self.repo)
            renewed = {path: held[path] for path in wanted if path in held and path not in fixed}
            index.update(self.repo, renewed)

    def touched(self, base: str) -> Collection[str]:
        """The paths that HEAD's move since the base touched."""
        head = self.repo.head().commit
        return () if base == head else self.repo.changed(base, head).keys()

    # ---------------------------------------------------------------- the person's index

    def index_back(self, start: StartRef) -> None:
        touched = self.touched(start.base)
        change = self.repo.changed(f"{start.index}^{{tree}}", index.tree(self.repo))
        index.update(
            self.repo, {path: old for path, (old, _) in change.items() if path not in touched}
        )

    def index_to(self, tree: str, base: str) -> str:
        """The person's index holds what it held, but where HEAD's move since `base` changed it; the
        tree of what it held instead, empty where nothing had changed.
        """
        now = index.tree(self.repo)
        touched = self.touched(base)
        change = self.repo.changed(tree, now)
        old = {path: entries[0] for path, entries in change.items() if path not in touched}
        index.update(self.repo, old)
        return now if old else ""

    def index_forward(self, commit: Commit) -> None:
        """The index follows the commit in its paths; lines that the person staged there stay staged
        on top.
        """
        if not commit.parents:
            return
        parent = f"{commit.parents[0]}^{{tree}}"
        staged = self.repo.changed(parent, index.tree(self.repo))
        changes: dict[str, Entry | None] = {}
        for path, (_, new) in history.changed_by(self.repo, commit).items():
            if path not in staged:
                changes[path] = new
            elif staged[path][1] != new:
                ours = index.tree_with(self.repo, parent, {path: staged[path][1]})
                theirs = index.tree_with(self.repo, parent, {path: new})
                merged, conflicts = index.merge(self.repo, parent, ours, theirs)
                if not conflicts:
                    changes[path] = self.repo.entries(merged).get(path)
        index.update(self.repo, changes)

    def keep_spec(self, text: str) -> str:
        """Keep a text of SPEC.md, which no snapshot holds; how to see it."""
        blob = self.repo.blob(encode(text))
        tree = self.repo.text("mktree", given=f"100644 blob {blob}\t{SPEC}\n".encode())
        said = f"{SPEC} as it was left\n"
        ref = refs.keep(self.repo, "spec-md", "left", tree, said, self.repo.head().commit)
        return f"git show {ref}:{SPEC}"

    # ---------------------------------------------------------------- what stage 2 may not do

    def enforce(self, head: Head, start: StartRef, *, gate: str = "") -> str:
        """Put back a branch, commits, hooks and configuration; what fails the attempt, in words.
        `gate`: what ran instead of the agent.
        """
        who = gate or "the agent"
        told: list[str] = []
        if what := operations.under_way(self.repo):
            operations.abort(self.repo)
            index.reset(self.repo, f"{start.index}^{{tree}}")
            told.append(f"it left a mess ({what}); cleared")
        if changed := guard.put_back(self.repo, f"{start.guard}^{{tree}}"):
            told.append(f"it changed git's own {some(changed)}; put back")
        at = self.repo.plain_head()
        if at is None or at.branch != head.branch:
            if history.restore_branch(self.repo, head, start.base):
                told.append(f"it removed the branch {head.branch}; put back")
            branch = self.repo.branch()
            if branch != head.branch:
                history.switch_back(self.repo, head)
                told.append(f"it switched to {branch or 'a detached HEAD'}; switched back")
        self.undo_commits(start, "stage 2", who=who)
        if not gate:
            self.index_back(start)
        for line in told:
            self.warn(f"{who} broke its limits: {line}")
        if back := guard.restore_hiding(self.repo, f"{start.guard}^{{tree}}"):
            self.warn(f"{who} changed what hides itself from git: {some(back)}: put back")
        return "; ".join(told)

    def undo_commits(self, start: StartRef, word: str, *, who: str = "the agent") -> None:
        """What agents made of HEAD since the base (commits, an amend, a reset): kept under a ref,
        HEAD back. A person's commits stay.
        """
        head = self.repo.head()
        if head.commit == start.base:
            return
        if not history.moved_by(self.repo, head, start.base, word):
            self.warn("HEAD was moved meanwhile, and not by an agent: what is there stays")
            return
        tip = history.commit(self.repo, head.commit)
        ref = self.keep(start.task, f"{start.attempt}-commit", tip.tree, tip.sha)
        history.move_head(self.repo, start.base, head.commit, "an agent's commit taken back")
        self.warn(f"{who} committed by itself: taken back, kept as {ref}")


def some(names: Sequence[str]) -> str:
    """A few names for a message."""
    shown = ", ".join(plain.line(name, 80) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
