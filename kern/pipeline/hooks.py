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
from kern.git import environment, history, ignore, shadow
from kern.git.refs import StartRef
from kern.git.repository import LINK, Entry, Head
from kern.model import LEARNINGS, SPEC, Stage
from kern.pipeline import watched
from kern.pipeline.rooms import Hooked
from kern.pipeline.site import Site
from kern.sandbox import closed
from kern.sandbox.wall import Kind
from kern.system import process, workspace

PRE_COMMIT, PREPARE, MESSAGE = NAMES = "pre-commit", "prepare-commit-msg", "commit-msg"
POST_COMMIT = "post-commit"
_MOST_OUTPUT = 1500  # characters of a hook, for the next wording
RESUMES = (
    "run kern again: gates and judges run once more, then it resumes at the commit; the work is "
    "kept"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the hooks say of a commit."""

    message: str
    refused: str = ""  # by this hook
    output: str = ""  # of that
    altered: Mapping[str, Entry | None] = field(default_factory=dict)  # beside kern's documents
    closed: tuple[str, ...] = ()  # to the hook, by the sandbox

    @property
    def objection(self) -> str:
        """Why the commit is not made."""
        last = plain.line(" ".join(self.output.splitlines()[-3:]), 160)
        why = f'"{last}"' if last else "it said nothing"
        return f"the {self.refused} hook refused: {why}" if self.refused else ""

    @property
    def of_message(self) -> bool:
        """Another one may pass."""
        return self.refused not in ("", PRE_COMMIT)

    def is_like(self, other: "Checked") -> bool:
        mine, theirs = (Red(c.refused, 1, first_failing(c.output, 400)) for c in (self, other))
        return bool(self.refused) and mine.like(theirs)


def with_documents(site: Site, tree: str, texts: Mapping[str, str | None] | None = None) -> str:
    """The tree with SPEC.md and LEARNINGS.md, as they stand on the disk or in `texts`, where git
    does not ignore them.
    """
    texts = texts or {name: site.papers.read(name) for name in (SPEC, LEARNINGS)}
    ignored = ignore.ignored(site.repo, *texts)
    new = {name: text for name, text in texts.items() if text and name not in ignored}
    return site.repo.tree_with(tree, {name: _entry(site, name, new[name]) for name in new})


def _entry(site: Site, name: str, text: str) -> Entry:
    known = site.repo.entry(site.repo.head().commit, name)
    if known and known.mode != LINK and site.repo.data(known.blob) == plain.encode(text):
        return known
    mode = known.mode if known and known.mode != LINK else "100644"
    return Entry(mode, site.repo.blob(plain.encode(text), path=name))


def through(site: Site, head: Head, start: StartRef | None, tree: str, message: str) -> Checked:
    """What the hooks say of the tree and the message, and which files they changed: of the task, or
    staged. In place kern's documents are part of it as they stand on the disk, so that nothing is
    unstaged; where those alone were given another form, the hooks see them once more.
    """
    there = site.repo.hooks(*NAMES, folder=site.hooks_folder)
    if not there:
        return Checked(message)
    for _ in range(2):
        whole = tree if site.rooms.mounted else with_documents(site, tree)
        checked = _through(site, head, start, whole, message, there)
        formed = not site.rooms.mounted and with_documents(site, tree) != whole
        if checked.altered or not (checked.refused and formed):
            break
    return checked


def _through(
    site: Site, head: Head, start: StartRef | None, whole: str, message: str, there: list[str]
) -> Checked:
    refused, output, shut = "", "", tuple[str, ...]()
    with watched.watched(site, head, start, "a commit hook"):
        here = site.rooms.for_hooks(whole, head)
        worded = here.git / "COMMIT_EDITMSG"
        for place in (worded, site.repo.git_dir / "COMMIT_EDITMSG"):  # some go by its usual name
            workspace.lay(place, plain.encode(message))
        for name in (name for name in NAMES if name in there):
            code, output, shut = _run(site, here, name)
            if name == PRE_COMMIT:  # which may have committed by itself
                worded.write_bytes(plain.encode(message))
            if code:
                refused = name
                break
    altered = _altered(site, head, whole, here.git)
    if refused:
        return Checked(message, refused, plain.block(output).strip(), altered, shut)
    passed = shadow.read(here.git, "COMMIT_EDITMSG")
    return Checked(plain.decode(passed) if passed else message, altered=altered)


def _run(site: Site, here: Hooked, name: str) -> tuple[int, str, tuple[str, ...]]:
    """Exit code, output, what of it the sandbox closed."""
    argv = ["git", "hook", "run", "--ignore-missing", name]
    if name in (PREPARE, MESSAGE):
        argv += ["--", here.message]
        argv += ["message"] if name == PREPARE else []
    env = {
        **process.surroundings(),
        **history.author(site.repo),
        **site.commit_stage,
        # A folder that was named meanwhile, by an agent perhaps, does not count.
        **environment.with_hooks([("core.hooksPath", str(site.hooks_folder))]),
        "KERN_ROOT": str(site.repo.root),
        "GIT_EDITOR": ":",
        **here.env,
    }
    write = (site.repo.scratch,)
    held = site.caller.hold(Kind.COMMITTER, argv, env, write=write, room=here.room)
    place, timeout = site.scope.folder / "hook.log", site.caller.settings.total(Stage.COMMIT)
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
    return ran.code, text, tuple(closed.sentences(text, held.wall)) if ran.code else ()


def _altered(site: Site, head: Head, whole: str, git: Path) -> Mapping[str, Entry | None]:
    """What hooks changed of the task's files, and what they made or changed and staged."""
    made = site.rooms.proven(mounted=site.rooms.mounted).candidate()
    if made == whole:
        return {}
    task = site.repo.changed(head.commit, whole).keys() | shadow.staged(site.repo, git, whole)
    changed = site.repo.changed(whole, made)
    return {p: new for p, (_, new) in changed.items() if p in task and p not in (SPEC, LEARNINGS)}


def after(site: Site, start: StartRef | None) -> None:
    """post-commit, which can refuse nothing and of which nothing stays."""
    if not site.repo.hooks(POST_COMMIT, folder=site.hooks_folder):
        return
    head = site.repo.head()
    tree = site.repo.tree(head.commit)
    with watched.watched(site, head, start, "the post-commit hook", back=tree):
        here = site.rooms.for_hooks(tree, head)
        code, output, _ = _run(site, here, POST_COMMIT)
    if code:
        site.warn(f"the post-commit hook failed: {plain.line(output, 160)}")


def stop_where_helpless(
    site: Site, head: Head, start: StartRef | None, tree: str, checked: Checked
) -> None:
    """Where no other message and no other change would pass: the sandbox keeps something from the
    hook, or it refuses a commit without the task's change in the same words. Raises KernError.
    """
    if checked.closed:
        raise KernError(
            f"the {checked.refused} hook failed in the sandbox: {'; '.join(checked.closed)}",
            hint=f"open it in {person.FILE} (kern help safety), then {RESUMES}",
        )
    if checked.refused == PRE_COMMIT:
        bare = through(site, head, start, site.repo.tree(head.commit), checked.message)
        site.rooms.put_back(tree)
        if checked.is_like(bare):
            raise KernError(
                f"{checked.objection}. So it does without the task's change: none can help",
                hint=f"do what it asks for (another branch: git switch -c NAME), then {RESUMES}",
            )


def for_agent(checked: Checked) -> str:
    output = checked.output[-_MOST_OUTPUT:] or "it said nothing"
    return f"the {checked.refused} hook refused it: {output}"
