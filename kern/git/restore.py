"""Keep, then put back: nothing that an agent or a person made is lost when the tree returns to what
it was.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from kern import plain
from kern.errors import KernError
from kern.events import Sink, Traced, Warned
from kern.git import faults, history, index, mentions, objects, refs, staging
from kern.git.checkout import plain_mode
from kern.git.faults import GitFailed
from kern.git.history import Commit
from kern.git.ignored import Ignored
from kern.git.layout import Layouts
from kern.git.nested import Nested
from kern.git.protect import Guard
from kern.git.refs import StartRef
from kern.git.repository import Entry, Head, Repo
from kern.git.snapshot import Snapshots
from kern.git.staging import Lost, Replay
from kern.model import SPEC, Key
from kern.plain import encode, some

T = TypeVar("T")
_PIECE = 1 << 20  # characters of a transcript in memory at once


class Keeper:
    def __init__(self, repo: Repo, snapshots: Snapshots, sink: Sink, replay: Replay) -> None:
        self.repo = repo
        self.guard = Guard(repo, snapshots)
        self.snapshots = snapshots
        self.sink = sink
        self._watched: set[str] = set()  # named once
        self._told: set[str] = set()
        self.replay = replay
        self.layouts = Layouts(repo, snapshots)
        self.ignored = Ignored(repo, self.warn)
        self.nested = Nested(repo, snapshots, self.layouts, self.warn)

    def warn(self, text: str, *, kept: bool = False) -> None:
        self.sink(Warned(text, kept))

    def name_large(self, tree: str) -> None:
        """What of the large files that stood beside the snapshot is not as it was: each once."""
        new = [path for path in self.snapshots.large_changed(tree) if path not in self._told]
        self._told.update(new)
        if new:
            self.warn(
                f"changed by you or by an agent while it worked: {some(new)}: untracked and larger "
                "than large_file in kern.toml, so kern has no copy and leaves it as it is now"
            )

    def _name_watched(self, tree: str) -> None:
        new = [path for path in sorted(self.snapshots.large(tree)) if path not in self._watched]
        self._watched.update(new)
        if new:
            self.warn(
                f"{some(new)}: untracked and larger than large_file in kern.toml: kern keeps no "
                "copy, and cannot restore what an agent does to it; add it to .gitignore, or raise "
                "large_file"
            )

    def keep(self, key: Key, name: str, tree: str, parent: str, more: str = "") -> str:
        """A commit of the whole tree under the task's attempts; its short ref name. With what was
        there before as its parent, `git show` shows what the attempt changed and nothing else.
        `more`: lines for its message.
        """
        text = plain.line(key.text)
        message = f"kern attempt {name}: {plain.line(text, 60)}\n\nKern-Task: {text}\n{more}"
        losses = self.repo.losses

        def write() -> tuple[str, str]:
            if self.repo.losses > losses:
                self.snapshots.rewrite(tree)
            ref = refs.keep(self.repo, refs.slug(key), name, tree, message, parent)
            lacking = "all of it"
            try:
                lacking = objects.lost(self.repo, parent, f"refs/{ref}")
            finally:
                if lacking:
                    refs.drop_broken(self.repo, f"refs/{ref}")
            return ref, lacking

        return self._whole(write)

    def begin(
        self, head: Head, key: Key, attempt: int, before: str, spec: str | None = None
    ) -> StartRef:
        """The start ref. Its tree is `before`, or the tree as it is now where that is lost
        again. `spec`: the text of SPEC.md to go by if kern is killed in stage 2.
        """
        losses = self.repo.losses

        def write() -> tuple[StartRef, str]:
            tree = before if self.repo.losses == losses else self.snapshots.take()
            self._name_watched(tree)
            self.remember(tree)
            own = self.guard.take(tree)
            self.guard.store(own)
            staged = index.tree(self.repo)
            text = "" if spec is None else self._tree_of(SPEC, spec)
            start = refs.begun(self.repo, head, tree, staged, own, key, attempt, text)
            refs.write_start(self.repo, start)
            if lacking := objects.lost(self.repo, head.commit, start.commit):
                refs.delete(self.repo, start.ref)  # stage 2 has not begun
            return start, lacking

        return self._whole(write)

    def hold(self, start: StartRef, make: Callable[[], Sequence[str]]) -> Sequence[str]:
        """The trees that `make` gives, which last as long as the start ref."""
        losses, begun = self.repo.losses, start

        def write() -> tuple[Sequence[str], str]:
            nonlocal start
            trees = make()
            if self.repo.losses > losses:
                self.snapshots.rewrite(trees[0])
            # What an earlier turn has held may be what was lost.
            start = refs.hold(self.repo, replace(begun, commit=start.commit), *trees)
            return trees, objects.lost(self.repo, start.base, start.commit)

        return self._whole(write)

    def _whole(self, write: Callable[[], tuple[T, str]]) -> T:
        """What `write` gives, with what git lacks of it: a collector beside the run takes objects
        that no ref names yet.
        """
        lacking = ""
        for last in (False, False, True):
            try:
                made, lacking = write()
                if not lacking:
                    return made
            except GitFailed as exc:
                if last or faults.met(exc.stderr):
                    raise
            self.repo.write_anew()
        raise KernError(
            f"git lost the object {lacking} as soon as kern had written it",
            hint="something takes objects away (git gc --prune=now?): let it end, then run kern "
            "again: it resumes",
        )

    # ---------------------------------------------------------------- the working tree

    def remember(self, tree: str, *, durable: bool = True) -> None:
        """Remember what the tree does not hold, and what stands beside it."""
        self.layouts.remember(tree, durable=durable)
        self.nested.begin()

    def undo(self, key: Key, name: str, before: str, parent: str) -> None:
        """What an agent wrote that may only read."""
        after = self.snapshots.take(before)
        self.name_large(before)
        if changed := self.repo.changed(before, after):
            ref = self.keep(key, name, after, parent)
            old = {path: entries[0] for path, entries in changed.items()}
            self._put_back(old, before, key, name)
            self.warn(
                f"the research agent changed files: restored; what it wrote is saved as {ref}"
            )

    def name_strangers(self, head: Head, before: str) -> None:
        """Where an agent could not have written, a person did."""
        self.name_large(before)
        if objects.missing(self.repo, head.commit, before):  # no ref named it all the time
            self.repo.write_anew()
            self.snapshots.rewrite(before)
        if changed := sorted(self.repo.changed(before, self.snapshots.take())):
            self.warn(f"changed during research, not by the agent; kept as yours: {some(changed)}")

    def unnamed(self, transcript: Path, paths: Collection[str]) -> Sequence[str]:
        """Of the paths that changed while an agent worked those that its transcript never names;
        empty where there is none, or no transcript: an agent that is ended leaves an empty
        one where it prints all at its end, a command that is no CLI for agents its answer alone.
        """
        if not paths or not transcript.is_file() or not transcript.stat().st_size:
            return ()
        with transcript.open(encoding="utf-8", errors="replace") as file:
            if file.read(1) not in "{[":  # no objects that tell what it did
                return ()
            file.seek(0)
            pieces = iter(lambda: file.read(_PIECE), "")
            return mentions.unnamed(paths, pieces)

    def name_yours(self, transcript: Path, paths: Collection[str], ref: str) -> None:
        """Of what was put back with an attempt, `ref`, what may be a person's."""
        if names := self.unnamed(transcript, paths):
            self.warn(
                f"{some(names)} changed while the agent worked, and its transcript never names "
                f"that: restored as well; if it is yours: git checkout {ref} -- PATH",
                kept=True,
            )

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
        whole: bool = False,
    ) -> None:
        """Per path. Contents that stand in the tree `known` or in a kept ref go silently; anything
        else is kept first, and that is said. What HEAD's move since `base` touched is left alone.
        `whole`: as before stage 2, and what no tree holds too.
        """
        if not wanted and not whole:
            return
        touched = self.touched(base)
        for look in (self.snapshots.latest, self.snapshots.take):
            now = look(start)
            todo = {
                path: entry
                for path, entry in wanted.items()
                if self.repo.entry(now, path) != entry and path not in touched
            }
            if not todo:  # nothing is overwritten that was not looked at now
                break
        unknown = set(todo) & self.repo.changed(known, now).keys()
        for ref, when in refs.kept(self.repo, refs.slug(key)) if unknown else ():
            if when and not objects.lacks(self.repo, base, ref):  # else nothing can be had from it
                unknown &= self.repo.changed(f"{ref}^{{tree}}", now).keys()
        if unknown:
            ref = self.keep(key, name, now, base)
            self.warn(
                f"{by} changed {some(sorted(unknown))} since the task was implemented: "
                f"restored; saved as {ref}"
            )
        if whole:
            self._put_right(start, touched)
        self._put_back(todo, start, key, name)
        if whole:
            self.nested.clear(start, key, name, known)
            self._put_right(start, touched)

    def back_to(self, start: StartRef, name: str) -> str:
        """The whole tree as it was before stage 2, after keeping what is there; the ref, if one was
        needed.
        """
        self.nested.clear(start.tree, start.task, name)
        self.name_large(start.tree)
        now = self.snapshots.take(start.tree)
        touched = self.touched(start.base)
        change = self.repo.changed(start.tree, now)
        old = {path: entries[0] for path, entries in change.items() if path not in touched}
        ref = ""
        if old:
            ref = self.keep(start.task, name, now, refs.before(self.repo, start))
        self._put_right(start.tree, touched)
        self._put_back(old, start.tree, start.task, name)
        self._put_right(start.tree, touched)
        self.index_back(start)
        return ref

    def back_for_retry(self, start: StartRef, transcript: Path) -> None:
        if ref := self.back_to(start, f"{start.attempt}-retry"):
            self.warn(f"its work so far is undone and saved as {ref}")
            self.name_yours(transcript, self.repo.changed(start.tree, f"{ref}^{{tree}}"), ref)
        self.ignored.restore(start.task, start.attempt, again=True)

    def _put_back(
        self, wanted: Mapping[str, Entry | None], start: str, key: Key, name: str
    ) -> None:
        before = self.layouts.of(start)
        files = self.nested.make_room(wanted, start, key, name)
        self.snapshots.put_back(files, before.of_files() if before else plain_mode)
        self.nested.put_back(wanted, start)
        # What the index remembers of the files on the disk (size, time) may be the agent's: renew
        # it.
        if wanted:
            staged = index.tree(self.repo)
            held = {path: self.repo.entry(staged, path) for path in wanted}
            fixed = index.flagged(self.repo, wanted)
            renewed = {path: held[path] for path in wanted if held[path] and path not in fixed}
            index.update(self.repo, renewed)

    def _put_right(self, tree: str, touched: Collection[str]) -> None:
        before = self.layouts.of(tree)
        if before and (gone := self.layouts.put_right(tree, before, touched)):
            self.sink(Traced(f"removed, nothing was in it: {some(gone)}"))
            if pipes := [path for path in gone if not path.endswith("/")]:
                self.warn(f"pipes or sockets that were not there before are removed: {some(pipes)}")

    def touched(self, base: str) -> Collection[str]:
        """The paths that HEAD's move since the base touched."""
        head = self.repo.head().commit
        return () if base == head else self.repo.changed(base, head).keys()

    # ---------------------------------------------------------------- the person's index

    def index_back(self, start: StartRef) -> None:
        touched = self.touched(start.base)
        lost = staging.lost(self.repo, start, touched)
        if lost.paths:
            self._keep_staged(start, lost)
        staging.back_to(self.repo, f"{start.index}^{{tree}}", touched)
        before = index.marks_read(self.repo, start.index)
        if before is not None and (other := index.restore_marks(self.repo, before, touched)):
            self.warn(
                f"marks in the index (assume-unchanged, skip-worktree, to be added) of "
                f"{some(other)} were changed, by you or by an agent; they are set back"
            )

    def _keep_staged(self, start: StartRef, lost: Lost) -> None:
        """An agent's staging stands in the tree as a rule, and a kept attempt holds that."""
        kept = [
            f"{ref}^{{tree}}" for ref, when in refs.kept(self.repo, refs.slug(start.task)) if when
        ]
        held = [self.snapshots.take(start.tree), start.tree, *kept]
        if paths := staging.alone(self.repo, lost, held):
            ref = self.keep(start.task, f"{start.attempt}-staged", lost.tree, start.base)
            self.warn(
                f"staged since the agent began to implement, by you or by it: {some(paths)}; "
                f"the index is as before, what was staged is saved: git show {ref}:PATH"
            )

    def index_forward(self, commit: Commit, key: Key | None = None) -> None:
        """The index follows the commit in its paths; lines that the person staged there stay staged
        on top.
        """
        if behind := staging.forward(self.repo, commit, key, self.replay):
            self.warn(
                f"you had staged {some(behind)}, next to what the task changed there: your next "
                "commit of it would take the task's lines out again; to have both: git add PATH, "
                "to have the task's alone: git restore --staged PATH"
            )
        self.nested.register(history.changed_by(self.repo, commit))

    def keep_document(self, name: str, text: str) -> str:
        """Keep a text of SPEC.md or LEARNINGS.md, which no snapshot holds; how to see it."""
        tree, head = self._tree_of(name, text), self.repo.head().commit
        ref = refs.keep(self.repo, plain.slug(name), "left", tree, f"{name} as it was\n", head)
        return f"git show {ref}:{name}"

    def _tree_of(self, name: str, text: str) -> str:
        return self.repo.tree_with("", {name: Entry("100644", self.repo.blob(encode(text)))})
