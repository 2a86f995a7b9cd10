"""What git ignores, asked of git itself; also by given .gitignore files, where an agent may have
changed those on the disk.
"""

import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from kern.git import index
from kern.git.faults import GitFailed
from kern.git.repository import LINK, Entry, Repo


def ignored(repo: Repo, *paths: str) -> set[str]:
    """Those that git leaves out by the rules on the disk; a tracked one is never ignored."""
    held = index.known(repo)
    return _asked(repo, [path for path in paths if not held or not repo.entry(held, path)])


def by_rules(repo: Repo, paths: Collection[str]) -> set[str]:
    """Those that the rules on the disk would hide if they were not tracked."""
    return _asked(repo, paths, "--no-index")


def untracked(repo: Repo) -> list[str]:
    """All files that git does not track, whatever hides them; no nested repositories."""
    return [path for path in repo.paths("ls-files", "-z", "--others") if path[-1] != "/"]


def visible(repo: Repo, folders: Iterable[str], env: Mapping[str, str]) -> list[str]:
    """The files below the folders that git neither tracks nor ignores."""
    how = ("--exclude-standard", "--", *(f":(top,literal){folder}/" for folder in folders))
    found = repo.paths("ls-files", "-z", "--others", *how, env=env)
    return [path for path in found if path[-1] != "/"]


def hidden_by(repo: Repo, rules: Mapping[str, Entry], paths: Collection[str]) -> set[str]:
    """Those of the untracked paths that these .gitignore files would hide."""
    if not paths:
        return set()
    with tempfile.TemporaryDirectory() as folder:
        for path, entry in rules.items():
            if entry.mode != LINK:  # git does not follow it either
                place = Path(folder, path)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(b"".join(repo.pieces(entry.blob)))
        env = {"GIT_WORK_TREE": folder, "GIT_DIR": str(repo.git_dir)}
        return _asked(repo, paths, "--no-index", env=env, cwd=Path(folder))


def _asked(
    repo: Repo,
    paths: Collection[str],
    *how: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> set[str]:
    if not paths:
        return set()
    argv = ("check-ignore", "-z", "--stdin", *how)
    given = os.fsencode("\0".join(f"./{path}" for path in paths))  # else `:` begins a pathspec
    code, out, err = repo.run(*argv, given=given, env=env, cwd=cwd)
    if code not in (0, 1):  # 1: none of them
        raise GitFailed(argv, code, err)
    return {os.fsdecode(path[2:]) for path in out.split(b"\0") if path}
