"""What git tells of its own processes (GIT_TRACE2_EVENT): whether a commit was made as it may be,
and which hook refused one.

A deny list of flags matches text; git's event log holds the arguments that it really had, and each
hook that it really started.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kern import plain
from kern.frozen import frozen

# What says the message, or changes nothing that is committed; a file, an author, a date or a path
# would. Standard input is a file as well: a redirection cannot be told from a here-document.
_BARE = ("quiet", "verbose", "signoff", "no-edit")
_VALUED = ("message", "trailer", "cleanup")
_LETTERS = "qvs"  # and m, which takes a value
_LOOKS = (  # commands that leave the index as it is
    *("commit", "status", "diff", "log", "show", "rev-parse", "ls-files", "cat-file", "branch"),
    *("config", "blame", "grep", "describe", "diff-tree", "diff-index", "diff-files", "ls-tree"),
    *("rev-list", "version", "help", "_query_"),
)
_GAVE_UP = 128  # git's exit code where it cannot go on: no identity, no signature, a full disk


@frozen
class Account:
    """Of the last `git commit` of one call of stage 3, where it made no commit."""

    refused: str = ""  # the hook that ended it
    gave_up: bool = False  # git itself could not go on


@dataclass(slots=True)
class _Ran:
    """One git process."""

    argv: Sequence[str] = ()
    name: str = ""
    code: int | None = None  # none: it was ended
    hooks: dict[str, str] = field(default_factory=dict)  # by the child's number
    failed: str = ""  # the last of them that ended badly

    @property
    def commits(self) -> bool:
        return self.name == "commit"


def read(lines: Iterable[str]) -> Account:
    commits = [ran for ran in _processes(lines) if ran.commits and ran.code is not None]
    if not commits or not commits[-1].code:
        return Account()
    last = commits[-1]
    return Account(last.failed, last.code == _GAVE_UP and not last.failed)


def misused(lines: Iterable[str], hooks: Sequence[str]) -> str:
    """Why the commit of the stage that the events are of may not stand, in words for its next try;
    empty where it may. `hooks`: those that have to run.
    """
    made = [ran for ran in _processes(lines) if ran.commits and not ran.code]
    if not made:
        return "it was not made by `git commit`"
    for ran in made:
        for hook in hooks:
            if ran.code == 0 and hook not in ran.hooks.values():
                return f"it skipped the hook {hook}"
    for ran in made:
        if word := _foreign(ran.argv):
            shown = plain.line(word, 60)
            return f"it used `{shown}`: use `git commit` with `-m` alone, once for each paragraph"
    return ""


def staged(lines: Iterable[str]) -> bool:
    """Whether the stage put something into the index itself, and not what a hook that refused had
    changed.
    """
    for ran in _processes(lines):
        if ran.failed == "pre-commit":
            return False
        if ran.name and ran.name not in _LOOKS:
            return True
    return False


def _processes(lines: Iterable[str]) -> list[_Ran]:
    """Those that the stage itself started, in their order."""
    found: dict[str, _Ran] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        # A session id with a slash is a git that another git or a hook started.
        if isinstance(event, dict) and "/" not in (sid := str(event.get("sid"))):
            _note(found.setdefault(sid, _Ran()), event)
    return list(found.values())


def _note(ran: _Ran, event: Mapping[str, Any]) -> None:
    match event.get("event"):
        case "start" if isinstance(event.get("argv"), list):
            ran.argv = tuple(map(str, event["argv"]))
        case "cmd_name":
            ran.name = ran.name if ran.commits else str(event.get("name"))
        case "exit" if isinstance(event.get("code"), int):
            ran.code = event["code"]
        case "child_start" if event.get("child_class") == "hook":
            ran.hooks[str(event.get("child_id"))] = str(event.get("hook_name"))
        case "child_exit" if event.get("code") and str(event.get("child_id")) in ran.hooks:
            ran.failed = ran.hooks[str(event["child_id"])]


def _foreign(argv: Sequence[str]) -> str:
    """The first word that does more than say the message, read as git reads it: abbreviated, in
    clusters, with its value attached or behind it. What git refuses never comes here.
    """
    if argv[1:2] != ("commit",):
        return " ".join(argv[:3])  # options before the subcommand, or an alias
    words = iter(argv[2:])
    for word in words:
        name, given, _ = word[2:].partition("=")
        if word == "--":  # what follows are paths
            return next(words, "")
        if word.startswith("--"):
            valued = any(known.startswith(name) for known in _VALUED)
            if not valued and (given or not any(known.startswith(name) for known in _BARE)):
                return word
            takes_next = valued and not given
        else:
            letters, cluster, value = word[1:].partition("m")
            if not word.startswith("-") or word == "-" or letters.strip(_LETTERS):
                return word
            takes_next = bool(cluster) and not value
        if takes_next:
            next(words, "")
    return ""
