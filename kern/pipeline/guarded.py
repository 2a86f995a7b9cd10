"""SPEC.md, LEARNINGS.md and the stage files while something else runs: what it did to the documents
is reconciled, what it wrote among the files is undone.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from kern.frozen import frozen
from kern.memory import changes
from kern.model import LEARNINGS, SPEC
from kern.pipeline.site import Site
from kern.plain import decode
from kern.spec import reconcile
from kern.system import workspace

# Those that kern reads again; to an agent they are as open as any file.
_STAGE_FILE = r"(stage[123]|attempt\d+)\.json"

_MOST_TOLD = 20


@frozen
class Papers:
    """The two documents as they were: text, and what stood in their places; and the stage files."""

    texts: tuple[str, str]
    forms: tuple[str | None, str | None]
    files: Mapping[str, bytes]


def take(site: Site) -> Papers:
    texts = site.papers.spec_text(), site.papers.read(LEARNINGS) or ""
    forms = site.papers.form(SPEC), site.papers.form(LEARNINGS)
    return Papers(texts, forms, _files(site))


def settle(site: Site, before: Papers, *, trusted: bool) -> None:
    """`trusted`: what ran could not write them, so a person did."""
    _restore_files(site, before.files)
    _settle_papers(site, before, trusted=trusted)


def _settle_papers(site: Site, before: Papers, *, trusted: bool) -> None:
    names = (SPEC, LEARNINGS)
    for name, form, known in zip(names, before.forms, before.texts, strict=True):
        if not trusted and site.papers.restore_form(name, form, known):
            site.warn(f"{name} was made something else while an agent ran: restored")
    spec, learnings = before.texts
    with site.papers.alone():
        text = site.papers.read(SPEC)
        if trusted or text is None:
            known = reconcile.released(spec, site.papers.trusted())
            fixed, told = reconcile.spec(known, text, trusted=trusted)
        else:
            fixed, told = _strangers_out(site, spec, text)
        if fixed != text:
            site.papers.write(SPEC, fixed)
    if text != spec:
        for line in [*told, *reconcile.new_faults(spec, fixed)]:
            site.warn(line)
    there = site.papers.read(LEARNINGS)
    learnings = changes.applied(learnings, changes.persons(site.papers.trusted()))
    formed = trusted and _words(there or "") == _words(learnings)  # by a formatter
    if (there or "") != learnings and not formed:
        fixed, told = reconcile.learnings(learnings, there)
        fixed = fixed if trusted else changes.untampered(learnings, fixed)
        if fixed != (there or ""):
            site.papers.write(LEARNINGS, fixed)
        for line in told:
            site.warn(line)


def _files(site: Site) -> dict[str, bytes]:
    return {
        path.name: data
        for path in _there(site)
        if path.is_file() and not path.is_symlink() and (data := workspace.read(path)) is not None
    }


def _there(site: Site) -> list[Path]:
    with workspace.reported(site.scope.folder):
        found = sorted(site.scope.folder.iterdir()) if site.scope.folder.is_dir() else []
    return [path for path in found if re.fullmatch(_STAGE_FILE, path.name)]


def _restore_files(site: Site, known: Mapping[str, bytes]) -> None:
    """What was planted would count as kern's own: an answer, an outcome, an earlier attempt."""
    changed = {path.name for path in _there(site)} | known.keys()
    changed -= {name for name, data in _files(site).items() if known.get(name) == data}
    for name in sorted(changed):
        place = site.scope.folder / name
        with workspace.reported(place):
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            elif name not in known:
                place.unlink(missing_ok=True)
        if name in known:
            workspace.replace(place, known[name])
        site.warn(f"{name} was changed among kern's files while an agent ran: restored")


def _strangers_out(site: Site, spec: str, text: str) -> tuple[str, list[str]]:
    """What an agent may have brought in is nobody's order; the text as it was left is kept."""
    persons = site.papers.trusted()
    left, taken = reconcile.take_out(spec, text, persons)
    fixed, told = reconcile.spec(reconcile.released(spec, persons), left, trusted=False)
    fixed, more = reconcile.take_out(spec, fixed, persons)  # what came to light by that
    told += _some([*taken, *more])
    told += _some(reconcile.let_in(spec, fixed, persons))
    return fixed, told + _as_left(site, text, fixed)


def recover(site: Site, spec: bytes | None) -> None:
    """What came into SPEC.md during a stage 2 whose end no kern saw: the next run goes by it.
    What a person took away or marked since stays so.
    """
    with site.papers.alone():
        text = site.papers.read(SPEC)
        before = decode(spec or b"")
        if not spec or text is None or text == before:
            return
        fixed, told = reconcile.recovered(before, text, site.papers.trusted())
        if fixed != text:
            site.papers.write(SPEC, fixed)
    for line in told + _as_left(site, text, fixed):
        site.warn(line)


def _as_left(site: Site, text: str, fixed: str) -> list[str]:
    """Where the text as something left it is kept, if a line of it is gone."""
    lost = reconcile.lost(text, fixed)
    return [f"{SPEC} as it was left: {site.keeper.keep_spec(text)}"] if lost else []


@contextlib.contextmanager
def while_hooks_run(site: Site) -> Iterator[None]:
    """What they do to the two documents is settled afterwards; kern writes stage files itself
    meanwhile.
    """
    before = take(site)
    yield
    for name, known in zip((SPEC, LEARNINGS), before.texts, strict=True):
        fresh = site.papers.read(name) or ""
        if reconcile.in_conflict(fresh) and not reconcile.in_conflict(known):
            site.papers.write(name, known)
            site.warn(f"a hook left conflict marks in {name}; restored: see `git stash list`")
    _settle_papers(site, before, trusted=True)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_TOLD
    return [*lines[:_MOST_TOLD], *([f"and {more} more lines"] if more > 0 else [])]
