"""The landing queue: finished tasks become commits of the branch, one after the other, and nothing
that was not proven on the tree on which it lands. Many that are finished at once are checked once.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kern import plain
from kern.config import Gate, Settings
from kern.errors import KernError
from kern.events import Traced
from kern.fleet import back, landed, merging, papers
from kern.fleet.landed import Arrival, Move, Moved
from kern.fleet.work import Collided, Dropped, Landed, Landing, Red, Waiting, Work
from kern.frozen import frozen
from kern.git import along, history, ignore, operations
from kern.git.ignore import DOCUMENTS
from kern.git.repository import Entry
from kern.model import LEARNINGS, SPEC, Marker, Result
from kern.pipeline import baseline, verify
from kern.pipeline.site import Site
from kern.spec.parse import Spec, parse

T = TypeVar("T")
End = TypeVar("End")
MOST_ROUNDS = 8  # after as many moves of the branch, what is left waits for another call


@frozen
class Checked:
    """How gates ended on a merged tree."""

    red: Result | None = None  # the one that stands in the way
    proved: str = ""  # what stands behind the tree, in words


# A tree, the commit that it is to come upon, and the gates that must pass there.
Checks = Callable[[str, str, Sequence[Gate]], Checked]


@frozen
class _Built:
    """Works merged onto HEAD one after the other, as their commits will be."""

    head: str
    text: str = ""  # of SPEC.md on the disk
    works: tuple[Work, ...] = ()
    trees: tuple[str, ...] = ()  # each with the two documents
    arrivals: tuple[Arrival, ...] = ()  # their commits are still to be made
    gates: tuple[Gate, ...] = ()
    clash: tuple[Work, str, Sequence[str]] | None = None  # the first with HEAD itself
    later: tuple[Work, ...] = ()  # in conflict with others of these

    @property
    def tip(self) -> str:
        return self.trees[-1]


def land(site: Site, train: Sequence[Work], check: Checks) -> Iterator[Landing]:
    """What becomes of each, as soon as that is durable. What has no end stays in the queue. Raises
    KernError where a person is needed, and what `check` raises: then the others are in the queue.
    """
    for line in landed.finish(site):
        site.warn(line)
    left = list(train)
    for number in range(MOST_ROUNDS):
        if not left:
            return
        try:
            # The branch moves under it: one at a time is sooner done.
            for end in _Round(site, check).run(left if number < 2 else left[:1]):
                left.remove(end.work)
                yield end
        except Moved as exc:
            site.sink(Traced(f"the branch moved while tasks were landing: {exc}"))


def sift(
    train: Sequence[T],
    green: Callable[[Sequence[T]], bool],
    land: Callable[[Sequence[T]], Iterable[End]],
    blame: Callable[[T], End],
    *,
    red: bool = False,
) -> Generator[End, None, bool]:
    """What becomes of all of a train, which is halved until it is known who is to blame: what is
    `green` on top of what has landed lands, in order, and one that is red by itself is blamed;
    whether all of it landed. `red`: that it is, is known already.
    """
    if not train:
        return True
    if not red and green(train):
        yield from land(train)
        return True
    if len(train) == 1:
        yield blame(train[0])
        return False
    half = len(train) // 2
    whole = yield from sift(train[:half], green, land, blame)
    # With all of the first half landed, the second one is checked on the tree that was red.
    return (yield from sift(train[half:], green, land, blame, red=whole)) and whole


class _Round:
    """One train, on one HEAD and what lands on it."""

    def __init__(self, site: Site, check: Checks) -> None:
        self.site = site
        self.repo = site.repo
        self.check = check
        self.branch = site.scope.branch
        self.known: dict[str, Checked] = {}  # by the tree without the documents
        self.built = _Built("")
        self.clear = ""  # the tree that nothing uncommitted was in the way of, a moment ago

    def run(self, works: Sequence[Work]) -> Iterator[Landing]:
        if why := operations.begun(self.repo):
            yield from (Waiting(work, (), why) for work in works)
            return
        ready = list[Work]()
        for work in works:
            if end := self._settled(work):
                yield end
            elif not any(landed.ref(one) == landed.ref(work) for one in ready):
                ready.append(work)  # its twin waits for what becomes of it
        built = self._build(ready)
        while built.clash or (lying := self._in_the_way(built)):
            if built.clash:
                yield self._collide(*built.clash)
                out = {built.clash[0]}
            else:
                yield from (Waiting(work, tuple(paths)) for work, paths in lying.items())
                out = {*lying}
            ready = [work for work in ready if work not in out]
            built = self._build(ready)
        self.built = built
        yield from sift(built.works, self._green, self._land, self._blame)

    def _head(self) -> str:
        head = self.repo.head()
        if head.branch != self.branch:
            raise KernError(
                f"the branch was switched under the run: {self.branch} to {head.name}",
                hint=f"git switch {self.branch}, then run kern again: finished tasks land then",
            )
        return head.commit

    # ------------------------------------------------------------ before any gate

    def _settled(self, work: Work) -> Dropped | None:
        """What is not to land, whatever it holds."""
        head = self._head()
        if commit := landed.already(self.repo, work, head):
            return Dropped(work, f"it has landed as {commit[:7]}")
        task = papers.found(self.site.papers.spec()[1], work.key)
        if task and task.marker is not Marker.DONE:
            return None
        ref = back.keep(self.site, work, head, self.repo.tree(work.commit))
        why = "you ticked it yourself" if task else f"it is no longer in {SPEC}"
        self.site.warn(f"{why}: {plain.line(work.text, 200)}: what was finished is saved as {ref}")
        return Dropped(work, why, ref)

    def _build(self, works: Sequence[Work]) -> _Built:
        site, head = self.site, self._head()
        text, parsed = site.papers.spec()
        documents = _Documents(site, text)
        settings = site.papers.settings()
        tree, gates = self.repo.tree(head), dict[Gate, None]()
        taken, later = list[tuple[Work, str, Arrival]](), list[Work]()
        for work in works:
            merged, conflicts = merging.merged(self.repo, work, tree)
            if conflicts and not taken:
                clash = work, merged, conflicts
                return _Built(head, text, clash=clash)
            if conflicts:
                later.append(work)
                continue
            arrival = documents.take(work)
            tree = documents.into(merged)
            gates |= dict.fromkeys(_gates(site, parsed, work, settings))
            taken.append((work, tree, arrival))
        done, trees, arrivals = zip(*taken, strict=True) if taken else ((), (), ())
        return _Built(head, text, done, trees, arrivals, tuple(gates), None, tuple(later))

    def _whole(self, part: Sequence[Work]) -> _Built:
        """Raises Moved where they no longer go together: the next round tells why."""
        same = self.built.works == tuple(part) and self.built.head == self._head()
        if same and self.built.text == self.site.papers.spec_text():
            return self.built
        built = self._build(part)
        if built.works != tuple(part):
            raise Moved("some are in conflict by now")
        return built

    def _in_the_way(self, built: _Built) -> Mapping[Work, list[str]]:
        """A person's uncommitted edits, by the work that would change the same files."""
        if not built.works:
            return {}
        mine = along.blocked(self.repo, built.head, built.tip, DOCUMENTS)
        self.clear = "" if mine else built.tip
        found = {one: merging.meeting(mine, merging.change(self.repo, one)) for one in built.works}
        lying = {work: paths for work, paths in found.items() if paths}
        return lying or (dict.fromkeys(built.works, mine) if mine else {})

    # ------------------------------------------------------------ what was checked

    def _green(self, part: Sequence[Work]) -> bool:
        self.built = self._whole(part)
        return self._checked(self.built).red is None

    def _checked(self, built: _Built) -> Checked:
        """What its worker has proven in this run, and nothing has moved since, is proven."""
        bare = ignore.bare(self.repo, built.tip)
        if bare not in self.known:
            self.known[bare] = self._found(built, bare)
        return self.known[bare]

    def _found(self, built: _Built, bare: str) -> Checked:
        first, *others = built.works
        same = not others and bare == ignore.bare(self.repo, first.commit)
        if not built.gates or (same and first.proved):
            return Checked(proved=first.proved if same else "")
        names = plain.some([plain.line(work.text, 60) for work in built.works])
        self.clear = ""
        self.site.sink(Traced(f"checking on {built.head[:7]}: {names}"))
        return self.check(built.tip, built.head, built.gates)

    def _land(self, _: Sequence[Work]) -> Iterator[Landing]:
        """Those which were just checked."""
        built = self.built
        tip, made = built.head, list[str]()
        timeout = self.site.caller.settings.timeouts.commit
        for work, tree in zip(built.works, built.trees, strict=True):
            own = history.commit(self.repo, work.commit)
            if (own.tree, own.parents) == (tree, (tip,)):
                tip = own.sha  # nothing has moved: it stays the very commit
            else:
                tip = history.transplanted(self.repo, own.sha, tree, tip, timeout)
            made.append(tip)
        if self._head() != built.head or (self.clear != built.tip and self._in_the_way(built)):
            raise Moved("something was changed meanwhile")
        named = zip(built.arrivals, made, strict=True)
        arrivals = tuple(replace(one, commit=commit) for one, commit in named)
        landed.move(self.repo, self.branch, Move(built.head, tip, arrivals))
        for line in landed.finish(self.site):
            self.site.warn(line)
        proved = self._checked(built).proved
        for work, commit in zip(built.works, made, strict=True):
            yield Landed(work, commit, self._proved(work, proved))

    def _proved(self, work: Work, proved: str) -> str:
        """What the gates of the landing say knows nothing of what the work did to them."""
        if proved in ("", work.proved):
            return work.proved
        changed, gates = merging.change(self.repo, work), self.built.gates
        return proved + verify.doubted(self.repo, gates, changed, work.base, work.commit)

    # ------------------------------------------------------------ what goes back

    def _collide(self, work: Work, tree: str, paths: Sequence[str]) -> Collided:
        head = self._head()
        other = merging.other(self.repo, work, head, paths)
        back.collided(self.site, work, head, tree, other, paths)
        return Collided(work, other, tuple(paths))

    def _blame(self, work: Work) -> Red:
        built = self._whole([work])
        red = self._checked(built).red
        if red is None:  # it is green by itself now
            raise Moved("a gate was red and is green")
        head = built.head
        merged, _ = merging.merged(self.repo, work, head)
        back.red(self.site, work, head, merged, red)
        return Red(work, red.name, plain.line(red.how, 200))


class _Documents:
    """SPEC.md and LEARNINGS.md as they stand on the disk, with what the works do to them."""

    def __init__(self, site: Site, text: str) -> None:
        self.repo = site.repo
        self.ignored = ignore.ignored(site.repo, SPEC, LEARNINGS)
        self.spec = text
        self.lessons = site.papers.read(LEARNINGS) or ""
        self.modes = {name: site.repo.entry("HEAD", name) for name in DOCUMENTS}

    def take(self, work: Work) -> Arrival:
        spec = work.spec or self._of(work.commit, SPEC)
        came = self._of(work.commit, LEARNINGS) if work.learnings is None else work.learnings
        new = papers.learned(self._of(work.base, LEARNINGS), came)
        task = papers.found(parse(self.spec), work.key)
        self.spec = papers.ticked(self.spec, work.key, spec)
        self.lessons = papers.taught(self.lessons, new)
        key = task.key if task else work.key
        return Arrival(key, landed.ref(work), "", spec, "\n\n".join(new))

    def into(self, tree: str) -> str:
        """As a commit holds them, where git does not ignore them."""
        texts = {SPEC: papers.committed(self.spec), LEARNINGS: self.lessons}
        held = {name: text for name, text in texts.items() if text and name not in self.ignored}
        entries = {name: self._entry(name, text) for name, text in held.items()}
        return self.repo.tree_with(tree, entries)

    def _entry(self, name: str, text: str) -> Entry:
        known = self.modes[name]
        mode = known.mode if known else "100644"
        return Entry(mode, self.repo.blob(plain.encode(text), path=name))

    def _of(self, revision: str, name: str) -> str:
        return plain.decode(self.repo.content(revision, name) or b"")


def _gates(site: Site, parsed: Spec, work: Work, settings: Settings) -> Sequence[Gate]:
    task = papers.found(parsed, work.key)
    return baseline.checks(site, task, settings).gates if task else ()
