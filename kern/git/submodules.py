"""Repositories inside the working tree: what their HEAD names, what is uncommitted in them, and a
submodule's checkout made again without a network.
"""

import os
import re
from pathlib import Path

from kern import plain
from kern.git.checkout import in_real_folder, leads_out
from kern.git.repository import Repo

INSIDE = "refs/kern/inside"  # in a submodule: commits that worktrees have of it
# What was planted in a repository that is not kern's must not run when kern asks it something.
_SAFE = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


def at(root: Path, path: str) -> Repo | None:
    """The repository whose working tree is the folder; None where there is none."""
    folder = root / path
    place = folder / ".git"
    try:
        if not in_real_folder(root, f"{path}/.git", {"": True}):
            return None
        if place.is_file():
            word, _, name = place.read_text("utf-8", "surrogateescape").partition(": ")
            place = folder / name.rstrip("\n") if word == "gitdir" else place
        if not (place / "HEAD").is_file():
            return None
        place = place.resolve()
        common = place / "commondir"
        shared = (place / common.read_text().strip()).resolve() if common.is_file() else place
    except (OSError, ValueError):
        return None
    return Repo(folder, place, shared)


def commit(inner: Repo) -> str:
    """What its HEAD names; empty where it has no commit."""
    if head := inner.plain_head():
        return head.commit
    code, out, _ = _run(inner, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return "" if code else out.decode().strip()


def branch(inner: Repo) -> str:
    """Empty where its HEAD is detached."""
    try:
        text = (inner.git_dir / "HEAD").read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def declared(repo: Repo) -> list[str]:
    """The paths that .gitmodules, as it is on the disk, has for submodules."""
    if not (repo.root / ".gitmodules").is_file():
        return []
    asked = ("config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    code, out, _ = repo.run(*asked)
    if code:  # none, or no configuration at all: git itself knows no submodule then
        return []
    found = (os.fsdecode(record.partition(b"\n")[2]) for record in out.split(b"\0"))
    return [path for path in found if path and not leads_out(path)]


_FREE = (
    rb'(?m)^\[(?:submodule|branch|remote) "[^\n]*"\]\n'
    rb"(?:[ \t]+(?:url|active|fetch|remote|merge|branch) = [^\n]*\n)*(?=\[|\Z)"
    rb"|^\tworktree = [^\n]*\n"
)


def alike(config: bytes, other: bytes) -> bool:
    """Whether two texts of a submodule's own configuration differ at most in where it lies, and in
    what it fetches and follows: that is for a task to change.
    """
    return re.sub(_FREE, b"", config) == re.sub(_FREE, b"", other)


def register(repo: Repo, path: str) -> str:
    """As `git submodule add` would; git's complaint, empty where it has none."""
    argv = ("submodule", "--quiet", "init", "--", path)
    code, _, err = repo.run(*argv, env={"GIT_LITERAL_PATHSPECS": "1"})
    return plain.line(err or f"exit code {code}", 200) if code else ""


def uncommitted(inner: Repo) -> dict[str, str]:
    """What is changed and not committed in it, each with what tells a further change. Of new files
    the name is enough: a build makes them anew.
    """
    asked = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=none")
    code, out, err = _run(inner, *asked)
    if code:
        return {"": plain.line(err, 200)}
    found = {}
    for record in filter(None, out.split(b"\0")):
        state, path = record[:2].decode(), os.fsdecode(record[3:])
        found[path] = state
        if state != "??":
            try:
                info = os.lstat(inner.root / path)
                found[path] = f"{state} {info.st_size} {info.st_mtime_ns}"
            except OSError:
                pass
    return found


def fill(inner: Repo, sha: str, folder: Path, index: Path) -> None:
    """With the files of a commit of it; git in the folder finds the same repository. Raises
    GitFailed where it has no such commit.
    """
    folder.mkdir(parents=True)
    index.unlink(missing_ok=True)
    places = {"GIT_DIR": inner.git_dir, "GIT_WORK_TREE": folder, "GIT_INDEX_FILE": index}
    env = {name: str(path) for name, path in places.items()}
    inner.git("-C", str(folder), *_SAFE, "read-tree", "--reset", "-u", sha, env=env)
    (folder / ".git").write_text(f"gitdir: {inner.git_dir}\n")


def move(inner: Repo, sha: str) -> None:
    """Its HEAD and files to a commit of it, where nothing uncommitted is in the way."""
    _run(inner, "reset", "--quiet", "--keep", sha)


def only_here(inner: Repo, sha: str) -> bool:
    """Whether no remote of it is known to have the commit."""
    code, out, _ = _run(inner, "rev-list", "--max-count=1", sha, "--not", "--remotes")
    return bool(code or out.strip())


# ---------------------------------------------------------------- of another worktree


def lent(made: Repo, home: Repo) -> bool:
    """The commits that a worktree is to have of its submodules and that `home` has of its own, as
    far as they are there: nobody may have pushed them. Whether any came.
    """
    came = False
    for path in declared(made):
        inner, theirs = at(made.root, path), at(home.root, path)
        if inner:
            told = made.text("ls-tree", "HEAD", "--", path).split()
            sha = told[2] if told[1:2] == ["commit"] else ""
            if sha and not _has(inner, sha):
                came = _brought(inner, theirs or home, sha) or came
            came = (theirs is not None and lent(inner, theirs)) or came
    return came


def returned(made: Repo, home: Repo | None) -> list[str]:
    """What an agent has committed in a worktree's submodules goes into those of `home`, or where it
    has not set them up into itself; the paths of those of which that cannot be.
    """
    left = list[str]()
    for path in declared(made):
        inner, theirs = at(made.root, path), at(home.root, path) if home else None
        sha = commit(inner) if inner else ""
        if not inner or not sha:
            continue
        keeper = theirs or home
        if only_here(inner, sha) and not (keeper and _kept(keeper, inner, sha)):
            left.append(path)
        left += [f"{path}/{one}" for one in returned(inner, theirs or home)]
    return left


def _kept(keeper: Repo, inner: Repo, sha: str) -> bool:
    if _held(keeper, sha) or _brought(keeper, inner, sha):
        return True
    return _deepened(inner) and _brought(keeper, inner, sha)


def _has(repo: Repo, sha: str) -> bool:
    return not _run(repo, "cat-file", "-e", f"{sha}^{{commit}}")[0]


def _held(repo: Repo, sha: str) -> bool:
    """Whether a ref keeps it: else it is collected one day."""
    code, out, _ = _run(repo, "for-each-ref", "--count=1", f"--contains={sha}")
    return not code and bool(out.strip())


def _brought(into: Repo, source: Repo, sha: str) -> bool:
    """A commit, from the disk, by a name of kern's: else git would ask a remote for it. Git ends
    well where it has refused the name, of what lies in a shallow repository.
    """
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
    wanted = ("--no-recurse-submodules", "--", str(source.git_dir), f"+{sha}:{INSIDE}/{sha}")
    code, _, _ = _run(into, "-c", "protocol.file.allow=always", "fetch", *quiet, *wanted)
    return not code and _held(into, sha)


def _deepened(made: Repo) -> bool:
    """A shallow one of a worktree, to its whole history."""
    argv = ("fetch", "--quiet", "--unshallow", "--no-tags", "--no-recurse-submodules")
    return (made.git_dir / "shallow").exists() and not _run(made, *argv)[0]


def _run(inner: Repo, *argv: str) -> tuple[int, bytes, str]:
    """Named outright: from a broken repository git would go up to the one around it."""
    env = {"GIT_DIR": str(inner.git_dir), "GIT_WORK_TREE": str(inner.root)}
    return inner.run(*_SAFE, *argv, env=env)
