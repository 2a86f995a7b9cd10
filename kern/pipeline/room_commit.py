"""Stage 3 in a room: an agent words the message, the person's hooks look, kern commits and lands.

The hooks run over a shadow of git's folder, on a tree that holds exactly what is to be committed,
and whatever they do there is thrown away but for the files.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kern import plain
from kern.errors import KernError
from kern.git import environment, history, landing, refs, shadow
from kern.git import hooks as git_hooks
from kern.git.repository import Entry
from kern.memory.changes import Taught
from kern.model import LEARNINGS, SPEC, Cause, Marker, Stage
from kern.pipeline import commit as wording
from kern.pipeline import hooks, lessons, rooms, settle, verify
from kern.pipeline.facts import Situation
from kern.pipeline.hooks import Checked
from kern.pipeline.room_verify import MOST_FIXES
from kern.pipeline.site import Site, save
from kern.pipeline.table import Settled
from kern.plain import some
from kern.sandbox import closed
from kern.sandbox.wall import Kind, Room
from kern.spec import edit, imports
from kern.stages import answer, briefs, record
from kern.stages.record import Made
from kern.system import process, workspace

_MOST_OUTPUT = 1500  # characters of a hook, for the next wording


def commit(site: Site, at: Situation) -> None:
    """HEAD moves to the task's commit, or the attempt has failed, or another step is due."""
    second = at.second
    if second.made and _is_ready(site, at, second.made.sha):
        _land(site, at, second.made.sha)
        return
    tree, conflicts = rooms.candidate(site, at)
    if conflicts:
        why = f"the change overlaps your commit in {some(conflicts)}"
        verify.fail(site, second, why, Cause.COLLISION)
        return
    checked = _passed(site, at, tree)
    if checked and checked.objection:
        verify.fail(site, second, checked.objection, Cause.HOOK)
    elif checked:
        _make(site, at, tree, checked.message, lessons.of(second), second.day)


def _is_ready(site: Site, at: Situation, sha: str) -> bool:
    """Whether a commit that was made, and has not landed yet, still fits."""
    there = site.repo.store.id(f"{sha}^{{commit}}")
    return bool(there) and history.commit(site.repo, sha).parents == (at.head.commit,)


def conclude(site: Site, at: Situation) -> Settled | None:
    """An experiment that did not work: kern commits SPEC.md and LEARNINGS.md and nothing else."""
    key, task = at.opened
    if at.start is None:  # the commit is found again by its base
        rooms.begin(site, at, at.attempt - 1)
        return None
    tree = rooms.base(site, at.head)
    checked = _through_hooks(
        site, at, tree, wording.whole_message(key, task, f"Conclude: {task.text}")
    )
    why = checked.objection
    if checked.altered:
        why = f"a hook changed {some(sorted(checked.altered))}, which is more than the task"
    if why:
        return settle.block(site, at, why)
    taught, day = lessons.taught(site, at), record.now()[:10]
    _make(site, at, tree, checked.message, taught, day, proved=False)
    return None


# ---------------------------------------------------------------- message and hooks


def _passed(site: Site, at: Situation, tree: str) -> Checked | None:
    """The commit as the hooks let it pass, or why they do not; None where another step is due."""
    key, task = at.opened
    there_already = tree == rooms.base(site, at.head)
    refused, objection = "", ""
    left = 0 if there_already else wording.WORDINGS
    while left >= 0:
        text = _wording(site, at, tree, refused) if left else task.text
        if not text or site.repo.head() != at.head:
            return None
        message = wording.whole_message(key, task, text)
        if known := site.memory.passed.get((tree, at.head.commit, message)):
            return Checked(known)  # what the hooks made of it is proven by now
        checked = _through_hooks(site, at, tree, message)
        hooks.stop_where_closed(checked)
        if checked.altered:
            return _take_in(site, at, checked, message)
        if checked.of_change:
            hooks.stop_where_helpless(
                checked, _through_hooks(site, at, rooms.base(site, at.head), message)
            )
        if not checked.of_message:
            return checked
        left = wording.after(left, again=checked.objection == objection)
        refused, objection = checked.output, checked.objection
    workspace.forget(site.scope, Stage.COMMIT)  # the next run asks for another
    raise wording.unworded(objection)


def _wording(site: Site, at: Situation, tree: str, refused: str) -> str:
    """The agent's message, which is asked for once; empty where it rejects the change. `refused`:
    what a hook holds against the one before.
    """
    (key, task), second = at.opened, at.second
    third = at.files.get(Stage.COMMIT)
    if third is None or refused:
        form, base = site.templates[Stage.COMMIT], at.head.commit
        prompt = briefs.commit(site.repo, form, task, second.answer.body, base, tree, refused)
        room = rooms.of(site).for_proof(tree, at.head)
        said = site.caller.call(prompt, task=key.text, attempt=at.attempt, room=room)
        third = save(site, said, key, Stage.COMMIT, at.attempt, base=base, time=second.time)
    if third.rejects:
        return ""
    return (not third.fault and answer.message(third.said)) or task.text


def _through_hooks(site: Site, at: Situation, tree: str, message: str) -> Checked:
    """What the hooks say of the tree, with kern's documents as they stand on the disk, and the
    files that they changed: of the task, or staged.
    """
    there = site.repo.hooks(*git_hooks.NAMES, folder=site.hooks_folder)
    if not there:
        return Checked(message)
    whole = hooks.with_documents(site, tree)
    room = rooms.of(site).for_proof(whole, at.head)
    assert room.git
    (room.git / "COMMIT_EDITMSG").write_bytes(plain.encode(message))
    refused, output, shut = "", "", tuple[str, ...]()
    for name in (name for name in git_hooks.NAMES if name in there):
        code, output, shut = _run(site, room, name)
        if code:
            refused = name
            break
    altered = _altered(site, at, whole, room.git)
    told = shadow.read(room.git, "COMMIT_EDITMSG")
    if not refused or altered:
        passed = plain.decode(told) if told else message
        return Checked(passed, refused=refused, altered=altered)
    last = plain.line(" ".join(output.splitlines()[-3:]), 160)
    why = f"the {refused} hook refused: " + (f'"{last}"' if last else "it said nothing")
    output = plain.block(output).strip()[-_MOST_OUTPUT:] or "it said nothing"
    return Checked(message, why, refused, f"the {refused} hook refused it: {output}", closed=shut)


def _run(site: Site, room: Room, name: str) -> tuple[int, str, tuple[str, ...]]:
    """Exit code, output, what of it the sandbox closed."""
    argv = ["git", "hook", "run", "--ignore-missing", name]
    if name != git_hooks.PRE_COMMIT:
        argv += ["--", ".git/COMMIT_EDITMSG"]
        argv += ["message"] if name == "prepare-commit-msg" else []
    env = {
        **process.surroundings(),
        **history.author(site.repo),
        **environment.with_hooks(hooks.config(site)),
        "KERN_ROOT": str(site.repo.root),
        "GIT_EDITOR": ":",
        "GIT_INDEX_FILE": str(site.repo.git_dir / "index"),
    }
    held = site.caller.hold(Kind.COMMITTER, argv, env, room=room)
    place, timeout = site.scope.folder / "hook.log", site.caller.settings.timeouts.commit
    ran = process.run(
        held.argv,
        cwd=site.repo.root,
        env=held.env,
        status=held.status,
        stdin="",
        stdout=place,
        joined=True,
        mark=site.caller.mark,
        tick=site.caller.tick,
        total=timeout,
    )
    text = plain.masked(plain.decode(place.read_bytes()).strip(), plain.secrets(os.environ))
    place.unlink(missing_ok=True)
    if ran.timed_out:
        return 1, f"it was not done after {plain.span(timeout)}", ()
    return ran.code, text, tuple(closed.sentences(text, held.bounds)) if ran.code else ()


def _altered(site: Site, at: Situation, whole: str, git: Path) -> Mapping[str, Entry | None]:
    """What hooks changed of the task's files, and what they made or changed and staged."""
    made = rooms.of(site).proof.candidate()
    if made == whole:
        return {}
    staged = shadow.staged(site.repo, git, whole)
    task = site.repo.changed(at.head.commit, whole).keys() | staged
    changed = site.repo.changed(whole, made)
    return {p: new for p, (_, new) in changed.items() if p in task and p not in (SPEC, LEARNINGS)}


def _take_in(site: Site, at: Situation, checked: Checked, message: str) -> Checked | None:
    """What the hooks changed is part of the task: the gates decide again."""
    second, names = at.second, some(sorted(checked.altered))
    if second.fixed >= MOST_FIXES:
        return Checked("", f"the commit hooks change {names} again and again")
    tree = site.repo.tree_with(second.tree, checked.altered)
    fixed = second.undecided(tree=tree, fixed=second.fixed + 1)
    record.save(site.scope, fixed)
    if not checked.refused:
        again = replace(at, files={**at.files, Stage.IMPLEMENT: fixed})
        whole, _ = rooms.candidate(site, again)
        site.memory.passed[whole, at.head.commit, message] = checked.message
    site.warn(f"a commit hook changed {names}: now part of the task; the gates run again")
    return None


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
    """The commit with kern's documents, noted; then it lands."""
    key, task = at.opened
    text, parsed = site.papers.spec()
    found = parsed.find(key)
    if found is None or found.marker is not Marker.ACTIVE:  # a person took it away
        return
    texts: dict[str, str | None] = {SPEC: edit.tick(text, parsed, found, proved=proved)}
    texts[LEARNINGS], learned, votes = wording.learnings(site, key, said, date)
    whole = hooks.with_documents(site, tree, texts)
    words = wording.cleaned(message, briefs.trailer(key, imports.references(task)))
    timeout = site.caller.settings.timeouts.commit
    sha = history.create(site.repo, whole, at.head.commit, words, timeout)
    assert at.start is not None
    refs.hold(site.repo, at.start, f"{sha}^{{tree}}")
    record.note_commit(site.scope, key, Made(sha, learned, votes))
    _land(site, at, sha)


def _land(site: Site, at: Situation, sha: str) -> None:
    """The branch, then the person's files, where nothing of theirs is in the way."""
    if paths := landing.in_the_way(site.repo, at.head.commit, sha):
        raise KernError(
            f"your changes are in the way of the finished task: {some(paths)}: "
            f"{plain.line(at.opened[0].text, 100)}",
            hint=f"commit, stash or move them, then run kern again: it lands then; see it: "
            f"git show {sha[:12]}",
        )
    if landing.advance(site.repo, at.head, sha, history.commit(site.repo, sha).subject):
        rooms.follow(site, at.key)
