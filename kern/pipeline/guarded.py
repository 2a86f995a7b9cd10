"""SPEC.md and LEARNINGS.md while something else runs in place: kern writes its own lines again."""

import contextlib
import re
from collections.abc import Iterator

from kern import plain
from kern.model import LEARNINGS, SPEC
from kern.pipeline.site import Site
from kern.sandbox.confine import unheld
from kern.spec import edit, reapply

_WORDS = re.compile(r"\w\w+")


@contextlib.contextmanager
def watched(site: Site) -> Iterator[None]:
    """In a sandbox whatever changed there is the person's, but for a file that is gone."""
    papers = site.papers
    before = [(name, papers.form(name), papers.read(name) or "") for name in (SPEC, LEARNINGS)]
    try:
        yield
    finally:
        for name, form, text in before:
            with papers.alone():
                for line in _settled(site, name, form, text):
                    site.warn(line)


def _settled(site: Site, name: str, form: str | None, before: str) -> Iterator[str]:
    if what := site.papers.restore(name, form, before):
        yield f"{name} was {what} while an agent ran: restored"
    fixed = text = site.papers.read(name) or ""
    if text == before or site.caller.hold is not unheld:
        return
    if name == SPEC:
        fixed, warnings = reapply.reapply(before, text)
        yield from warnings
        lost = plain.count(gone, "task line") if (gone := reapply.vanished(before, fixed)) else ""
    else:
        gone = len(edit.learnings(before)) - len(edit.learnings(text))
        lost = plain.count(gone, "entry") if gone > 0 else ""
    if fixed != text:
        site.papers.write(name, fixed)
    if {*_WORDS.findall(text)} - {*_WORDS.findall(fixed)}:
        yield f"{name} as it was left: {site.keep_document(name, text)}"
    if lost:
        earlier = site.keep_document(name, before)
        yield f"{lost} vanished from {name} while what could write there ran; before: {earlier}"
