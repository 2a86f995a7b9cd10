"""What a child did in the person's tree although it is kern's to do: undone, and said. In a room it
cannot.
"""

import contextlib
import re
from collections.abc import Iterator

from kern import plain
from kern.git import history, in_place
from kern.git.refs import StartRef
from kern.git.repository import Head
from kern.memory.entries import parse
from kern.model import LEARNINGS, SPEC, Key
from kern.pipeline.facts import BY_ITSELF
from kern.pipeline.site import Site
from kern.plain import some
from kern.sandbox.confine import unheld
from kern.spec import reapply
from kern.system import workspace

_WORDS = re.compile(r"\w\w+")
_OWN = f"(?:stage [23]|{BY_ITSELF})"  # in a reflog: what kern's children moved


@contextlib.contextmanager
def watched(
    site: Site, head: Head, start: StartRef | None, who: str, back: str = ""
) -> Iterator[list[str]]:
    """Around a child: what of that breaks limits, in words. `back`: the tree is that again, after
    one that was to look only.
    """
    told: list[str] = []
    if not site.rooms.place:
        yield told
        return
    papers, began = site.papers, site.repo.head()
    staged = workspace.read(site.repo.git_dir / "index")
    before = [(name, papers.form(name), papers.read(name) or "") for name in (SPEC, LEARNINGS)]
    try:
        yield told
    finally:
        for name, form, text in before:
            with papers.alone():
                for line in _settled(site, name, form, text):
                    site.warn(line)
        told += undo_mistakes(site, head, start, who)
        in_place.restore_index(site.repo, staged if site.repo.head() == began else None)
        if back:
            site.rooms.put_back(back)


def _settled(site: Site, name: str, form: str | None, before: str) -> Iterator[str]:
    """kern's own lines once more. In a sandbox whatever changed there is the person's, but for a
    file that is gone.
    """
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
        gone = len(parse(before).entries) - len(parse(text).entries)
        lost = plain.count(gone, "entry") if gone > 0 else ""
    if fixed != text:
        site.papers.write(name, fixed)
    if {*_WORDS.findall(text)} - {*_WORDS.findall(fixed)}:
        yield f"{name} as it was left: {site.keep_document(name, text)}"
    if lost:
        earlier = site.keep_document(name, before)
        yield f"{lost} vanished from {name} while what could write there ran; before: {earlier}"


def undo_mistakes(site: Site, head: Head, start: StartRef | None, who: str) -> list[str]:
    """What a child did to git on top of `head`, its commits kept by a ref; what of that breaks
    limits, in words.
    """
    if not site.rooms.place:
        return []
    told = in_place.undo_mistakes(site.repo, head)
    for line in told:
        site.warn(f"{who} broke its limits: {line}")
    now = site.repo.head()
    if now.commit != head.commit and history.moved_by(site.repo, now, head.commit, _OWN):
        tip = history.commit(site.repo, now.commit)
        key = start.task if start else Key("", who, 1)
        ref = site.keep(key, f"{start.attempt if start else 1}-commit", tip.tree, tip.sha)
        history.move_head(site.repo, head.commit, now.commit, "an agent's commit taken back")
        site.warn(f"{who} committed by itself: the commit was undone and saved as {ref}")
    return told


def save(site: Site, known: str, now: str) -> None:
    """Before it is undone: what nobody has kept, since it may be a person's."""
    if paths := sorted(site.repo.changed(known, now)):
        ref = site.keep(Key("", "your tree", 1), "changed", now, site.repo.head().commit)
        site.warn(
            f"{some(paths)} changed while kern worked in your tree: undone, and saved: "
            f"git checkout {ref} -- PATH",
            kept=True,
        )
