"""Where a commit of kern's lands: on the branch, then in the person's files. Where an edit of
theirs is in the way it waits at a ref, later tasks go on from it, and it lands by itself once the
way is free, proven on what it lands on. And back: `kern undo`, a commit that also opens the task.
"""

import re
from collections.abc import Sequence

from kern import plain
from kern.checks import result
from kern.errors import KernError, UsageError
from kern.events import AttemptNoted, GateEnded
from kern.git import history
from kern.git import landing as branch
from kern.git.history import Commit
from kern.git.repository import DOCUMENTS, Entry, Repo
from kern.journal import store
from kern.model import SPEC, Cause, Marker, Stage
from kern.pipeline import preflight, project
from kern.pipeline.site import Site
from kern.plain import some
from kern.spec import commands, edit, order
from kern.spec.file import Documents
from kern.spec.parse import Kind, Spec, Task, parse
from kern.stages.briefs import task_name

_LANDS = "commit, stash or move them, then run kern again: it lands then"
_UNDONE = "Kern-Undone:"  # a trailer


def waits(site: Site, head: str, new: str) -> bool:
    """Whether the commit, on top of `head`, has to wait; then a ref names it."""
    repo = site.repo
    ref = branch.waiting(repo)
    there = repo.store.id(ref) if repo.ahead else ""
    paths = [] if there else branch.in_the_way(repo, head, new)
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
    repo = site.repo
    follow(repo, site.papers)
    ref, head = branch.waiting(repo), repo.real_head()
    if not (tip := repo.store.id(ref)):
        return []
    base = repo.text("merge-base", head.commit, tip)
    if base != head.commit:
        new = _moved(site, history.since(repo, base, tip) or (), head.commit)
        gone = new == head.commit
        repo.git("update-ref", *(("-d", ref, tip) if gone else (ref, new, tip)))
        if gone:
            return []
        tip = new
    if paths := branch.in_the_way(repo, head.commit, tip):
        return paths
    made = history.since(repo, head.commit, tip) or ()
    if branch.advance(repo, head, tip, made[-1].subject, gone={ref: tip}):
        follow(repo, site.papers)
        for one in made:
            site.warn(f"landed, the way is free: {one.sha[:7]} {one.subject}")
    return []


def check(site: Site) -> None:
    """At the end of a run. Raises KernError where something waits."""
    if paths := land(site):
        head, tip = site.repo.real_head(), site.repo.store.id(branch.waiting(site.repo))
        made = history.since(site.repo, head.commit, tip) or ()
        tasks = "the finished task" if len(made) == 1 else f"{len(made)} finished tasks"
        names = plain.line("; ".join(one.trailer or one.subject for one in made), 100)
        raise KernError(
            f"your changes are in the way of {tasks}: {some(paths)}: {names}",
            hint=f"{_LANDS}; see it: git log -p {head.commit[:7]}..{tip[:12]}",
        )


def follow(repo: Repo, papers: Documents) -> None:
    """The person's index and files, where a landing got no further than the branch; twice is
    once.
    """
    if not (old := branch.behind(repo)):
        return
    made = history.since(repo, old, repo.real_head().commit) or ()
    undone = [
        found[1] for one in made if (found := re.search(rf"(?m)^{_UNDONE} (.*)$", one.message))
    ]

    # The disk first: once the files have followed, nothing says any more that this is due.
    if undone and papers.read(SPEC) is not None:
        papers.edit(lambda text, _: _opened(text, undone))
    branch.follow(repo)


# ---------------------------------------------------------------- where the branch has moved


def _moved(site: Site, made: Sequence[Commit], onto: str) -> str:
    """Those of the commits that hold on top of `onto`, made anew there: the last one."""
    for one in made:
        _, parsed = site.papers.spec()
        task = next((task for task in parsed.tasks if task_name(task.key) == one.trailer), None)
        base, ours, theirs = map(site.repo.bare, (one.parents[0], onto, one.sha))
        tree, collisions = history.merge(site.repo, base, ours, theirs)
        why = f"the change overlaps your commit in {some(collisions)}" if collisions else ""
        if why := why or _red(site, task, tree, onto):
            _give_back(site, task, one, why)
        else:
            whole = project.with_documents(site, tree)
            timeout = site.caller.settings.total(Stage.COMMIT)
            onto = history.transplanted(site.repo, one.sha, whole, onto, timeout)
    return onto


def _red(site: Site, task: Task | None, tree: str, onto: str) -> str:
    """What a gate that is red there says; empty where none is, or it was so before."""
    wanted = project.checks(site, task) if task else project.settings(site)
    for gate in wanted.gates:
        ended = project.run_gate(site, gate, tree)
        if ended.red and gate.name:
            ended = ended.against(project.run_gate(site, gate, site.repo.bare(onto)).red)
        site.sink(GateEnded(ended))
        if ended.blocks:
            return result.objection(ended)
    return ""


def _give_back(site: Site, task: Task | None, commit: Commit, reason: str) -> None:
    """The task is open again, and its work kept."""
    if task is None:
        site.warn(f"{reason}, and {SPEC} has the task no longer: git show {commit.sha}", kept=True)
        return
    key, number = task.key, task.attempts + 1
    ref = site.keep(key, str(number), commit.tree, commit.parents[0])
    tail = f" (kept: {ref})"
    note = edit.note(Kind.ATTEMPT, plain.line(reason, edit.NOTE_LIMIT - len(tail)) + tail, number)

    def apply(text: str, _: Spec, task: Task) -> str:
        if task.marker is not Marker.DONE:
            return text
        return edit.annotate(edit.mark(text, task, Marker.PENDING), task, [note])

    site.papers.edit_task(key, apply)
    site.sink(AttemptNoted(key.text, number, reason, ref, str(Cause.COLLISION)))


# ---------------------------------------------------------------- back


def undo(repo: Repo, papers: Documents, wanted: str) -> str:
    """Under the lock. What was done. Raises KernError where nothing was. Once HEAD has moved,
    whoever comes next brings the files after it.
    """
    preflight.demand(preflight.of_repository(repo))
    follow(repo, papers)
    parsed, head = papers.spec()[1], repo.head()
    if busy := parsed.active:
        raise UsageError(
            f"a task is in progress: {plain.line(busy[0].text, 200)}",
            hint="kern 1 goes on with it, [ ] in kern edit gives it back; then undo the other",
        )
    number = order.named(wanted, [task.text for task in parsed.tasks])
    name, commit = task_name(parsed.tasks[number].key), _made(repo, parsed, number)
    kept = {path: repo.entry(commit.sha, path) for path in DOCUMENTS}
    above = repo.tree_with(repo.tree(commit.parents[0]), kept)
    tree, conflicts = history.merge(repo, commit.sha, head.commit, above)
    if conflicts:
        raise UsageError(
            f"later commits build on {commit.sha[:7]}, in {some(conflicts)}; nothing was changed",
            hint="undo those tasks first, the newest first; or by hand: "
            f"git revert {commit.sha[:7]}, resolve it, then [ ] in kern edit",
        )
    if mine := branch.in_the_way(repo, head.commit, tree):
        raise UsageError(
            f"it would change what you have not committed: {some(mine)}",
            hint=f"git commit or git stash -u it, then: kern undo {number + 1}",
        )
    files = plain.count(len(repo.changed(head.commit, tree)), "file")
    if there := repo.entry(head.commit, SPEC):
        text = _opened(plain.decode(repo.data(there.blob)), [name])
        tree = repo.tree_with(tree, {SPEC: Entry(there.mode, repo.blob(plain.encode(text)))})
    subject = f'Revert "{commit.subject}"'
    message = f"{subject}\n\nThis reverts commit {commit.sha}.\n\n{_UNDONE} {name}\n"
    new = history.create(repo, tree, head.commit, message, history.SIGNING_S)
    if not branch.advance(repo, head, new, subject):
        raise KernError("the branch has moved meanwhile; nothing was changed", hint="try again")
    follow(repo, papers)
    return f"undone {parsed.shown(number)}: {new[:7]} takes {commit.sha[:7]} back, in {files}"


def _made(repo: Repo, parsed: Spec, number: int) -> Commit:
    """The one that finished the task, as kern made it. Raises UsageError."""
    task, shown = parsed.tasks[number], parsed.shown(number)
    if task.marker is not Marker.DONE:
        raise UsageError(
            f"it is not done, so there is nothing to undo: {shown}",
            hint=f"kern show {number + 1} tells how it stands",
        )
    if (commit := history.naming(repo, task_name(task.key))) is None:
        raise UsageError(
            f"no commit of kern's on this branch finished it: {shown}",
            hint="[ ] in kern edit opens it again and changes nothing else",
        )
    rows = store.load(store.place(repo.common_dir), having=b'"commit"', size=store.NIGHT)
    made = {str(row["commit"]) for row in rows if row.get("commit")}
    change = history.patch(repo, commit.sha)  # which a rebase leaves as it is
    if commit.sha not in made and all(history.patch(repo, sha) != change for sha in made):
        raise UsageError(
            f"{commit.sha[:7]} is not as kern made it here: squashed, amended, or made elsewhere",
            hint=f"by hand: git revert {commit.sha[:7]}, then [ ] in kern edit",
        )
    return commit


def _opened(text: str, names: Sequence[str]) -> str:
    """The done tasks of these names."""
    for name in names:
        parsed = parse(text)
        task = next((one for one in parsed.tasks if task_name(one.key) == name), None)
        if task and task.marker is Marker.DONE:
            text = commands.reopened(text, parsed, task)
    return text
