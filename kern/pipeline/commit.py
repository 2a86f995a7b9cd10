"""Stage 3: an agent words the message, the person's hooks look, kern commits exactly the task's
change, or nothing, and it lands.

The branch moves by compare and swap. Where a person's commit or pull has moved it meanwhile nothing
is committed: the next look finds that, and the gates decide on top of what is there.
"""

import os
import re
from dataclasses import replace

from kern import plain
from kern.errors import KernError
from kern.git import history, ignore, refs
from kern.git.landing import advance
from kern.memory import changes
from kern.memory.changes import Taught, Vote
from kern.model import LEARNINGS, SPEC, Cause, Key, Marker, Stage
from kern.pipeline import attempt, hooks, landing, lessons, settle, verify, watched
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
    second = at.second
    if second.made and _is_ready(site, at, second.made.sha):
        _land(site, at, second.made.sha)
        return
    tree, conflicts = attempt.candidate(site, at)
    if conflicts:
        why = f"the change overlaps your commit in {some(conflicts)}"
        verify.fail(site, second, why, Cause.COLLISION)
    elif message := _message(site, at, tree):
        _make(site, at, tree, message, lessons.of(second))


def _is_ready(site: Site, at: Situation, sha: str) -> bool:
    """Whether a commit that was made, and has not landed yet, still fits."""
    there = site.repo.store.id(f"{sha}^{{commit}}")
    return bool(there) and history.commit(site.repo, sha).parents == (at.head.commit,)


def conclude(site: Site, at: Situation) -> Settled | None:
    """An experiment that did not work: kern commits SPEC.md and LEARNINGS.md and nothing else."""
    key, task = at.opened
    if at.start is None:  # the commit is found again by its base
        attempt.begin(site, at, at.attempt - 1)
        return None
    tree = site.repo.tree(at.head.commit)
    checked = hooks.through(
        site, at.head, at.start, tree, whole_message(key, task, f"Conclude: {task.text}")
    )
    if checked.objection or checked.altered:
        more = f"a hook changed {some(sorted(checked.altered))}, which is more than the task"
        return settle.block(site, at, checked.objection or more)
    _make(site, at, tree, checked.message, lessons.taught(site, at), proved=False)
    return None


# ---------------------------------------------------------------- the message


def whole_message(key: Key, task: Task, wording: str) -> str:
    subject, _, body = wording.partition("\n")
    named = briefs.trailer(key, imports.references(task))
    parts = [plain.line(subject, 200), plain.block(body).strip(), named]
    return "\n\n".join(filter(None, parts)) + "\n"


def _message(site: Site, at: Situation, tree: str) -> str:
    """As the agent words it and the hooks let it pass; empty where another step is due."""
    key, task = at.opened
    refused = Checked("")
    left = 0 if tree == site.repo.tree(at.head.commit) else WORDINGS
    while True:
        text = _wording(site, at, tree, refused) if left else task.text
        if not text or site.repo.head() != at.head:
            return ""
        message = whole_message(key, task, text)
        if passed := site.memory.passed.get((tree, at.head.commit, message)):
            return passed  # what the hooks made of it is proven by now
        checked = hooks.through(site, at.head, at.start, tree, message)
        if checked.altered and at.second.fixed < verify.MOST_FIXES:
            _take_in(site, at, checked, message)
            return ""
        if not checked.refused:
            return checked.message
        hooks.stop_where_helpless(site, at.head, at.start, tree, checked)
        if not checked.of_message:
            verify.fail(site, at.second, checked.objection, Cause.HOOK)
            return ""
        if not left:
            workspace.forget(site.scope, Stage.COMMIT)  # the next run asks for another
            raise KernError(
                f"{checked.objection}. No message for this commit passes it",
                hint="say what it asks for under the task (kern edit) or in "
                f"{prompts.overriding(Stage.COMMIT)}; then {hooks.RESUMES}",
            )
        left = 0 if checked.is_like(refused) else left - 1
        refused = checked


def _wording(site: Site, at: Situation, tree: str, refused: Checked) -> str:
    """The agent's message, which is asked for once, and again where a hook has `refused` it; empty
    where it rejects the change.
    """
    (key, task), second = at.opened, at.second
    third = at.files.get(Stage.COMMIT)
    if third is None or refused.refused:
        form, base = site.templates[Stage.COMMIT], at.head.commit
        why = hooks.for_agent(refused) if refused.refused else ""
        prompt = briefs.commit(site.repo, form, task, second.answer.body, base, tree, why)
        room = site.rooms.for_proof(tree, at.head)
        # Where nothing holds it, git has no index for it, so that it can neither stage nor commit.
        env = {} if room else {"GIT_INDEX_FILE": f"{os.devnull}/none", **site.commit_stage}
        with watched.watched(site, at.head, at.start, "the commit stage"):
            said = site.caller.call(prompt, task=key.text, attempt=at.attempt, env=env, room=room)
        third = save(site, said, key, Stage.COMMIT, at.attempt, base=base, time=second.time)
    if third.rejects:
        why = f"rejected at the commit: {third.answer.reason}"
        verify.fail(site, second, why, Cause.COMMIT)
        return ""
    return (not third.fault and answer.message(third.said)) or task.text


def _take_in(site: Site, at: Situation, checked: Checked, message: str) -> None:
    """What the hooks changed is part of the task: the gates decide again. Hooks that let it pass
    are not asked again: one may count up.
    """
    tree = site.repo.tree_with(at.second.tree, checked.altered)
    fixed = at.second.undecided(tree=tree, fixed=at.second.fixed + 1)
    record.save(site.scope, fixed)
    if not checked.refused:
        again = replace(at, files={**at.files, Stage.IMPLEMENT: fixed})
        whole, _ = attempt.candidate(site, again)
        site.memory.passed[whole, at.head.commit, message] = checked.message
    names = some(sorted(checked.altered))
    site.warn(f"a commit hook changed {names}: now part of the task; the gates run again")


# ---------------------------------------------------------------- the commit


def _make(
    site: Site,
    at: Situation,
    tree: str,
    message: str,
    said: Taught,
    *,
    proved: bool = True,
) -> None:
    """The commit with kern's documents, noted; then it lands."""
    key, task = at.opened
    text, parsed = site.papers.spec()
    found = parsed.find(key)
    if found is None or found.marker is not Marker.ACTIVE:  # a person took it away
        return
    texts: dict[str, str | None] = {SPEC: edit.tick(text, parsed, found, proved=proved)}
    texts[LEARNINGS], learned, votes = learnings(site, said)
    whole = hooks.with_documents(site, tree, texts)
    words = cleaned(message, briefs.trailer(key, imports.references(task)))
    timeout = site.caller.settings.total(Stage.COMMIT)
    sha = history.create(site.repo, whole, at.head.commit, words, timeout)
    assert at.start is not None
    refs.hold(site.repo, at.start, f"{sha}^{{tree}}")
    record.note_commit(site.scope, key, Made(sha, learned, votes))
    _land(site, at, sha)


def _land(site: Site, at: Situation, sha: str) -> None:
    """The branch, then the person's files; where something of theirs is in the way, it waits."""
    if not site.rooms.mounted:
        site.rooms.work.fill(site.repo.tree(sha))
    elif landing.waits(site, at.head.commit, sha):
        hooks.after(site, at.start)
        return
    if advance(site.repo, at.head, sha, history.commit(site.repo, sha).subject):
        landing.follow(site.repo, site.papers)
        hooks.after(site, at.start)


def learnings(site: Site, said: Taught) -> tuple[str, str, tuple[Vote, ...]]:
    """LEARNINGS.md as the commit is to hold it, the texts that are new in it, and its votes."""
    before = site.papers.read(LEARNINGS) or ""
    if ignore.ignored(site.repo, LEARNINGS):
        return before, "", ()
    change = changes.succeeded(before, said)
    return change.text, "\n".join(one.text for one in change.new), change.votes


def cleaned(message: str, trailer: str) -> str:
    """As `git commit --cleanup=whitespace` leaves it; a hook may have dropped the trailer."""
    lines = [line.rstrip() for line in message.splitlines()]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    missing = [line for line in trailer.splitlines() if line not in lines]
    return "\n\n".join(filter(None, (text, "\n".join(missing)))) + "\n"
