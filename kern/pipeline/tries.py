"""The tries of the commit stage: by its agent, or by kern in its stead, with the person's hooks;
and whether what was committed may stand. What may not goes back.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from kern import plain
from kern.agents.protocol import Reply
from kern.errors import Asked, KernError, LimitReached, TransientFault
from kern.frozen import frozen
from kern.git import faults, history, index, trace
from kern.git.repository import Entry, Head
from kern.model import Stage
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.pipeline.table import Tried
from kern.plain import some
from kern.sandbox.confine import unheld
from kern.sandbox.wall import Kind
from kern.spec import imports
from kern.stages import answer, briefs
from kern.stages.call import Said
from kern.stages.prompt import Prompt
from kern.stages.record import StageRecord
from kern.system import process

_MOST_WORDS = 1500  # characters of a hook, for the next call
_HOOKS = ("pre-commit", "commit-msg")


@frozen
class Try:
    """One call of stage 3, or one commit of kern's own."""

    what: Tried
    why: str = ""  # it is not the task's commit
    said: str = ""  # its last line
    gave_up: bool = False  # git did, and no hook
    altered: Mapping[str, Entry | None] = field(default_factory=dict)  # by a hook, in its commit


# ---------------------------------------------------------------- the agent's


def by_agent(site: Site, at: Situation, whole: str, taken_back: str) -> Try:
    """One call, and what came of it. `taken_back`: why what came of the one before did not hold."""
    form, (_, task), second = site.templates[Stage.COMMIT], at.opened, at.second
    told = second.answer.body
    prompt = briefs.commit(site.repo, form, task, told, at.head.commit, whole, taken_back)
    return (_worded if form.only_words else _committed)(site, at, whole, prompt)


def _committed(site: Site, at: Situation, whole: str, prompt: Prompt) -> Try:
    """By an agent that commits, on a private index."""
    traced, own = _traced(site), history.identity_now(site.repo)
    with index.private(site.repo, copy=True) as private:
        index.read_into(site.repo, whole, private)

        def again() -> bool:
            index.read_into(site.repo, whole, private)
            return site.repo.head().commit == at.head.commit

        try:
            said = site.caller.call(
                prompt,
                task=at.opened[0].text,
                attempt=at.attempt,
                env={**private, **traced},
                write=(site.repo.scratch,),
                # The first as kern's own git has it.
                config=[("core.splitIndex", "false"), *_config(site)],
                again=again,
            )
        except (TransientFault, LimitReached, Asked):
            if again():
                raise
            said = None  # it died after its commit
    rejected = said is not None and _saved(site, at, said).rejects
    events = _told(site)
    misused = trace.misused(events, site.repo.hooks(*_HOOKS, folder=site.hooks_folder))
    misused = misused or history.forged(site.repo, site.repo.head().commit, own)
    if rejected:
        misused = "it rejected the change itself"
    tried = _check(site, at, at.second.change, misused, by_itself=trace.staged(events))
    return _judged(tried, said.reply if said else None, trace.read(events), rejected=rejected)


def _worded(site: Site, at: Situation, whole: str, prompt: Prompt) -> Try:
    """By an agent that only words the message; kern commits with it."""
    (key, task), change = at.opened, at.second.change
    said = site.caller.call(prompt, task=key.text, attempt=at.attempt)
    assert said is not None
    saved = _saved(site, at, said)
    stray = _check(site, at, change)
    unasked = stray.what is not Tried.NOTHING  # it committed all the same
    if unasked or saved.rejects:
        return _judged(stray, said.reply, trace.Account(), rejected=not unasked)
    return by_kern(site, at, whole, change, answer.message(saved.said) or task.text)


def _saved(site: Site, at: Situation, said: Said) -> StageRecord:
    where = site, said, at.opened[0], Stage.COMMIT, at.attempt
    return save(*where, base=at.head.commit, time=at.second.time)


def _judged(tried: Try, reply: Reply | None, git: trace.Account, *, rejected: bool) -> Try:
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
        words = plain.block((reply and reply.complaint) or text).strip()[-_MOST_WORDS:]
        why = f"the {git.refused} hook refused it: {words or 'it said nothing'}"
        return replace(tried, what=_refused(git.refused), why=why)
    return tried


def _refused(hook: str) -> Tried:
    return Tried.REFUSED if hook == "pre-commit" else Tried.REWORD


def nothing(site: Site, at: Situation, whole: str, called: Sequence[Try]) -> str:
    """Why stage 3 has no commit: its own words, unless git could not make one at all."""
    if called[-1].gave_up:
        _can_commit(site, at, whole)
    twice = ", twice" if all(one.what is Tried.NOTHING for one in called) else ""
    return f"the commit stage committed nothing{twice}: {called[-1].said or 'it said nothing'}"


def _can_commit(site: Site, at: Situation, whole: str) -> None:
    """Raises where git cannot make a commit here, whoever asks it to; none is left."""
    signed = site.repo.run("config", "--type=bool", "--get", "commit.gpgSign")[1]
    sign = ("-S",) if signed.strip() == b"true" else ()
    timeout = site.caller.settings.timeouts.commit
    argv = ("commit-tree", *sign, "-p", at.head.commit, whole)
    try:
        code, _, told = site.repo.run(*argv, given=b"a trial\n", timeout=timeout)
    except TimeoutError:
        code, told = 1, f"not done after {plain.span(timeout)}"
    if code:
        raise faults.no_commit(told)
    site.repo.git("update-ref", "HEAD", at.head.commit, at.head.commit)  # is it locked?


# ---------------------------------------------------------------- kern's own


def by_kern(site: Site, at: Situation, whole: str, of: tuple[str, str], words: str) -> Try:
    """kern's own commit of the tree `whole`; `of`: the snapshots before and after the change.
    `words`: its message, to which the task's trailer is added.
    """
    subject, _, body = words.partition("\n")
    key, task = at.opened
    named = briefs.trailer(key, imports.references(task))
    parts = [plain.line(subject, 200), plain.block(body).strip(), named]
    message = "\n\n".join(filter(None, parts)) + "\n"
    marks = {
        **_traced(site),
        "KERN_ROOT": str(site.repo.root),  # the next run ends it if this one is killed
        **dict([site.caller.mark]),
    }
    timeout = site.caller.settings.timeouts.commit
    try:
        config = _config(site)
        hold = partial(_held, site)
        code, told = index.record(site.repo, message, whole, marks, timeout, config, hold)
    except TimeoutError:
        process.sweep(site.caller.mark)
        return Try(Tried.SPOILT, f"a commit hook was not done after {plain.span(timeout)}")
    events = _told(site)
    if code == 0:
        tried = _check(site, at, of)
        return replace(tried, why=f"a hook changed the commit: {tried.why}" if tried.why else "")
    refused = trace.read(events).refused
    if code == 1 and refused:
        last = plain.line(" ".join(told.splitlines()[-3:]), 160)
        words = f'"{last}"' if last else "it said nothing"
        return Try(_refused(refused), f"the {refused} hook refused: {words}")
    if (now := site.repo.head()).branch != at.head.branch:
        raise _switched(at.head, now)
    raise faults.no_commit(told)


def _held(site: Site, argv: Sequence[str], env: Mapping[str, str]) -> Sequence[str]:
    """With hooks in it: they are the project's. `env` reaches it, on top of kern's own."""
    whole = {**os.environ, **env}
    held = site.caller.hold(Kind.COMMITTER, argv, whole, write=(site.repo.scratch,))
    gone = sorted(whole.keys() - held.env.keys())
    unset = ("env", *(f"--unset={name}" for name in gone)) if gone else ()
    return (*unset, *held.argv)


def _config(site: Site) -> list[tuple[str, str]]:
    """For git where hooks run. In a sandbox it cannot sign, which kern does afterwards: no agent
    and no hook comes near the key.
    """
    unsigned = [("commit.gpgSign", "false")] if site.caller.hold is not unheld else []
    bare = [("core.hooksPath", os.devnull)] if site.caller.settings.bare else []
    return [*unsigned, *(bare or _hooks_as_before(site))]


def _hooks_as_before(site: Site) -> list[tuple[str, str]]:
    """Where another folder of hooks was named meanwhile, in ~/.gitconfig perhaps, those of
    before count.
    """
    if (now := site.repo.hooks_folder()) == site.hooks_folder:
        return []
    site.warn(f"git's hooks are in {now} by now, say an agent's: those of before count")
    return [("core.hooksPath", str(site.hooks_folder))]


def _traced(site: Site) -> dict[str, str]:
    """The environment of git: whose a commit is, and where git writes what its processes do."""
    place = _trace(site)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    return {"GIT_REFLOG_ACTION": site.commit_mark, "GIT_TRACE2_EVENT": str(place)}


def _trace(site: Site) -> Path:
    return site.repo.scratch / "git-trace"


def _told(site: Site) -> list[str]:
    """What git itself wrote of the try's git processes."""
    try:
        text = _trace(site).read_text("utf-8", "replace")
        _trace(site).unlink()
    except FileNotFoundError:
        return []
    return text.splitlines()


# ---------------------------------------------------------------- may it stand


def _check(
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
            raise _switched(at.head, now)
        history.switch_back(site.repo, at.head)
        site.warn(f"the commit stage switched to {now.name}: switched back")
        return Try(Tried.SPOILT, "it switched to another branch")
    if now.commit == at.head.commit:
        return (
            Try(Tried.SPOILT, strayed) if strayed else Try(Tried.NOTHING, "nothing was committed")
        )
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


def _switched(before: Head, now: Head) -> KernError:
    back = f"switch {before.branch}" if before.branch else f"checkout --detach {before.commit[:7]}"
    return KernError(
        f"the branch was switched during the commit stage: {before.name} to {now.name}",
        hint=f"git {back}, then run kern again: it resumes",
    )
