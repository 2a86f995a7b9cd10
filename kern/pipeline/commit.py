"""Stage 3: an agent words the message, the person's hooks look, and kern commits exactly the task's
change, or nothing.

The branch moves by compare and swap. Where a person's commit or pull has moved it meanwhile nothing
is committed: the next look finds that, and the gates decide on top of what is there.
"""

import os
import re
from collections.abc import Sequence

from kern import plain
from kern.errors import KernError
from kern.git import history, ignore
from kern.memory import changes
from kern.memory.changes import Taught, Vote
from kern.model import LEARNINGS, SPEC, Cause, Key, Marker, Stage
from kern.pipeline import hooks, lessons, limits, recover, settle, verify
from kern.pipeline.facts import Situation
from kern.pipeline.hooks import Checked
from kern.pipeline.site import Site, save
from kern.pipeline.table import Settled
from kern.plain import some
from kern.spec import edit, imports
from kern.spec.parse import Task
from kern.stages import answer, briefs, prompts, record
from kern.stages.record import Made
from kern.system import workspace

WORDINGS = 3  # by the agent, where a hook refuses the message


def commit(site: Site, at: Situation) -> None:
    """HEAD moves to the task's commit, or the attempt has failed, or another step is due."""
    recover.name_taken_out(site, at)
    second = at.second
    site.keeper.nested.name_unpushed(*second.change)
    merged, conflicts = site.witness.expected(*second.change, at.head.commit)
    if conflicts:
        verify.fail(site, second, verify.overlap(at, conflicts), Cause.HOOK)
        return
    there_already = merged == site.repo.tree(at.head.commit)
    if there_already and _yours_alone(site, at):
        why = "SUCCESS was claimed, and all that changed meanwhile is what you committed"
        verify.fail(site, second, why, Cause.OTHER)
        return
    checked = _checked(site, at, asks=0 if there_already else WORDINGS)
    if checked and checked.objection:
        verify.fail(site, at.second, checked.objection, Cause.HOOK)
    elif checked:
        tree, _ = site.witness.expected(*second.change, at.head.commit)
        _make(site, at, tree, checked.message, lessons.of(second), second.day)


def _yours_alone(site: Site, at: Situation) -> bool:
    """Whether nothing that the commits of a person hold by now is an agent's, by its transcript."""
    paths = site.repo.changed(*at.second.change).keys()
    unnamed = site.keeper.unnamed(site.scope.transcript(Stage.IMPLEMENT), paths)
    return SPEC not in at.opened[1].text and len(unnamed) == len(paths)


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
    message = whole_message(key, task, f"Conclude: {task.text}")
    shown = hooks.with_documents(site, tree)
    checked = hooks.run(site, shown, message)
    if checked.objection and (formed := hooks.with_documents(site, tree)) != shown:
        checked = hooks.run(site, formed, message)
    hooks.stop_where_closed(checked)
    why = checked.objection
    if checked.altered:
        more = some(sorted(checked.altered))
        why = f"a hook changed the commit: it holds more than the task: {more}"
    if site.repo.head() != at.head:
        why = _taken_back(site, at)
        if not why:
            return None
    if why:
        return settle.block(site, at, why)
    taught, day = lessons.taught(site, at), record.now()[:10]
    _make(site, at, tree, checked.message, taught, day, proved=False)
    return None


# ---------------------------------------------------------------- the message


def after(left: int, *, again: bool) -> int:
    """How often the agent may still word it, before kern does: not at all, where a hook refused it
    `again` in the same words.
    """
    return min(left - 1, 0) if again else left - 1


def _checked(site: Site, at: Situation, asks: int) -> Checked | None:
    """The commit as the hooks let it pass, or why they do not; None where another step is due.
    `asks`: how often the agent may word it, before kern does.
    """
    key, task = at.opened
    refused, objection = "", ""
    left = asks
    while left >= 0:
        wording = _wording(site, at, refused) if left else task.text
        if not wording or site.repo.head() != at.head:
            return None
        checked = _through_hooks(site, at, whole_message(key, task, wording))
        if checked is None or not checked.of_message:
            return checked
        left = after(left, again=checked.objection == objection)
        refused, objection = checked.output, checked.objection
    workspace.forget(site.scope, Stage.COMMIT)  # the next run asks for another
    raise unworded(objection)


def unworded(objection: str) -> KernError:
    return KernError(
        f"{objection}. No message for this commit passes it",
        hint="say what it asks for under the task (kern note) or in "
        f"{prompts.overriding(Stage.COMMIT)}; then run kern again: gates and "
        "judges run once more, then it resumes at the commit; the work is kept",
    )


def _wording(site: Site, at: Situation, refused: str) -> str:
    """The agent's message, which is asked for once; empty where it rejects the change. `refused`:
    what a hook holds against the one before.
    """
    (key, task), second = at.opened, at.second
    third = at.files.get(Stage.COMMIT)
    if third is None or refused:
        form, base = site.templates[Stage.COMMIT], at.head.commit
        merged, _ = site.witness.expected(*second.change, base)
        prompt = briefs.commit(site.repo, form, task, second.answer.body, base, merged, refused)
        # Where nothing holds it, git has no index for it, so that it can neither stage nor commit.
        env = {"GIT_INDEX_FILE": f"{os.devnull}/none", **site.commit_stage}
        said = site.caller.call(prompt, task=key.text, attempt=at.attempt, env=env)
        third = save(site, said, key, Stage.COMMIT, at.attempt, base=base, time=second.time)
    if third.rejects:
        return ""
    return (not third.fault and answer.message(third.said)) or task.text


def whole_message(key: Key, task: Task, wording: str) -> str:
    subject, _, body = wording.partition("\n")
    named = briefs.trailer(key, imports.references(task))
    parts = [plain.line(subject, 200), plain.block(body).strip(), named]
    return "\n\n".join(filter(None, parts)) + "\n"


# ---------------------------------------------------------------- the hooks


def _through_hooks(
    site: Site, at: Situation, message: str, *, formed: bool = False
) -> Checked | None:
    """One pass of the hooks, or two where they only gave kern's documents another form; None where
    what they changed is for the gates to see, or the branch has moved.
    """
    second, before = at.second, hooks.before(site, at)
    if passed := site.memory.passed.get((second.tree, at.head.commit, message)):
        return Checked(passed)  # what they made of it is proven by now
    tree, _ = site.witness.expected(*second.change, at.head.commit)
    shown = hooks.with_documents(site, tree)
    checked = hooks.run(site, shown, message)
    if site.repo.head() != at.head:
        return _moved(site, at)
    altered = checked.altered
    why = site.witness.rejection(altered, at.head.commit, *second.change) if altered else ""
    if (altered and not why) or checked.of_change:
        if taken := hooks.take_in(site, at, altered, before):
            if altered:
                site.memory.passed[taken, at.head.commit, message] = checked.message
            return None
        why = f"it holds what no gate has seen in {some(sorted(altered))}" if altered else ""
    if why:
        checked = Checked(message, f"a hook changed the commit: {why}")
    if checked.objection and not formed and hooks.with_documents(site, tree) != shown:
        hooks.undo(site, at, before)
        return _through_hooks(site, at, message, formed=True)
    if checked.of_message:
        hooks.undo(site, at, before)
    elif checked.objection:
        hooks.name_left(site, at, before)
    hooks.stop_where_closed(checked)
    if checked.of_change:
        hooks.stop_where_helpless(checked, hooks.without(site, at, checked.message))
    return checked


def _moved(site: Site, at: Situation) -> Checked | None:
    """The branch moved while hooks ran: by them, or by a person, once or twice."""
    if why := _taken_back(site, at):
        return Checked("", why)
    if at.second.fixed >= hooks.MOST_FIXES:
        since = history.since(site.repo, at.head.commit, site.repo.head().commit) or ()
        told = "the branch moved again and again while the commit hooks ran"
        return Checked("", f"{told}{limits.commits(since)}")
    record.save(site.scope, at.second.noting(fixed=at.second.fixed + 1))
    return None


def _taken_back(site: Site, at: Situation) -> str:
    """Why no commit comes, where a hook moved the branch; empty where that was a person."""
    assert at.start is not None
    same = site.repo.head().branch == at.head.branch
    base, who = at.head.commit, "a commit hook"
    if same and limits.take_back(site, at.start, base, "stage 3", who):
        return "a commit hook committed, or moved the branch, by itself"
    return ""


# ---------------------------------------------------------------- the commit


def _make(
    site: Site,
    at: Situation,
    tree: str,
    message: str,
    said: Taught,
    date: str,
    *,
    proved: bool = True,
) -> None:
    """kern's documents into the tree; the commit, noted; then the branch moves to it."""
    key, task = at.opened
    text, parsed = site.papers.spec()
    found = parsed.find(key)
    if found is None or found.marker is not Marker.ACTIVE:  # a person took it away
        return
    texts = {SPEC: edit.tick(text, parsed, found, proved=proved)}
    texts[LEARNINGS], learned, votes = learnings(site, key, said, date)

    def make() -> Sequence[str]:
        return (hooks.with_documents(site, tree, texts),)

    (whole,) = site.keeper.hold(at.start, make) if at.start else make()
    words = cleaned(message, briefs.trailer(key, imports.references(task)))
    timeout = site.caller.settings.timeouts.commit
    sha = history.create(site.repo, whole, at.head.commit, words, timeout)
    record.note_commit(site.scope, key, Made(sha, learned, votes))
    history.advance(site.repo, at.head, sha, words.partition("\n")[0])


def learnings(site: Site, key: Key, said: Taught, date: str) -> tuple[str, str, tuple[Vote, ...]]:
    """LEARNINGS.md as the commit is to hold it, what of that is new, and its votes."""
    before = site.papers.read(LEARNINGS) or ""
    if ignore.ignored(site.repo, LEARNINGS):
        return before, "", ()
    added, change = lessons.written(before, date, key, said)
    if not added and not change.swaps:
        return before, "", change.votes
    voted = changes.applied(before, change.swaps)
    text = voted + edit.appended(voted, edit.learnings(plain.lf(added)))
    return text, added, change.votes


def cleaned(message: str, trailer: str) -> str:
    """As `git commit --cleanup=whitespace` leaves it; a hook may have dropped the trailer."""
    lines = [line.rstrip() for line in message.splitlines()]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    missing = [line for line in trailer.splitlines() if line not in lines]
    return "\n\n".join(filter(None, (text, "\n".join(missing)))) + "\n"
