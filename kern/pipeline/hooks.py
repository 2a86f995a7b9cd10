"""The person's commit hooks on what kern is about to commit, and what they change.

What they change in the task's files is taken into the task's change, so that the gates decide on
it: a formatter is no reason to throw work away.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from kern import person, plain
from kern.checks.result import Red, first_failing
from kern.errors import KernError
from kern.frozen import frozen
from kern.git import hooks, ignore
from kern.git.repository import Change, Entry, Hold
from kern.model import LEARNINGS, SPEC
from kern.pipeline import guarded
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, keep, put_back
from kern.plain import encode, some
from kern.sandbox import closed
from kern.sandbox.confine import Confined
from kern.sandbox.wall import Kind
from kern.stages import record
from kern.system import process

MOST_FIXES = 2  # by hooks, in one attempt
_MOST_OUTPUT = 1500  # characters of a hook, for the next wording


@frozen
class Checked:
    """What the hooks say of a commit."""

    message: str
    objection: str = ""  # why it is not made
    refused: str = ""  # by this hook
    output: str = ""  # its, for an agent
    altered: Mapping[str, Entry | None] = field(default_factory=dict)  # beside kern's documents
    closed: tuple[str, ...] = ()  # to the hook, by the sandbox

    @property
    def of_change(self) -> bool:
        return self.refused == hooks.PRE_COMMIT

    @property
    def of_message(self) -> bool:
        """Another one may pass."""
        return bool(self.refused) and not self.of_change


def run(site: Site, tree: str, message: str) -> Checked:
    """All that a commit has. The tree has kern's documents as they stand on the disk: what differs
    there a hook would take for edits that are not staged.
    """
    there = site.repo.hooks(*hooks.NAMES, folder=site.hooks_folder)
    if not there:
        return Checked(message)
    env = {"KERN_ROOT": str(site.repo.root), **dict([site.caller.mark]), **site.commit_stage}
    timeout = site.caller.settings.timeouts.commit
    try:
        with guarded.while_hooks_run(site):
            ran = hooks.run(site.repo, tree, message, env, config(site), timeout, _hold(site))
    except TimeoutError:
        return Checked(message, f"a commit hook was not done after {plain.span(timeout)}")
    finally:
        process.sweep(site.caller.mark)  # one that waits could move the branch later
    if ran.refused:
        last = plain.line(" ".join(ran.output.splitlines()[-3:]), 160)
        why = f"the {ran.refused} hook refused: " + (f'"{last}"' if last else "it said nothing")
        output = plain.block(ran.output).strip()[-_MOST_OUTPUT:] or "it said nothing"
        told = f"the {ran.refused} hook refused it: {output}"
        bounds = _confined(site, (), env).bounds
        shut = tuple(closed.sentences(ran.output, bounds))
        return Checked(message, why, ran.refused, told, closed=shut)
    changed = site.repo.changed(tree, ran.tree).items()
    altered = {path: new for path, (_, new) in changed if path not in (SPEC, LEARNINGS)}
    return Checked(ran.message, altered=altered)


def with_documents(site: Site, tree: str, texts: Mapping[str, str | None] | None = None) -> str:
    """The tree with SPEC.md and LEARNINGS.md, as they stand on the disk or in `texts`, where git
    does not ignore them.
    """
    texts = texts or {name: site.papers.read(name) for name in (SPEC, LEARNINGS)}
    ignored = ignore.ignored(site.repo, *texts)
    return site.repo.tree_with(
        tree,
        {
            name: _entry(site, name, text)
            for name, text in texts.items()
            if text and name not in ignored and not guarded.in_conflict(text)
        },
    )


def _entry(site: Site, name: str, text: str) -> Entry:
    known = site.repo.entry(site.repo.head().commit, name)
    mode = known.mode if known and known.mode != "120000" else "100644"
    return Entry(mode, site.repo.blob(encode(text), path=name))


def _hold(site: Site) -> Hold:
    """They are the project's. `env` reaches them, on top of kern's own."""

    def hold(argv: Sequence[str], env: Mapping[str, str]) -> Sequence[str]:
        held = _confined(site, argv, env)
        whole = {**os.environ, **env}
        unset = (f"--unset={name}" for name in sorted(whole.keys() - held.env.keys()))
        other = (f"{name}={value}" for name, value in held.env.items() if whole.get(name) != value)
        return ("env", *unset, *other, *held.argv)

    return hold


def _confined(site: Site, argv: Sequence[str], env: Mapping[str, str]) -> Confined:
    own = {"PATH": os.environ["PATH"]} if "PATH" in os.environ else {}  # theirs, not kern's
    whole = {**os.environ, **env, **own}
    return site.caller.hold(Kind.COMMITTER, argv, whole, write=(site.repo.scratch,))


def config(site: Site) -> list[tuple[str, str]]:
    """Where another folder of hooks was named meanwhile, in ~/.gitconfig perhaps, those of
    before count.
    """
    if (now := site.repo.hooks_folder()) == site.hooks_folder:
        return []
    site.warn(f"git's hooks are in {now} by now, say an agent's: those of before count")
    return [("core.hooksPath", str(site.hooks_folder))]


def stop_where_closed(checked: Checked) -> None:
    """No other message and no other attempt opens the sandbox. Raises KernError."""
    if checked.closed:
        raise KernError(
            f"the {checked.refused} hook failed in the sandbox: {'; '.join(checked.closed)}",
            hint=f"open it in {person.FILE} (kern help safety), then run kern again: gates and "
            "judges run once more, then it resumes at the commit; the work is in your tree",
        )


def without(site: Site, at: Situation, message: str) -> Checked:
    """What they say of the commit without the task's change."""
    task = site.repo.changed(*at.second.change)
    start, tree = at.second.change
    put_back(site, at, {path: old for path, (old, _) in task.items()}, known=tree)
    try:
        head = site.repo.tree(at.head.commit)
        return run(site, with_documents(site, head), message)
    finally:
        put_back(site, at, {path: new for path, (_, new) in task.items()}, known=start)


def stop_where_helpless(checked: Checked, bare: Checked) -> None:
    """No change of the task helps where the hook refuses a commit without it, `bare`, in the same
    words. Raises KernError.
    """
    one, other = (Red(c.refused, 1, first_failing(c.output, 400)) for c in (checked, bare))
    if one.like(other):
        raise KernError(
            f"{checked.objection}. So it does without the task's change: none can help",
            hint="do what it asks for (another branch: kern --branch NAME), then run kern again: "
            "gates and judges run once more, then it resumes at the commit; the work is kept",
        )


# ---------------------------------------------------------------- what they changed


def sound(
    task: Mapping[str, Change],
    changed: Mapping[str, Change],
    times: int,
    clean: Collection[str] = (),
) -> bool:
    """Whether what the hooks changed may be the task's: in its files, where no person had gone on
    since stage 2, or in `clean` ones. `times`: how often they did already.
    """
    return (
        bool(changed)
        and times < MOST_FIXES
        and all(p in clean or (p in task and changed[p][0] == task[p][1]) for p in changed)
    )


def before(site: Site, at: Situation) -> str:
    """The tree before they run; empty where none does: nothing changes behind kern's back."""
    there = site.repo.hooks(*hooks.NAMES, folder=site.hooks_folder)
    return site.snapshots.take(at.second.start) if there else ""


def _made(site: Site, at: Situation, before: str) -> tuple[str, dict[str, Change]]:
    """The tree now, and what the hooks changed, but for new files that git ignores: a cache, say.
    Nothing where none ran.
    """
    if not before:
        return "", {}
    now = site.snapshots.take(at.second.start)
    task = site.repo.changed(*at.second.change)
    made = site.repo.changed(before, now)
    new = [path for path, (old, _) in made.items() if old is None and path not in task]
    hidden = ignore.ignored(site.repo, *new)
    return now, {path: change for path, change in made.items() if path not in hidden}


def take_in(site: Site, at: Situation, altered: Mapping[str, Entry | None], before: str) -> str:
    """The tree with what was to be taken in: it is the task's change by now, and stage2.json has no
    outcome. `altered`: by hooks that let the commit pass; then that alone, and also what they have
    staged of other files in which a person has changed nothing.
    """
    _, changed = _made(site, at, before)
    second, task = at.second, site.repo.changed(*at.second.change)
    clean = list[str]()
    if altered:
        was, head = site.repo.entries(before), site.repo.entries(at.head.commit)
        changed = {p: changed.get(p, (was.get(p), new)) for p, new in altered.items()}
        clean = [p for p in altered if p not in task and was.get(p) == head.get(p)]
    if not sound(task, changed, second.fixed, clean):
        return ""
    tree = site.repo.tree_with(second.tree, {p: new for p, (_, new) in changed.items()})
    record.save(site.scope, second.undecided(tree=tree, fixed=second.fixed + 1))
    # What a hook changed in the index alone: else it looks as if a person had changed it since.
    put_back(site, at, {p: new for p, (_, new) in changed.items()}, known=second.tree)
    site.warn(
        f"a commit hook changed {some(sorted(changed))}: now part of the task's change; the "
        "gates run again"
    )
    return tree


def name_left(site: Site, at: Situation, before: str) -> None:
    """What else changed while the hooks ran and no commit came: it stays so."""
    _, made = _made(site, at, before)
    others = made.keys() - site.repo.changed(*at.second.change).keys()
    if not others:
        return
    was = ""
    if any(made[path][0] for path in others):
        ref = keep(site, at, "before-hook", before)
        was = f"; as it was: git checkout {ref} -- PATH"
    site.warn(f"{some(sorted(others))} changed while a commit hook ran: left as it is{was}")


def undo(site: Site, at: Situation, before: str) -> None:
    """The task's files as they were, before the hooks run once more: a framework would take
    what they changed for edits that are not staged, and a person's with them.
    """
    start, tree = at.second.change
    task = site.repo.changed(start, tree)
    now, made = _made(site, at, before)
    if old := {path: entry for path, (entry, _) in made.items() if path in task}:
        ref, base, name = keep(site, at, "hooks", now), at.head.commit, f"{at.attempt}-hooks"
        site.keeper.put_back(at.opened[0], old, start=start, known=now, base=base, name=name)
        site.warn(
            f"{some(sorted(old))} changed while a commit hook ran; restored before the hooks run "
            f"again. Yours? git checkout {ref} -- PATH"
        )
