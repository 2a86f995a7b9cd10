"""The person's commit hooks on a private index, as `git commit` runs them; kern alone commits."""

import contextlib
import os
from collections.abc import Mapping, Sequence

from kern import plain
from kern.frozen import frozen
from kern.git import environment, history, index, onto
from kern.git.repository import Hold, Repo
from kern.system import process, workspace

PRE_COMMIT = "pre-commit"
NAMES = (PRE_COMMIT, "prepare-commit-msg", "commit-msg")


@frozen
class HookRun:
    """What the hooks came to."""

    tree: str  # the index, as pre-commit left it: those after it come too late
    message: str
    refused: str = ""  # the hook that did
    output: str = ""  # its


def run(
    repo: Repo,
    tree: str,
    message: str,
    env: Mapping[str, str],
    config: Sequence[tuple[str, str]],
    timeout: float,
    hold: Hold | None,
) -> HookRun:
    """`env` reaches the hooks. The branch stands where they leave it. Raises TimeoutError."""
    place = repo.git_dir / "COMMIT_EDITMSG"  # where hooks look for it without being told, too
    workspace.lay(place, plain.encode(message))
    branch = os.environ.get(process.ONTO)
    seen = onto.on(repo, branch) if branch else contextlib.nullcontext(dict[str, str]())
    with seen as there, index.private(repo, copy=True) as own:
        index.read_into(repo, tree, own)
        # What was merely touched would look as if it was not staged.
        repo.run("update-index", "-q", "--refresh", env=own)
        env = {**env, **own, **there, **history.author(repo), **environment.with_hooks(config)}
        for name, argv in zip(NAMES, ((), (str(place), "message"), (str(place),)), strict=True):
            code, output = _run(repo, name, argv, env, timeout, hold)
            if code:
                return HookRun(tree, message, name, output)
            if name == PRE_COMMIT:
                tree = repo.text("write-tree", "--missing-ok", env=own)
        # A hook may have put a link to anything in its place.
        whole = place.is_file() and not place.is_symlink()
        return HookRun(tree, plain.decode(place.read_bytes()) if whole else message)


def _run(
    repo: Repo,
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    timeout: float,
    hold: Hold | None,
) -> tuple[int, str]:
    printed = repo.scratch / "hook.log"
    printed.unlink(missing_ok=True)  # it may be a link of an earlier hook's
    code, _, err = repo.run(
        *("hook", "run", "--ignore-missing", name, *(("--", *argv) if argv else ())),
        env=env,
        timeout=timeout,
        hooked=True,
        hold=hold,
        spool=printed,
    )
    output = printed.read_text("utf-8", "replace") if printed.exists() else err
    printed.unlink(missing_ok=True)
    return code, plain.masked(output.strip(), plain.secrets(os.environ))
