"""Proven commits that wait, because an edit of the person's is in the way: later tasks go on from
them, and they land by themselves once the way is free, proven on what they land on.
"""

from collections.abc import Sequence

from kern import plain
from kern.checks import result
from kern.errors import KernError
from kern.events import AttemptNoted, GateEnded
from kern.git import history, index, landing
from kern.git.history import Commit
from kern.git.ignore import bare
from kern.git.repository import Head
from kern.model import SPEC, Cause, Marker, Stage
from kern.pipeline import baseline, hooks, project
from kern.pipeline.site import Site, replayed
from kern.plain import some
from kern.spec import edit
from kern.spec.parse import Kind, Spec, Task
from kern.stages.briefs import task_name

_LANDS = "commit, stash or move them, then run kern again: it lands then"


def waits(site: Site, head: Head, new: str) -> bool:
    """Whether the commit, on top of `head`, has to wait; then a ref names it."""
    repo = site.repo
    ref = landing.waiting(repo)
    there = repo.store.id(ref) if repo.ahead else ""
    paths = [] if there else landing.in_the_way(repo, head.commit, new)
    if not (there or paths):
        return False
    if not repo.ahead:  # a worker's tree, in which nobody edits
        raise KernError(f"changes are in the way of the finished task: {some(paths)}", hint=_LANDS)
    repo.git("update-ref", ref, new, there or "0" * len(new))
    return True


def land(site: Site) -> list[str]:
    """What can land does, and a killed landing goes on; the paths that are in the way of it. No
    task is in progress.
    """
    _follow(site)
    repo = site.repo
    ref, head = landing.waiting(repo), repo.real_head()
    if not (tip := repo.store.id(ref)):
        return []
    base = repo.text("merge-base", head.commit, tip)
    if base != head.commit:
        new = _proven(site, history.since(repo, base, tip) or (), head.commit)
        argv = ("update-ref", ref, new, tip) if new != head.commit else ("update-ref", "-d", ref)
        repo.git(*argv)
        if (tip := new) == head.commit:
            return []
    if paths := landing.in_the_way(repo, head.commit, tip):
        return paths
    made = history.since(repo, head.commit, tip) or ()
    if landing.advance(repo, head, tip, made[-1].subject, gone={ref: tip}):
        _follow(site)
        for one in made:
            site.warn(f"landed, the way is free: {one.sha[:7]} {one.subject}")
    return []


def check(site: Site) -> None:
    """At the end of a run. Raises KernError where something waits."""
    if paths := land(site):
        head, tip = site.repo.real_head(), site.repo.store.id(landing.waiting(site.repo))
        made = history.since(site.repo, head.commit, tip) or ()
        tasks = "the finished task" if len(made) == 1 else f"{len(made)} finished tasks"
        names = plain.line("; ".join(one.trailer or one.subject for one in made), 100)
        raise KernError(
            f"your changes are in the way of {tasks}: {some(paths)}: {names}",
            hint=f"{_LANDS}; see it: git log -p {head.commit[:7]}..{tip[:12]}",
        )


def _follow(site: Site) -> None:
    repo = site.repo
    if not (old := landing.behind(repo)):
        return
    made = history.since(repo, old, repo.real_head().commit) or ()
    keys = [task.key for one in made if (task := _task(site, one))]

    def replay(name: str, text: str, came: str) -> str:
        for key in keys:
            text = replayed(name, text, came, key)
        return text

    landing.follow(repo, replay)


def _task(site: Site, commit: Commit) -> Task | None:
    """Whose it is, where SPEC.md still has that."""
    _, parsed = site.papers.spec()
    return next((task for task in parsed.tasks if task_name(task.key) == commit.trailer), None)


# ---------------------------------------------------------------- where the branch has moved


def _proven(site: Site, made: Sequence[Commit], onto: str) -> str:
    """Those of the commits that hold on top of `onto`, made anew there: the last one."""
    repo = site.repo
    for one in made:
        sides = (bare(repo, commit) for commit in (one.parents[0], onto, one.sha))
        tree, collisions = index.merge(repo, *sides)
        why = f"the change overlaps your commit in {some(collisions)}" if collisions else ""
        if why := why or _red(site, one, tree, onto):
            _give_back(site, one, why)
        else:
            whole = hooks.with_documents(site, tree)
            timeout = site.caller.settings.total(Stage.COMMIT)
            onto = history.transplanted(repo, one.sha, whole, onto, timeout)
    return onto


def _red(site: Site, commit: Commit, tree: str, onto: str) -> str:
    """What a gate that is red there says; empty where none is, or it was so before."""
    task, settings = _task(site, commit), project.settings(site)
    for gate in baseline.checks(site, task, settings).gates if task else settings.gates:
        ended = project.run_gate(site, gate, tree)
        if ended.red and gate.name:
            ended = ended.against(project.run_gate(site, gate, bare(site.repo, onto)).red)
        site.sink(GateEnded(ended))
        if ended.blocks:
            return result.objection(ended)
    return ""


def _give_back(site: Site, commit: Commit, reason: str) -> None:
    """The task is open again, and its work kept."""
    task = _task(site, commit)
    key = task.key if task else None
    if task is None or key is None:
        site.warn(f"{reason}, and {SPEC} has the task no longer: git show {commit.sha}", kept=True)
        return
    number = task.attempts + 1
    ref = site.keep(key, str(number), commit.tree, commit.parents[0])
    tail = f" (kept: {ref})"
    note = edit.note(Kind.ATTEMPT, plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail, number)

    def apply(text: str, _: Spec, task: Task) -> str:
        if task.marker is not Marker.DONE:
            return text
        return edit.annotate(edit.mark(text, task, Marker.PENDING), task, [note])

    site.papers.edit_task(key, apply)
    site.sink(AttemptNoted(key.text, number, reason, ref, str(Cause.COLLISION)))
