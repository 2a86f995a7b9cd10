"""SPEC.md and LEARNINGS.md while something else runs. Without a sandbox it may have written there,
and kern writes its own lines again; in one, whatever changed is the person's.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from kern import plain
from kern.model import LEARNINGS, SPEC
from kern.pipeline.site import Site
from kern.sandbox.confine import unheld
from kern.spec import edit, reapply

_OURS, _THEIRS = re.compile(r"^<{7} ", re.M), re.compile(r"^>{7} ", re.M)
_WORDS = re.compile(r"\w\w+")


class Paper(NamedTuple):
    """One of the two documents as it was: its text, and what stood in its place."""

    name: str
    text: str
    form: str | None


Papers = tuple[Paper, Paper]


def take(site: Site) -> Papers:
    papers = site.papers
    return (
        Paper(SPEC, papers.spec_text(), papers.form(SPEC)),
        Paper(LEARNINGS, papers.read(LEARNINGS) or "", papers.form(LEARNINGS)),
    )


def settle(site: Site, before: Papers, *, written: bool = True) -> None:
    """`written`: whether what ran could write there without a sandbox."""
    _settle(site, before, written=written and site.caller.hold is unheld)


def _settle(site: Site, before: Papers, *, written: bool, markers: bool = True) -> None:
    for paper in before:
        with site.papers.alone():
            for line in _settled(site, paper, written=written, markers=markers):
                site.warn(line)


def _settled(site: Site, paper: Paper, *, written: bool, markers: bool) -> Iterator[str]:
    name, before = paper.name, paper.text
    if what := site.papers.restore(name, paper.form, before):
        yield f"{name} was {what} while an agent ran: restored"
    text = site.papers.read(name) or ""
    if not written or text == before:
        return
    fixed, lost = text, ""
    if name == SPEC:
        fixed, warnings = reapply.reapply(before, text, markers=markers)
        yield from warnings
        if count := reapply.vanished(before, fixed):
            lost = plain.count(count, "task line")
    elif (count := len(edit.learnings(before)) - len(edit.learnings(text))) > 0:
        lost = plain.count(count, "entry")
    if fixed != text:
        site.papers.write(name, fixed)
    if {*_WORDS.findall(text)} - {*_WORDS.findall(fixed)}:
        yield f"{name} as it was left: {site.keep_document(name, text)}"
    if lost:
        earlier = site.keep_document(name, before)
        yield f"{lost} vanished from {name} while what could write there ran; before: {earlier}"


def in_conflict(text: str) -> bool:
    """Whether a merge left its marks."""
    begin = _OURS.search(text)
    return begin is not None and _THEIRS.search(text, begin.end()) is not None


@contextlib.contextmanager
def while_hooks_run(site: Site) -> Iterator[None]:
    """They may write there in a sandbox too: a hook formats, or stashes. A marker that changes
    meanwhile is the person's word: so a task is taken away at the last moment.
    """
    before = take(site)
    try:
        yield
    except BaseException:  # a hook that is ended may not have put back what it took away
        _settle(site, before, written=True)
        raise
    for name, known, _ in before:
        fresh = site.papers.read(name) or ""
        if in_conflict(fresh) and not in_conflict(known):
            site.papers.write(name, known)
            site.warn(f"a hook left conflict marks in {name}; restored: see `git stash list`")
    _settle(site, before, written=True, markers=False)
