"""Stage 3: a commit that holds exactly the task's change, or none.

What its hooks change in the task's files is taken into the task's change, so that the gates decide
on it: a formatter is no reason to throw work away.
"""

from collections.abc import Mapping, Sequence

from kern.errors import KernError
from kern.git import ignore
from kern.git.repository import Change
from kern.model import Cause, Stage
from kern.pipeline import lessons, recover, settle, tick, tries, verify
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, keep
from kern.pipeline.table import Settled, Then, Tried, after
from kern.pipeline.tries import Try
from kern.plain import some
from kern.stages import bundle, record

MOST_FIXES = 2  # by hooks, in one attempt


def commit(site: Site, at: Situation) -> None:
    """HEAD moves, or the attempt has failed."""
    recover.name_taken_out(site, at)
    before = _before_hooks(site, at)
    site.keeper.nested.name_unpushed(*at.second.change)
    if failed := _committed(site, at, before):
        _name_left(site, at, before)
        fresh = record.read(site.scope, Stage.IMPLEMENT)  # noted in it meanwhile: `tick`
        verify.fail(site, fresh or at.second, failed, Cause.HOOK)


def _committed(site: Site, at: Situation, before: str) -> str:
    """HEAD moves to the task's commit, or stage 3 rejects it; else why the attempt failed.
    `before` the hooks ran: what they change is taken in, so that the gates decide anew, or undone.
    """
    second = at.second
    merged, conflicts = site.witness.expected(*second.change, at.head.commit)
    if conflicts:
        return verify.overlap(at, conflicts)
    there_already = merged == site.repo.tree(at.head.commit)
    learned = lessons.of(second)
    with tick.at_work(site, at.opened[0], second.change, learned, second.day) as with_documents:

        def make() -> Sequence[str]:
            merged, _ = site.witness.expected(*second.change, at.head.commit)
            return with_documents(merged), merged

        whole, _ = site.keeper.hold(at.start, make) if at.start else make()
        return _first_the_agent(site, at, whole, before, ask=not there_already)


def _first_the_agent(site: Site, at: Situation, whole: str, before: str, *, ask: bool) -> str:
    """The agent first; kern where that tried and there is nothing left to decide."""
    then, called = _asked(site, at, whole, before) if ask else (Then.COMMIT, [])
    match then:
        case Then.LEAVE:
            return ""
        case Then.FAIL:
            return tries.nothing(site, at, whole, called)
        case _ if called and _taken_in(site, at, called[-1], before):
            return ""
    _undo(site, at, before)
    if called and called[-1].what is Tried.REFUSED:
        whole = tick.formed(site, whole)
    what, why = _own(site, at, whole, before)
    if what is Tried.REWORD:
        _undo(site, at, before)
        raise KernError(
            f"{why}. No message for this commit passes it",
            hint="say what it asks for under the task (kern note) or in "
            f"{bundle.overriding(Stage.COMMIT)}; then run kern again: gates and "
            "judges run once more, then it resumes at the commit; the work is in your tree",
        )
    return why


def _asked(site: Site, at: Situation, whole: str, before: str) -> tuple[Then, list[Try]]:
    """The agent, as often as there is something left for it to decide; and what follows."""
    called: list[Try] = []
    then = Then.ASK
    while then is Then.ASK:
        if called:
            _undo(site, at, before)
        called.append(tries.by_agent(site, at, whole, called[-1].why if called else ""))
        then = after([one.what for one in called])
        if then is not Then.LEAVE and site.repo.head().commit != at.head.commit:
            raise KernError(
                f"HEAD moved during the commit stage, and not as kern may undo: {called[-1].why}",
                hint="look at `git log`; then run kern again: it resumes",
            )
    return then, called


def _own(site: Site, at: Situation, whole: str, before: str) -> tuple[Tried, str]:
    """kern's own commit; once more where a hook refused the form of the two documents alone. What
    came of it, and why it does not stand.
    """
    change, subject = at.second.change, at.opened[0].text
    own = tries.by_kern(site, at, whole, change, subject)
    taken = _taken_in(site, at, own, before)
    refused = own.what is Tried.REFUSED and not taken
    if refused and (formed := tick.formed(site, whole)) != whole:
        _undo(site, at, before)
        own = tries.by_kern(site, at, formed, change, subject)
        taken = _taken_in(site, at, own, before)
    return own.what, "" if taken else own.why


def conclude(site: Site, at: Situation) -> Settled | None:
    """An experiment that did not work: kern commits SPEC.md and LEARNINGS.md and nothing else, then
    the task is done. Where a hook does not let it, a person is needed.
    """
    key, task = at.opened
    if at.start is None:  # the commit is found again by its base
        site.keeper.begin(at.head, key, at.attempt - 1, site.snapshots.take())
        return None
    recover.name_taken_out(site, at)
    tree = site.repo.tree(at.head.commit)
    learned, day = lessons.taught(site, at), record.now()[:10]
    with tick.at_work(site, key, (tree, tree), learned, day, proved=False) as with_documents:
        whole, subject = with_documents(tree), f"Conclude: {task.text}"
        own = tries.by_kern(site, at, whole, (tree, tree), subject)
        if own.what is Tried.REFUSED and (formed := tick.formed(site, whole)) != whole:
            own = tries.by_kern(site, at, formed, (tree, tree), subject)
    return settle.block(site, at, own.why) if own.why else None


# ---------------------------------------------------------------- what its hooks changed


def sound(task: Mapping[str, Change], hooks: Mapping[str, Change], times: int) -> bool:
    """Whether what the hooks changed is the task's alone: no other file, and none in which a person
    had gone on since stage 2. `times`: how often they did already.
    """
    own = hooks.keys() <= task.keys()
    return (
        own and bool(hooks) and times < MOST_FIXES and all(hooks[p][0] == task[p][1] for p in hooks)
    )


def _before_hooks(site: Site, at: Situation) -> str:
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


def _taken_in(site: Site, at: Situation, tried: Try, before: str) -> bool:
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
    tree = site.repo.tree_with(at.second.tree, {p: new for p, (_, new) in hooks.items()})
    record.save(site.scope, fresh.undecided(tree=tree, fixed=fresh.fixed + 1))
    site.warn(
        f"a commit hook changed {some(sorted(hooks))}: now part of the task's change; the "
        "gates run again"
    )
    return True


def _name_left(site: Site, at: Situation, before: str) -> None:
    """What else changed while the hooks ran and no commit came: it stays so."""
    _, made = _made(site, at, before)
    others = made.keys() - site.repo.changed(*at.second.change).keys()
    if not others:
        return
    was = ""
    if any(made[path][0] for path in others):
        ref = keep(site, at, "before-hook", before)
        was = f"; as it was: git checkout {ref} -- PATH"
    site.warn(f"{some(sorted(others))} changed while a commit hook ran: left as it is{was}")


def _undo(site: Site, at: Situation, before: str) -> None:
    """The task's files as they were, before the hooks run once more: a framework would take
    what they changed for edits that are not staged, and a person's with them.
    """
    start, tree = at.second.change
    task = site.repo.changed(start, tree)
    now, made = _made(site, at, before)
    if old := {path: entry for path, (entry, _) in made.items() if path in task}:
        ref, base, name = keep(site, at, "hooks", now), at.head.commit, f"{at.attempt}-hooks"
        site.keeper.put_back(at.opened[0], old, start=start, known=now, base=base, name=name)
        site.warn(
            f"{some(sorted(old))} changed while a commit hook ran; restored before the hooks run "
            f"again. Yours? git checkout {ref} -- PATH"
        )
