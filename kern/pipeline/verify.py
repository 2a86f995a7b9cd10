"""The verdict on stage 2, where exactly lies what is to be committed: git's word, then gates and
judges. Each can turn a success into an attempt, none can make one. A change that touches what it is
measured by is judged twice: its gates also run on it with the tests as they were before the task.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kern import config, events, plain
from kern.checks import measures, result
from kern.config import FILE, Gate
from kern.errors import UsageError
from kern.git import history, shadow
from kern.git.repository import Change, Entry, Repo
from kern.model import Aide, Cause, Decision, Result, Saved, Tier
from kern.pipeline import attempt, hidden, project
from kern.pipeline.attempt import Objection
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site
from kern.plain import some
from kern.spec import notes
from kern.spec.notes import Checks
from kern.spec.parse import Kind, Task
from kern.stages import answer, briefs, record
from kern.stages.answer import Code
from kern.stages.change import weakened
from kern.stages.record import StageRecord

UNCHANGED = "SUCCESS was claimed, but nothing changed"
MOST_FIXES = 2  # by gates and hooks, in one attempt
_MANY = 20  # files: a change of more is named
_AS_BEFORE = "with the tests as they were"


class _Fixed(Exception):
    """A gate rewrote files of the task: all run again on that."""


def prove(site: Site, at: Situation) -> None:
    """The witnesses' verdict, made durable."""
    if not _is_on_head(site, at):
        return
    (_, task), second = at.opened, at.second
    objection, facts = "", dict[str, object]()
    if second.answer.code is Code.NEEDS_ANSWER:
        objection = notes.objection(task, second.answer.reason)
    elif second.answer.code is Code.SUCCESS and at.due is Tier.IMPLEMENT:
        try:
            facts = _proven(site, at)
        except Objection as exc:
            objection, facts = str(exc), exc.facts
        except _Fixed:
            return
    decision = answer.decide(
        second.answer, task.text, at.due, subtask=at.facts.subtask, objection=objection
    )
    if decision.saved is Saved.FAILED and not objection:
        own = {Code.FAILED: Cause.OWN, Code.UNCLEAR: Cause.FORM}
        facts = {"cause": own.get(second.answer.code, Cause.OTHER)}
    if objection == UNCHANGED and any(UNCHANGED in one.text for one in task.of(Kind.ATTEMPT)):
        decision = Decision(Saved.SKIPPED, attempt.UNCHANGED_TWICE)
    decide(site, second.noting(**facts), decision)


def decide(site: Site, second: StageRecord, decision: Decision) -> None:
    decided = second.noting(outcome=str(decision))
    record.save(site.scope, decided)
    site.memory.proved = decided.written if decision.saved is Saved.PROVED else ""
    site.sink(events.live("debug", text=f"outcome of {second.key.text}: {decision}"))


# ---------------------------------------------------------------- what lies there


def _is_on_head(site: Site, at: Situation) -> bool:
    """Proof is bound to its base: on top of a person's commits the gates run there. False where
    that has been noted, and the facts are others now.
    """
    base, head = at.second.bound_to, at.head.commit
    if base == head:
        return True
    attempt.undo_mistakes(site, replace(at.head, commit=base), "the commit stage")
    if site.repo.head() == at.head:
        record.save(site.scope, at.second.undecided(onto=head))
        site.warn(
            "a commit of yours came in before the task's: checked on top of it: "
            f"{at.opened[0].text}: {commits_since(site.repo, base, head)}; if that was not you, "
            "revert it"
        )
    return False


def commits_since(repo: Repo, base: str, head: str) -> str:
    """What came in on the branch, the newest ones; the tip alone where history was rewritten."""
    commits = history.since(repo, base, head)[-3:]
    return ", ".join(f"{one.sha[:7]} ({plain.line(one.subject, 40)})" for one in commits)


# ---------------------------------------------------------------- the witnesses


def _proven(site: Site, at: Situation) -> dict[str, object]:
    """What is to be noted of a change that nothing stands against. Raises Objection."""
    tree = attempt.candidate(site, at)
    if not site.repo.changed(*at.second.change):
        raise Objection(UNCHANGED, Cause.OTHER)
    _check_files(site, site.repo.changed(at.head.commit, tree))
    required = project.checks(site, at.opened[1])
    look = partial(_take_rewritten, site, at, tree)
    proved = witness(site, required, at.opened[1], at.head.commit, tree, look)
    in_room = site.rooms.held and all(gate.room for gate in required.gates)
    new = [] if in_room else site.rooms.made()  # no clone has it
    if proved and new:
        proved[0] += f" in your tree, which also held {some(new)}"
    return {"proof": "; ".join(proved)} if proved else {}


def witness(
    site: Site,
    required: Checks,
    task: Task | None,
    head: str,
    tree: str,
    look: Callable[[Gate, Result], None] | None = None,
) -> list[str]:
    """What stands behind the tree, on top of `head`, and what lessens that, in words. `look`: at
    what a gate has left of it. Raises Objection.
    """
    results = list[Result]()

    def take(end: Result) -> None:
        results.append(end)
        if end.blocks:
            cause = Cause.JUDGE if end.name.startswith("judge") else Cause.GATE
            raise Objection(result.objection(end), cause, result.evidence(end))

    for gate in required.gates:
        take(project.compare(site, gate, tree, head, look))
    doubt = _doubt(site, required.gates, results, head, tree)
    for end in hidden.run(site, tree):
        take(end)
    for one in required.criteria:
        assert task
        take(judge(site, one, task, tree, head, doubt))
    if not results:
        return []
    doubts = [
        doubt,
        *_touched(site.repo, required.gates, site.repo.bare(head), site.repo.bare(tree)),
    ]
    if new := [end.name for end in results if end.flaky and end.name not in site.memory.flaky]:
        doubts.append(f"a risk of this change: {some(new)} was not flaky before it")
    site.memory.flaky |= {*new}
    return [result.proved(results), *filter(None, doubts)]


def _check_files(site: Site, change: Mapping[str, Change]) -> None:
    """What runs unasked is named; a kern.toml that could not be read is refused."""
    if names := shadow.obeyed(site.repo, {path: new for path, (_, new) in change.items()}):
        site.warn(f"the task changes {some(names)}: it runs unasked; review it", kept=True)
    if new := change.get(FILE, (None, None))[1]:
        site.warn(f"the task changes {FILE}: that counts from the next task on")
        try:
            config.parse(site.repo.data(new.blob))
        except UsageError as exc:
            raise Objection(str(exc), Cause.OTHER) from None


def _take_rewritten(site: Site, at: Situation, tree: str, gate: Gate, end: Result) -> None:
    """The task's files that the gate rewrote, as a formatter does, are part of it. What else it
    rewrote goes with the room, which is said once.
    """
    after = site.rooms.proven(mounted=gate.room).candidate()
    task, changed = site.repo.changed(at.head.commit, tree), site.repo.changed(tree, after)
    own = {path: new for path, (_, new) in changed.items() if path in task and new}
    if others := sorted(changed.keys() - own.keys()):
        note = f"{gate.label} rewrote {some(others)}, which is not part of the task: not kept"
        site.warn(note, once=True)
    if own and at.second.fixed < MOST_FIXES:
        site.sink(events.gate_ended(end))
        attempt.take_in(site, at.second, gate.label, own)
        raise _Fixed


def judge(site: Site, criterion: str, task: Task, tree: str, head: str, doubt: str = "") -> Result:
    """What judges say of that tree, on top of `head`; they are told of the doubt."""
    form = site.templates[Aide.JUDGE]
    prompt = briefs.judged(site.repo, form, task, criterion, head, tree, doubt)
    at_head = replace(site.repo.head(), commit=head)
    judges: list[Result] = []
    while (agreed := answer.agreed(judges)) is None:
        with attempt.watched(site, "the judge"):
            reply = site.caller.call(
                prompt,
                task=task.text,
                attempt=task.attempts + 1,
                room=site.rooms.for_proof(tree, at_head, writes=False),
                again=lambda: site.rooms.for_proof(tree, at_head, writes=False),
            )
        judges.append(answer.judged(criterion, reply.fault or reply.reply.text))
        site.sink(events.gate_ended(judges[-1]))
    if disagreement := answer.disagreement(judges):
        site.warn(disagreement, kept=True)
    return agreed


# ---------------------------------------------------------------- what it is measured by


def _doubt(site: Site, gates: Sequence[Gate], ends: Sequence[Result], old: str, new: str) -> str:
    """Which gates are green only with the change's own tests, in words; empty where none is. Raises
    Objection where that is held against it.
    """
    back, touched = _measures(site, gates, old, new)
    if not touched:
        return ""
    red = list[Result]()
    tree = site.repo.tree_with(new, back)
    for gate, end in zip(gates, ends, strict=False):
        if not end.red:
            again = project.run_gate(site, gate, tree, red_before=False, how=_AS_BEFORE)
            red += [again] * again.red
    site.rooms.put_back(new)
    if not red:
        return ""
    names = some([one.name for one in red])
    doubt = f"{names}: green only with its own changes of {some(sorted(touched))}"
    if project.settings(site).strict_tests:
        raise Objection(doubt, Cause.GATE, result.evidence(red[0]))
    return doubt


def _measures(
    site: Site, gates: Iterable[Gate], old: str, new: str
) -> tuple[dict[str, Entry | None], list[str]]:
    """Of the change what it is measured by, as it was before: without what is new, unless a gate
    names it. And which of that is no mere addition.
    """
    repo, change, back = site.repo, site.repo.changed(old, new), dict[str, Entry | None]()
    keep, touched = project.settings(site).keep, list[str]()
    named = {path for gate in gates for path in result.named(gate.command, change)}
    for path, (was, now) in change.items():
        if measures.counts(path, keep, named):
            if was or path not in named:
                back[path] = was
                touched += [path] * bool(was or measures.counts(path, keep, named, new=True))
        elif was and now and not (was.is_submodule or now.is_submodule):
            part = measures.part(path, repo.data(was.blob), repo.data(now.blob))
            if part is not None:
                back[path] = replace(now, blob=repo.blob(part))
                touched.append(path)
    return back, touched


def _touched(repo: Repo, gates: Iterable[Gate], old: str, new: str) -> list[str]:
    """What lessens the word of green gates: the change is of what they go by."""
    change = repo.changed(old, new)
    by_gates = {path for gate in gates for path in result.named(gate.command, change)}
    kinds = {
        "tests": weakened(repo, old, new),
        "settings of its gates": measures.of("settings", change),
        "dependencies": measures.of("dependencies", change),
        "many files": [str(len(change))] * (len(change) > _MANY),
    }
    named = [f"the task changed {some(sorted(by_gates))}, named by a gate"] * bool(by_gates)
    return [*named, *(f"{kind}: {some(paths)}" for kind, paths in kinds.items() if paths)]
