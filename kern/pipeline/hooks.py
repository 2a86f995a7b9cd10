"""The person's commit hooks: what they say of a commit and make of it, and where no other one would
pass. Whatever they do to git is thrown away.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kern import person, plain
from kern.checks.result import Red, first_failing
from kern.errors import KernError
from kern.git import environment, history, hooks, ignore, shadow
from kern.git.refs import StartRef
from kern.git.repository import Entry, Head
from kern.model import LEARNINGS, SPEC
from kern.pipeline import guarded, rooms
from kern.pipeline.site import Site
from kern.plain import encode
from kern.sandbox import closed
from kern.sandbox.wall import Kind
from kern.system import process, workspace

_MOST_OUTPUT = 1500  # characters of a hook, for the next wording


@dataclass(frozen=True, slots=True)
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


def config(site: Site) -> list[tuple[str, str]]:
    """Where another folder of hooks was named meanwhile, in ~/.gitconfig perhaps, those of
    before count; and a worker's are the person's, which may be untracked.
    """
    if site.repo.hooks_folder() == site.hooks_folder:
        return []
    if (now := site.home.hooks_folder()) != site.hooks_folder:
        site.warn(f"git's hooks are in {now} by now, say an agent's: those of before count")
    return [("core.hooksPath", str(site.hooks_folder))]


def through(
    site: Site,
    head: Head,
    start: StartRef | None,
    tree: str,
    message: str,
    *,
    formed: bool = False,
) -> Checked:
    """What the hooks say of the tree, with kern's documents as they stand on the disk, and the
    files that they changed: of the task, or staged. Where they gave only the documents another
    form, a second pass shows them those so `formed`.
    """
    there = site.repo.hooks(*hooks.NAMES, folder=site.hooks_folder)
    if not there:
        return Checked(message)
    whole = with_documents(site, tree)
    here = rooms.of(site).for_hooks(whole, head)
    worded = here.git / "COMMIT_EDITMSG"
    for place in (worded, site.repo.git_dir / "COMMIT_EDITMSG"):  # some hooks go by its usual name
        workspace.lay(place, plain.encode(message))
    refused, output, shut = "", "", tuple[str, ...]()
    watched = rooms.watched(site, head, start, "a commit hook", trusted=True)
    with watched, guarded.while_hooks_run(site), here.staged:
        for name in (name for name in hooks.NAMES if name in there):
            code, output, shut = _run(site, here, name)
            if name == hooks.PRE_COMMIT:  # which may have committed by itself
                worded.write_bytes(plain.encode(message))
            if code:
                refused = name
                break
        _take_forms(site, whole)
    altered = _altered(site, head, whole, here.git)
    told = shadow.read(here.git, "COMMIT_EDITMSG")
    if not refused or altered:
        passed = plain.decode(told) if told else message
        return Checked(passed, refused=refused, altered=altered)
    if not formed and with_documents(site, tree) != whole:
        return through(site, head, start, tree, message, formed=True)
    last = plain.line(" ".join(output.splitlines()[-3:]), 160)
    why = f"the {refused} hook refused: " + (f'"{last}"' if last else "it said nothing")
    output = plain.block(output).strip()[-_MOST_OUTPUT:] or "it said nothing"
    return Checked(message, why, refused, f"the {refused} hook refused it: {output}", closed=shut)


def _take_forms(site: Site, whole: str) -> None:
    """What a formatter made of kern's documents in a room is on the disk, too, where nobody has
    written there meanwhile.
    """
    for name in (SPEC, LEARNINGS) if rooms.of(site).mounted else ():
        shown, place = site.repo.content(whole, name), rooms.of(site).proof.tree / name
        if shown is None or place.is_symlink() or not place.is_file():
            continue
        with site.papers.alone():
            untouched = encode(site.papers.read(name) or "") == shown
            if untouched and (made := place.read_bytes()) != shown:
                site.papers.write(name, plain.decode(made))


def _run(site: Site, here: rooms.Hooked, name: str) -> tuple[int, str, tuple[str, ...]]:
    """Exit code, output, what of it the sandbox closed."""
    argv = ["git", "hook", "run", "--ignore-missing", name]
    if name in (hooks.PREPARE, hooks.MESSAGE):
        argv += ["--", here.message]
        argv += ["message"] if name == hooks.PREPARE else []
    env = {
        **process.surroundings(),
        **history.author(site.repo),
        **site.commit_stage,
        **environment.with_hooks(config(site)),
        "KERN_ROOT": str(site.repo.root),
        "GIT_EDITOR": ":",
        **here.env,
    }
    write = (site.repo.scratch,)
    held = site.caller.hold(Kind.COMMITTER, argv, env, write=write, room=here.room)
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
        grace=(process.RESTORE_S, process.GRACE_S[1]),
    )
    text = plain.masked(plain.decode(place.read_bytes()).strip(), plain.secrets(os.environ))
    place.unlink(missing_ok=True)
    if ran.timed_out:
        return 1, f"it was not done after {plain.span(timeout)}", ()
    return ran.code, text, tuple(closed.sentences(text, held.bounds)) if ran.code else ()


def _altered(site: Site, head: Head, whole: str, git: Path) -> Mapping[str, Entry | None]:
    """What hooks changed of the task's files, and what they made or changed and staged."""
    made = rooms.of(site).proven(mounted=rooms.of(site).mounted).candidate()
    if made == whole:
        return {}
    staged = shadow.staged(site.repo, git, whole)
    task = site.repo.changed(head.commit, whole).keys() | staged
    changed = site.repo.changed(whole, made)
    return {p: new for p, (_, new) in changed.items() if p in task and p not in (SPEC, LEARNINGS)}


def after(site: Site, start: StartRef | None) -> None:
    """post-commit, which can refuse nothing and of which nothing stays."""
    head = site.repo.head()
    if not site.repo.hooks(hooks.POST_COMMIT, folder=site.hooks_folder):
        return
    tree = site.repo.tree(head.commit)
    here = rooms.of(site).for_hooks(tree, head)
    watched = rooms.watched(site, head, start, "the post-commit hook", trusted=True)
    with watched, guarded.while_hooks_run(site), here.staged:
        code, output, _ = _run(site, here, hooks.POST_COMMIT)
    if not rooms.of(site).mounted:
        rooms.of(site).work.fill(tree)
    if code:
        site.warn(f"the post-commit hook failed: {plain.line(output, 160)}")


def stop_where_closed(checked: Checked) -> None:
    """No other message and no other attempt opens the sandbox. Raises KernError."""
    if checked.closed:
        raise KernError(
            f"the {checked.refused} hook failed in the sandbox: {'; '.join(checked.closed)}",
            hint=f"open it in {person.FILE} (kern help safety), then run kern again: gates and "
            "judges run once more, then it resumes at the commit; the work is kept",
        )


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
