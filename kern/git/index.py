"""Trees made and merged through throw-away indexes, and careful edits of the person's index."""

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from kern.errors import KernError
from kern.git.faults import GitFailed
from kern.git.repository import Entry, Repo


@contextlib.contextmanager
def private(repo: Repo, *, copy: bool = False) -> Iterator[dict[str, str]]:
    """An index of kern's own, empty or a copy of the person's: the environment naming it."""
    path = _scratch(repo) / f"index-{os.getpid()}-{time.monotonic_ns()}"
    try:
        if copy and (repo.git_dir / "index").exists():
            try:
                shutil.copyfile(repo.git_dir / "index", path)
            except OSError as exc:
                raise KernError(
                    f"cannot write {path}: {exc.strerror}",
                    hint="fix it (free some space), then run kern again: it resumes",
                ) from exc
        yield {"GIT_INDEX_FILE": str(path)}
    finally:
        for left in (path, path.with_name(path.name + ".lock")):
            left.unlink(missing_ok=True)


def update(
    repo: Repo, changes: Mapping[str, Entry | None], env: Mapping[str, str] | None = None
) -> None:
    """Set or remove entries; with no `env` in the person's own index, whose marks stay. Removals
    first: a file may have become a folder.
    """
    if not changes:
        return
    marks = {} if env else flagged(repo, changes)
    ids = [entry.blob for entry in changes.values() if entry is not None]
    zero = "0" * len(ids[0] if ids else repo.head().commit)
    gone = [f"0 {zero}\t{p}" for p, e in changes.items() if e is None]
    new = [f"{e.mode} {e.blob}\t{p}" for p, e in changes.items() if e is not None]
    repo.git(
        "update-index",
        "-z",
        "--index-info",
        given=os.fsencode("\0".join([*gone, *new, ""])),
        env=env,
    )
    for letter, name in _MARKS.items():
        held = [path for path, entry in changes.items() if entry and letter in marks.get(path, "")]
        _mark(repo, f"--{name}", held)


def entry(repo: Repo, path: str) -> Entry | None:
    """Of one file, by a git that has not read the index before: it may have changed since."""
    argv = ("ls-files", "--stage", "-z", "--", f":(top,literal){path}")
    told = os.fsdecode(repo.git(*argv)).partition("\t")[0].split(" ")
    return Entry(told[0], told[1]) if len(told) > 1 else None


def unmerged(repo: Repo) -> bool:
    return bool(repo.git("ls-files", "--unmerged"))


# What a person marked an entry with; to write it anew drops the mark.
_MOST_ASKED = 50  # paths in one command line
_MARKED = re.compile(rb"(?:\A|(?<=\0))[a-zS] [^\0]+")
_MARKS = {"S": "skip-worktree", "h": "assume-unchanged"}


def flagged(repo: Repo, paths: Collection[str] | None = None) -> dict[str, str]:
    """The marked entries of the person's index, of these paths or all, each with its letters of
    _MARKS.
    """
    if paths is not None and not paths:
        return {}
    few = paths is not None and len(paths) <= _MOST_ASKED
    some = _literal(paths or ()) if few else []
    found: dict[str, str] = {}
    for record in _MARKED.findall(repo.git("ls-files", "-z", "-v", "--", *some)):
        letter = record[:1].decode()
        marks = ("S" if letter in ("S", "s") else "") + ("h" if letter.islower() else "")
        if marks:
            found[os.fsdecode(record[2:])] = marks
    return found


def _literal(paths: Iterable[str]) -> list[str]:
    return [f":(top,literal){path}" for path in paths]


def _mark(repo: Repo, option: str, paths: Collection[str]) -> None:
    if paths:
        repo.git("update-index", "-z", option, "--stdin", given=_nul(paths))


def _nul(paths: Collection[str]) -> bytes:
    return os.fsencode("\0".join([*sorted(paths), ""]))


@contextlib.contextmanager
def apart(repo: Repo) -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty working tree with a git directory of its own over the repository's objects: nobody's
    configuration, attributes, merge drivers, refs or index count there.
    """
    folder = Path(tempfile.mkdtemp(prefix="apart-", dir=_scratch(repo)))
    try:
        tree = folder / "tree"
        tree.mkdir()
        _, shared, _ = repo.run("config", "--get", "core.sharedRepository")
        config = "[core]\n\tattributesFile = /dev/null\n"
        config += f'\tsharedRepository = "{shared.decode().strip() or "false"}"\n'
        config += "[merge]\n\tdirectoryRenames = false\n"  # that would be a guess
        yield (
            tree,
            {
                **beside(repo, folder / "git", tree, config),
                **{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"},
                **{"GIT_CONFIG_PARAMETERS": "", "GIT_CONFIG_COUNT": "0", "GIT_ATTR_NOSYSTEM": "1"},
            },
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def beside(repo: Repo, place: Path, tree: Path, config: str) -> dict[str, str]:
    """A new git directory of kern's own, over a working tree and the repository's objects: the
    environment naming it.
    """
    for made in ("refs", "objects", "info"):
        (place / made).mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/none\n")
    form = "[extensions]\n\tobjectFormat = sha256\n" if len(repo.head().commit) == 64 else ""
    text = f"[core]\n\trepositoryFormatVersion = 1\n{form}{config}"
    (place / "config").write_bytes(os.fsencode(text))
    return {
        "GIT_DIR": str(place),
        "GIT_WORK_TREE": str(tree),
        "GIT_OBJECT_DIRECTORY": str(repo.common_dir / "objects"),
    }


def merge(repo: Repo, base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Three-way merge of trees as plain text: the merged tree, or the paths in conflict. Attributes
    and drivers of the repository's may take both sides where kern must tell them apart.
    """
    tree, conflicts = merged(repo, base, ours, theirs)
    return "" if conflicts else tree, conflicts


def merged(
    repo: Repo, base: str, ours: str, theirs: str, names: tuple[str, str] = ("ours", "theirs")
) -> tuple[str, list[str]]:
    """The same, with the tree in a conflict too: both sides stand there between markers with their
    `names`.
    """
    root = repo.commit_object(base, (), "base\n")
    sides = [repo.commit_object(tree, (root,), "side\n") for tree in (ours, theirs)]
    with apart(repo) as (folder, env):
        heads = Path(env["GIT_DIR"], "refs/heads")
        heads.mkdir()
        for name, side in zip(names, sides, strict=True):
            (heads / name).write_text(f"{side}\n")
        code, out, err = repo.run(
            *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *names),
            env=env,
            cwd=folder,
        )
    fields = [os.fsdecode(field) for field in out.split(b"\0")]
    if code not in (0, 1):
        raise GitFailed(("merge-tree",), code, err)
    return fields[0], sorted({field for field in fields[1:] if field}) if code else []


def _scratch(repo: Repo) -> Path:
    repo.scratch.mkdir(parents=True, exist_ok=True)
    return repo.scratch
