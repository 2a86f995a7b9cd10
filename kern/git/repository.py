"""git: one repository's head, objects and merges."""

import os
import re
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from kern.errors import UsageError
from kern.git import environment, faults
from kern.git.faults import GitFailed
from kern.git.store import FOLDER, Store
from kern.git.store import Entry as Entry
from kern.system import process, waits


@dataclass(frozen=True, slots=True)
class Head:
    commit: str
    branch: str  # empty when detached

    @property
    def name(self) -> str:
        return self.branch or f"HEAD-{self.commit[:7]}"


Change = tuple[Entry | None, Entry | None]
LINK, SUBMODULE = "120000", "160000"  # modes of what is no file; a submodule's blob is a commit

ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # of an object
OLDEST = (2, 38)  # of git: merge-tree --write-tree
_MOST_CHANGES = 100  # pairs of trees that are remembered
T = TypeVar("T")
_PAUSE = 0.1  # seconds between two tries at a lock


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
        self.ahead = ""  # above the refs of commits that wait, where a run goes on from them
        self._start = process.piped if reading else environment.started
        self._known: dict[str, tuple[Hashable, Any]] = {}
        self._changes: dict[tuple[str, str], dict[str, Change]] = {}
        self.store = Store(partial(environment.answering, root), self.scratch)
        self.worktree = "main" if git_dir == common_dir else f"wt/{git_dir.name}"

    @property
    def scratch(self) -> Path:
        """Where half-made files of a run lie; cleared at the start of the next."""
        return self.git_dir / "kern" / "scratch"

    @property
    def aside(self) -> Path:
        """Where lies what was moved out of the working tree."""
        return self.git_dir / "kern" / "aside"

    # ------------------------------------------------------------ running git

    def run(
        self,
        *argv: str,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 0,
    ) -> tuple[int, bytes, str]:
        """Exit code, standard output, standard error. Where another git holds a lock, it is run
        again for a while: nothing has happened yet. `timeout` in seconds, 0 for none, raises
        TimeoutError.
        """
        env = {**environment.of_kern(self.root), **(env or {})}
        # Else each private index leaves the shared part of a split one.
        whole = ("-c", "core.splitIndex=false") if "GIT_INDEX_FILE" in env else ()
        deadline = time.monotonic() + self.patience
        while True:
            ended = self._once(("git", *whole, *argv), env, given, timeout)
            if not ended[0] or time.monotonic() > deadline or not faults.met(ended[2]):
                return ended
            waits.sleep(_PAUSE)

    def _once(
        self,
        command: tuple[str, ...],
        env: Mapping[str, str],
        given: bytes,
        timeout: float,
    ) -> tuple[int, bytes, str]:
        """In a session of its own, so that a Ctrl-C at the terminal does not end git in the middle
        of a write: kern decides when it ends.
        """
        child = self._start(command, self.root, env)
        try:
            out, err = child.communicate(given, timeout or None)
        except BaseException as exc:
            with child:  # which closes its pipes
                process.end(child, process.PATIENCE_S)
                process.kill_group(child)
            if type(exc).__name__ == "TimeoutExpired":  # of a module that process alone may use
                raise TimeoutError from None
            raise
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
        """What the next commit comes upon: the last of those that wait on the branch, where a run
        goes on from them, else HEAD.
        """
        real = self.real_head()
        tip = self.store.id(f"{self.ahead}{real.branch}/@") if self.ahead else ""
        return replace(real, commit=tip) if tip else real

    def real_head(self) -> Head:
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

    def branch(self) -> str:
        """Where HEAD points, also where there is no commit; empty when detached."""
        code, out, err = self.run("symbolic-ref", "--quiet", "HEAD")
        if code not in (0, 1):  # 1: detached
            raise GitFailed(("symbolic-ref", "HEAD"), code, err)
        return out.decode("utf-8", "surrogateescape").strip().removeprefix("refs/heads/")

    # ------------------------------------------------------------ objects

    def blob(self, data: bytes, *, path: str | None = None) -> str:
        """Write a blob; with `path` as git would add it there, filters applied."""
        if not path:
            return self.store.write("blob", data)
        # core.safecrlf guards a person's `git add`; here the bytes are kept in refs anyway.
        argv = ("-c", "core.safecrlf=false", "hash-object", "-w", "--stdin", "--path", path)
        return self.text(*argv, given=data)

    def content(self, revision: str, path: str) -> bytes | None:
        if "\n" in path:
            code, out, _ = self.run("cat-file", "blob", f"{revision}:{path}")
            return None if code else out
        return self.store.read(f"{revision}:{path}")

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

    def commit_id(self, name: str) -> str:
        """The id of what is a commit."""
        if not (found := self.store.id(f"{name}^{{commit}}")):
            raise GitFailed(("rev-parse", name), 128, f"fatal: git lacks the commit {name}")
        return found

    def entry(self, tree: str, path: str) -> Entry | None:
        """Of one file."""
        row: Entry | None = Entry(FOLDER, self.tree(tree))
        for name in path.split("/"):
            row = self.store.tree(row.blob).get(name) if row and row.mode == FOLDER else None
        return row if row and row.mode != FOLDER else None

    def changed(self, old: str, new: str) -> dict[str, Change]:
        """The paths that differ between two trees or commits, each with its entries."""
        pair = self.tree(old), self.tree(new)
        if pair not in self._changes:
            how = ("-r", "-z", "--no-renames", "--ignore-submodules=none", "-O/dev/null")
            fields = os.fsdecode(self.git("diff-tree", *how, *pair)).split("\0")
            if len(self._changes) >= _MOST_CHANGES:
                self._changes.clear()
            rows = (row[1:].split(" ") for row in fields[:-1:2])
            sides = ((Entry(row[0], row[2]), Entry(row[1], row[3])) for row in rows)
            self._changes[pair] = {
                path: (was if int(was.mode) else None, now if int(now.mode) else None)
                for path, (was, now) in zip(fields[1::2], sides, strict=True)
            }
        return {**self._changes[pair]}

    def tree_with(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """The tree, empty where none, with some paths replaced or, where None, removed; what stands
        in the way of a new file gives way.
        """
        rows = {**self.store.tree(self.tree(tree))} if tree else {}
        below: dict[str, dict[str, Entry | None]] = {}
        for path, entry in changes.items():
            name, inside, rest = path.partition("/")
            if inside:
                below.setdefault(name, {})[rest] = entry
            elif name in rows and rows[name].mode != FOLDER:
                del rows[name]
        for name, inner in below.items():
            old = rows.get(name)
            above = old.blob if old and old.mode == FOLDER else ""
            if above or any(inner.values()):
                rows[name] = Entry(FOLDER, self.tree_with(above, inner))
                if not self.store.tree(rows[name].blob):
                    del rows[name]
        rows |= {path: entry for path, entry in changes.items() if entry and "/" not in path}
        return self.store.write_tree(rows)

    def commit_object(self, tree: str, parents: Iterable[str], message: str) -> str:
        """One of kern's own; no ref names it yet."""
        above = [self.commit_id(name) for name in dict.fromkeys(parents)]
        who = f"kern <kern@localhost> {int(time.time())} +0000"
        rows = [f"tree {self.tree(tree)}", *(f"parent {sha}" for sha in above)]
        text = "\n".join((*rows, f"author {who}", f"committer {who}", "", message))
        return self.store.write("commit", text.encode("utf-8", "surrogateescape"))

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
        values, the last of which counts; asked again where one of its usual files has changed.
        """

        def ask() -> dict[str, list[str]]:
            found = dict[str, list[str]]()
            told = self.git("config", "-z", "--list", env=environment.with_hooks())
            for record in os.fsdecode(told).split("\0")[:-1]:
                name, given, value = record.partition("\n")
                found.setdefault(name, []).append(value if given else "true")
            return found

        places = (self.common_dir / "config", self.git_dir / "config.worktree", *environment.own())
        infos = [place.stat() for place in places if place.exists()]
        return self.once("config", tuple((one.st_ctime_ns, one.st_ino) for one in infos), ask)

    def is_set(self, name: str) -> bool:
        """Of a setting that is true or false."""
        said = self.config().get(name, [""])[-1].lower()
        return said in ("true", "yes", "on") or (said.isdecimal() and int(said) != 0)


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
    if code or len(lines) != 3:
        said = (err.strip().splitlines() or ["there is a line break in its path"])[0]
        if "not a git repository" in said:
            hint = "git init, or cd into your project"
            raise UsageError(f"not a git repository: {folder}", hint=hint)
        hint = "cd into a working tree; git worktree add PATH BRANCH makes one"
        if "dubious ownership" in said:
            hint = f"if you trust it: git config --global --add safe.directory {folder}"
        raise UsageError(f"cannot work in {folder}: {said}", hint=hint)
    version = b"" if reading else probe.run("version")[1]
    found = re.search(rb"(\d{1,9})\.(\d{1,9})", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise UsageError(f"git {found[0].decode()} is too old", hint="install git 2.38 or newer")
    root, git_dir, common = (Path(line).resolve() for line in lines)
    return Repo(root, git_dir, common, reading=reading)
