"""git: one repository's head, objects and merges."""

import os
import re
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from kern.errors import KernError, UsageError
from kern.git import environment, faults, trees
from kern.git.faults import GitFailed
from kern.git.store import FOLDER, Store
from kern.system import process, waits


@dataclass(frozen=True, slots=True)
class Head:
    commit: str
    branch: str  # empty when detached

    @property
    def name(self) -> str:
        return self.branch or f"HEAD-{self.commit[:7]}"


@dataclass(frozen=True, slots=True)
class Entry:
    mode: str
    blob: str


Change = tuple[Entry | None, Entry | None]
LINK, SUBMODULE = "120000", "160000"  # modes of what is no file; a submodule's blob is a commit

ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # of an object
OLDEST = (2, 38)  # of git: merge-tree --write-tree
_MOST_KEPT = 1 << 16  # bytes of a blob that was written
T = TypeVar("T")
_PAUSE = 0.1  # seconds between two tries at a lock
# A command, to be started with that environment over kern's own, with a sandbox before it.
Hold = Callable[[Sequence[str], Mapping[str, str]], Sequence[str]]


class Repo:
    """One working tree. Every method is one git command or a few."""

    def __init__(
        self, root: Path, git_dir: Path, common_dir: Path, *, reading: bool = False
    ) -> None:
        """`reading`: a look that is over at once, before GitPython would be loaded."""
        self.root = root
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.patience = 10.0  # seconds for a lock that another git holds
        self.signs = True  # where the person does
        self._start = process.piped if reading else environment.started
        self._stored: dict[bytes, str] = {}
        self._known: dict[str, tuple[Hashable, Any]] = {}
        self.whole: set[str] = set()  # commits of which each object is there for good
        answering = partial(environment.answering, root)
        self.store = Store(answering, self.scratch, common_dir / "objects")
        self.worktree = "main" if git_dir == common_dir else f"wt/{git_dir.name}"

    @property
    def scratch(self) -> Path:
        """Where half-made files of a run lie; cleared at the start of the next."""
        return self.git_dir / "kern" / "scratch"

    # ------------------------------------------------------------ running git

    def run(
        self,
        *argv: str,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 0,
        hooked: bool = False,
        hold: Hold | None = None,
        spool: Path | None = None,
    ) -> tuple[int, bytes, str]:
        """Exit code, standard output, standard error. Where another git holds a lock, it is run
        again for a while: nothing has happened yet. `hooked`: a person's hooks are run by it, once,
        and it is no reading of kern's own. `timeout` in seconds, 0 for none, raises TimeoutError.
        `spool`: a file for what hooks print, who would end with a pipe if kern is killed, in the
        middle of what they have to restore. `hold` puts a sandbox before the command.
        """
        if hooked:  # they may change anything
            self._known.clear()
        env = {**environment.of_kern(self.root, hooked=hooked), **(env or {})}
        # Else each private index leaves the shared part of a split one.
        whole = ("-c", "core.splitIndex=false") if "GIT_INDEX_FILE" in env else ()
        command: Sequence[str] = ("git", *whole, *argv)
        command = hold(command, env) if hold else command
        if spool:
            command = ("sh", "-c", 'exec "$@" >"$0" 2>&1', str(spool), *command)
        deadline = time.monotonic() + (0 if hooked else self.patience)
        while True:
            if self.store.move(argv):
                return 0, b"", ""
            told = self._once(command, cwd or self.root, env, given, timeout, held=bool(hold))
            if not told[0] or time.monotonic() > deadline or not faults.met(told[2]):
                return told
            waits.sleep(_PAUSE)

    def _once(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        given: bytes,
        timeout: float,
        *,
        held: bool,
    ) -> tuple[int, bytes, str]:
        """In a session of its own, so that a Ctrl-C at the terminal does not end git in the middle
        of a write: kern decides when it ends.
        """
        child = self._start(command, cwd, env)
        try:
            out, err = child.communicate(given, timeout or None)
        except BaseException as exc:
            with child:  # which closes its pipes
                process.end(child, process.PATIENCE_S)
                process.kill_group(child)
            if type(exc).__name__ == "TimeoutExpired":  # of a module that process alone may use
                raise TimeoutError from None
            raise
        if held:
            process.kill_group(child)
        return child.returncode, out, err.decode("utf-8", "replace")

    def git(self, *argv: str, given: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        code, out, err = self.run(*argv, given=given, env=env)
        if code:
            raise GitFailed(argv, code, err)
        return out

    def text(self, *argv: str, given: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        return self.git(*argv, given=given, env=env).decode("utf-8", "surrogateescape").strip()

    def paths(self, *argv: str, env: Mapping[str, str] | None = None) -> list[str]:
        """What git lists with `-z`."""
        return [path for path in os.fsdecode(self.git(*argv, env=env)).split("\0") if path]

    def once(self, what: str, stamp: Hashable, ask: Callable[[], T]) -> T:
        """What was told last, where the stamp is the same as then; None never is."""
        if stamp is None or self._known.get(what, (None,))[0] != stamp:
            self._known[what] = stamp, ask()
        return cast(T, self._known[what][1])

    # ------------------------------------------------------------ head and state

    def head(self) -> Head:
        if plain := self.plain_head():
            return plain
        code, out, _ = self.run("rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
        lines = out.decode("utf-8", "surrogateescape").split()
        if code or len(lines) < 2:
            raise UsageError(
                "this repository has no commit yet",
                hint="git add --all && git commit -m start, or: git commit --allow-empty -m start",
            )
        return Head(lines[0], lines[1].removeprefix("refs/heads/") if lines[1] != "HEAD" else "")

    def plain_head(self) -> Head | None:
        """HEAD where two small files say it plainly; git is asked where it is packed or kept
        elsewhere.
        """
        try:
            text = (self.git_dir / "HEAD").read_text("utf-8", "surrogateescape").strip()
            name = text.removeprefix("ref: ")
            if name != text:
                text = (self.common_dir / name).read_text("ascii").strip()
        except (OSError, UnicodeError):
            return None
        if not ID.fullmatch(text):
            return None
        branch = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else ""
        return Head(text, branch) if branch or name == text else None

    def plain_refs(self, prefix: str) -> dict[str, str] | None:
        """The refs that begin so, each with what it names, as small files say it; None where git is
        to be asked: they are kept elsewhere, or odd.
        """
        if (self.common_dir / "reftable").exists():
            return None
        found = dict[str, str]()
        try:
            for above, _, names in os.walk(self.common_dir / prefix):
                for place in (Path(above, name) for name in names if not name.endswith(".lock")):
                    text = place.read_text("ascii").removesuffix("\n")
                    if not ID.fullmatch(text):
                        return None
                    found[os.path.relpath(place, self.common_dir)] = text
            # Looked at last: git writes the packed ones before it removes the others.
            packed = self.common_dir / "packed-refs"
            told = os.fsdecode(packed.read_bytes()) if packed.exists() else ""
        except (OSError, UnicodeError):
            return None
        rows = re.findall(rf"^(\w+) ({re.escape(prefix)}.*)$", told, re.M)
        return {ref: tip for tip, ref in rows} | found

    def branch(self) -> str:
        """Where HEAD points, also where there is no commit; empty when detached."""
        code, out, err = self.run("symbolic-ref", "--quiet", "HEAD")
        if code not in (0, 1):  # 1: detached
            raise GitFailed(("symbolic-ref", "HEAD"), code, err)
        return out.decode("utf-8", "surrogateescape").strip().removeprefix("refs/heads/")

    # ------------------------------------------------------------ objects

    def blob(self, data: bytes, *, path: str | None = None) -> str:
        """Write a blob; with `path` as git would add it there, filters applied."""
        if not path and data in self._stored:
            return self._stored[data]
        if not path:
            blob = self.store.write("blob", data)
        else:
            # core.safecrlf guards a person's `git add`; here the bytes are kept in refs anyway.
            argv = ("-c", "core.safecrlf=false", "hash-object", "-w", "--stdin", "--path", path)
            blob = self.text(*argv, given=data)
        if not path and len(data) < _MOST_KEPT:
            self._stored[data] = blob
        return blob

    def content(self, revision: str, path: str) -> bytes | None:
        if "\n" in path:
            code, out, _ = self.run("cat-file", "blob", f"{revision}:{path}")
            return None if code else out
        return self.store.read(f"{revision}:{path}")

    def pieces(self, blob: str) -> Iterator[bytes]:
        """A blob a piece at a time: no file has to fit into memory."""
        found = self.store.pieces(blob)
        if found is None:
            raise KernError(f"git lacks an object: {blob}", hint="git fsck")
        return found

    def data(self, blob: str) -> bytes:
        found = self.store.read(blob)
        if found is None:
            raise GitFailed(("cat-file", "blob"), 128, f"fatal: git lacks {blob}")
        return found

    def tree(self, name: str) -> str:
        """The id of what is a tree, or has one."""
        found = self.store.id(name if name.endswith("^{tree}") else f"{name}^{{tree}}")
        if not found:
            raise GitFailed(("rev-parse", name), 128, f"fatal: git lacks the tree of {name}")
        return found

    def entries(self, tree: str) -> dict[str, Entry]:
        """Path to entry, all levels."""
        found = trees.rows(self.store, self.tree(tree))
        return {os.fsdecode(path): _entry(row) for path, row in found}

    def entry(self, tree: str, path: str) -> Entry | None:
        """Of one file."""
        row = trees.at(self.store, self.tree(tree), path)
        return _entry(row) if row and row[0] != FOLDER else None

    def named(self, tree: str, name: str) -> dict[str, Entry]:
        """The files of one name in a tree, on all levels; git lists them faster than it can be
        asked for each folder.
        """
        argv = ("diff-tree", "-r", "-z", self.store.write_tree({}), self.tree(tree))
        fields = os.fsdecode(self.git(*argv, "--", f":(glob)**/{name}")).split("\0")
        rows = zip(fields[::2], fields[1::2], strict=False)  # :old new old new A, path
        return {path: Entry(*row.split(" ")[1:4:2]) for row, path in rows}

    def changed(self, old: str, new: str) -> dict[str, Change]:
        """The paths that differ between two trees or commits, each with its entries."""
        if old == new:
            return {}
        found: dict[str, Change] = {}
        for path, was, now in sorted(trees.changed(self.store, self.tree(old), self.tree(new))):
            found[os.fsdecode(path)] = was and _entry(was), now and _entry(now)
        return found

    def tree_with(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """The tree, empty where none, with some paths replaced or, where None, removed."""
        found = {
            os.fsencode(path): (entry.mode.encode(), entry.blob) if entry else None
            for path, entry in changes.items()
        }
        return trees.with_changes(self.store, tree and self.tree(tree), found)

    def commit_object(self, tree: str, parents: Iterable[str], message: str) -> str:
        top, ids = self.tree(tree), [*dict.fromkeys(self._commit(name) for name in parents)]
        data = message.encode("utf-8", "surrogateescape")
        # A person may have told git which dates commits are to have, or which encoding.
        encoded = self.once("encoding", "as it was", lambda: self.setting("i18n.commitencoding"))
        if encoded or not os.environ.keys().isdisjoint(environment.DATES):
            argv = ("commit-tree", "--no-gpg-sign", top, *(f for one in ids for f in ("-p", one)))
            return self.text(*argv, given=data, env=environment.KERN)
        when = f"{int(time.time())} {time.strftime('%z')}"
        who = "{GIT_AUTHOR_NAME} <{GIT_AUTHOR_EMAIL}>".format_map(environment.KERN)
        people = [f"{role} {who} {when}" for role in ("author", "committer")]
        lines = [f"tree {top}", *(f"parent {one}" for one in ids), *people, "", ""]
        return self.store.write("commit", "\n".join(lines).encode() + data)

    def _commit(self, name: str) -> str:
        found = self.store.id(f"{name}^{{commit}}")
        if not found:
            raise GitFailed(("commit-tree", name), 128, f"fatal: git lacks the commit {name}")
        return found

    def hooks(self, *names: str, folder: Path | None = None) -> list[str]:
        """Those of the hooks that are there and can run."""
        return [one for one in names if os.access((folder or self.hooks_folder()) / one, os.X_OK)]

    def hooks_folder(self) -> Path:
        """Where git looks for the person's hooks; asked again after each child of kern."""
        if "core.hookspath" not in self.config():
            return self.common_dir / "hooks"
        raw = self.git("rev-parse", "--git-path", "hooks", env=environment.with_hooks())
        return self.root / os.fsdecode(raw).removesuffix("\n")

    # ------------------------------------------------------------ configuration

    def config(self) -> dict[str, list[str]]:
        """What a person's git is told, by everything that tells it: lower-case names with their
        values, the last of which counts; asked again after each child of kern.
        """

        def ask() -> dict[str, list[str]]:
            found = dict[str, list[str]]()
            told = self.git("config", "-z", "--list", env=environment.with_hooks())
            for record in os.fsdecode(told).split("\0")[:-1]:
                name, given, value = record.partition("\n")
                found.setdefault(name, []).append(value if given else "true")
            return found

        place = self.common_dir / "config"
        info = place.stat() if place.exists() else None
        stamp = info and (info.st_ctime_ns, info.st_ino, process.RAN.total())
        return self.once("config", stamp, ask)

    def setting(self, name: str) -> str:
        """Empty where nothing sets it."""
        return self.config().get(name, [""])[-1]

    def is_set(self, name: str, *, otherwise: bool = False) -> bool:
        """Of a setting that is true or false."""
        said = self.config().get(name, [str(otherwise)])[-1].lower()
        return said in ("true", "yes", "on") or (said.isdecimal() and int(said) != 0)


def _entry(row: trees.Row) -> Entry:
    return Entry(row[0].decode(), row[1])


def open_at(folder: Path, *, reading: bool = False) -> Repo:
    """The repository around `folder`, at its top level. `reading`: see `Repo`."""
    environment.drop(os.environ)
    try:
        probe = Repo(folder, folder, folder, reading=reading)
        asked = ("--show-toplevel", "--git-dir", "--git-common-dir")
        code, out, err = probe.run("rev-parse", "--path-format=absolute", *asked)
    except FileNotFoundError:
        raise UsageError(
            "git is not installed, or not on PATH", hint="install git 2.38 or newer"
        ) from None
    lines = os.fsdecode(out).splitlines()
    if not code and len(lines) > 3:
        raise UsageError(f"a line break in the path of {folder}", hint="rename the folder")
    if code or len(lines) < 3:
        said = err.strip().splitlines()
        if "dubious ownership" in err:
            raise UsageError(
                f"git does not trust this repository: {folder} belongs to someone else",
                hint=f"git config --global --add safe.directory {folder}",
            )
        if "must be run in a work tree" in err or (said and "not a git repository" not in said[0]):
            raise UsageError(
                f"cannot work in {folder}: {said[0] if said else 'no working tree'}",
                hint="cd into a working tree; git worktree add PATH BRANCH makes one",
            )
        raise UsageError(
            f"not a git repository: {folder}", hint="git init, or cd into your project"
        )
    version = b"" if reading else probe.run("version")[1]
    found = re.search(rb"(\d{1,9})\.(\d{1,9})", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise UsageError(f"git {found[0].decode()} is too old", hint="install git 2.38 or newer")
    root, git_dir, common = (Path(line).resolve() for line in lines[:3])
    return Repo(root, git_dir, common, reading=reading)
