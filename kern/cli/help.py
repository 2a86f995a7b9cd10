"""`kern help`: the pages in kern/help."""

import difflib
import os
import sys
from pathlib import Path

from kern.errors import UsageError

FOLDER = Path(__file__).resolve().parent.parent / "help"
TOPICS = ("guide", "spec", "settings", "safety", "inside")  # in the order of a new user's needs
EARLIER = {  # pages of earlier kerns, and where that stands now
    **dict.fromkeys(("commands", "planning", "parallel", "failures", "night"), "guide"),
    **dict.fromkeys(("checks", "prompts", "agents"), "settings"),
    **dict.fromkeys(("journal", "guarantees", "design"), "inside"),
    "memory": "spec",
}


def show(topic: str) -> None:
    """One page, named by the beginning of its topic; without a topic the list of them. A terminal
    gets it laid out, a pipe as it is written.
    """
    if not topic:
        print(
            "kern help TOPIC shows a page, kern help COMMAND a command's options. The topics:\n\n"
            f"{listing()}"
        )
        return
    text = page(meant(topic))
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from kern.views import live

        live.print_page(text)
    else:
        print(text, end="")


def page(topic: str) -> str:
    return (FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def listing() -> str:
    """Each topic with the sentence below its page's title."""
    return "\n".join(f"  {topic:10}  {page(topic).splitlines()[2]}" for topic in TOPICS)


def meant(word: str) -> str:
    """The only topic that begins with the word."""
    found = [topic for topic in TOPICS if topic.startswith(word.lower())]
    if len(found) == 1:
        return found[0]
    if now := EARLIER.get(word.lower()):
        raise UsageError(f"there is no page {word!r} any more", hint=f"type kern help {now}")
    what = f"{word!r} begins more than one help page" if found else f"no help page {word!r}"
    near = [] if found else difflib.get_close_matches(word.lower(), TOPICS, 1, 0.65)
    hint = f"type kern help {near[0]}" if near else "kern --help lists the commands"
    raise UsageError(f"{what}; the pages are:\n{listing()}", hint=hint)
