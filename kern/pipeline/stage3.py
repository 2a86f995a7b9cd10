"""Who makes the commit: stage 3's agent, or kern in its stead, with the person's hooks."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kern import plain
from kern.errors import Asked, KernError, LimitReached, TransientFault
from kern.git import faults, history, index, trace
from kern.model import Stage
from kern.pipeline import acceptance, fixes
from kern.pipeline.acceptance import Try, by, switched
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.pipeline.table import Then, Tried, after
from kern.sandbox.bounds import Kind
from kern.sandbox.confine import unheld
from kern.spec import imports
from kern.stages import answer, briefs
from kern.system import process

HOOKS = ("pre-commit", "commit-msg")


def calls(site: Site, at: Situation, whole: str, before: str) -> list[Try]:
    """The agent, as often as there is something left for it to decide."""
    called: list[Try] = []
    then = Then.ASK
    while then is Then.ASK:
        if called:
            fixes.undo(site, at, before)
        ask = _worded if site.templates[Stage.COMMIT].only_words else _ask
        called.append(ask(site, at, whole, called[-1].why if called else ""))
        then = after([one.what for one in called])
        if then is not Then.LEAVE and site.repo.head().commit != at.head.commit:
            raise KernError(
                f"HEAD moved during the commit stage, and not as kern may undo: {called[-1].why}",
                hint="look at `git log`; then run kern again: it resumes",
            )
    return called


def nothing(site: Site, at: Situation, whole: str, called: Sequence[Try]) -> str:
    """Why stage 3 has no commit: its own words, unless git could not make one at all."""
    if called[-1].gave_up:
        _can_commit(site, at, whole)
    twice = ", twice" if all(one.what is Tried.NOTHING for one in called) else ""
    return f"the commit stage committed nothing{twice}: {called[-1].said or 'it said nothing'}"


def _ask(site: Site, at: Situation, whole: str, taken_back: str) -> Try:
    """One run of the agent on a private index, and what came of it. `taken_back`: why what it
    committed before did not hold.
    """
    key, task = at.opened
    form, body = site.templates[Stage.COMMIT], at.second.answer.body
    prompt = briefs.commit(site.repo, form, task, body, at.head.commit, whole, taken_back)
    traced, own = _traced(site), history.identity_now(site.repo)
    with index.private(site.repo, copy=True) as private:
        index.read_into(site.repo, whole, private)

        def again() -> bool:
            index.read_into(site.repo, whole, private)
            return site.repo.head().commit == at.head.commit

        try:
            said = site.caller.call(
                prompt,
                task=key.text,
                attempt=at.attempt,
                env={
                    **private,
                    "GIT_REFLOG_ACTION": site.commit_mark,
                    "GIT_TRACE2_EVENT": str(traced),
                },
                write=(site.repo.scratch,),
                # The first as kern's own git has it.
                config=[("core.splitIndex", "false"), *_config(site)],
                again=again,
            )
        except (TransientFault, LimitReached, Asked):
            if again():
                raise
            said = None  # it died after its commit
    rejected = False
    if said is not None:
        where = site, said, key, Stage.COMMIT, at.attempt
        rejected = save(*where, base=at.head.commit, time=at.second.time).rejects
    events = _told(traced)
    misused = trace.misused(events, site.repo.hooks(*HOOKS, folder=site.hooks_folder))
    misused = misused or history.forged(site.repo, site.repo.head().commit, own)
    if rejected:
        misused = "it rejected the change itself"
    by_itself = trace.staged(events)
    tried = acceptance.check(site, at, at.second.change, misused, by_itself=by_itself)
    reply = said.reply if said else None
    return acceptance.judged(tried, reply, trace.read(events), rejected=rejected)


def _worded(site: Site, at: Situation, whole: str, taken_back: str) -> Try:
    """One run of an agent that only words the message; kern commits with it."""
    key, task = at.opened
    form, second = site.templates[Stage.COMMIT], at.second
    prompt = briefs.commit(
        site.repo, form, task, second.answer.body, at.head.commit, whole, taken_back
    )
    said = site.caller.call(prompt, task=key.text, attempt=at.attempt)
    assert said is not None
    saved = save(
        *(site, said, key, Stage.COMMIT, at.attempt), base=at.head.commit, time=second.time
    )
    stray = acceptance.check(site, at, second.change)
    if stray.what is not Tried.NOTHING:  # it committed all the same
        return acceptance.judged(stray, said.reply, trace.Account(), rejected=False)
    if saved.rejects:
        return acceptance.judged(stray, said.reply, trace.Account(), rejected=True)
    return commit_self(site, at, whole, second.change, answer.message(saved.said) or task.text)


def commit_self(site: Site, at: Situation, whole: str, of: tuple[str, str], words: str) -> Try:
    """kern's own commit of the tree `whole`; `of`: the snapshots before and after the change.
    `words`: its message, to which the task's trailer is added.
    """
    subject, _, body = words.partition("\n")
    key, task = at.opened
    named = briefs.trailer(key, imports.references(task))
    parts = [plain.line(subject, 200), plain.block(body).strip(), named]
    message = "\n\n".join(filter(None, parts)) + "\n"
    traced = _traced(site)
    marks = {
        "GIT_REFLOG_ACTION": site.commit_mark,
        "GIT_TRACE2_EVENT": str(traced),
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
    events = _told(traced)
    if code == 0:
        tried = acceptance.check(site, at, of)
        return replace(tried, why=f"a hook changed the commit: {tried.why}" if tried.why else "")
    refused = trace.read(events).refused
    if code == 1 and refused:
        last = plain.line(" ".join(told.splitlines()[-3:]), 160)
        words = f'"{last}"' if last else "it said nothing"
        return Try(by(refused), f"the {refused} hook refused: {words}", refused=refused)
    if (now := site.repo.head()).branch != at.head.branch:
        raise switched(at.head, now)
    raise faults.no_commit(told)


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


def _traced(site: Site) -> Path:
    """Where git writes what its processes do."""
    place = site.repo.scratch / "git-trace"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    return place


def _told(place: Path) -> list[str]:
    """What git itself wrote of the stage's git processes."""
    try:
        text = place.read_text("utf-8", "replace")
        place.unlink()
    except FileNotFoundError:
        return []
    return text.splitlines()
