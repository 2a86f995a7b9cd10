"""SPEC.md and LEARNINGS.md while something else runs: what it did to them is reconciled."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kern import reconcile
from kern.documents import LEARNINGS, SPEC, Documents

_MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Papers:
    """The two documents as they were: text, and what stood in their places."""

    texts: tuple[str, str]
    forms: tuple[str | None, str | None]


class Custody:
    def __init__(
        self, papers: Documents, warn: Callable[[str], None], keep: Callable[[str], str]
    ) -> None:
        """`keep` saves a text of SPEC.md and says how to see it."""
        self.papers = papers
        self.warn = warn
        self.keep = keep

    def take(self) -> Papers:
        texts = self.papers.spec_text(), self.papers.read(LEARNINGS) or ""
        return Papers(texts, (self.papers.form(SPEC), self.papers.form(LEARNINGS)))

    def settle(self, before: Papers, *, trusted: bool) -> None:
        """`trusted`: what ran could not write them, so a person did (R9)."""
        names = (SPEC, LEARNINGS)
        for name, form, known in zip(names, before.forms, before.texts, strict=True):
            if not trusted and self.papers.restore_form(name, form, known):
                self.warn(f"{name} was made something else while an agent ran: put back")
        spec, learnings = before.texts
        with self.papers.alone():
            text = self.papers.read(SPEC)
            if trusted or text is None:
                fixed, told = reconcile.spec(spec, text, trusted=trusted)
            else:
                fixed, told = self._strangers_out(spec, text)
            if fixed != text:
                self.papers.write(SPEC, fixed)
        if text != spec:
            for line in [*told, *reconcile.new_faults(spec, fixed)]:
                self.warn(line)
        there = self.papers.read(LEARNINGS)
        if (there or "") != learnings:
            fixed, told = reconcile.learnings(learnings, there)
            if fixed != (there or ""):
                self.papers.write(LEARNINGS, fixed)
            for line in told:
                self.warn(line)

    def _strangers_out(self, spec: str, text: str) -> tuple[str, list[str]]:
        """What an agent may have brought in is nobody's order; the text as it was left is kept."""
        persons = self.papers.trusted()
        left, taken = reconcile.take_out(spec, text, persons)
        fixed, told = reconcile.spec(spec, left, trusted=False)
        fixed, more = reconcile.take_out(spec, fixed, persons)  # what came to light by that
        told += _some([*taken, *more])
        if reconcile.lost(text, fixed):
            told.append(f"{SPEC} as it was left: {self.keep(text)}")
        return fixed, told

    @contextlib.contextmanager
    def while_hooks_run(self) -> Iterator[None]:
        """What they do to the two documents is settled afterwards."""
        before = self.take()
        yield
        for name, known in zip((SPEC, LEARNINGS), before.texts, strict=True):
            fresh = self.papers.read(name) or ""
            if reconcile.in_conflict(fresh) and not reconcile.in_conflict(known):
                self.papers.write(name, known)
                self.warn(f"a hook left conflict marks in {name}: put back; see `git stash list`")
        self.settle(before, trusted=True)


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_TOLD
    return [*lines[:_MOST_TOLD], *([f"and {more} more lines"] if more > 0 else [])]
