"""Which files git or an agent obeys by themselves, and no commit would show."""

import os
from collections.abc import Mapping
from pathlib import Path

from kern import obeyed as agents
from kern.git.repository import Entry, Repo

PROMPTS = ".kern/prompts"  # kern's own: no task can change them
_APPLY = ("applypatch-msg", "pre-applypatch", "post-applypatch")
_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit")
_MOVE = ("pre-rebase", "post-checkout", "post-merge", "post-rewrite", "reference-transaction")
_PUSH = ("pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update")
_REST = ("push-to-checkout", "pre-auto-gc", "post-index-change", "sendemail-validate")
_HOOKS = {*_APPLY, *_COMMIT, *_MOVE, *_PUSH, *_REST, "fsmonitor-watchman"}


def hooks_in_tree(repo: Repo) -> Path | None:
    """The folder of the tree where git looks for hooks; None where it looks elsewhere, in its own
    folder as a rule.
    """
    folder = Path(os.path.normpath(repo.hooks_folder()))
    if not folder.is_relative_to(repo.root) or folder.is_relative_to(repo.common_dir):
        return None
    return folder


def obeyed(repo: Repo, change: Mapping[str, Entry | None]) -> list[str]:
    """Of a task's change what git or an agent will run by itself: reviewed, one hopes, before."""
    hooks = hooks_in_tree(repo)
    folder = os.path.relpath(hooks, repo.root) if hooks else "/"
    above = {folder, os.path.dirname(folder)} if folder.endswith("/_") else {folder}  # husky's
    return sorted(
        path
        for path, entry in change.items()
        if entry
        and (
            path in (*agents.SETTINGS, agents.HOME)
            or path.split("/", 1)[0] in agents.FOLDERS
            or ((os.path.dirname(path) or ".") in above and _is_hook(os.path.basename(path)))
        )
    )


def _is_hook(name: str) -> bool:
    return name.split(".")[0] in _HOOKS and not name.endswith(".sample")
