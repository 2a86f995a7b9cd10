"""What came of one call of stage 3, or of kern in its stead: whether its commit may stand. What may
not goes back.
"""

from collections.abc import Mapping
from dataclasses import field, replace

from kern import plain
from kern.agents.protocol import Reply
from kern.errors import KernError
from kern.frozen import frozen
from kern.git import history, trace
from kern.git.repository import Entry, Head
from kern.model import Stage
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.pipeline.table import Tried
from kern.plain import some

NOTHING = "nothing was committed"
MOST_WORDS = 1500  # characters of a hook, for the next call


@frozen
class Try:
    """One call of stage 3, or one commit of kern's own."""

    what: Tried
    why: str = ""  # it is not the task's commit
    said: str = ""  # its last line
    refused: str = ""  # the hook that did
    gave_up: bool = False  # git did, and no hook
    altered: Mapping[str, Entry | None] = field(default_factory=dict)  # by a hook, in its commit


def check(
    site: Site,
    at: Situation,
    change: tuple[str, str],
    misused: str = "",
    *,
    by_itself: bool = False,
) -> Try:
    """HEAD's new commit is the task's, or it is taken back. `by_itself`: the stage put into the
    index what differs from the task's change, and no hook.
    """
    strayed = _take_strays_back(site, at)
    now = site.repo.head()
    if now.branch != at.head.branch:
        if not history.switched_by(site.repo, "stage 3"):  # a person did: HEAD is theirs
            raise switched(at.head, now)
        history.switch_back(site.repo, at.head)
        site.warn(f"the commit stage switched to {now.name}: switched back")
        return Try(Tried.SPOILT, "it switched to another branch")
    if now.commit == at.head.commit:
        return Try(Tried.SPOILT, strayed) if strayed else Try(Tried.NOTHING, NOTHING)
    commits = history.since(site.repo, at.head.commit, now.commit)
    marked = history.marked(site.repo, "stage 3")
    if commits is None and history.moved_by(site.repo, now, at.head.commit, "stage 3"):
        return _take_back(site, at, now, "it rewrote the commit before it")
    if not commits or any(commit.sha not in marked for commit in commits):
        if site.witness.among(commits or (), at.opened[0], change):
            return Try(Tried.COMMITTED)
        return Try(Tried.SPOILT, "a commit came in that is not the commit stage's")
    why = misused or "it is more than one commit"
    if len(commits) == 1 and not misused:
        why = site.witness.objection(commits[0], at.opened[0], *change)
    if why:
        return _take_back(site, at, now, why)
    altered = site.witness.altered(commits[0], *change)
    names = some(sorted(altered))
    if altered and by_itself:
        return _take_back(site, at, now, f"it differs from the task's change in {names}")
    second = at.files.get(Stage.IMPLEMENT)
    if altered and second and second.proof:
        taken = _take_back(site, at, now, f"it holds what no gate has seen in {names}")
        return replace(taken, what=Tried.ALTERED, altered=altered)
    return Try(Tried.COMMITTED)


def _take_strays_back(site: Site, at: Situation) -> str:
    """What it committed elsewhere, if anything, in words."""
    told = ""
    for stray in history.strays(site.repo, site.commit_mark, at.head):
        history.take_back(site.repo, stray)
        told = f"it committed on {stray.name}"
        site.warn(f"the agent's commit was undone: {told}")
    return told


def _take_back(site: Site, at: Situation, now: Head, why: str) -> Try:
    history.move_head(site.repo, at.head.commit, now.commit, "not the task's commit")
    site.warn(f"the agent's commit was undone: {why}")
    return Try(Tried.SPOILT, why)


def switched(before: Head, now: Head) -> KernError:
    back = f"switch {before.branch}" if before.branch else f"checkout --detach {before.commit[:7]}"
    return KernError(
        f"the branch was switched during the commit stage: {before.name} to {now.name}",
        hint=f"git {back}, then run kern again: it resumes",
    )


def judged(tried: Try, reply: Reply | None, git: trace.Account, *, rejected: bool) -> Try:
    """The call as its answer and git's own word show it."""
    text = reply.text if reply else ""
    lines = [line for line in text.splitlines() if line.strip()]
    last = plain.line(lines[-1], 160) if lines else ""
    tried = replace(tried, said=last, gave_up=git.gave_up)
    if tried.what is Tried.COMMITTED:
        return tried
    if rejected:
        return replace(tried, what=Tried.REJECTED)
    if tried.what is Tried.NOTHING and git.refused:
        words = plain.block((reply and reply.complaint) or text).strip()[-MOST_WORDS:]
        why = f"the {git.refused} hook refused it: {words or 'it said nothing'}"
        return replace(tried, what=by(git.refused), why=why, refused=git.refused)
    return tried


def by(hook: str) -> Tried:
    return Tried.REFUSED if hook == "pre-commit" else Tried.REWORD
