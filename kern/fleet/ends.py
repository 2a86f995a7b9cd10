"""How a run of many at once begins and ends: what an earlier one has left is taken up, as refs and
worktrees tell of it, and nothing is left over but what is to go on.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kern import plain
from kern.config import FILE
from kern.errors import BudgetReached, Exit, Interrupted, KernError, LimitReached, UsageError
from kern.events import RunEnded
from kern.fleet import landed, merging, work, worktrees
from kern.fleet.crew import OF, Crew
from kern.fleet.handout import Limit
from kern.fleet.work import Left, Outcome, Waiting, Work
from kern.fleet.worktrees import Yard
from kern.git import history, refs, room
from kern.git.ignore import left_out
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Marker, Need
from kern.model import Outcome as End
from kern.pipeline import witness
from kern.pipeline.options import Options
from kern.pipeline.site import Site
from kern.plain import decode
from kern.spec.file import Documents
from kern.spec.parse import Spec, is_experiment, parse
from kern.system import process

TRIES = 3  # of one task whose kern was ended by something else
_GRACE_S = 5.0  # an agent is ended by its own kern


def take_up(crew: Crew, *, resume: bool = True) -> list[Work]:
    """Orphans are ended; finished work, which is to land. Half-done work is handed out first, or
    where it is not to be resumed saved as a ref.
    """
    site, yard = crew.site, crew.shop.yard
    if ended := _end_orphans(site.repo, yard):
        site.warn(f"ended {plain.count(ended, 'process')} that an earlier run left behind")
    for line in landed.finish(site):
        site.warn(line)
    found = []
    for left in _look(yard, crew.onto, site.papers.spec()[1]):
        if work := _finished(site, yard, left):
            found.append(work)
            crew.taken.add(work.key)
            crew.trees[left.branch] = left.tree
        elif resume and left.under_way and left.known and left.number:
            crew.takes_up(left)
        else:
            if ref := _keep(site, yard, left):
                what = "half done by an earlier run" if left.known else "no longer in SPEC.md"
                site.warn(f"{what}: {left.key.text}: its work is saved as {ref}")
            worktrees.drop(site.repo, left.branch)
    return found


def tidy(crew: Crew) -> int:
    """What is finished, or in progress in its worktree, stays; how many are in progress."""
    site, yard = crew.site, crew.shop.yard
    found = _look(yard, crew.onto, site.papers.spec()[1])
    stays = {
        left.branch: left.tree for left in found if left.under_way or _finished(site, yard, left)
    }
    for number in worktrees.numbers(yard):
        if number not in stays.values():
            worktrees.remove(yard, number)
            if not crew.retired:  # else a person was told where all that a gate printed is
                worktrees.forget_runs(site.scope.base, yard.place(number))
    for branch in {*crew.trees} - {*stays}:
        worktrees.drop(site.repo, branch)
    worktrees.close(yard, keep=bool(stays or crew.retired))
    if not stays:
        landed.forget(site.repo)
    return sum(left.under_way for left in found)


def _end_orphans(repo: Repo, yard: Yard) -> int:
    """The kerns of a run that was killed, and what they started."""
    ended = process.sweep((OF, str(repo.root)), _GRACE_S)
    for number in worktrees.numbers(yard):
        ended += process.sweep(("KERN_ROOT", str(yard.place(number))))
    return ended


def _look(yard: Yard, onto: str, parsed: Spec) -> list[Left]:
    """Of the branch `onto`, in the order of its tasks; a branch of another's is none of these."""
    there = worktrees.branches(yard.repo)
    if not there:
        return []
    begun = worktrees.begun(yard.repo)
    names = {work.branch(onto, task.key): task.key for task in parsed.tasks}
    trees: dict[str, tuple[int, Repo]] = {}
    for number in worktrees.numbers(yard):
        made = worktrees.of(yard, number)
        head = made.plain_head() if made else None
        if made and head:
            trees.setdefault(head.branch, (number, made))
    found = []
    for branch, tip in there.items():
        number, made = trees.get(branch, (0, None))
        text = _spec(yard.repo, made, tip)
        theirs = parse(text)
        own = {work.branch(onto, task.key): task for task in theirs.tasks}
        task = own.get(branch)
        key = names.get(branch) or (task.key if task and made else None)
        if key is None:
            continue
        active = bool(made) and task is not None and task.marker is Marker.ACTIVE
        at = theirs.tasks.index(task) + 1 if task else 0
        under = branch in begun or active
        base = yard.repo.text("merge-base", tip, f"refs/heads/{onto}")
        found.append(Left(branch, tip, key, base, number, under, at, branch in names))
    places = list(names)
    return sorted(found, key=lambda one: places.index(one.branch) if one.known else -1)


def _spec(repo: Repo, made: Repo | None, tip: str) -> str:
    if made:
        try:
            return Documents(made.root).read(SPEC) or ""
        except KernError:
            return ""
    return decode(repo.content(tip, SPEC) or b"")


def _finished(site: Site, yard: Yard, left: Left) -> Work | None:
    """What waits to land; None where its newest commit is not the task's."""
    tip = history.commit(site.repo, left.tip)
    if left.under_way or not tip.parents or not witness.ticks(site.repo, tip, left.key):
        return None
    made = worktrees.of(yard, left.tree) if left.tree else None
    learned = site.repo.content(left.tip, LEARNINGS)
    return Work(
        *(left.key, left.branch, tip.parents[0], left.tip, left.tree or 1),
        _spec(site.repo, made, left.tip),
        None if learned is None else decode(learned),
    )


def _keep(site: Site, yard: Yard, left: Left) -> str:
    """Half-done work as a ref, before its worktree goes; empty where there is none."""
    made = worktrees.of(yard, left.tree) if left.tree else None
    if made is None:
        return ""
    tree = room.visible(made)
    changed = site.repo.changed(site.repo.tree(left.tip), tree)
    # Where no task had begun, files may lack because git was killed at making the worktree.
    work = [path for path, (_, new) in changed.items() if new or left.under_way]
    if all(left_out(path) or path == FILE for path in work):
        return ""
    message = f"{left.key.text}\n\nunfinished\n"
    return refs.keep(site.repo, refs.slug(left.key), "unfinished", tree, message, left.tip)


# ---------------------------------------------------------------- in words


def why(*waiting: Waiting) -> str:
    """What keeps finished work from landing, by the first of it; empty for none."""
    for one in waiting:
        return one.why or f"you have uncommitted changes in {plain.some(one.paths)}"
    return ""


def unlanded(count: int, waiting: Iterable[Waiting]) -> KernError:
    """All has come home, and finished tasks could not land."""
    paths = sorted({path for one in waiting for path in one.paths})
    tasks, wait = plain.count(count, "finished task"), "waits" if count == 1 else "wait"
    return KernError(
        f"{tasks} {wait} to land beside your uncommitted changes: {plain.some(paths)}",
        hint="commit or stash them, then run kern again: it lands then",
    )


def cause(came: Outcome, limit: Limit) -> KernError:
    """What keeps all from going on."""
    kind = UsageError if came.code == Exit.USAGE else KernError
    if came.code == Exit.LIMIT:
        kind = LimitReached if limit.until else BudgetReached
    return kind(came.fault or "a usage limit was reached", hint=came.hint)


def unfit(came: Outcome, *, begun: bool) -> str:
    """Of a worker that cannot work, or not go on with the task that it had `begun`."""
    how = "could not begin"
    if begun:
        how = f"had to leave its task, which begins anew ({plain.line(came.job.key.text, 160)})"
    return f"worker {came.job.worker} {how}: {came.fault}"


def landed_as(repo: Repo, work: Work, proved: str) -> tuple[End, str]:
    """And what proved it: an experiment that did not work changes the two documents alone."""
    failed = is_experiment(work.text) and not merging.change(repo, work)
    return (End.CONCLUDED, "") if failed else (End.DONE, proved)


def came_to(came: Outcome, said: Mapping[str, Any]) -> tuple[End, str]:
    """How a task ended without a commit, and why. `said`: its kern's own record of that."""
    end = next((one for one in End if one == said.get("did")), End.SKIPPED)
    if end is End.DONE:  # where it was carried out, and that is as far as it came
        return End.SKIPPED, came.fault or "its commit is gone"
    return end, str(said.get("detail") or came.fault or "its kern told nothing of it")


def read(site: Site) -> Spec | None:
    """SPEC.md; None where it cannot be read any more."""
    try:
        return site.papers.spec()[1]
    except KernError:
        return None


def told(
    ended: RunEnded, given_up: Sequence[Outcome], parsed: Spec | None, crew: Crew, held: int
) -> RunEnded:
    """With what the next run is called with, and the tasks that only the next run resumes; `held`:
    how many are in progress.
    """
    if ended.stopped and held:
        ended = replace(ended, stopped=f"{plain.count(held, 'task')} in progress")
    called = call(crew.options)
    lost = tuple(_need(came, parsed, crew, called) for came in given_up)
    code = ended.exit_code or (1 if lost else 0)
    return replace(ended, called=called, needs=(*ended.needs, *lost), exit_code=code)


def _need(came: Outcome, parsed: Spec | None, crew: Crew, called: str) -> Need:
    key, found = came.job.key, enumerate(parsed.tasks if parsed else (), 1)
    number, line = next(((at, one.line) for at, one in found if one.key == key), (0, 0))
    why = f"{came.fault} {plain.count(TRIES, 'time')} in a row"
    do = f"tail {crew.shop.yard.log(came.job.worker)} shows what it printed; {called} resumes it"
    if came.code == -signal.SIGKILL:
        why += " (out of memory?)"
        fewer = call(replace(crew.options, jobs=str(max(crew.count // 2, 1))))
        do = f"dmesg | tail tells whether memory ran out; {fewer} resumes it with fewer workers"
    return Need(number, line, key.text, f"{why}; its work so far is kept", do)


def note(site: Site, error: BaseException | None, held: int, options: Options) -> None:
    """Where the run ends early, what becomes of the tasks that it leaves in worktrees."""
    if held and isinstance(error, Interrupted):
        error.note = _resumed(held, options)
    elif held and error:
        site.warn(_resumed(held, options))


def _resumed(count: int, options: Options) -> str:
    it = "it" if count == 1 else "them"
    told, called = f"{plain.count(count, 'task')} in progress", call(options)
    if called == "kern":
        return f"{told}: kern resumes {it}"
    return f"{told}: {called} resumes {it}; kern alone saves the work and begins {it} anew"


def call(options: Options) -> str:
    """How a person begins the like of this run, but for how many tasks."""
    words = ["-j", options.jobs] if options.jobs else []
    words += ["--scheduler", options.scheduler] if options.scheduler else []
    return " ".join(["kern", *words])
