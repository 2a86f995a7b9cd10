"""The one primitive that carries safety: the whole working tree as a git tree, and paths put back
from one.

Bytes are stored as they are, no filters, so they return as they were; of a submodule the commit
that its HEAD names. Left out: SPEC.md, LEARNINGS.md, `.kern/`, other nested repositories, large
files that git does not track (they are watched by their stamps: kern has no copy, and so neither
removes nor overwrites them), and what git ignores; under which rules is the caller's to say,
because an agent can change them. Neither the person's index nor the stash is touched.
"""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Collection, Hashable, Iterable, Mapping
from pathlib import Path

from kern.errors import KernError
from kern.git import checkout, faults, ignore, index, objects, submodules, trees
from kern.git.checkout import Modes, in_real_folder, plain_mode
from kern.git.faults import GitFailed
from kern.git.mirror import Look, Mirror
from kern.git.repository import LINK, SUBMODULE, Entry, Repo
from kern.git.store import FOLDER
from kern.system import process

OWN = ("SPEC.md", "LEARNINGS.md")
# Or as long as the look took: what a person saves meanwhile would count as the agent's.
_MOMENT_S = 0.2
_RACY_NS = 50_000_000  # a file written this recently may change again within its time stamp

_Stamp = tuple[int, int, int, int, int]


class Snapshots:
    """Takes trees of one working tree. Remembers what it hashed, so the next one reads only what
    changed.
    """

    def __init__(self, repo: Repo, large_file: float = 50) -> None:
        """`large_file`: an untracked one of more MiB is watched, not stored; 0: none is."""
        self.repo = repo
        self._least_large = large_file * (1 << 20)
        self._large: dict[str, Mapping[str, str]] = {}  # by the tree that was taken beside them
        self._mirror = Mirror(repo)
        self._base = "", ""  # the mirror's tree, and the same without what is left out
        self._known: dict[str, tuple[_Stamp, Entry]] = {}
        self._rule_files: dict[str, dict[str, Entry]] = {}
        self._hiding: dict[str, Mapping[str, Entry]] = {}
        self._taken: dict[str, str] = {}  # each tree's rules
        self._losses = 0
        self._last: tuple[Hashable, str, float] | None = None

    def latest(self, rules: str = "") -> str:
        """What was taken a moment ago, where kern has started nothing since that could change a
        file and has put none back; else the tree as it is now.
        """
        seen, tree, until = self._last or (None, "", 0.0)
        fresh = time.monotonic() < until and seen == self._since(rules)
        return tree if fresh else self.take(rules)

    def _since(self, rules: str) -> Hashable:
        return rules, process.RAN.total(), self.repo.losses

    def take(self, rules: str = "") -> str:
        """Write the tree and return its id. `rules`: a tree whose .gitignore files decide what is
        ignored, instead of those on the disk.
        """
        for _ in range(5):
            faults.calm(self.repo.common_dir, self.repo.patience)
            began = time.monotonic()
            if self._losses != self.repo.losses:
                self._losses = self.repo.losses
                self._known.clear()
                self._mirror = Mirror(self.repo, trust=False)
                self._base = "", ""
            try:
                tree, hidden, beside = self._read(rules)
                moment = max(_MOMENT_S, time.monotonic() - began)
            except FileNotFoundError:  # a file vanished between listing and hashing
                continue
            except _Unreadable as exc:
                if rules and exc.opened():  # an agent's doing: stage 2 began with it readable
                    continue
                raise
            calm = faults.calm(self.repo.common_dir, self.repo.patience)
            if not calm and objects.missing(self.repo, "HEAD", tree):
                self.repo.write_anew()  # a collector took it: no ref names it yet
                continue
            self._taken[tree] = rules
            self._last = self._since(rules), tree, time.monotonic() + moment
            if not rules:
                self._hiding[tree] = self._self_hiding(tree, hidden)
                self._large[tree] = beside
            return tree
        raise KernError(
            "the working tree changes faster than it can be read",
            hint="stop what writes into it (a build, a watcher), or add those files to .gitignore",
        )

    def rewrite(self, tree: str) -> None:
        """The objects of a tree that was taken, as far as the disk still has them."""
        self.take(self._taken.get(tree, ""))

    def files(self, paths: Iterable[str]) -> dict[str, Entry]:
        """Those of the paths that are files, whatever ignores them."""
        return self._entries(dict.fromkeys(paths))

    def _read(self, rules: str) -> tuple[str, list[str], Mapping[str, str]]:
        """The mirror's tree with what differs on the disk, the .gitignore files that git ignores,
        and what is only watched. That never becomes an agent's, who may have staged it.
        """
        look = self._mirror.look()
        listed, gone = self._listed(look)
        base = self._without_own()
        hidden = [path for path in look.ignored if _is_rules(path)]
        if rules:
            touched = {path: entry for path, entry in listed.items() if _is_rules(path)}
            own = {p: e for p, e in self._rules_of(base).items() if p not in {*touched, *gone}}
            own |= self._entries(touched)
            if own != self._rules_of(rules) or self._hides_anew(rules, hidden):
                # Those .gitignore files are gone or changed: let them decide on all untracked files
                # before any is stored.
                listed = {**dict.fromkeys(ignore.untracked(self.repo)), **listed}
                untracked = [path for path, entry in listed.items() if entry is None]
                unseen = self.ignored_by(rules, untracked)
                listed = {p: entry for p, entry in listed.items() if p not in unseen}
                gone |= unseen
        beside = self.large(rules) if rules else self._found_large(listed)
        listed = {path: entry for path, entry in listed.items() if path not in beside}
        found = self._entries(listed)
        differs = {p: found.get(p) for p in {*listed, *gone, *beside} if not left_out(p)}
        return self.repo.tree_with(base, differs), hidden, beside

    def _found_large(self, listed: Mapping[str, Entry | None]) -> dict[str, str]:
        if not self._least_large:
            return {}
        untracked = (p for p, entry in listed.items() if entry is None and not left_out(p))
        found = {p: _watched(self.repo.root / p, self._least_large) for p in untracked}
        return {path: stamp for path, stamp in found.items() if stamp}

    def large(self, tree: str) -> Mapping[str, str]:
        """The files that were only watched when the tree was taken, with their stamps then."""
        return self._large.get(tree, {})

    def large_changed(self, tree: str) -> list[str]:
        """Those of them that are not as they were."""
        before = self.large(tree)
        return sorted(p for p, was in before.items() if _watched(self.repo.root / p) != was)

    def _without_own(self) -> str:
        """The mirror's tree, but for what snapshots leave out."""
        tree = self._mirror.tree
        if self._base[0] != tree or not self.repo.store.id(self._base[1]):
            kern = trees.at(self.repo.store, tree, ".kern")
            inner = trees.rows(self.repo.store, kern[1]) if kern and kern[0] == FOLDER else ()
            own = [*OWN, *(f".kern/{os.fsdecode(path)}" for path, _ in inner)]
            self._base = tree, self.repo.tree_with(tree, dict.fromkeys(own))
        return self._base[1]

    def _entries(self, listed: Mapping[str, Entry | None]) -> dict[str, Entry]:
        began = time.time_ns()
        found: dict[str, Entry] = {}
        unread: dict[str, _Stamp] = {}
        real: dict[str, bool] = {"": True}
        for path, indexed in listed.items():
            if left_out(path) or not in_real_folder(self.repo.root, path, real):
                continue
            try:
                info = os.lstat(self.repo.root / path)
            except (FileNotFoundError, NotADirectoryError):
                if indexed and indexed.mode.startswith("S"):  # sparse: absent on disk, not deleted
                    found[path] = Entry(indexed.mode[1:], indexed.blob)
                continue
            if stat.S_ISDIR(info.st_mode) and indexed and indexed.mode.endswith(SUBMODULE):
                inner = submodules.at(self.repo.root, path)
                named = inner and submodules.commit(inner)
                found[path] = Entry(SUBMODULE, named or indexed.blob)
            if not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                continue
            stamp = (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino, info.st_mode)
            known = self._known.get(path)
            if known and known[0] == stamp:
                found[path] = known[1]
            else:
                unread[path] = stamp
        for path, blob in self._hash(unread).items():
            stamp = unread[path]
            entry = Entry(entry_mode(stamp[4]), blob)
            found[path] = entry
            if max(stamp[:2]) < began - _RACY_NS:
                self._known[path] = (stamp, entry)
        return dict(sorted(found.items()))

    def _listed(self, look: Look) -> tuple[dict[str, Entry | None], set[str]]:
        """What may differ from the mirror: tracked paths with their index entry, untracked and not
        ignored ones with None. And what git neither tracks nor shows any more.
        """
        listed: dict[str, Entry | None] = {**look.changed}
        listed |= {path: None for path in look.untracked if path[-1] != "/"}  # no repositories
        since = self._mirror.since()
        listed |= {p: new for p, (old, new) in since.items() if new and (p in listed or not old)}
        out = [path for path, (_, new) in since.items() if new is None]
        gone = ignore.by_rules(self.repo, out)
        listed |= {path: None for path in out}
        listed = {path: entry for path, entry in listed.items() if path not in gone}
        absent = [p for p, e in listed.items() if e and not os.path.lexists(self.repo.root / p)]
        for path, marks in (index.flagged(self.repo, absent) if absent else {}).items():
            entry = listed.get(path)
            if "S" in marks and entry:
                listed[path] = Entry(f"S{entry.mode}", entry.blob)
        links = self._mirror.links - {*out}
        links |= {p for p, (_, new) in since.items() if new and new.mode == SUBMODULE}
        return self._with_submodules(listed, gone, links), gone

    def _with_submodules(
        self, listed: dict[str, Entry | None], gone: set[str], tracked: Collection[str]
    ) -> dict[str, Entry | None]:
        """The index may still have one whose place plain files took, and not have a new one."""
        root = self.repo.root
        if replaced := [p for p in tracked if submodules.replaced(root, p)]:
            gone |= {*replaced}
            for path in replaced:
                listed.pop(path, None)
            with index.private(self.repo, copy=True) as env:
                index.update(self.repo, dict.fromkeys(replaced), env)
                listed |= dict.fromkeys(ignore.visible(self.repo, replaced, env))
        for path in submodules.declared(self.repo):
            inner = None if path in tracked or left_out(path) else submodules.at(root, path)
            if inner and submodules.commit(inner):
                listed = {p: e for p, e in listed.items() if not p.startswith(f"{path}/")}
                listed[path] = Entry(SUBMODULE, submodules.commit(inner))
        return listed

    def submodules(self) -> set[str]:
        """The paths that a snapshot would have as submodules."""
        listed, gone = self._listed(self._mirror.look())
        found = {path for path, entry in listed.items() if entry and entry.mode == SUBMODULE}
        return found | (self._mirror.links - gone)

    def _hash(self, paths: Mapping[str, _Stamp]) -> dict[str, str]:
        """Write the blobs by one process. What `git hash-object` cannot take by name (a link would
        be followed, an odd name misread) is copied to a scratch folder first.
        """
        if not paths:
            return {}
        with tempfile.TemporaryDirectory(prefix="hash-", dir=self._scratch()) as folder:
            lines = []
            for number, (path, stamp) in enumerate(paths.items()):
                linked = stat.S_ISLNK(stamp[4])
                if linked or "\n" in path or path.endswith("\r"):
                    full = os.fsencode(self.repo.root / path)
                    data = os.readlink(full) if linked else Path(os.fsdecode(full)).read_bytes()
                    Path(folder, str(number)).write_bytes(data)
                    lines.append(f"{folder}/{number}")
                else:
                    lines.append(f"./{path}")  # a leading quote would be read as quoting
            try:
                return dict(zip(paths, self.repo.store.hash(lines), strict=True))
            except GitFailed as exc:
                raise self._unreadable(exc.stderr, paths) from None

    def _unreadable(self, err: str, paths: Iterable[str]) -> Exception:
        for path in paths:
            full = self.repo.root / path
            if not os.path.lexists(full):
                return FileNotFoundError(path)
        full_names = ((path, self.repo.root / path) for path in paths)
        if locked := {p: full for p, full in full_names if not os.access(full, os.R_OK)}:
            return _Unreadable(locked)
        if "No space left" in err:
            return KernError(
                f"no space left for git's objects in {self.repo.common_dir}",
                hint="free some space, then run kern again",
            )
        return KernError(
            f"git cannot store the working tree: {err.strip()[-300:]}",
            hint="fix it, then run kern again: it resumes",
        )

    # ------------------------------------------------------------ ignore rules

    def _rules_of(self, tree: str) -> dict[str, Entry]:
        if tree not in self._rule_files:
            self._rule_files[tree] = self._found_rules(tree)
        return self._rule_files[tree]

    def _found_rules(self, tree: str) -> dict[str, Entry]:
        base = self._base[1]
        if base and base != tree:
            change = self.repo.changed(base, tree)
            new = {p: entry for p, (_, entry) in change.items() if entry and _is_rules(p)}
            return {p: e for p, e in self._rules_of(base).items() if p not in change} | new
        if base != tree:
            return self.repo.named(tree, ".gitignore")
        held = {path: self.repo.entry(tree, path) for path in self._mirror.rules if _is_rules(path)}
        return {path: entry for path, entry in held.items() if entry}

    def hiding(self, tree: str) -> Mapping[str, Entry]:
        """The .gitignore files that hid themselves when the tree was taken: no tree holds them."""
        return self._hiding.get(tree, {})

    def know(self, tree: str, hiding: Mapping[str, Entry], large: Mapping[str, str]) -> None:
        """Of a tree that an earlier run took."""
        self._hiding.setdefault(tree, hiding)
        self._large.setdefault(tree, large)

    def _self_hiding(self, tree: str, hidden: list[str]) -> dict[str, Entry]:
        """Hidden .gitignore files that no visible one hides: a .venv brings such a file along."""
        explained = ignore.hidden_by(self.repo, self._rules_of(tree), hidden)
        return self._entries(dict.fromkeys(set(hidden) - explained))

    def _hides_anew(self, rules: str, hidden: list[str]) -> bool:
        """Whether a hidden .gitignore came or went that was not hidden before."""
        gone = any(not os.path.lexists(self.repo.root / path) for path in self.hiding(rules))
        return gone or len(self.ignored_by(rules, hidden)) < len(hidden)

    def ignored_by(self, rules: str, paths: Collection[str]) -> set[str]:
        """Those of the untracked paths that the .gitignore files of the tree `rules` would hide."""
        return ignore.hidden_by(self.repo, {**self._rules_of(rules), **self.hiding(rules)}, paths)

    # ------------------------------------------------------------ putting back

    def put_back(self, wanted: Mapping[str, Entry | None], modes: Modes = plain_mode) -> None:
        """Make each path on the disk what the entry says, None for absent."""
        self._last = None
        checkout.put_back(self.repo, wanted, modes)

    def _scratch(self) -> Path:
        folder = self.repo.scratch
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class _Unreadable(KernError):
    def __init__(self, files: Mapping[str, Path]) -> None:
        path, full = next(iter(files.items()))
        super().__init__(
            f"cannot read {full}: kern must be able to put every file back",
            hint=f"chmod +r '{path}', or add it to .gitignore",
        )
        self.files = files.values()

    def opened(self) -> bool:
        with contextlib.suppress(OSError):
            for full in self.files:
                full.chmod(stat.S_IMODE(full.lstat().st_mode) | stat.S_IRUSR)
        return all(os.access(full, os.R_OK) for full in self.files)


def _watched(place: Path, least: float = -1) -> str:
    """Another stamp where the file was written, replaced or touched; empty where no file of more
    than `least` bytes is.
    """
    try:
        info = os.lstat(place)
    except OSError:
        return ""
    if not stat.S_ISREG(info.st_mode) or info.st_size <= least:
        return ""
    return f"{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns} {info.st_ino}"


def left_out(path: str) -> bool:
    return path in OWN or path.startswith(".kern/")


def _is_rules(path: str) -> bool:
    return path.rpartition("/")[2] == ".gitignore"


def entry_mode(bits: int) -> str:
    """As a tree has it."""
    if stat.S_ISLNK(bits):
        return LINK
    return "100755" if bits & stat.S_IXUSR else "100644"
