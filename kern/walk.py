"""The durable steps of one task's walk, each an atomic replace, in the order that makes every crash
readable.

Which step is next, `pipeline.resume` says; here it is done. Two rules hold throughout: `[x]` is
never on disk before HEAD has it, and work is kept, then put back, then noted.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kern import answer, edit, guard, index, plain, reconcile, refs, verdict, workspace
from kern.agents.reply import Reply
from kern.briefs import Briefs
from kern.choice import select
from kern.committing import Committer
from kern.context import Template
from kern.custody import Custody
from kern.documents import LEARNINGS, SPEC, Documents
from kern.errors import Interrupted, KernError, TransientFault
from kern.events import Sink
from kern.keeper import Keeper, some
from kern.observe import Observer, Situation, named, naming, said
from kern.pipeline import Role, Stage, Tier, due
from kern.proving import Prover
from kern.recovery import Recovery
from kern.refs import StartRef
from kern.repo import Repo
from kern.settling import Settling, now, opened, red_gate, sweep
from kern.snapshot import Snapshots
from kern.spec import Key, Kind, Marker, Spec, Task
from kern.stages import Caller, Said, stage_file
from kern.summary import Settled
from kern.workspace import Scope

HALF_DONE = (
    "half-done work of the agent is in your tree; the next kern keeps it and puts the tree back, "
    "with what you edit until then"
)


class Walk:
    def __init__(
        self,
        repo: Repo,
        scope: Scope,
        caller: Caller,
        templates: Mapping[Role, Template],
        sink: Sink,
    ) -> None:
        self.repo = repo
        self.scope = scope
        self.caller = caller
        self.sink = sink
        self.papers = Documents(repo.root, repo.scratch)
        self.snapshots = Snapshots(repo)
        self.observer = Observer(repo, scope, self.papers, self.snapshots)
        self.keeper = Keeper(repo, self.snapshots, sink)
        self.custody = Custody(self.papers, self.keeper.warn)
        self.recovery = Recovery(repo, scope, self.papers, self.snapshots, self.keeper)
        self.settling = Settling(repo, scope, self.papers, self.keeper, sink)
        self.briefs = Briefs(repo, self.papers, templates)
        self.committer = Committer(
            repo, self.observer.witness, self.papers, self.briefs, caller, sink, self._save_commit
        )
        self.prover = Prover(
            repo,
            self.observer.witness,
            self.snapshots,
            self.keeper,
            self.custody,
            self.briefs,
            caller,
            sink,
        )

    def look(self) -> Situation:
        if unclosed := self.papers.spec()[1].unclosed:
            raise KernError(
                f"{SPEC} line {unclosed.line}: {unclosed.message}",
                hint="close it, then run kern again: it resumes",
            )
        self._one_active()
        return self.observer.look()

    def _one_active(self) -> None:
        """Of several `[~]` the start ref's stays, else the stage files', else the first (R10)."""
        text, parsed = self.papers.spec()
        if len(parsed.active) < 2:
            return
        active = {task.key for task in parsed.active}
        starts = [start.task for _, start in refs.starts(self.repo)]
        files = [workspace.load(self.scope, stage) for stage in Stage]
        names = [*starts, *(named(value) for value in files if value)]
        preferred = next((key for key in names if key in active), None)
        _, told = reconcile.single_active(text, preferred)
        self.papers.edit(lambda fresh, _: reconcile.single_active(fresh, preferred)[0])
        for line in told:
            self.keeper.warn(line)

    # ---------------------------------------------------------------- begin

    def take_next(self, passed_over: Collection[Key]) -> Task | None:
        """Rows d and 1: sweep, select, `[~]`. None where nothing is ready."""
        sweep(self.scope)
        chosen: list[Task] = []

        def apply(text: str, parsed: Spec) -> str:
            task = select(parsed, passed_over)
            chosen[:] = [task] if task else []
            return edit.mark(text, task, Marker.ACTIVE) if task else text

        self.papers.edit(apply)
        return chosen[0] if chosen else None

    # ---------------------------------------------------------------- stage 1

    def research(self, at: Situation) -> None:
        """Row n. The tree is watched: an agent that wrote has failed, a person is named."""
        key, task = opened(at)
        began = now()
        before = self.snapshots.take()
        papers = self.custody.take()

        def settle(reply: Reply) -> None:
            if reply.wrote:
                self._undo_research(at, before, reply.wrote)
            if not reply.text.strip() and not reply.result.get("is_error"):
                raise TransientFault("research stage: the answer is empty")

        outcome = self.caller.call(
            Stage.RESEARCH,
            self.briefs.research(task),
            self.briefs.templates[Stage.RESEARCH].model,
            task=key.text,
            attempt=at.attempt,
            settle=settle,
        )
        assert outcome is not None
        self._name_strangers(before)
        self.custody.settle(papers, trusted=True)
        self._save(outcome, key, Stage.RESEARCH, at.attempt, base=at.head.commit, time=began)

    def _undo_research(self, at: Situation, before: str, tools: Sequence[str]) -> None:
        key, _ = opened(at)
        after = self.snapshots.take(before)
        changed = self.repo.changed(before, after)
        if changed:
            ref = self.keeper.keep(key, f"{at.attempt}-research", after, at.head.commit)
            self.snapshots.put_back({path: old for path, (old, _) in changed.items()})
            self.keeper.warn(f"the research agent wrote: put back, kept as {ref}")
        raise TransientFault(
            f"research stage: the agent used {', '.join(tools)}, which this stage does not offer"
        )

    def _name_strangers(self, before: str) -> None:
        if changed := sorted(self.repo.changed(before, self.snapshots.take(before))):
            self.keeper.warn(
                f"changed during research, not by the agent; kept as yours: {some(changed)}"
            )

    def note_research(self, at: Situation) -> None:
        findings = answer.parse(Stage.RESEARCH, said(at.files[Stage.RESEARCH])).findings
        lines = edit.research(findings or [("Findings", "none")])
        self.papers.edit_task(
            opened(at)[0],
            lambda text, _, task: (
                text if task.of(Kind.RESEARCH) else edit.annotate(text, task, lines)
            ),
        )

    # ---------------------------------------------------------------- stage 2

    def implement(self, at: Situation) -> None:
        """Steps 4 to 6: the start ref, the agent, what it may not have done, stage2.json."""
        key, task = opened(at)
        mode = due(at.facts)
        red: Mapping[str, Any] | None = None
        if at.attempt > 1:
            workspace.retire(self.scope, str(at.attempt - 1))
            red = red_gate(self.scope, key, at.attempt - 1)
        before = self.snapshots.take()
        settings = self.prover.settings(before)  # a fault in them must be told before step 4
        start = self._begin(at, before, at.attempt)
        papers = self.custody.take()
        researched = at.files[Stage.RESEARCH]

        def again() -> bool:
            self.keeper.enforce(at.head, start)
            self.custody.settle(papers, trusted=False)
            if ref := self.keeper.back_to(start, f"{at.attempt}-retry"):
                self.keeper.warn(f"its work so far is put back, kept as {ref}")
            return True

        try:
            if mode is Tier.IMPLEMENT:
                self.prover.baseline(at.head, start, settings.gates)
            outcome = self.caller.call(
                Stage.IMPLEMENT,
                self.briefs.implement(
                    task, mode, said(researched), self.prover.checks(task, settings), red
                ),
                self.briefs.templates[Stage.IMPLEMENT].model,
                task=key.text,
                attempt=at.attempt,
                mode=str(mode),
                env={"GIT_REFLOG_ACTION": f"kern {self.caller.run} stage 2"},
                config=guard.refuse_push(self.repo),
                again=again,
            )
        except Interrupted as exc:
            exc.note = HALF_DONE
            raise
        except KernError:
            again()  # no half-done work in the tree while a person settles it
            refs.delete(self.repo, start.ref, start.commit)
            raise
        assert outcome is not None
        violation = self.keeper.enforce(at.head, start)
        self.custody.settle(papers, trusted=False)
        after = self.snapshots.take(before)
        facts: dict[str, object] = {
            "base": at.head.commit,
            "start": before,
            "tree": after,
            "time": researched["kern"].get("time"),
        }
        if why := violation or outcome.fault:
            facts["outcome"] = verdict.broken(plain.line(why), mode)
        self._save(outcome, key, Stage.IMPLEMENT, at.attempt, **facts)

    def _begin(self, at: Situation, before: str, attempt: int) -> StartRef:
        """Step 4: the start ref."""
        own = guard.take(self.repo, self.snapshots.hiding(before))
        staged = index.tree(self.repo)
        return refs.write_start(self.repo, at.head, before, staged, own, opened(at)[0], attempt)

    # ---------------------------------------------------------------- stage 3

    def commit(self, at: Situation, *, ask: bool) -> None:
        """Step 8: HEAD moves, or the attempt has failed."""
        key, task = opened(at)
        with self._hooks_at_work():
            failed = self.committer.commit(at, task, ask=ask)
        if failed:
            self.prover.decide(at.files[Stage.IMPLEMENT], failed, key)

    def conclude(self, at: Situation) -> Settled | None:
        """Row m, an experiment that did not work: its lesson is committed, then row c is due. Where
        a hook does not let it, a person is.
        """
        if at.start is None:  # the commit is found again by its base
            self._begin(at, self.snapshots.take(), at.attempt - 1)
            return None
        _, task = opened(at)
        with self._hooks_at_work():
            refused = self.committer.conclude(at, task, self.settling.taught(at), now()[:10])
        return self.settling.block(at, refused) if refused else None

    @contextlib.contextmanager
    def _hooks_at_work(self) -> Iterator[None]:
        """What they did to SPEC.md and LEARNINGS.md is settled afterwards."""
        papers = self.custody.take()
        yield
        for name, known in zip((SPEC, LEARNINGS), papers.texts, strict=True):
            fresh = self.papers.read(name) or ""
            if reconcile.in_conflict(fresh) and not reconcile.in_conflict(known):
                self.papers.write(name, known)
                self.keeper.warn(
                    f"a hook left conflict marks in {name}: put back; see `git stash list`"
                )
        self.custody.settle(papers, trusted=True)

    def _save_commit(self, outcome: Said, at: Situation) -> None:
        when = at.files[Stage.IMPLEMENT]["kern"].get("time")
        self._save(outcome, opened(at)[0], Stage.COMMIT, at.attempt, base=at.head.commit, time=when)

    def _save(self, told: Said, key: Key, stage: Stage, attempt: int, **facts: object) -> None:
        noted = {**naming(key), "stage": str(stage), "attempt": attempt, "run": self.caller.run}
        value = stage_file(told, {**noted, **facts})
        workspace.save(self.scope, stage, value)
