"""The project's own commands, where exactly what is committed or to be lies: its gates, and
git's commit hooks, of which nothing that they do to git stays.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from kern import config, events, person, plain
from kern.checks import result
from kern.checks.result import Red
from kern.config import FILE, Gate, Settings
from kern.errors import KernError, UsageError
from kern.git import environment, history, shadow
from kern.git.repository import LINK, Entry
from kern.model import LEARNINGS, SPEC, Cause, Result, Stage
from kern.pipeline import attempt, hidden, preflight
from kern.pipeline.attempt import Objection
from kern.pipeline.facts import Situation
from kern.pipeline.rooms import Hooked
from kern.pipeline.site import Site
from kern.plain import some
from kern.sandbox.confine import unheld
from kern.sandbox.wall import Kind
from kern.spec import notes
from kern.spec.notes import Checks
from kern.spec.parse import Task
from kern.system import process, workspace

LACKING = "which is not committed"
PRE_COMMIT, PREPARE, MESSAGE = HOOKS = "pre-commit", "prepare-commit-msg", "commit-msg"
_POST_COMMIT = "post-commit"
RESUMES = (
    "run kern again: gates and judges run once more, then it resumes at the commit; the work is "
    "kept"
)


def settings(site: Site) -> Settings:
    """kern.toml as the person has it, or as it is committed, where an agent works in place: none
    can lower its own bar.
    """
    if not site.rooms.place:
        return site.documents.settings()
    text = site.repo.content(site.repo.head().commit, FILE)
    return config.parse(text or b"")


def checks(site: Site, task: Task) -> Checks:
    """Of the task as SPEC.md has it now."""
    _, parsed = site.documents.spec()
    fresh, project = parsed.find(task.key), settings(site)
    return notes.checks(parsed, fresh, project) if fresh else Checks(project.gates)


def known(site: Site, gate: Gate, commit: str) -> Result | None:
    """How it ended on that commit, or tree, in this run."""
    return site.gates.known(gate, site.repo.bare(commit))


def run_gate(
    site: Site,
    gate: Gate,
    tree: str,
    *,
    before: bool = False,
    red_before: bool | None = None,
    look: Callable[[Gate, Result], None] | None = None,
    how: str = "",
) -> Result:
    """How it ends on exactly that tree; a red one once more, and with what it may lack. `look`: at
    the tree as the gate left it, which is else put back. `how`: what is said of the tree.
    """
    label = f"{gate.label} {how}".rstrip()

    def once() -> Result:
        site.caller.check_requests()
        site.sink(events.gate_started(label, gate.command, before=before))
        with attempt.watched(site, gate.label, back="" if look else tree):
            end = site.gates.run(gate, tree, before=before, how=how).against(red_before)
        if look:
            look(gate, end)
        return end

    end = once()
    if result.runs_again(gate, end):
        end = result.combined(end, once())
    end = site.gates.remember(gate, site.repo.bare(tree), _explained(site, gate, end))
    site.sink(events.gate_ended(replace(end, name=label), before=before))
    return end


def compare(
    site: Site,
    gate: Gate,
    tree: str,
    head: str,
    look: Callable[[Gate, Result], None] | None = None,
) -> Result:
    """How it ends on the tree, beside how it does on `head`, without the task. `look`: at the tree
    as the gate left it. Raises KernError where it did not know that yet, and no task may begin on
    that: then none is to blame; but not in the middle of a run, which goes on then.
    """
    was = known(site, gate, head)
    end = run_gate(site, gate, tree, red_before=was.red if was else None, look=look)
    if was or not (end.red and gate.name):
        return end
    before = run_gate(site, gate, site.repo.tree(head), before=True)
    taken = site.repo.bare(head) == site.repo.bare(tree)  # a person has committed the task's files
    first = taken or not (look and site.memory.checked)
    if before.red and before.stops(site.options.allow_red, first=first):
        message, hint = result.refusal([before])
        where = f"that is {head[:7]}, without any task that waits to land"
        raise KernError(f"{message}\n{where}", hint=hint)
    return end.against(before.red)


def _explained(site: Site, gate: Gate, end: Result) -> Result:
    """A red end, where it names something that its room does not have: the person has not committed
    it, or git ignores it and it came since the run began.
    """
    own = site.rooms
    if not (end.red and own.held and gate.room):
        return end
    mine = preflight.uncommitted(site.repo) if own.mounted else []
    lacking = [path for path in (*mine, *own.made()) if Path(path).stem in end.output]
    if lacking := lacking or own.room.differing:
        why = f"it may need {some(lacking)}, {LACKING}"
    elif own.room.absent:
        why = f"its room has no place for {some(own.room.absent)}"
    else:
        return end
    site.warn(f"{end.name}: {why}")
    return replace(end, output=f"{end.output.rstrip()}\nerror: {why}")


# ---------------------------------------------------------------- before a task


def ended(site: Site, gate: Gate) -> Result:
    """How it ends on what is committed, which this run may know."""
    tree = site.repo.tree(site.repo.head().commit)
    if (end := known(site, gate, tree)) is None:
        end = run_gate(site, gate, tree, before=True)
        site.memory.flaky |= {gate.label} if end.flaky else set()
    return end


def check(site: Site) -> None:
    """The project's gates before a task. Raises UsageError where they let none begin."""
    red = [end for gate in settings(site).gates if (end := ended(site, gate)).red]
    allowed, first = site.caller.settings.allow_red, not site.memory.checked
    if stop := [end for end in red if end.stops(allowed, first=first)]:
        message, hint = result.refusal(stop)
        raise UsageError(message, hint=hint)
    if first:
        hidden.look(site)
    site.memory.checked = True
    for end in red:
        site.warn(result.regard(end), once=True)


def standing(site: Site, at: Situation) -> tuple[Checks, list[str]]:
    """What must pass, with what of it is red before the task; and how things stand, a text each for
    the stages: by the task's own gates, which ought to fail.
    """
    check(site)
    required, state = checks(site, at.opened[1]), list[str]()
    for gate in (one for one in required.gates if not one.name):
        was = ended(site, replace(gate, strict=False, red="known"))
        state.append(result.state(replace(was, name="gate of the task"), gate.command))
        if not was.red:
            what = f"{gate.label} is green before the task: it proves nothing of it"
            site.warn(what, once=True)
    red = frozenset(gate for gate in required.gates if ended(site, gate).red)
    return replace(required, red=red), state


def at_the_end(required: Checks) -> list[Gate]:
    """Those that send an agent back: what was red before the task is not its fault."""
    return [g for g in required.gates if g.strict or not (g.red or g in required.red)]


# ---------------------------------------------------------------- git's hooks


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

    def is_like(self, other: "Checked") -> bool:
        mine, theirs = (Red(c.refused, 1, result.telling(c.output, 400)) for c in (self, other))
        return bool(self.refused) and mine.like(theirs)


def run_hooks(site: Site, tree: str, message: str) -> Checked:
    """What the hooks say of the tree and the message, and which files they changed: of the task, or
    staged.
    """
    there, head, end = site.repo.hooks(*HOOKS, folder=site.hooks_folder), site.repo.head(), None
    if not there:
        return Checked(message)
    with attempt.watched(site, "a commit hook"):
        here = site.rooms.for_hooks(tree, head)
        worded = here.git / "COMMIT_EDITMSG"
        workspace.replace(worded, plain.encode(message))
        for name in there:
            end = _run_hook(site, here, name)
            if name == PRE_COMMIT:  # which may have committed by itself
                worded.write_bytes(plain.encode(message))
            if end.red:
                break
    after = site.rooms.proven(mounted=site.rooms.mounted).candidate()
    task = site.repo.changed(head.commit, tree).keys() | shadow.staged(site.repo, here.git, tree)
    changed = site.repo.changed(tree, after)
    altered = {p: new for p, (_, new) in changed.items() if p in task - {SPEC, LEARNINGS}}
    if end and end.red:
        output = plain.block(end.output).strip()
        return Checked(message, end.name, output, altered, end.closed)
    passed = shadow.read(here.git, "COMMIT_EDITMSG")
    return Checked(plain.decode(passed) if passed else message, altered=altered)


def run_post_commit(site: Site) -> None:
    """It can refuse nothing, and nothing of it stays."""
    if not site.repo.hooks(_POST_COMMIT, folder=site.hooks_folder):
        return
    head = site.repo.head()
    tree = site.repo.tree(head.commit)
    with attempt.watched(site, "the post-commit hook", back=tree):
        end = _run_hook(site, site.rooms.for_hooks(tree, head), _POST_COMMIT)
    if end.red:
        site.warn(f"the post-commit hook failed: {plain.line(end.output, 160)}")


def check_helped(site: Site, tree: str, checked: Checked) -> None:
    """Raises KernError where no other message and no other change would pass: the sandbox keeps
    something from the hook, or it refuses a commit without the task's change in the same words.
    Raises Objection where it refuses the change, whatever the message.
    """
    if checked.closed:
        raise KernError(
            f"the {checked.refused} hook failed in the sandbox: {'; '.join(checked.closed)}",
            hint=f"open it in {person.FILE} (kern help safety), then {RESUMES}",
        )
    if checked.refused == PRE_COMMIT:
        bare = run_hooks(site, site.repo.tree(site.repo.head().commit), checked.message)
        site.rooms.put_back(tree)
        if checked.is_like(bare):
            raise KernError(
                f"{checked.objection}. So it does without the task's change: none can help",
                hint=f"do what it asks for (another branch: git switch -c NAME), then {RESUMES}",
            )
        raise Objection(checked.objection, Cause.HOOK)


def with_documents(site: Site, tree: str, texts: Mapping[str, str | None] | None = None) -> str:
    """The tree with SPEC.md and LEARNINGS.md, as they stand on the disk or in `texts`, where git
    does not ignore them.
    """
    texts = texts or {name: site.documents.read(name) for name in (SPEC, LEARNINGS)}
    written, new = {n: text for n, text in texts.items() if text}, dict[str, Entry | None]()
    ignored = site.repo.ignored(*written)
    for name, text in written.items():
        if name not in ignored:
            known = site.repo.entry(site.repo.head().commit, name)
            mode = known.mode if known and known.mode != LINK else "100644"
            new[name] = Entry(mode, site.repo.blob(plain.encode(text), path=name))
    return site.repo.tree_with(tree, new)


def _run_hook(site: Site, here: Hooked, name: str) -> Result:
    message = {PREPARE: ["--", here.message, "message"], MESSAGE: ["--", here.message]}
    env = {
        **history.author(site.repo),
        **process.reflog(site.caller.run),
        # A folder that was named meanwhile, by an agent perhaps, does not count.
        **environment.with_hooks([("core.hooksPath", str(site.hooks_folder))]),
        "GIT_EDITOR": ":",
        **here.env,
    }
    argv = ["git", "hook", "run", "--ignore-missing", name, *message.get(name, ())]
    total, grace = site.caller.settings.total(Stage.COMMIT), process.PATIENCE_S
    in_place = here.room is None and site.caller.hold is not unheld
    with shadow.unmade(site.repo, site.warn) if in_place else nullcontext():
        end = site.gates.execute(
            *(argv, f"gate-{name}", env, {"total": total, "grace": grace}),
            kind=Kind.COMMITTER,
            room=here.room,
            write=(site.repo.scratch,),
        )
    return replace(end, name=name)


# ---------------------------------------------------------------- tried, before any task


def outside(
    site: Site, gates: Sequence[Gate], results: Sequence[Result], *, hooked: bool
) -> list[str]:
    """A line for each gate that is red in the sandbox, and for a hook to which that is closed.
    `hooked`: git's hooks are tried, on a commit of nothing.
    """
    if site.caller.hold is unheld:
        return []
    lines = _tried_hooks(site) if hooked and site.rooms.mounted else []
    red = {one.name: one for one in results if one.red and LACKING not in one.output}
    again = [gate for gate in gates if gate.label in red]
    if again and not site.options.leave.trusted:
        return [*lines, "not tried outside of the sandbox: kern check --trust"]
    return [*lines, *(_compared(site, gate, red[gate.label]) for gate in again)]


def _tried_hooks(site: Site) -> list[str]:
    """With the last commit's message."""
    site.caller.check_requests()
    head = site.repo.head()
    message = site.repo.text("show", "--no-patch", "--format=%B", head.commit)
    ended = run_hooks(site, site.repo.tree(head.commit), message)
    return [f"the {ended.refused} hook: {one}" for one in ended.closed]


def _compared(site: Site, gate: Gate, inside: Result) -> str:
    site.caller.check_requests()
    site.sink(events.gate_started(gate.label, gate.command, before=True))
    if site.gates.beside(gate, held=False).red:
        return f"{gate.label} is red outside of the sandbox too"
    why = "; ".join(inside.closed) or "something is closed to it (kern help safety)"
    return f"{gate.label} is green outside of the sandbox: {why}"
