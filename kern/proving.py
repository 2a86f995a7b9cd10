"""The verdict on stage 2: git's word, then the gates on the tree as the agent left it, then judges.

With a baseline: what was red before the task is not the task's fault.
"""

from collections.abc import Mapping

from kern import answer, config, proof, verdict, workspace
from kern.agents.reply import Reply
from kern.briefs import Briefs
from kern.committing import overlap
from kern.config import FILE, Gate, Settings
from kern.errors import TransientFault
from kern.events import GateEnded, GateStarted, Sink, Traced
from kern.gates import Gates
from kern.keeper import Keeper, some
from kern.observe import Situation, StageFile, said, trees
from kern.pipeline import Aide, Saved, Stage, tier
from kern.proof import Result
from kern.refs import StartRef
from kern.repo import Entry, Repo
from kern.settling import opened, put_back
from kern.snapshot import Snapshots
from kern.spec import Key, Task
from kern.stages import Caller
from kern.witness import Witness


class Prover:
    def __init__(
        self,
        repo: Repo,
        witness: Witness,
        snapshots: Snapshots,
        keeper: Keeper,
        briefs: Briefs,
        caller: Caller,
        sink: Sink,
    ) -> None:
        self.repo = repo
        self.witness = witness
        self.snapshots = snapshots
        self.keeper = keeper
        self.briefs = briefs
        self.caller = caller
        self.sink = sink
        self._settings: tuple[str, Settings] = "", caller.settings
        self.gates = Gates(repo.root, caller.scope, caller.run, caller.mark, caller.tick)

    def settings(self, tree: str) -> Settings:
        """As the snapshot before stage 2 has them: an agent cannot lower its own bar."""
        if self._settings[0] != tree:
            text = self.repo.content(tree, FILE)
            found = config.parse(text.decode("utf-8", "replace")) if text is not None else None
            self._settings = tree, found or self.caller.settings  # the latter where git ignores it
        return self._settings[1]

    # ---------------------------------------------------------------- before stage 2

    def baseline(self, start: StartRef) -> None:
        """The project's gates on the tree before the task; what they change goes back."""
        for gate in self.settings(start.tree).gates:
            if self.gates.known(gate, start.tree, anew=True) is not None:
                continue
            self.sink(GateStarted(gate.name, before=True))
            result = self.gates.run(gate, start.tree)
            self.sink(GateEnded(result, before=True))
            if ref := self.keeper.back_to(start, f"{start.attempt}-gate"):
                self.keeper.warn(
                    f"{result.label} changed files before the task began: put back, kept as {ref}; "
                    "have git ignore what it makes"
                )

    # ---------------------------------------------------------------- after stage 2

    def prove(self, at: Situation) -> None:
        """Step 7: the tree as the agent left it, then the witnesses' verdict, made durable."""
        key, task = opened(at)
        second = at.files[Stage.IMPLEMENT]
        start, tree = trees(second)
        change = {path: new for path, (_, new) in self.repo.changed(start, tree).items()}
        put_back(self.keeper, at, change, known=start)
        replied = answer.parse(Stage.IMPLEMENT, said(second))
        objection, facts = "", dict[str, object]()
        if replied.code is answer.Code.SUCCESS:
            objection = self._objection(at, start, tree)
            if not objection:
                objection, facts = self._checked(at, task, change, start, tree)
        mode = tier(at.facts.attempts, subtask=at.facts.subtask)
        outcome = verdict.decide(
            replied, task.text, mode, subtask=at.facts.subtask, objection=objection
        )
        self.decide(second, outcome, key, **facts)

    def _objection(self, at: Situation, start: str, tree: str) -> str:
        """git's word: something changed, and it can be told from what is the person's."""
        if not self.witness.task_change(start, tree):
            return "SUCCESS was claimed, but nothing changed"
        _, conflicts = self.witness.expected(start, tree, at.head.commit)
        if conflicts:
            return overlap(at, conflicts)
        lost: list[str] = []
        if at.start and at.start.base == at.head.commit:
            lost = self.witness.taken_away(start, tree, at.head.commit)
        return f"it took away uncommitted changes of yours in {some(lost)}" if lost else ""

    def _checked(
        self, at: Situation, task: Task, change: Mapping[str, Entry | None], start: str, tree: str
    ) -> tuple[str, dict[str, object]]:
        """What a gate or a judge holds against the change; and what stage2.json is to remember."""
        settings = self.settings(start)
        gates = (*config.task_gates(task, settings.timeouts.gate), *settings.gates)
        criteria = config.criteria(task)
        if not gates and not criteria:
            return "", {}
        before = self.snapshots.take(start)
        dirty = self.witness.uncommitted(at.head.commit, before)
        if others := [path for path in dirty if path not in change]:
            self.keeper.warn(f"checked together with your uncommitted changes in {some(others)}")
        results: list[Result] = []
        for gate in gates:
            results.append(self._gate(gate, start))
            if results[-1].blocks:
                break
        else:
            for criterion in criteria:
                results.append(self._judge(criterion, at, task, start, tree))
                if results[-1].blocks:
                    break
        self._restore(at, before, change, start)
        if results[-1].blocks:
            return proof.objection(results[-1]), {"red": proof.evidence(results[-1])}
        return "", {"proof": proof.proved(results)}

    def _gate(self, gate: Gate, start: str) -> Result:
        self.sink(GateStarted(gate.name))
        result = self.gates.run(gate, self.snapshots.take(start))
        result = result.against(self.gates.known(gate, start))
        self.sink(GateEnded(result))
        return result

    def _judge(self, criterion: str, at: Situation, task: Task, start: str, tree: str) -> Result:
        prompt = self.briefs.judge(task, criterion, start, tree)
        model = self.briefs.templates[Aide.JUDGE].model

        def settle(reply: Reply) -> None:
            if reply.wrote:
                raise TransientFault(f"judge: the agent used {', '.join(reply.wrote)}")

        told = self.caller.call(
            Aide.JUDGE, prompt, model, task=task.text, attempt=at.attempt, settle=settle
        )
        assert told is not None
        result = proof.judged(criterion, told.fault or told.reply.text)
        self.sink(GateEnded(result))
        return result

    def _restore(
        self, at: Situation, before: str, change: Mapping[str, Entry | None], start: str
    ) -> None:
        """The task's paths go back to what the agent left; what else a gate made is named."""
        strayed = self.repo.changed(before, self.snapshots.take(start)).keys()
        if touched := sorted(strayed & change.keys()):
            self.keeper.warn(f"a gate changed {some(touched)}: put back as the agent left it")
            put_back(self.keeper, at, change, known=before)
        if others := sorted(strayed - change.keys()):
            self.keeper.warn(f"a gate made or changed {some(others)}: left there, never committed")

    # ---------------------------------------------------------------- the decision

    def decide(self, second: StageFile, outcome: str, key: Key, **facts: object) -> None:
        kern = {**second["kern"], **facts, "outcome": outcome}
        workspace.save(self.caller.scope, Stage.IMPLEMENT, {**second, "kern": kern})
        self.sink(Traced(f"outcome of {key.text}: {outcome}"))

    def reprove(self, at: Situation) -> None:
        """Row j: proof is bound to its base; HEAD has moved on by a person's commit."""
        key, _ = opened(at)
        second = at.files[Stage.IMPLEMENT]
        bound = ("outcome", "proof", "red")
        kern = {name: value for name, value in second["kern"].items() if name not in bound}
        kern["base"] = at.head.commit
        workspace.save(self.caller.scope, Stage.IMPLEMENT, {**second, "kern": kern})
        self.keeper.warn(
            f"a commit of yours came in before the task's: checked again on top of it: {key.text}"
        )

    def reject(self, at: Situation) -> None:
        """Stage 3 rejected the change: a failed attempt."""
        third = at.files[Stage.COMMIT]
        reason = answer.parse(Stage.COMMIT, said(third)).reason
        outcome = f"{Saved.FAILED}: rejected at the commit: {reason}"
        self.decide(at.files[Stage.IMPLEMENT], outcome, opened(at)[0])
