"""git's environment: what would mislead it goes, what kern's own git has, and configuration, which
so holds for what git starts as well; and how a git is started.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from subprocess import Popen
from typing import cast

from kern.system import process

# What a caller's hook or alias left behind, or what makes git read something else than the
# repository says: its place, its objects, its paths, its attributes, its configuration file.
# A person's identity, ssh, credentials and configuration (GIT_CONFIG_GLOBAL and the like) stay.
_MISLEADING = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_REFLOG_ACTION"),
    *("GIT_QUARANTINE_PATH", "GIT_EDITOR", "GIT_IMPLICIT_WORK_TREE", "GIT_INTERNAL_SUPER_PREFIX"),
    *("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS"),
    *("GIT_ICASE_PATHSPECS", "GIT_ATTR_SOURCE", "GIT_CONFIG", "GIT_SHALLOW_FILE"),
    *("GIT_TRACE2_PARENT_SID", "GIT_TRACE2_PARENT_NAME"),  # its events would be another git's
    *("GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_REF_PARANOIA", "GIT_REFERENCE_BACKEND"),
)

# kern reads the objects that a commit really holds: a ref below refs/replace or a graft, which an
# agent can write as well, shows others. (A graft file that is there is complained about.)
OWN = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null/none",
    "GIT_DIFF_OPTS": "",
}


def drop(environ: MutableMapping[str, str]) -> None:
    for name in list(environ):
        # A trace without a file of its own goes where kern reads git's complaints.
        traces = name.startswith("GIT_TRACE") and "/" not in environ[name]
        if name in _MISLEADING or traces:
            del environ[name]


def added(given: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The variables that add the pairs to what the environment already brings."""
    count = given.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    told = {"GIT_CONFIG_COUNT": str(first + len(pairs))}
    for number, (name, value) in enumerate(pairs, first):
        told |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return told


def quiet() -> dict[str, str]:
    """kern's git asks nobody, and runs nothing that an agent can have planted, in ~/.gitconfig
    either.
    """
    closed = [("core.fsmonitor", "false"), ("core.hooksPath", os.devnull)]
    return {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", **added(os.environ, closed)}


def unfiltered(keys: Iterable[str]) -> dict[str, str]:
    """For a look, which runs none of the filters that these settings name: what one would convert
    counts as it lies there.
    """
    named = {key.rpartition(".")[0] for key in keys}
    off = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    pairs = [(f"{one}.{key}", value) for one in sorted(named) for key, value in off]
    return added(quiet(), pairs)


def with_hooks(more: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """But for a commit, which runs the person's hooks."""
    return added(os.environ, [("core.fsmonitor", "false"), *more])


# -------------------------------------------------------------------- its processes


def started(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "Popen[bytes]":
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # a missing git is told by the first call
    from git import Git  # takes longer than all else that a command loads
    from git.exc import GitCommandNotFound

    git = Git(str(cwd))
    with process.BEGINNING:
        try:
            handle = git.execute(
                [*argv], istream=-1, as_process=True, env={**env}, start_new_session=True
            )
        except GitCommandNotFound:
            raise FileNotFoundError("git") from None
        child, handle.proc = handle.proc, None  # else the process would end with the handle
        assert child is not None
        process.OWN.add(child)
    return cast("Popen[bytes]", child)


def own() -> Iterator[Path]:
    """The person's files of settings, where git looks for them."""
    home = Path(os.environ.get("HOME", "/nonexistent"))
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git/config"
    yield Path(os.environ.get("GIT_CONFIG_GLOBAL") or home / ".gitconfig")


def of_kern(root: Path) -> dict[str, str]:
    return {**quiet(), **OWN, **process.tree_last(root)}


def answering(root: Path, argv: tuple[str, ...]) -> "Popen[bytes]":
    """A git that answers while it is asked."""
    return process.piped(["git", *argv], root, of_kern(root))
