"""Where a commit of kern's lands: on the branch, then in the person's files. Where an edit of
theirs is in the way it waits at a ref, later tasks go on from it, and it lands by itself once the
way is free, proven on what it lands on. And back: `kern undo`, a commit that also opens the task.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from kern import plain
from kern.errors import KernError, UsageError
from kern.git import history, refs
from kern.git import landing as branch
from kern.git.history import Commit
from kern.git.repository import DOCUMENTS, Entry, Repo
from kern.journal import store
from kern.model import SPEC, Cause, Key, Marker, Saved, Stage
from kern.pipeline import attempt, preflight, project, verify
from kern.pipeline.attempt import Objection
from kern.pipeline.site import Site
from kern.plain import some
from kern.spec import commands, edit, order
from kern.spec.file import Documents
from kern.spec.notes import Checks
from kern.spec.parse import Kind, Spec, Task, parse
from kern.stages.briefs import task_name
from kern.stages.record import StageRecord

_LANDS = "commit, stash or move them, then run kern again: it lands then"
_UNDONE = "Kern-Undone:"  # a trailer
_BOTH = (
    "where both changed the same lines, both stand there: behind <<<<<<< what the branch has by "
    "now, behind ======= what the task made of it. Make one of them, so that both "
    "intents hold, and leave no such marker"
)


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


def land(site: Site) -> KernError | None:
    """What can land does, and a killed landing goes on; what is to be said where something is in
    its way. No task is in progress.
    """
    repo = site.repo
    follow(repo, site.documents)
    ref, head = branch.waiting(repo), repo.real_head()
    if not (tip := repo.store.id(ref)):
        return None
    base = repo.text("merge-base", head.commit, tip)
    if base != head.commit:
        new = _moved(site, history.since(repo, base, tip), head.commit)
        is_gone = new == head.commit
        repo.git("update-ref", *(("-d", ref, tip) if is_gone else (ref, new, tip)))
        if is_gone:
            return None
        tip = new
    commits = history.since(repo, head.commit, tip)
    if paths := branch.in_the_way(repo, head.commit, tip):
        tasks = "the finished task" if len(commits) == 1 else f"{len(commits)} finished tasks"
        names = plain.line("; ".join(one.trailer or one.subject for one in commits), 100)
        return KernError(
            f"your changes are in the way of {tasks}: {some(paths)}: {names}",
            hint=f"{_LANDS}; see it: git log -p {head.commit[:7]}..{tip[:12]}",
        )
    if branch.advance(repo, head, tip, commits[-1].subject, removed={ref: tip}):
        follow(repo, site.documents)
        for one in commits:
            site.warn(f"landed, the way is free: {one.sha[:7]} {one.subject}")
    return None


def _moved(site: Site, commits: Sequence[Commit], onto: str) -> str:
    """Those of the commits that hold on top of `onto`, made anew there: the last one."""
    for one in commits:
        tasks = site.documents.spec()[1].tasks
        task = next((task for task in tasks if task_name(task.key) == one.trailer), None)
        try:
            onto, _ = on_top(site, one, onto, task)
        except Refused as exc:
            if task is None:
                message = f"{exc}, and {SPEC} has the task no longer: git show {one.sha}"
                site.warn(message, kept=True)
                continue
            give_back(site, task.key, one, exc, onto)
    return onto


def follow(repo: Repo, documents: Documents) -> None:
    """The person's index and files, where a landing got no further than the branch; twice is
    once.
    """
    if not (old := branch.behind(repo)):
        return
    commits = history.since(repo, old, repo.real_head().commit)
    undone = [
        match[1] for one in commits if (match := re.search(rf"(?m)^{_UNDONE} (.*)$", one.message))
    ]

    # The disk first: once the files have followed, nothing says any more that this is due.
    if undone and documents.read(SPEC) is not None:
        documents.edit(lambda text, _: _opened(text, undone))
    branch.follow(repo)


# ---------------------------------------------------------------- where the branch has moved


class Refused(Objection):
    """What does not hold on top of what has landed since, with all of it merged: the next attempt
    makes one of it.
    """

    def __init__(self, why: str, more: str, tree: str) -> None:
        super().__init__(why, Cause.COLLISION)
        self.more, self.tree = more, tree


def on_top(
    site: Site,
    commit: Commit,
    head: str,
    task: Task | None,
    *,
    texts: Mapping[str, str | None] | None = None,
    proof: str = "",
    where: Callable[[], Site] | None = None,
) -> tuple[str, str]:
    """The commit made anew on top of `head`, proven there, and what stands behind it. `texts`:
    kern's documents with it; `proof`: what stood behind it on its parent, if that may be believed;
    `where`: the site on which gates and judges look at it. Raises Refused.
    """
    repo, base = site.repo, commit.parents[0]
    merged, collisions = _merged(repo, commit, head)
    if collisions:
        others = f"{verify.commits_since(repo, base, head)} in {some(sorted(collisions))}"
        raise Refused(f"it collides with {others}", _BOTH, merged)
    whole = project.with_documents(site, merged, texts)
    if not (proof and head == base):
        proof = _proven(site, where or (lambda: site), task, (whole, merged), commit, head)
    if (commit.tree, commit.parents) == (whole, (head,)):
        return commit.sha, proof
    return history.transplanted(repo, commit.sha, whole, head), proof


def _merged(repo: Repo, commit: Commit, head: str) -> tuple[str, list[str]]:
    """The tree, and the paths in conflict: there both sides stand between markers. The documents
    stay as they are in `head`.
    """
    onto = repo.tree(head)
    documents = {path: repo.entry(onto, path) for path in DOCUMENTS}
    trees = (repo.tree(commit.parents[0]), commit.tree)
    base, change = (repo.tree_with(tree, documents) for tree in trees)
    return (change, []) if onto == base else history.merge(repo, base, onto, change)


def _proven(
    site: Site,
    where: Callable[[], Site],
    task: Task | None,
    trees: tuple[str, str],
    commit: Commit,
    head: str,
) -> str:
    """What stands behind the tree, in words. Raises Refused; where a gate is red without the task
    all the same, KernError: that is not to blame.
    """
    required = project.checks(site, task) if task else Checks(project.settings(site).gates)
    whole, merged = trees
    looks = where() if required.shown or site.caller.settings.hidden else site
    try:
        return "; ".join(verify.witness(looks, required, task, head, whole))
    except Objection as exc:
        more = "its gates were green there, and with what has landed since this one is red"
        without = verify.commits_since(site.repo, commit.parents[0], head)
        why = f"{exc}; it was green without {without}" if without else str(exc)
        refused = Refused(why, more, merged)
        refused.facts |= {"red": exc.facts["red"]}
        raise refused from None


def give_back(site: Site, key: Key, commit: Commit, why: Refused, head: str) -> StageRecord:
    """The ref first, then one write of SPEC.md: the attempt, `[ ]`. What the next attempt mends: it
    begins with the merged tree.
    """
    repo = site.repo
    task = site.documents.spec()[1].find(key)
    number = task.attempts + 1 if task else 1
    saved = (one for one, _ in refs.kept(repo, refs.slug(key)) if repo.tree(one) == why.tree)
    ref = next(saved, "").removeprefix("refs/") or site.keep(key, str(number), why.tree, head)
    note, event = attempt.failure(key, number, str(why), ref, Cause.COLLISION)

    def apply(text: str, parsed: Spec) -> tuple[str, bool]:
        task = parsed.find(key)
        if task is None or any(f" (kept: {ref})" in one.text for one in task.of(Kind.ATTEMPT)):
            return text, False  # a killed landing has noted it
        return edit.annotate(edit.mark(text, task, Marker.PENDING), task, [note]), True

    if site.documents.update(apply):
        site.sink(event)
    how = "The task was finished on an older commit, and its change is merged into the tree"
    answer = {"result": commit.subject}
    new = StageRecord(Stage.IMPLEMENT, answer, key.text, key.parent, key.nth, number)
    return new.noting(
        base=head,
        start=repo.tree(head),
        tree=why.tree,
        outcome=f"{Saved.FAILED}: {why}. {how}; {why.more}",
        **why.facts,
    )


# ---------------------------------------------------------------- back


def undo(repo: Repo, documents: Documents, words: str) -> str:
    """Under the lock. What was done. Raises KernError where nothing was. Once HEAD has moved,
    whoever comes next brings the files after it.
    """
    preflight.demand(preflight.of_repository(repo))
    follow(repo, documents)
    parsed, head = documents.spec()[1], repo.head()
    number = order.named(words, [task.text for task in parsed.tasks])
    name, commit = task_name(parsed.tasks[number].key), _made(repo, parsed, number)
    as_they_are = {path: repo.entry(commit.sha, path) for path in DOCUMENTS}
    above = repo.tree_with(repo.tree(commit.parents[0]), as_they_are)
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
    new = history.create(repo, tree, head.commit, message)
    if not branch.advance(repo, head, new, subject):
        raise KernError("the branch has moved meanwhile; nothing was changed", hint="try again")
    follow(repo, documents)
    return f"undone {parsed.shown(number)}: {new[:7]} takes {commit.sha[:7]} back, in {files}"


def _made(repo: Repo, parsed: Spec, number: int) -> Commit:
    """The one that finished the task, as kern made it. Raises UsageError."""
    task, title = parsed.tasks[number], parsed.shown(number)
    if task.marker is not Marker.DONE:
        raise UsageError(
            f"it is not done, so there is nothing to undo: {title}",
            hint=f"kern show {number + 1} tells how it stands",
        )
    if (commit := history.naming(repo, task_name(task.key))) is None:
        raise UsageError(
            f"no commit of kern's on this branch finished it: {title}",
            hint="[ ] in kern edit opens it again and changes nothing else",
        )
    rows = store.load(store.place(repo.common_dir), size=store.NIGHT)
    hashes = {str(row["commit"]) for row in rows if row.get("commit")}
    change = history.patch(repo, commit.sha)  # which a rebase leaves as it is
    if commit.sha not in hashes and all(history.patch(repo, sha) != change for sha in hashes):
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
