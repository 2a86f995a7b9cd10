"""git: one repository's head, objects, trees and settings."""

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kern.errors import UsageError
from kern.git import environment
from kern.git.environment import GitFailed, Store
from kern.model import LEARNINGS, SPEC
from kern.system import process, waits, workspace

DOCUMENTS = (SPEC, LEARNINGS)  # which kern writes: in no change of a task's
LINK, SUBMODULE, FOLDER = "120000", "160000", "40000"  # modes of what is no file
OLDEST = (2, 38)  # of git: merge-tree --write-tree
# Tools make them anew, and some believe what they find there.
REMADE = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/")
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
_PAUSE = 0.1  # seconds between two tries at a lock


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
    blob: str  # a folder's is a tree, a submodule's a commit

    @property
    def is_submodule(self) -> bool:
        return self.mode == SUBMODULE


Change = tuple[Entry | None, Entry | None]


class Repo:
    """One working tree. Every method is one git command or a few."""

    def __init__(self, root: Path, git_dir: Path, common_dir: Path) -> None:
        self.root = root
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.patience = 10.0  # seconds for a lock that another git holds
        self.signs = True  # where the person does
        self.start = process.piped  # a run has GitPython start git, which takes long to load
        self.ahead = ""  # above the refs of commits that wait, where a run goes on from them
        self._diff = lru_cache(100)(self._compare)
        self._rows = lru_cache(20)(self._read_rows)
        self._bare = lru_cache(20)(lambda tree: self.tree_with(tree, dict.fromkeys(DOCUMENTS)))
        # Where half-made files of a run lie, cleared at the start of the next; and what was moved
        # out of the working tree.
        self.scratch, self.aside = (git_dir / "kern" / name for name in ("scratch", "aside"))
        self.store = Store(root)
        self.worktree = "main" if git_dir == common_dir else f"wt/{git_dir.name}"

    # ------------------------------------------------------------ running git

    def run(
        self,
        *argv: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 0,
    ) -> tuple[int, bytes, str]:
        """Exit code, standard output, standard error. Where another git holds a lock, it is run
        again for a while: nothing has happened yet. `timeout` in seconds, 0 for none, raises
        TimeoutError.
        """
        env = {**environment.quiet(), **process.tree_last(self.root), **(env or {})}
        # Else each private index leaves the shared part of a split one.
        whole = ("-c", "core.splitIndex=false") if "GIT_INDEX_FILE" in env else ()
        deadline = time.monotonic() + waits.scaled(self.patience)
        while True:
            child = self.start(("git", *whole, *argv), self.root, env)
            out, complaint = environment.attend(child, stdin, timeout)
            locked = child.returncode and environment.met_lock(complaint)
            if not locked or time.monotonic() > deadline:
                return child.returncode, out, complaint
            waits.sleep(_PAUSE)

    def git(self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        code, out, err = self.run(*argv, stdin=stdin, env=env)
        if code:
            raise GitFailed(argv, code, err)
        return out

    def text(self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        return self.git(*argv, stdin=stdin, env=env).decode("utf-8", "surrogateescape").strip()

    def paths(self, *argv: str, env: Mapping[str, str] | None = None) -> list[str]:
        """What git lists with `-z`."""
        return [path for path in os.fsdecode(self.git(*argv, env=env)).split("\0") if path]

    # ------------------------------------------------------------ head

    def head(self) -> Head:
        """What the next commit comes upon: the last of those that wait on the branch, where a run
        goes on from them, else HEAD.
        """
        real = self.real_head()
        tip = self.store.id(f"{self.ahead}{real.branch}/@") if self.ahead else ""
        return replace(real, commit=tip) if tip else real

    def real_head(self) -> Head:
        if head := self.plain_head():
            return head
        raise UsageError(
            "this repository has no commit yet",
            hint="git add --all && git commit -m start, or: git commit --allow-empty -m start",
        )

    def plain_head(self) -> Head | None:
        """None where there is no commit."""
        commit = self.store.id("HEAD")
        return Head(commit, self.branch()) if commit else None

    def branch(self) -> str:
        """Where HEAD points, also where there is no commit; empty when detached."""
        name = (self.git_dir / "HEAD").read_text("utf-8", "surrogateescape").strip()
        if name.endswith("/.invalid"):  # refs are kept elsewhere than in files
            name = f"ref: {os.fsdecode(self.run('symbolic-ref', '--quiet', 'HEAD')[1]).strip()}"
        return name.removeprefix("ref: refs/heads/") if name.startswith("ref: refs/heads/") else ""

    # ------------------------------------------------------------ objects

    def blob(self, data: bytes, *, path: str = "") -> str:
        """Write a blob; with `path` as git would add it there, filters applied."""
        if not path:
            return self._write("blob", data)
        # core.safecrlf guards a person's `git add`; here the bytes are kept in refs anyway.
        argv = ("-c", "core.safecrlf=false", "hash-object", "-w", "--stdin", "--path", path)
        return self.text(*argv, stdin=data)

    def content(self, revision: str, path: str) -> bytes | None:
        return self.store.read(f"{revision}:{path}")

    def data(self, blob: str, kind: str = "blob") -> bytes:
        found = self.store.read(blob, kind)
        if found is None:
            raise GitFailed(("cat-file", kind), 128, f"fatal: git lacks {blob}")
        return found

    def tree(self, name: str) -> str:
        """The id of what is a tree, or has one."""
        return self._id(name, "tree")

    def commit_id(self, name: str) -> str:
        """The id of what is a commit."""
        return self._id(name, "commit")

    def _id(self, name: str, kind: str) -> str:
        if not (sha := self.store.id(f"{name}^{{{kind}}}")):
            raise GitFailed(("rev-parse", name), 128, f"fatal: git lacks the {kind} of {name}")
        return sha

    def _read_rows(self, tree: str) -> dict[str, Entry]:
        raw, at, rows = self.data(tree, "tree"), 0, {}
        size = len(tree) // 2
        while at < len(raw):
            end = raw.index(b"\0", at)
            mode, _, name = os.fsdecode(raw[at:end]).partition(" ")
            at = end + 1 + size
            rows[name] = Entry(mode, raw[end + 1 : at].hex())
        return rows

    def entry(self, tree: str, path: str) -> Entry | None:
        """Of one file."""
        row: Entry | None = Entry(FOLDER, self.tree(tree))
        for name in path.split("/"):
            row = self._rows(row.blob).get(name) if row and row.mode == FOLDER else None
        return row if row and row.mode != FOLDER else None

    def changed(self, old: str, new: str) -> dict[str, Change]:
        """The paths that differ between two trees or commits, each with its entries."""
        return {**self._diff(self.tree(old), self.tree(new))}

    def _compare(self, old: str, new: str) -> dict[str, Change]:
        if old == new:
            return {}
        how = ("-r", "-z", "--no-renames", "--ignore-submodules=none", "-O/dev/null")
        fields = os.fsdecode(self.git("diff-tree", *how, old, new)).split("\0")
        changes = dict[str, Change]()
        for row, path in zip(fields[:-1:2], fields[1::2], strict=True):
            was, now, *blobs, _ = row[1:].split(" ")
            sides = zip((was, now), blobs, strict=True)
            before, after = (Entry(*side) if int(side[0]) else None for side in sides)
            changes[path] = before, after
        return changes

    def tree_with(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """The tree, empty where none, with some paths replaced or, where None, removed; what stands
        in the way of a new file gives way.
        """
        rows = {**self._rows(self.tree(tree))} if tree else {}
        below = dict[str, dict[str, Entry | None]]()
        for path, entry in changes.items():
            name, inside, rest = path.partition("/")
            if inside:
                below.setdefault(name, {})[rest] = entry
            elif name in rows and rows[name].mode != FOLDER:
                del rows[name]
        for name, inner in below.items():
            there = rows.get(name)
            above = there.blob if there and there.mode == FOLDER else ""
            if above or any(inner.values()):
                rows[name] = Entry(FOLDER, self.tree_with(above, inner))
                if not self._rows(rows[name].blob):
                    del rows[name]
        rows |= {path: entry for path, entry in changes.items() if entry and "/" not in path}
        return self._write_tree(rows)

    def _write_tree(self, rows: Mapping[str, Entry]) -> str:
        def order(name: str) -> bytes:
            return os.fsencode(f"{name}/" if rows[name].mode == FOLDER else name)

        fields = ((rows[name], os.fsencode(name)) for name in sorted(rows, key=order))
        data = (b"%s %s\0%s" % (e.mode.encode(), n, bytes.fromhex(e.blob)) for e, n in fields)
        return self._write("tree", b"".join(data))

    def _write(self, kind: str, data: bytes) -> str:
        """No process for what is there."""
        names = self.config.get("extensions.objectformat", ["sha1"])[-1]
        whole = f"{kind} {len(data)}\0".encode() + data
        name = hashlib.new(names, whole, usedforsecurity=False).hexdigest()
        if not self.store.id(name):
            self.git("hash-object", "-w", "-t", kind, "--stdin", stdin=data)
        return name

    def bare(self, tree: str) -> str:
        """The same, or a commit's, without kern's documents, which no gate is about."""
        return self._bare(self.tree(tree))

    def commit_object(
        self, tree: str, parents: Iterable[str], message: str, *, when: int | None = None
    ) -> str:
        """One of kern's own; no ref names it yet. `when`: its date in epoch seconds, else now."""
        above = map(self.commit_id, dict.fromkeys(parents))
        who = f"kern <kern@localhost> {int(time.time()) if when is None else when} +0000"
        rows = [f"tree {self.tree(tree)}", *(f"parent {sha}" for sha in above)]
        text = "\n".join((*rows, f"author {who}", f"committer {who}", "", message))
        return self._write("commit", text.encode("utf-8", "surrogateescape"))

    # ------------------------------------------------------------ indexes

    @contextlib.contextmanager
    def private_index(self, of: Path | None = None) -> Iterator[dict[str, str]]:
        """A copy of the person's, or `of` another: the environment naming it. With its time, by
        which git knows what may have changed in the same second.
        """
        index = of or self.git_dir / "index"
        with contextlib.ExitStack() as stack:
            with workspace.reported(self.scratch):
                self.scratch.mkdir(parents=True, exist_ok=True)
                place = Path(stack.enter_context(TemporaryDirectory(dir=self.scratch)), "index")
                if index.exists():
                    shutil.copy2(index, place)
            yield {"GIT_INDEX_FILE": str(place)}

    def added(self, env: Mapping[str, str], apart: Iterable[str]) -> str:
        """The tree of the index that `env` names, with all that lies there but what stays apart."""
        pathspecs = (":/", *(f":(top,exclude,literal){path.rstrip('/')}" for path in apart))
        argv = ("add", "--all", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
        code, _, complaint = self.run(*argv, stdin=os.fsencode("\0".join(pathspecs)), env=env)
        # It has added the rest, and complains of what is excluded and ignored as well.
        if code and (code != 1 or re.search("(?m)^(error|fatal): ", complaint)):
            raise GitFailed(argv, code, complaint)
        return self.text("write-tree", env=env)

    def update_index(
        self, changes: Mapping[str, Entry | None], env: Mapping[str, str] | None = None
    ) -> None:
        """Set or remove entries; with no `env` in the person's own index. Removals first: a file
        may have become a folder.
        """
        if changes:
            zero = "0" * len(self.store.id("HEAD"))
            removed = [f"0 {zero}\t{p}\0" for p, e in changes.items() if e is None]
            new = [f"{e.mode} {e.blob}\t{p}\0" for p, e in changes.items() if e is not None]
            rows = os.fsencode("".join([*removed, *new]))
            self.git("update-index", "-z", "--index-info", stdin=rows, env=env)

    def ignored(self, *paths: str) -> set[str]:
        """Those that git leaves out; one that is committed never is, whatever the index knows."""
        head = self.store.id("HEAD")
        new = [path for path in paths if not (head and self.entry(head, path))]
        names = os.fsencode("\0".join(new))
        out = self.run("check-ignore", "-z", "--stdin", stdin=names)[1] if new else b""
        return {*os.fsdecode(out).split("\0")} - {""}

    # ------------------------------------------------------------ settings and hooks

    @cached_property
    def config(self) -> dict[str, list[str]]:
        """What a person's git is told, by everything that tells it, when it is first asked for:
        lower-case names with their values, the last of which counts.
        """
        settings = dict[str, list[str]]()
        listed = self.git("config", "-z", "--list", env=environment.with_hooks())
        for record in os.fsdecode(listed).split("\0")[:-1]:
            name, given, value = record.partition("\n")
            settings.setdefault(name, []).append(value if given else "true")
        return settings

    def is_set(self, name: str) -> bool:
        """Of a setting that is true or false."""
        value = self.config.get(name, [""])[-1].lower()
        return value in ("true", "yes", "on") or (value.isdecimal() and int(value) != 0)

    def hooks(self, *names: str, folder: Path) -> list[str]:
        """Those of the hooks that are there and can run."""
        return [name for name in names if os.access(folder / name, os.X_OK)]

    def hooks_folder(self) -> Path:
        """Where git looks for the person's hooks."""
        if "core.hookspath" not in self.config:
            return self.common_dir / "hooks"
        raw = self.git("rev-parse", "--git-path", "hooks", env=environment.with_hooks())
        return self.root / os.fsdecode(raw).removesuffix("\n")


def left_out(path: str) -> bool:
    """Of a task's change, since kern writes it."""
    return path in DOCUMENTS or f"{path}/".startswith(".kern/")


def outermost(repo: Repo) -> list[str]:
    """The files and, with a slash at the end, whole folders that git ignores, but for kern's own
    and what tools make anew.
    """
    found: list[str] = []
    for path in sorted(repo.paths(*_IGNORED)):
        inside = found and found[-1].endswith("/") and path.startswith(found[-1])
        if not inside and not left_out(path) and not path.endswith(REMADE):
            found.append(path)
    return found


def open_at(folder: Path) -> Repo:
    """The repository around `folder`, at its top level."""
    environment.drop(os.environ)
    try:
        probe = Repo(folder, folder, folder)
        questions = ("--show-toplevel", "--git-dir", "--git-common-dir")
        code, out, err = probe.run("rev-parse", "--path-format=absolute", *questions)
    except FileNotFoundError:
        raise UsageError(
            "git is not installed, or not on PATH", hint="install git 2.38 or newer"
        ) from None
    lines = os.fsdecode(out).splitlines()
    if code or len(lines) != 3:
        reason = (err.strip().splitlines() or ["there is a line break in its path"])[0]
        if "not a git repository" in reason:
            hint = "git init, or cd into your project"
            raise UsageError(f"not a git repository: {folder}", hint=hint)
        hint = "cd into a working tree; git worktree add PATH BRANCH makes one"
        if "dubious ownership" in reason:
            hint = f"if you trust it: git config --global --add safe.directory {folder}"
        raise UsageError(f"cannot work in {folder}: {reason}", hint=hint)
    match = re.search(rb"(\d{1,9})\.(\d{1,9})", probe.run("version")[1])
    if match and (int(match[1]), int(match[2])) < OLDEST:
        raise UsageError(f"git {match[0].decode()} is too old", hint="install git 2.38 or newer")
    root, git_dir, common = (Path(line).resolve() for line in lines)
    return Repo(root, git_dir, common)
