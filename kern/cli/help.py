"""`kern --help`: one screen on all of kern. `kern help`: the pages in kern/help."""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from kern.errors import UsageError

FOLDER = Path(__file__).resolve().parent.parent / "help"
TOPICS = (  # in the order in which a new user needs them
    *("commands", "spec", "checks", "settings", "planning", "memory", "parallel", "failures"),
    *("night", "safety", "journal", "prompts", "agents", "guarantees", "design"),
)

OVERVIEW = (FOLDER / "overview.txt").read_text(encoding="utf-8").rstrip("\n")
# Each command's sentence, in the groups that stand above the options.
GROUPS: dict[str, dict[str, str]] = {
    title: dict(re.findall(r"^  (\w+) +(.+)$", rows, re.M))
    for title, rows in re.findall(
        r"^([A-Z][a-z ]+):\n((?:  .+\n)+)", OVERVIEW.partition("\nOptions:")[0], re.M
    )
}
COMMANDS = {name: what for group in GROUPS.values() for name, what in group.items()}
EXAMPLES = {
    name: [line.strip() for line in lines.splitlines()]
    for name, lines in re.findall(
        r"^(\w+)\n((?:  .+\n)+)", (FOLDER / "examples.txt").read_text(encoding="utf-8"), re.M
    )
}

TASKED = frozenset(  # their first argument is a task
    (
        *("show", "answer", "note", "done", "reopen", "defer", "skip", "hold", "unhold"),
        *("unblock", "retry", "undo"),
    )
)

MEANT = {  # what people type who know another tool, and what does that here
    **dict.fromkeys(("start", "go", "begin", "continue", "loop"), "kern 10 30s"),
    **dict.fromkeys(("update", "upgrade", "self-update"), "kern --update"),
    **dict.fromkeys(("watch", "follow", "tail", "logs", "history", "events"), "kern log -f"),
    **dict.fromkeys(("list", "ls", "tasks", "todo", "next", "ps", "queue"), "kern status"),
    **dict.fromkeys(("new", "create", "task"), 'kern add "what is to be done"'),
    **dict.fromkeys(("tick", "finish", "complete", "close", "check-off"), "kern done TASK"),
    **dict.fromkeys(("kill", "abort", "cancel", "quit", "exit", "halt"), "kern stop --now"),
    **dict.fromkeys(("pause", "resume"), "kern stop, then run kern again: it resumes"),
    **dict.fromkeys(("questions", "ask", "reply"), "kern answer"),
    **dict.fromkeys(("setup", "install", "new-project"), "kern init"),
    **dict.fromkeys(("config", "configure", "settings"), "kern help settings"),
    **dict.fromkeys(("cost", "costs", "stats", "summary", "usage"), "kern report"),
    **dict.fromkeys(("docs", "doc", "man", "manual", "topics"), "kern help"),
    **dict.fromkeys(("dry-run", "dryrun", "preview"), "kern -n"),
    **dict.fromkeys(("login", "auth"), "claude, which asks you to log in"),
    **dict.fromkeys(("rm", "remove", "delete"), "delete the task's lines in SPEC.md"),
    **dict.fromkeys(("review",), "kern plan --review"),
    **dict.fromkeys(("revert", "rollback", "back-out"), "kern undo TASK"),
    **dict.fromkeys(("rerun", "redo", "again"), "kern retry TASK"),
    **dict.fromkeys(("import", "pull", "sync"), "kern add - < FILE"),
    **dict.fromkeys(("park", "freeze", "lock", "disable"), "kern hold TASK"),
    **dict.fromkeys(("postpone", "later", "snooze"), "kern defer TASK"),
    **dict.fromkeys(("version",), "kern --version"),
    **dict.fromkeys(("jobs", "many", "worktree", "worktrees", "workers"), "kern help parallel"),
    **dict.fromkeys(("cluster", "dask", "scheduler", "queue", "land"), "kern help parallel"),
    **dict.fromkeys(("learnings", "learning", "remember"), "kern help memory"),
}
MORE = {  # the page on what a command belongs to
    **dict.fromkeys(("fleet",), "parallel"),
    **dict.fromkeys(("recall", "learn", "search", "reflect"), "memory"),
    **dict.fromkeys(("plan", "improve"), "planning"),
    **dict.fromkeys(("log", "report", "show"), "journal"),
    **dict.fromkeys(("check",), "checks"),
    **dict.fromkeys(("trust",), "safety"),
    **dict.fromkeys(("unblock", "retry", "undo"), "failures"),
}


def instead(word: str) -> str:
    """What to type in place of a word that is no command; empty where nothing comes near."""
    if word.lower() in MEANT:
        return MEANT[word.lower()]
    if word.lower() in TOPICS:
        return f"kern help {word.lower()}"
    if " " in word:
        return f'kern add "{word[:60]}", or kern plan "{word[:60]}"'
    return f"kern {name}" if (name := near(word, COMMANDS)) else ""


def near(word: str, known: Iterable[str]) -> str:
    """The one that a misspelt word most likely means; empty where none begins like it."""
    import difflib

    found = difflib.get_close_matches(word.lower(), list(known), 3, 0.65)
    start = re.sub(r"(--?.|.).*", r"\1", word.lower())
    return next((one for one in found if one.startswith(start)), "")


def show(topic: str) -> None:
    """One page, named by the beginning of its topic; without a topic the list of them. A terminal
    gets it laid out, a pipe as it is written.
    """
    if not topic:
        print(
            "kern help TOPIC shows a page, kern help COMMAND a command's options, and\n"
            f"kern help --man | man -l - all of them as a man page. The topics:\n\n{listing()}"
        )
        return
    text = page(meant(topic))
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from kern.views import console

        console.page(text)
    else:
        print(text, end="")


def page(topic: str) -> str:
    return (FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def listing() -> str:
    """Each topic with the sentence below its page's title."""
    return "\n".join(f"  {topic:10}  {page(topic).splitlines()[2]}" for topic in TOPICS)


def meant(word: str) -> str:
    """The only topic that begins with the word, or the one that the word is about."""
    about = MEANT.get(word.lower(), "").removeprefix("kern help ")
    found = [topic for topic in TOPICS if topic.startswith(word.lower()) or topic == about]
    if len(found) == 1:
        return found[0]
    what = f"{word!r} begins more than one help page" if found else f"no help page {word!r}"
    likely = "" if found else near(word, (*TOPICS, *COMMANDS))
    hint = f"type kern help {likely}" if likely else "kern --help lists the commands"
    raise UsageError(f"{what}; the pages are:\n{listing()}", hint=hint)
