"""Stage 3: an agent words the message, the person's hooks look, kern commits exactly the task's
change, or nothing, and it lands.

The branch moves by compare and swap. Where a person's commit or pull has moved it meanwhile nothing
is committed: the next look finds that, and the gates decide on top of what is there.
"""

import re
from dataclasses import replace
from functools import partial

from kern import plain
from kern.errors import KernError
from kern.git import history, refs
from kern.git.landing import advance
from kern.memory import changes
from kern.memory.changes import Taught
from kern.model import LEARNINGS, SPEC, Cause, Decision, Key, Marker, Outcome, Saved, Stage
from kern.pipeline import attempt, landing, project, settle, verify
from kern.pipeline.attempt import Objection
from kern.pipeline.facts import Situation
from kern.pipeline.project import Checked
from kern.pipeline.site import Site, save
from kern.pipeline.table import Settled
from kern.spec import edit, imports
from kern.spec.parse import Task
from kern.stages import answer, briefs, prompts, record
from kern.system import process, workspace

WORDINGS = 3  # by the agent, where a hook refuses the message
_MOST_OUTPUT = 1500  # characters of a hook, for the next wording


def commit(site: Site, at: Situation) -> None:
    """HEAD moves to the task's commit, or the attempt has failed, or another step is due."""
    try:
        tree = attempt.candidate(site, at)
        if message := _message(site, at, tree):
            _make(site, at, tree, message, settle.lesson_of(at.second))
    except Objection as exc:
        decision = Decision(Saved.FAILED, str(exc))
        verify.decide(site, at.second.noting(**exc.facts), decision)


def conclude(site: Site, at: Situation) -> Settled | None:
    """An experiment that did not work: kern commits SPEC.md and LEARNINGS.md and nothing else."""
    key, task = at.opened
    if at.start is None:  # the commit is found again by its base
        attempt.begin(site, replace(at, attempt=at.attempt - 1))
        return None
    tree = site.repo.tree(at.head.commit)
    checked = project.run_hooks(site, tree, whole_message(key, task, f"Conclude: {task.text}"))
    if checked.refused:
        return settle.note(site, at, Outcome.BLOCKED, checked.objection)
    _make(site, at, tree, checked.message, settle.taught(site, at), proved=False)
    return None


# ---------------------------------------------------------------- the message


def whole_message(key: Key, task: Task, wording: str) -> str:
    subject, _, body = wording.partition("\n")
    return _with_trailer(key, task, f"{plain.line(subject, 200)}\n\n{plain.block(body).strip()}")


def _with_trailer(key: Key, task: Task, message: str) -> str:
    """Which a hook may have dropped."""
    lines = [line.rstrip() for line in message.split("\n")]
    trailer = briefs.trailer(key, imports.references(task)).splitlines()
    lacking = [line for line in trailer if line not in lines]
    return re.sub(r"\n{3,}", "\n\n", "\n".join((*lines, "", *lacking))).strip("\n") + "\n"


def _message(site: Site, at: Situation, tree: str) -> str:
    """As the agent words it and the hooks let it pass; empty where another step is due."""
    key, task = at.opened
    checked = Checked("")
    for _ in range(WORDINGS):
        before, text = checked, _wording(site, at, tree, checked)
        if site.repo.head() != at.head:
            return ""
        message = whole_message(key, task, text)
        if passed := site.memory.passed.get((at.head.commit, tree, message)):
            return passed
        checked = project.run_hooks(site, tree, message)
        if checked.altered and at.second.fixed < verify.MOST_FIXES:
            attempt.take_in(site, at.second, "a commit hook", checked.altered)
            if not checked.refused:  # not asked again about what they made: one may count up
                proven = at.head.commit, site.repo.tree_with(tree, checked.altered), message
                site.memory.passed[proven] = checked.message
            return ""
        if not checked.refused:
            return checked.message
        project.check_helped(site, tree, checked)
        if checked.is_like(before):
            break
    workspace.forget(site.scope, Stage.COMMIT)  # the next run asks for another
    raise KernError(
        f"{checked.objection}. No message for this commit passes it",
        hint="say what it asks for under the task (kern edit) or in "
        f"{prompts.OVERRIDES / prompts.FILES[Stage.COMMIT]}; then {project.RESUMES}",
    )


def _wording(site: Site, at: Situation, tree: str, before: Checked) -> str:
    """The agent's message, which is asked for once, and again where a hook has refused it. Raises
    Objection where it rejects the change.
    """
    (key, task), second, base = at.opened, at.second, at.head.commit
    third = at.files.get(Stage.COMMIT)
    if tree == site.repo.tree(base):  # a person has committed it
        return task.text
    if third is None or before.refused:
        output = before.output[-_MOST_OUTPUT:] or "it said nothing"
        why = f"the {before.refused} hook refused it: {output}" if before.refused else ""
        form = site.templates[Stage.COMMIT]
        fill = partial(site.rooms.for_proof, tree, at.head, writes=False)
        prompt = briefs.commit(site.repo, form, task, second.answer.body, base, tree, why)
        env = process.reflog(site.caller.run)
        reply, _ = attempt.ask(site, at, prompt, "the commit stage", fill, tree=tree, env=env)
        reply = replace(reply, fault=reply.fault or reply.doubt)
        third = save(site, reply, key, Stage.COMMIT, at.attempt, base=base, time=second.time)
    if third.answer.code is answer.Code.REJECT:
        why = third.fault or third.answer.reason
        raise Objection(f"rejected at the commit: {why}", Cause.COMMIT)
    return (not third.fault and answer.message(third.said)) or task.text


# ---------------------------------------------------------------- the commit


def _make(
    site: Site, at: Situation, tree: str, message: str, lesson: Taught, *, proved: bool = True
) -> None:
    """The commit with kern's documents, noted; then it lands."""
    key, task = at.opened
    text, parsed = site.documents.spec()
    fresh = parsed.find(key)
    if fresh is None or fresh.marker is not Marker.ACTIVE:  # a person took it away
        return
    texts: dict[str, str | None] = {SPEC: edit.tick(text, parsed, fresh, proved=proved)}
    texts[LEARNINGS] = changes.of(site.documents.read(LEARNINGS) or "", lesson).text
    whole = project.with_documents(site, tree, texts)
    words = _with_trailer(key, task, message)
    sha = history.create(site.repo, whole, at.head.commit, words)
    assert at.start is not None
    refs.hold(site.repo, at.start, sha)
    record.note_commit(site.scope, key, sha)
    _land(site, at, sha)


def _land(site: Site, at: Situation, sha: str) -> None:
    """The branch, then the person's files; where something of theirs is in the way, it waits."""
    if not site.rooms.mounted:
        site.rooms.work.fill(site.repo.tree(sha))
    elif landing.waits(site, at.head.commit, sha):
        project.run_post_commit(site)
        return
    if advance(site.repo, at.head, sha, history.commit(site.repo, sha).subject):
        landing.follow(site.repo, site.documents)
        project.run_post_commit(site)
