"""The durable steps of one task's walk, each an atomic replace, in the order that makes every crash
readable.

Which step is next, `pipeline.resume` says; here it is done. Two rules hold throughout: `[x]` is
never on disk before HEAD has it, and work is kept, then put back, then noted.
"""

from collections.abc import Collection, Mapping, Sequence

from kern import answer, edit, guard, index, plain, reconcile, refs, verdict, workspace
from kern.agents.reply import Reply
from kern.briefs import Briefs
from kern.choice import select
from kern.committing import Committer, overlap
from kern.context import Template
from kern.documents import LEARNINGS, SPEC, Documents
from kern.errors import KernError, TransientFault
from kern.events import Sink, Traced
from kern.keeper import Keeper, some
from kern.observe import Observer, Situation, StageFile, named, naming, said, trees
from kern.pipeline import Saved, Stage, tier
from kern.recovery import Recovery
from kern.repo import Repo
from kern.settling import Settling, now, opened, put_back, sweep
from kern.snapshot import Snapshots
from kern.spec import Key, Kind, Marker, Spec, Task
from kern.stages import Caller, Said, stage_file
from kern.workspace import Scope


class Walk:
    def __init__(
        self,
        repo: Repo,
        scope: Scope,
        caller: Caller,
        templates: Mapping[Stage, Template],
        sink: Sink,
    ) -> None:
        self.repo = repo
        self.scope = scope
        self.caller = caller
        self.sink = sink
        self._forms: dict[str, str | None] = {}
        self.papers = Documents(repo.root, repo.git_dir / "kern")
        self.snapshots = Snapshots(repo)
        self.observer = Observer(repo, scope, self.papers, self.snapshots)
        self.keeper = Keeper(repo, self.snapshots, sink)
        self.recovery = Recovery(repo, scope, self.papers, self.snapshots, self.keeper)
        self.settling = Settling(repo, scope, self.papers, self.keeper, sink)
        self.briefs = Briefs(repo, self.papers, templates)
        self.committer = Committer(
            repo, self.observer.witness, self.papers, self.briefs, caller, sink, self._save_commit
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
        papers = self._papers()

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
        self._reconcile(papers, trusted=True)
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
        mode = tier(at.facts.attempts, subtask=at.facts.subtask)
        if at.attempt > 1:
            workspace.retire(self.scope, str(at.attempt - 1))
        before = self.snapshots.take()
        own = guard.take(self.repo)
        staged = index.tree(self.repo)
        start = refs.write_start(self.repo, at.head, before, staged, own, key, at.attempt)
        papers = self._papers()
        researched = at.files[Stage.RESEARCH]

        def again() -> bool:
            self.keeper.enforce(at.head, start)
            self._reconcile(papers, trusted=False)
            self.keeper.back_to(start, f"{at.attempt}-retry")
            return True

        try:
            outcome = self.caller.call(
                Stage.IMPLEMENT,
                self.briefs.implement(task, mode, said(researched)),
                self.briefs.templates[Stage.IMPLEMENT].model,
                task=key.text,
                attempt=at.attempt,
                mode=str(mode),
                env={"GIT_REFLOG_ACTION": f"kern {self.caller.run} stage 2"},
                config=guard.refuse_push(self.repo),
                again=again,
            )
        except KernError:
            again()  # no half-done work in the tree while a person settles it
            raise
        assert outcome is not None
        violation = self.keeper.enforce(at.head, start)
        self._reconcile(papers, trusted=False)
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

    # ---------------------------------------------------------------- the verdict

    def prove(self, at: Situation) -> None:
        """Step 7: the tree as the agent left it, then the witnesses' verdict, made durable."""
        key, task = opened(at)
        second = at.files[Stage.IMPLEMENT]
        start, tree = trees(second)
        change = self.repo.changed(start, tree)
        put_back(self.keeper, at, {path: new for path, (_, new) in change.items()}, known=start)
        self._decide(second, self._verdict(at, task, second, start, tree), key)

    def _verdict(self, at: Situation, task: Task, second: StageFile, start: str, tree: str) -> str:
        """The outcome's words: what the answer says, as far as git bears it out."""
        replied = answer.parse(Stage.IMPLEMENT, said(second))
        objection = ""
        if replied.code is answer.Code.SUCCESS:
            objection = self._objection(at, start, tree)
        mode = tier(at.facts.attempts, subtask=at.facts.subtask)
        return verdict.decide(
            replied, task.text, mode, subtask=at.facts.subtask, objection=objection
        )

    def _objection(self, at: Situation, start: str, tree: str) -> str:
        """git's word: something changed, and it can be told from what is the person's."""
        if not self.observer.witness.task_change(start, tree):
            return "SUCCESS was claimed, but nothing changed"
        _, conflicts = self.observer.witness.expected(start, tree, at.head.commit)
        if conflicts:
            return overlap(at, conflicts)
        lost: list[str] = []
        if at.start and at.start.base == at.head.commit:
            lost = self.observer.witness.taken_away(start, tree, at.head.commit)
        return f"it took away uncommitted changes of yours in {some(lost)}" if lost else ""

    def _decide(self, second: StageFile, outcome: str, key: Key) -> None:
        kern = {**second["kern"], "outcome": outcome}
        workspace.save(self.scope, Stage.IMPLEMENT, {**second, "kern": kern})
        self.sink(Traced(f"outcome of {key.text}: {outcome}"))

    def reprove(self, at: Situation) -> None:
        """Row j: proof is bound to its base; HEAD has moved on by a person's commit."""
        key, _ = opened(at)
        second = at.files[Stage.IMPLEMENT]
        kern = {k: v for k, v in second["kern"].items() if k != "outcome"}
        kern["base"] = at.head.commit
        workspace.save(self.scope, Stage.IMPLEMENT, {**second, "kern": kern})
        self.keeper.warn(
            f"a commit of yours came in before the task's: checked again on top of it: {key.text}"
        )

    # ---------------------------------------------------------------- stage 3

    def commit(self, at: Situation, *, ask: bool) -> None:
        """Step 8: HEAD moves, or the attempt has failed."""
        key, task = opened(at)
        papers = self._papers()
        failed = self.committer.commit(at, task, ask=ask)
        for name, known in zip((SPEC, LEARNINGS), papers, strict=True):
            fresh = self.papers.read(name) or ""
            if reconcile.in_conflict(fresh) and not reconcile.in_conflict(known):
                self.papers.write(name, known)
                self.keeper.warn(
                    f"a hook left conflict marks in {name}: put back; see `git stash list`"
                )
        self._reconcile(papers, trusted=True)
        if failed:
            self._decide(at.files[Stage.IMPLEMENT], failed, key)

    def _save_commit(self, outcome: Said, at: Situation) -> None:
        when = at.files[Stage.IMPLEMENT]["kern"].get("time")
        self._save(outcome, opened(at)[0], Stage.COMMIT, at.attempt, base=at.head.commit, time=when)

    def reject(self, at: Situation) -> None:
        reason = answer.parse(Stage.COMMIT, said(at.files[Stage.COMMIT])).reason
        outcome = f"{Saved.FAILED}: rejected at the commit: {reason}"
        self._decide(at.files[Stage.IMPLEMENT], outcome, opened(at)[0])

    # ---------------------------------------------------------------- texts

    def _papers(self) -> tuple[str, str]:
        self._forms = {name: self.papers.form(name) for name in (SPEC, LEARNINGS)}
        return self.papers.spec_text(), self.papers.read(LEARNINGS) or ""

    def _reconcile(self, before: tuple[str, str], *, trusted: bool) -> None:
        for name, known in zip((SPEC, LEARNINGS), before, strict=True):
            if not trusted and self.papers.restore_form(name, self._forms[name], known):
                self.keeper.warn(f"{name} was made something else while an agent ran: put back")
        text = self.papers.read(SPEC)
        if text != before[0]:
            fixed, told = reconcile.spec(before[0], text, trusted=trusted)
            if fixed != text:
                self.papers.write(SPEC, fixed)
            for line in [*told, *reconcile.new_faults(before[0], fixed)]:
                self.keeper.warn(line)
        learnings = self.papers.read(LEARNINGS)
        if (learnings or "") != before[1]:
            fixed, told = reconcile.learnings(before[1], learnings)
            if fixed != (learnings or ""):
                self.papers.write(LEARNINGS, fixed)
            for line in told:
                self.keeper.warn(line)

    def _save(self, told: Said, key: Key, stage: Stage, attempt: int, **facts: object) -> None:
        noted = {**naming(key), "stage": str(stage), "attempt": attempt, "run": self.caller.run}
        value = stage_file(told, {**noted, **facts})
        workspace.save(self.scope, stage, value)
