"""What the commit's hooks changed in the task's files: taken into the task's change, so that the
gates decide on it. A formatter is no reason to throw work away.
"""

from collections.abc import Mapping

from kern.git import ignore, index
from kern.git.repository import Change
from kern.model import Stage
from kern.pipeline.acceptance import Try
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.pipeline.table import Tried
from kern.plain import some
from kern.stages import record

MOST = 2  # times in one attempt


def sound(task: Mapping[str, Change], hooks: Mapping[str, Change], times: int) -> bool:
    """Whether what the hooks changed is the task's alone: no other file, and none in which a person
    had gone on since stage 2. `times`: how often they did already.
    """
    own = hooks.keys() <= task.keys()
    return own and bool(hooks) and times < MOST and all(hooks[p][0] == task[p][1] for p in hooks)


def before(site: Site, at: Situation) -> str:
    """The tree before the hooks run; empty where none does: nothing changes behind kern's back."""
    return site.snapshots.take(at.second.start) if site.repo.hooks("pre-commit") else ""


def _made(site: Site, at: Situation, before: str) -> tuple[str, dict[str, Change]]:
    """The tree now, and what the hooks changed, but for new files that git ignores: a cache, say.
    Nothing where none ran.
    """
    if not before:
        return "", {}
    now = site.snapshots.take(at.second.start)
    task = site.repo.changed(*at.second.change)
    made = site.repo.changed(before, now)
    new = [path for path, (old, _) in made.items() if old is None and path not in task]
    hidden = ignore.ignored(site.repo, *new)
    return now, {path: change for path, change in made.items() if path not in hidden}


def taken_in(site: Site, at: Situation, tried: Try, before: str) -> bool:
    """Whether there was anything to take in: it is the task's change by now, and stage2.json has no
    outcome. Of a commit that the hooks altered and let pass, what they altered alone.
    """
    if not before or tried.what not in (Tried.REFUSED, Tried.ALTERED):
        return False
    _, hooks = _made(site, at, before)
    if tried.altered:
        was = site.repo.entries(before)
        hooks = {p: hooks.get(p, (was.get(p), new)) for p, new in tried.altered.items()}
    # With the record of what stands early.
    fresh = record.read(site.scope, Stage.IMPLEMENT)
    task = site.repo.changed(*at.second.change)
    if fresh is None or not sound(task, hooks, fresh.fixed):
        return False
    tree = index.tree_with(site.repo, at.second.tree, {p: new for p, (_, new) in hooks.items()})
    record.save(site.scope, fresh.undecided(tree=tree, fixed=fresh.fixed + 1))
    site.warn(
        f"a commit hook changed {some(sorted(hooks))}: now part of the task's change; the "
        "gates run again"
    )
    return True


def name_left(site: Site, at: Situation, before: str) -> None:
    """What else changed while the hooks ran and no commit came: it stays so."""
    _, made = _made(site, at, before)
    others = made.keys() - site.repo.changed(*at.second.change).keys()
    if not others:
        return
    was = ""
    if any(made[path][0] for path in others):
        name = f"{at.attempt}-before-hook"
        ref = site.keeper.keep(at.opened[0], name, before, at.head.commit)
        was = f"; as it was: git checkout {ref} -- PATH"
    site.warn(f"{some(sorted(others))} changed while a commit hook ran: left as it is{was}")


def undo(site: Site, at: Situation, before: str) -> None:
    """The task's files as they were, before the hooks run once more: a framework would take
    what they changed for edits that are not staged, and a person's with them.
    """
    start, tree = at.second.change
    task = site.repo.changed(start, tree)
    now, made = _made(site, at, before)
    if old := {path: entry for path, (entry, _) in made.items() if path in task}:
        key, base, name = at.opened[0], at.head.commit, f"{at.attempt}-hooks"
        ref = site.keeper.keep(key, name, now, base)
        site.keeper.put_back(key, old, start=start, known=now, base=base, name=name)
        site.warn(
            f"{some(sorted(old))} changed while a commit hook ran; restored before the hooks run "
            f"again. Yours? git checkout {ref} -- PATH"
        )
