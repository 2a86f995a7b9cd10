"""What differs on the disk from an index, told by git itself, byte for byte.

A git directory of kern's own lies over the same working tree and the same objects: its index is a
copy of the person's, with what git knows of unchanged files; no filter, no line end and no mark of
the person's counts there. The work in Python follows what changed.
"""

import itertools
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from kern.frozen import frozen
from kern.git import index, indexfile
from kern.git.checkout import in_real_folder
from kern.git.faults import GitFailed
from kern.git.indexfile import Known
from kern.git.repository import Change, Entry, Repo

_RAW = "* -text !eol !crlf !filter !ident !working-tree-encoding\n"
# Of the conversions that can keep the size there is none.
_SIZED = "!filter !ident !working-tree-encoding"
_ODD = indexfile.SKIPPED | indexfile.ASSUMED | indexfile.UNMERGED
_CONFIG = """[core]
\tbare = false
\tautocrlf = false
\tsafecrlf = false
\tsymlinks = true
\tfilemode = true
\ttrustctime = true
\tcheckStat = default
\tuntrackedCache = false
\tsparseCheckout = true
\tsplitIndex = false
[index]
\tsparse = false
[sparse]
\texpectFilesOutsideOfPatterns = false
"""
_RULES = b".gitignore"
_SLOW_NS = 2_000_000_000  # git compares no more of a time than seconds
_MOST_BEHIND = 1000  # paths
_AT_ONCE = 20_000  # paths in memory


@frozen
class Look:
    """At one moment."""

    changed: dict[str, Entry] = field(default_factory=dict)  # as the mirror's tree has them
    untracked: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


class Mirror:
    """Made at the first look, and made again where somebody else has touched it."""

    def __init__(self, repo: Repo, *, trust: bool = True) -> None:
        """`trust`: nobody but the person has worked in the repository since its index was made."""
        self.repo = repo
        self.trust = trust
        self.tree = ""
        self.links: frozenset[str] = frozenset()  # the submodules that the index has
        self.rules: frozenset[str] = frozenset()  # the .gitignore files, and perhaps others
        self._of: Hashable = None  # the person's index that it is made of
        self._staged = ""  # the same as a tree
        self._env: dict[str, str] = {}
        self._stamp: Hashable = None
        self._marked = False  # whether it is another index than the person's

    @property
    def _index(self) -> Path:
        return Path(self._env["GIT_DIR"], "index")

    def look(self) -> Look:
        argv = ("status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all")
        how = ("--ignored=matching", "--ignore-submodules=dirty")
        if self._stamp is None or self._now() != self._stamp or self._is_behind():
            self.make()
        began = time.time_ns()
        code, out, err = self.repo.run(*argv, *how, env=self._env)
        if code:  # a collector took what it stands on, perhaps
            self.make()
            code, out, err = self.repo.run(*argv, *how, env=self._env)
        if code:
            raise GitFailed(argv, code, err)
        if self._now() != self._stamp:
            self._forget_recent(began)
            self._date(began)
            self._stamp = self._now()
        return _read(out)

    def since(self) -> dict[str, Change]:
        """How the person's index differs from the one that it is made of."""
        if index.stamp(self.repo) == self._of:
            return {}
        return self.repo.changed(self._staged, index.tree(self.repo))

    def _is_behind(self) -> bool:
        """Whether it does not pay to go on with it."""
        if index.stamp(self.repo) == self._of:
            return False
        try:
            return not self._staged or len(self.since()) > _MOST_BEHIND
        except GitFailed:  # in the middle of a merge it is no tree
            return True

    def _now(self) -> Hashable:
        """Another one where somebody has touched any of it: its configuration says what git runs,
        and what it hides.
        """
        try:
            return tuple(sorted(_stamps(self._env["GIT_DIR"])))
        except OSError:
            return None

    # ------------------------------------------------------------ made of the person's index

    def make(self) -> None:
        self._env = self._folder()
        self._of, self._staged = index.stamp(self.repo), ""
        alike = self._copy()
        self.tree = self.repo.text("write-tree", "--missing-ok", env=self._env)
        if alike and not self._marked:
            index.know(self.repo, self._of, self.tree)
        head = self.repo.commit_object(self.tree, (), "mirror\n")
        Path(self._env["GIT_DIR"], "HEAD").write_text(f"{head}\n")
        self._stamp = self._now()
        self.trust = False
        try:
            self._staged = index.tree(self.repo)
        except GitFailed:  # in the middle of a merge it is no tree
            if not index.unmerged(self.repo):
                raise

    def _folder(self) -> dict[str, str]:
        repo = self.repo
        place = repo.git_dir / "kern" / "mirror"
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        theirs = (repo.common_dir / "config", repo.git_dir / "config.worktree")
        text = "".join(f"[include]\n\tpath = {_quoted(str(path))}\n" for path in theirs)
        env = index.beside(repo, place, repo.root, text + _CONFIG)
        (place / "info/attributes").write_text(_RAW)
        (place / "info/exclude").symlink_to(repo.common_dir / "info/exclude")
        return env

    def _copy(self) -> bool:
        """Fill its index; whether each file is stored there as the person's has it. When a file was
        last looked at counts: git looks again at what may have changed within the same moment.
        """
        self.links, self.rules, self._marked = frozenset(), frozenset(), False
        theirs = self.repo.git_dir / "index"
        if not theirs.exists():
            return True
        shutil.copy2(theirs, self._index)
        written = self._index.stat().st_mtime_ns
        if index.is_split(theirs) or indexfile.SPARSE in self._index.read_bytes():
            argv = ("-c", "index.sparse=false", "update-index", "--no-split-index")
            env = {"GIT_INDEX_FILE": str(self._index)}
            self.repo.git(*argv, "--force-write-index", env=env)
        odd, doubtful = self._sorted()
        self._marked = bool(odd)
        self._forget({**odd, **doubtful})
        # What may lie on the disk in another form than git stores is stored as it lies there.
        given = os.fsencode("".join(f"{path}\0" for path in doubtful if self._settled(path)))
        if given:
            self.repo.git("update-index", "--remove", "-z", "--stdin", given=given, env=self._env)
        self._date(written - _SLOW_NS)
        return not doubtful

    def _known(self, since: int = 0) -> Iterator[Known]:
        return indexfile.read(self._index, len(self.repo.head().commit) // 2, since)

    def _sorted(self) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """What a person has git take for unchanged, and what is doubtful."""
        odd, doubtful, links, rules = dict[str, Entry](), dict[str, Entry](), set[str](), set[str]()
        converted = self._converted() if self.trust else None
        known, since = self._known(), _since(time.time_ns())
        while some := [*itertools.islice(known, _AT_ONCE)]:
            files = []
            for one in some:
                path, mode, _, _, _, flags = one
                if mode == indexfile.LINK:
                    links.add(os.fsdecode(path))
                elif path.endswith(_RULES):
                    rules.add(os.fsdecode(path))
                if flags & _ODD:
                    if not self._is_absent(one):
                        odd[os.fsdecode(path)] = _entry(one)
                elif stat.S_ISREG(mode):
                    files.append(one)
            for one, stored in zip(files, self._sizes(files), strict=True):
                if _is_doubtful(one, stored, since, converted):
                    doubtful[os.fsdecode(one.path)] = _entry(one)
        self.links, self.rules = frozenset(links), frozenset(rules)
        return odd, doubtful

    def _date(self, when: int) -> None:
        """What has changed since, git compares with what it has, whatever the times say."""
        os.utime(self._index, ns=(when, when))

    def _forget(self, entries: Mapping[str, Entry]) -> None:
        """git is to look at them anew, whatever their times say."""
        if entries:
            argv = ("update-index", "-z", "--index-info")
            rows = (f"{one.mode} {one.blob}\t{path}\0" for path, one in entries.items())
            self.repo.git(*argv, given=os.fsencode("".join(rows)), env=self._env)

    def _forget_recent(self, began: int) -> None:
        """git has just looked at some files, and goes by whole seconds: what changed again within
        one, with its old time put back, would look the same. So it is to read these once more.
        """
        since = _since(began)
        recent = (one for one in self._known(since) if stat.S_ISREG(one.mode))
        there = (one for one in recent if not one.flags & indexfile.SKIPPED)
        self._forget({os.fsdecode(one.path): _entry(one) for one in there})

    def _settled(self, path: str) -> bool:
        """The others stay unknown, and differ: a file may change again within the same second, and
        one that nobody can read is complained about where it is asked for.
        """
        place = os.path.join(self.repo.root, path)
        try:
            info = os.lstat(place)
        except OSError:
            return False
        old = max(info.st_mtime_ns, info.st_ctime_ns) < time.time_ns() - _SLOW_NS
        plain = stat.S_ISREG(info.st_mode) and in_real_folder(self.repo.root, path, {"": True})
        return old and plain and os.access(place, os.R_OK)

    def _is_absent(self, one: Known) -> bool:
        """A sparse checkout leaves it out: not deleted, and a partial clone would fetch it."""
        place = self.repo.root / os.fsdecode(one.path)
        return bool(one.flags & indexfile.SKIPPED) and not os.path.lexists(place)

    def _sizes(self, known: Sequence[Known]) -> list[int | None]:
        """Of the blobs; None where git lacks one."""
        if not known:
            return []
        blobs = b"".join(one.blob for one in known).hex("\n", len(known[0].blob))
        argv = ("cat-file", "--buffer", "--batch-check=%(objectsize)")
        lines = self.repo.git(*argv, given=blobs.encode()).splitlines()
        return [int(line) if line.isdigit() else None for line in lines]

    def _converted(self) -> Collection[bytes] | None:
        """The files to which a conversion may have given other bytes of the same number: attributes
        name one, those on the disk or HEAD's. None where it can be any file: a filter may have been
        named by earlier ones.
        """
        if any(re.fullmatch(r"filter\..*\.(smudge|process)", one) for one in self.repo.config()):
            return None
        argv = ("ls-files", "-z", "--", ".", f":(exclude,attr:{_SIZED})")
        told = self.repo.git(*argv)
        if held := self.repo.named("HEAD", ".gitattributes"):
            with index.private(self.repo, copy=True) as env, tempfile.TemporaryDirectory() as bare:
                now = self.repo.paths("ls-files", "-z", "--", ":(glob)**/.gitattributes")
                index.update(self.repo, {**dict.fromkeys(now), **held}, env)
                places = {"GIT_DIR": str(self.repo.git_dir), "GIT_WORK_TREE": bare}
                code, out, err = self.repo.run(*argv, env=env | places, cwd=Path(bare))
                if code:
                    raise GitFailed(argv, code, err)
                told += out
        return {*told.split(b"\0")}


def _is_doubtful(
    one: Known, stored: int | None, since: int, converted: Collection[bytes] | None
) -> bool:
    """Whether git's word that a file is unchanged does not say which bytes it has: it may have been
    given when other attributes held, or be an agent's word. What it has no size of, it reads.
    """
    path, _, _, size, changed, flags = one
    sized = size in (0, stored) and changed < since
    return bool(converted is None or not sized or flags & indexfile.INTENDED or path in converted)


def _since(now: int) -> int:
    """The second from which on a change may have been followed by another in the same one."""
    return now // 1_000_000_000 - 1


def _stamps(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):  # its times tell of git's own locks
                yield entry.path, info.st_ino, 0, 0, 0
                yield from _stamps(entry.path)
            else:
                yield entry.path, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _entry(one: Known) -> Entry:
    return Entry(f"{one.mode:o}", one.blob.hex())


def _read(out: bytes) -> Look:
    look = Look()
    for record in out.split(b"\0"):
        kind = record[:1]
        if kind == b"?":
            look.untracked.append(os.fsdecode(record[2:]))
        elif kind == b"!":
            look.ignored.append(os.fsdecode(record[2:]))
        elif kind in (b"1", b"u"):
            fields = record.split(b" ", 8 if kind == b"1" else 10)
            mode, blob = fields[4].decode(), fields[7].decode()
            if kind == b"u" or fields[1][1:] != b".":
                look.changed[os.fsdecode(fields[-1])] = Entry(mode, blob)
    return look
