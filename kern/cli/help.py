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
    *("safety", "journal", "prompts", "agents", "guarantees", "design"),
)

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {  # each command's sentence, then its examples
    "Run": {
        "run": (
            "Carry out tasks; `kern [ITERATIONS] [DELAY]` is short for it.",
            "kern 10 30s --max-cost 5",
            "kern -j 4 10",
            "kern --until-done",
        ),
        "plan": (
            "Let an agent compare a goal with the code, and add the tasks.",
            'kern plan "A command line for the parser"',
            "kern plan GOAL.md -n",
        ),
        "improve": (
            "Let an agent propose measurable improvements, and try each.",
            'kern improve 3 "make the tests faster"',
        ),
        "reflect": (
            "Let an agent propose what to merge, mend or retire in LEARNINGS.md.",
            "kern reflect",
            "kern reflect -n",
        ),
        "stop": (
            "End the run in progress after its current stage.",
            "kern stop",
            "kern stop --now",
        ),
        "pause": ("Pause the run in progress after its current stage.", "kern pause"),
        "resume": ("Continue a paused run; also takes back a stop.", "kern resume"),
    },
    "Tasks": {
        "add": (
            "Add a task to SPEC.md (safe during a run); options repeat.",
            'kern add "Add a --version flag" --gate "pytest -q tests/test_cli.py"',
            'kern add "Document the flag" --after 1',
            "kern add --from TODO.md",
            "kern add --from gh --label kern",
        ),
        "answer": (
            "Answer a question; without arguments, list them.",
            "kern answer",
            'kern answer 3 "SQLite, as everywhere"',
        ),
        "note": (
            "Write a note of yours under a task.",
            'kern note 3 "the old parser is in attic/"',
        ),
        "done": ("Tick a task, and its parents if it is their last open subtask.", "kern done 3"),
        "reopen": ("Mark a task that is done or in progress as pending again.", "kern reopen 3"),
        "hold": (
            "Keep a task from being taken until kern unhold (safe during a run).",
            'kern hold 3 "waits for the release"',
        ),
        "unhold": ("Let a held task be taken again (safe during a run).", "kern unhold 3"),
        "defer": (
            "Let the other tasks come first (safe during a run).",
            'kern defer 3 "the docs are being moved"',
        ),
        "skip": ("The old name of defer.", 'kern skip 3 "the docs are being moved"'),
        "unblock": ("Give a blocked task back to kern, with all its attempts.", "kern unblock 3"),
        "retry": ("Forget a task's failed attempts; their work stays saved.", "kern retry 3"),
        "undo": ("Take a task's commit back by a new one, and open the task.", "kern undo 3"),
    },
    "Look": {
        "status": ("Show the tasks, what needs you, and how the last run went.", "kern status"),
        "show": (
            "Show everything about one task: answers, attempts, gates, cost.",
            "kern show 3",
            'kern show "version flag"',
        ),
        "fleet": ("Show who does what where several tasks are under way.", "kern fleet"),
        "log": (
            "Show what happened, from the journal.",
            "kern log -f",
            'kern log --task "version flag"',
        ),
        "recall": (
            "Show the learnings that a task would call for.",
            'kern recall "make the upload retry"',
        ),
        "learn": (
            "Write a learning; list, show, vote on or retire those there are.",
            'kern learn "Run make db before the tests."',
            "kern learn list",
            "kern learn show L7",
            'kern learn vote L7 --harmful --why "the table is gone"',
            'kern learn retire L7 --why "we left make"',
        ),
        "search": (
            "Search learnings, tasks and what was tried, and your documents.",
            'kern search "retry of uploads"',
            'kern search "who may delete an account" --kind decision --json',
        ),
        "report": (
            "Add up what was done, what it cost and what to review.",
            "kern report --since yesterday",
            "kern report --html > report.html",
        ),
        "pr": (
            "Print a pull request's text; push and open it after a yes.",
            "kern pr",
            "kern pr > body.md",
        ),
        "graph": ("Draw which task waits for which, for Mermaid in Markdown.", "kern graph"),
        "path": ("Print the folder with the run files.", "ls $(kern path)"),
    },
    "Set up": {
        "init": (
            "Write SPEC.md, LEARNINGS.md and kern.toml with the checks you have.",
            "kern init",
            "kern init --no-run",
        ),
        "check": (
            "Run the gates now, as a run would; the exit code says it.",
            "kern check",
            "kern check lint",
        ),
        "doctor": (
            "Check what a run needs, and name a fix for each problem.",
            "kern doctor",
            "kern doctor --scheduler host:8786",
        ),
        "trust": ("Show what this repository would have started, and take your yes.", "kern trust"),
        "clean": (
            "Delete old task records and saved attempts of finished tasks.",
            "kern clean --older 30d",
        ),
        "completion": (
            "Print what makes bash, zsh or fish complete commands and tasks.",
            'eval "$(kern completion bash)"',
            'eval "$(kern completion zsh)"',
            "kern completion fish > ~/.config/fish/completions/kern.fish",
        ),
        "demo": ("Watch kern work on a sample repository: no account, no network.", "kern demo"),
        "uninstall": (
            "Remove kern, after asking; your repositories stay as they are.",
            "kern uninstall",
        ),
        "help": (
            "List the help pages, or show one.",
            "kern help",
            "kern help checks",
            "kern help add",
            "kern help --man | man -l -",
        ),
    },
}
COMMANDS = {name: what for group in GROUPS.values() for name, (what, *_) in group.items()}
EXAMPLES = {name: shown for group in GROUPS.values() for name, (_, *shown) in group.items()}

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
    **dict.fromkeys(("import", "pull", "sync"), "kern add --from FILE"),
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
_HEAD = """\
Usage: kern [ITERATIONS] [DELAY] [OPTIONS]
       kern COMMAND [ARGUMENTS] [OPTIONS]

  Turn the checkboxes in SPEC.md into commits you can trust, one task at a
  time.

  kern            5 tasks, 10 s between them
  kern 10 30s     10 tasks, 30 s between them
  kern -j 4 10    10 tasks, four at once
  kern -n         show what would happen, do nothing
  kern run -h     a run's options: --until-done, --max-cost and others
  kern help       the pages behind this one: SPEC.md, checks, failures and more

  For each task kern runs three fresh agent processes: research (read-only),
  implement (full access), commit (git only). Kill it at any moment; the next
  run goes on from there.
"""
_TAIL = """
Options:
  -n, --dry-run  Show what would happen; write nothing.
  -v, --verbose  Debug lines; with -n the prompts.
  -V, --version  Print the version.
  --update       Install the newest kern.
  -h, --help     Show this message and exit.

Exit codes:
  0              done, the iterations are used up, or kern stop ended it
  1              a person is needed
  2              usage, SPEC.md, configuration, a missing tool, or a red gate
  3              a budget or a usage limit
  130, 143, 129  interrupted

Environment:
  KERN_DIR       where run files and locks go (default /tmp/claude/kern)
  KERN_CLAUDE    the agent's command (default claude)
  KERN_SANDBOX   what holds agents and gates (default auto); kern help safety
  KERN_TRUST     1: run the repository's own commands without asking

kern help COMMAND shows a command's options and examples.\
"""


def overview() -> str:
    groups = (
        f"\n{title}:\n" + "".join(f"  {name:10}  {what}\n" for name, (what, *_) in group.items())
        for title, group in GROUPS.items()
    )
    return f"{_HEAD}{''.join(groups)}{_TAIL}"


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
