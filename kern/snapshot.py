"""The one primitive that carries safety: the whole working tree as a git tree, and paths put back
from one.

Bytes are stored as they are, no filters, so they return as they were. Left out: SPEC.md,
LEARNINGS.md, `.kern/`, nested repositories, and what git ignores; under which rules is the caller's
to say, because an agent can change them. Neither the person's index nor the stash is touched.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from kern import gitfault, ignoring, index, refs
from kern.errors import KernError
from kern.repo import Entry, Repo

OWN = ("SPEC.md", "LEARNINGS.md")
_BATCH = 100  # files put back with their contents in memory at once
_RACY_NS = 50_000_000  # a file written this recently may change again within its time stamp

_Stamp = tuple[int, int, int, int, int]


class Snapshots:
    """Takes trees of one working tree. Remembers what it hashed, so the next one reads only what
    changed.
    """

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self._known: dict[str, tuple[_Stamp, Entry]] = {}
        self._rule_files: dict[str, dict[str, Entry]] = {}
        self._hiding: dict[str, Mapping[str, Entry]] = {}
        self._last: tuple[dict[str, Entry], str] | None = None
        self._taken: dict[str, str] = {}  # each tree's rules
        self._losses = 0

    def take(self, rules: str = "") -> str:
        """Write the tree and return its id. `rules`: a tree whose .gitignore files decide what is
        ignored, instead of those on the disk.
        """
        for _ in range(5):
            gitfault.calm(self.repo.common_dir, self.repo.patience)
            if self._losses != self.repo.losses:
                self._losses = self.repo.losses
                self._known.clear()
                self._last = None
            try:
                found = self._read(rules)
            except FileNotFoundError:  # a file vanished between listing and hashing
                continue
            if not self._last or self._last[0] != found:
                with index.private(self.repo) as env:
                    index.update(self.repo, found, env)
                    tree = self.repo.text("write-tree", "--missing-ok", env=env)
                self._last = (found, tree)
            tree = self._last[1]
            calm = gitfault.calm(self.repo.common_dir, self.repo.patience)
            if not calm and refs.missing(self.repo, "HEAD", tree):
                self.repo.write_anew()  # a collector took it: no ref names it yet
                continue
            self._taken[tree] = rules
            if not rules:
                self._hiding[tree] = self._self_hiding(tree)
            return tree
        raise KernError(
            "the working tree changes faster than it can be read",
            hint="stop what writes into it (a build, a watcher), or have git ignore those files",
        )

    def rewrite(self, tree: str) -> None:
        """The objects of a tree that was taken, as far as the disk still has them."""
        self.take(self._taken.get(tree, ""))

    def entries(self, paths: Iterable[str]) -> dict[str, Entry]:
        """Those of the paths that are files, whatever ignores them."""
        return self._entries(dict.fromkeys(paths))

    def _read(self, rules: str) -> dict[str, Entry]:
        listed = self._listed()
        found = self._entries(listed)
        if rules and (_rules(found) != self._rules_of(rules) or self._hides_anew(rules, listed)):
            # Those .gitignore files are gone or changed: let them decide on all untracked files.
            listed = {**dict.fromkeys(ignoring.untracked(self.repo)), **listed}
            untracked = [path for path, entry in listed.items() if entry is None]
            hidden = self.ignored_by(rules, untracked)
            found = self._entries({p: entry for p, entry in listed.items() if p not in hidden})
        return found

    def _entries(self, listed: Mapping[str, Entry | None]) -> dict[str, Entry]:
        began = time.time_ns()
        found: dict[str, Entry] = {}
        unread: dict[str, _Stamp] = {}
        real: dict[str, bool] = {"": True}
        for path, indexed in listed.items():
            if left_out(path) or not self._in_real_folder(path, real):
                continue
            try:
                info = os.lstat(self.repo.root / path)
            except (FileNotFoundError, NotADirectoryError):
                if indexed and indexed.mode.startswith("S"):  # sparse: absent on disk, not deleted
                    found[path] = Entry(indexed.mode[1:], indexed.blob)
                continue
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
            entry = Entry(_mode(stamp[4]), blob)
            found[path] = entry
            if max(stamp[:2]) < began - _RACY_NS:
                self._known[path] = (stamp, entry)
        return dict(sorted(found.items()))

    def _listed(self) -> dict[str, Entry | None]:
        """Tracked paths with their index entry, untracked and not ignored ones with None."""
        listed: dict[str, Entry | None] = {}
        raw = self.repo.git(
            "ls-files", "-z", "-t", "-s", "--cached", "--others", "--exclude-standard"
        )
        for record in raw.split(b"\0"):
            tag, rest = record[:1], record[2:]
            if tag == b"?":
                path = os.fsdecode(rest)
                if not path.endswith("/"):  # a nested repository
                    listed[path] = None
            elif tag:
                meta, _, name = rest.partition(b"\t")
                mode, blob, _ = meta.decode().split(" ")
                if mode != "160000":  # a submodule
                    listed[os.fsdecode(name)] = Entry(("S" if tag == b"S" else "") + mode, blob)
        return listed

    def _in_real_folder(self, path: str, real: dict[str, bool]) -> bool:
        """Whether all folders above the path are folders: behind a symbolic link lies something
        else.
        """
        folder = os.path.dirname(path)
        known = real.get(folder)
        if known is None:
            try:
                mode = os.lstat(self.repo.root / folder).st_mode
            except (FileNotFoundError, NotADirectoryError):
                mode = stat.S_IFDIR
            known = real[folder] = stat.S_ISDIR(mode) and self._in_real_folder(folder, real)
        return known

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
                    lines.append(f"{folder}/{number}\n")
                else:
                    lines.append(f"./{path}\n")  # a leading quote would be read as quoting
            given = os.fsencode("".join(lines))
            code, out, err = self.repo.run(
                "hash-object", "-w", "--no-filters", "--stdin-paths", given=given
            )
        if code:
            raise self._unreadable(err, paths)
        return dict(zip(paths, out.decode().split(), strict=True))

    def _unreadable(self, err: str, paths: Iterable[str]) -> Exception:
        for path in paths:
            full = self.repo.root / path
            if not os.path.lexists(full):
                return FileNotFoundError(path)
            if not os.access(full, os.R_OK):
                return KernError(
                    f"cannot read {full}: kern must be able to put every file back",
                    hint=f"chmod +r '{path}', or have git ignore it",
                )
        if "No space left" in err:
            return KernError(
                "no space left for git's objects", hint="free some space, then run kern again"
            )
        return KernError(
            f"git cannot store the working tree: {err.strip()[-300:]}",
            hint="settle it, then run kern again: it resumes",
        )

    # ------------------------------------------------------------ ignore rules

    def _rules_of(self, tree: str) -> dict[str, Entry]:
        if tree not in self._rule_files:
            self._rule_files[tree] = _rules(self.repo.entries(tree))
        return self._rule_files[tree]

    def hiding(self, tree: str) -> Mapping[str, Entry]:
        """The .gitignore files that hid themselves when the tree was taken: no tree holds them."""
        return self._hiding.get(tree, {})

    def know(self, tree: str, hiding: Mapping[str, Entry]) -> None:
        """Of a tree that an earlier run took."""
        self._hiding.setdefault(tree, hiding)

    def _self_hiding(self, tree: str) -> dict[str, Entry]:
        """Hidden .gitignore files that no visible one hides: a .venv brings such a file along."""
        hidden = ignoring.hidden_rule_files(self.repo)
        explained = ignoring.hidden_by(self.repo, self._rules_of(tree), hidden)
        return self._entries(dict.fromkeys(set(hidden) - explained))

    def _hides_anew(self, rules: str, listed: Collection[str]) -> bool:
        """Whether a hidden .gitignore came or went that was not hidden before."""
        new = [path for path in ignoring.hidden_rule_files(self.repo) if path not in listed]
        gone = any(not os.path.lexists(self.repo.root / path) for path in self.hiding(rules))
        return gone or len(self.ignored_by(rules, new)) < len(new)

    def ignored_by(self, rules: str, paths: Collection[str]) -> set[str]:
        """Those of the untracked paths that the .gitignore files of the tree `rules` would hide."""
        return ignoring.hidden_by(self.repo, {**self._rules_of(rules), **self.hiding(rules)}, paths)

    # ------------------------------------------------------------ putting back

    def put_back(self, wanted: Mapping[str, Entry | None]) -> None:
        """Make each path on the disk what the entry says, None for absent. Deletions first: a
        folder may stand where a file stood.
        """
        for path in sorted((p for p, e in wanted.items() if e is None), reverse=True):
            self._remove(path)
        new = [(path, entry) for path, entry in sorted(wanted.items()) if entry is not None]
        for some in (new[at : at + _BATCH] for at in range(0, len(new), _BATCH)):
            contents = self.repo.contents({entry.blob for _, entry in some})
            for path, entry in some:
                self._write(path, entry, contents[entry.blob])

    def _remove(self, path: str) -> None:
        if not self._in_real_folder(path, {"": True}):
            return
        full = self.repo.root / path
        if full.is_dir() and not full.is_symlink():
            return
        full.unlink(missing_ok=True)
        parent = full.parent
        while parent != self.repo.root:
            try:
                parent.rmdir()
            except OSError:
                return
            parent = parent.parent

    def _write(self, path: str, entry: Entry, data: bytes) -> None:
        full = self.repo.root / path
        if not self._in_real_folder(path, {"": True}):
            raise self._in_the_way(path)
        if full.is_dir() and not full.is_symlink():
            try:
                full.rmdir()
            except OSError:
                raise self._in_the_way(path) from None
        temporary = Path(tempfile.mkdtemp(prefix="put-back-", dir=self._scratch())) / "file"
        try:
            full.parent.mkdir(parents=True, exist_ok=True)
            if entry.mode == "120000":
                os.symlink(data, os.fsencode(temporary))
            else:
                temporary.write_bytes(data)
                umask = os.umask(0)
                os.umask(umask)
                temporary.chmod((0o777 if entry.mode == "100755" else 0o666) & ~umask)
            if full.is_symlink():
                full.unlink()  # never through a link
            shutil.move(temporary, full)  # the git directory may lie on another disk
        except NotADirectoryError:
            raise self._in_the_way(path) from None
        except OSError as exc:
            raise KernError(
                f"cannot put back {full}: {exc.strerror}",
                hint="settle it, then run kern again: it resumes",
            ) from exc
        finally:
            shutil.rmtree(temporary.parent, ignore_errors=True)

    def _scratch(self) -> Path:
        folder = self.repo.scratch
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _in_the_way(self, path: str) -> KernError:
        return KernError(
            f"cannot put back {path}: something that git does not track stands in its way",
            hint=f"move what is at {self.repo.root / path} away, then run kern again: it resumes",
        )


def left_out(path: str) -> bool:
    return path in OWN or path.startswith(".kern/")


def _rules(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    return {p: e for p, e in entries.items() if p.rpartition("/")[2] == ".gitignore"}


def _mode(bits: int) -> str:
    if stat.S_ISLNK(bits):
        return "120000"
    return "100755" if bits & stat.S_IXUSR else "100644"
