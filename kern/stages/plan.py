"""Asks the planner what is to be done, and takes its tasks into SPEC.md; or what of LEARNINGS.md
is to be changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kern import plain
from kern.errors import KernError, UsageError
from kern.events import Planned
from kern.git.repository import Repo
from kern.memory import entries
from kern.memory.recall import shown
from kern.model import LEARNINGS, SPEC, Aide, Marker, Role
from kern.spec.file import Documents
from kern.spec.imports import Added
from kern.spec.parse import Kind, Spec, Task, parse
from kern.stages import answer, belief, briefs, prompts, proposal
from kern.stages.call import Caller
from kern.stages.prompts import Template
from kern.stages.proposal import Mode, Plan, Proposed
from kern.system import workspace

_MOST_TOLD = 3000  # characters of finished tasks
_MOST_OF_A_NOTE = 600  # characters


@dataclass(frozen=True, slots=True)
class Planner:
    repo: Repo
    documents: Documents
    templates: Mapping[Role, Template]
    caller: Caller

    @property
    def answer(self) -> Path:
        """Where the last answer lies as it came, beside the stage files."""
        return self.caller.scope.folder / prompts.FILES[Aide.PLANNER]

    @property
    def tidied(self) -> Path:
        """The same for LEARNINGS.md."""
        return self.caller.scope.folder / prompts.TIDY

    def _ask(
        self, form: Template, place: Path, mode: str, goal: str, more: Mapping[str, list[str]]
    ) -> tuple[str, str]:
        """What one process answers, and the fault where it ended badly."""
        advice = briefs.guidance(briefs.on_disk(self.repo.root))
        there = self.documents.read(LEARNINGS) or ""
        words: dict[str, str | Sequence[str]] = {
            "guidance": advice.text,
            "mode": mode,
            "goal": goal,
            "commits": briefs.recent(self.repo),
            "learnings": [shown(one) for one in entries.parse(there).entries if not one.unwanted],
        }
        prompt = prompts.compose(form, {**words, **more}, advice.notices)
        reply = self.caller.call(prompt, task="", attempt=1)
        text = reply.reply.text
        workspace.replace(place, plain.encode(text))
        reason = answer.parse(Aide.PLANNER, text).reason
        repeats = belief.repeats(text, reason, form.contract, goal)
        return text, reply.fault or (belief.REPEATED if repeats else "")

    # ------------------------------------------------------------ SPEC.md

    def ask(self, mode: Mode, goal: str) -> Plan:
        """A refused answer comes back as such. Of specifications the paths are listed: they may be
        many.
        """
        tasks = sorted(parse(self.known()).tasks, key=lambda task: task.marker is not Marker.DONE)
        specs = (path.relative_to(self.repo.root) for path in self.repo.root.glob("specs/**/*.md"))
        sections = {
            "specs": sorted(map(str, specs)),
            "tasks": [f"[{task.marker}] {task.text}" for task in tasks],  # the open ones last
        }
        purpose = goal or "(none is stated: go by the specifications)"
        form = self.templates[Aide.PLANNER]
        text, fault = self._ask(form, self.answer, mode, purpose, sections)
        return Plan(wrong=fault) if fault else proposal.read(text, self.known(), mode)

    def known(self) -> str:
        """SPEC.md; the tasks of the example that kern init wrote are nobody's."""
        return prompts.without_example(self.documents.spec_text())

    def take(self, plan: Plan, goal: str = "") -> None:
        """Write it into SPEC.md as that is now, or refuse it where it no longer fits."""

        def apply(text: str, _: Spec) -> tuple[str, tuple[str, ...]]:
            result = self.planned(text, plan, goal)
            return result.text, result.new

        self.caller.sink(Planned(self.documents.update(apply), plan.done))

    def planned(self, text: str, plan: Plan, goal: str = "") -> Added:
        """SPEC.md with the plan in it."""
        try:
            return proposal.added(proposal.with_goal(prompts.without_example(text), goal), plan)
        except UsageError as exc:
            raise self.refusal(str(exc)) from None

    def refusal(self, why: str) -> KernError:
        return KernError(
            f"the planner's answer is refused: {why or 'nothing in it is new'}",
            hint=f"{SPEC} is untouched; the answer: {self.answer}",
        )

    # ------------------------------------------------------------ LEARNINGS.md

    def tidy(self) -> Proposed:
        """As `ask`."""
        there = self.documents.read(LEARNINGS) or ""
        form = prompts.template(self.repo.root, Aide.PLANNER, prompts.TIDY, self.caller.settings)
        form = replace(form, runners=self.templates[Aide.PLANNER].runners)
        done = [task for task in self.documents.spec()[1].tasks if task.marker is Marker.DONE]
        used = (one for one in entries.parse(there).entries if not one.retired)
        sections = {
            "learnings": [plain.line(one.line, 160) for one in used],
            "tasks": prompts.newest([*map(_finished, done)], _MOST_TOLD),
        }
        text, fault = self._ask(form, self.tidied, "tidy", "", sections)
        return Proposed(wrong=fault) if fault else proposal.changes(text, there)

    def relearn(self, proposed: Proposed) -> None:
        """Write what a person was shown, unless LEARNINGS.md has changed since it was read."""
        with self.documents.alone():
            if (self.documents.read(LEARNINGS) or "") != proposed.before:
                raise KernError(
                    f"{LEARNINGS} has changed since it was shown; it is as it was",
                    hint=f"kern learn --tidy looks at it again; this answer: {self.tidied}",
                )
            self.documents.write(LEARNINGS, proposed.text)


def _finished(task: Task) -> str:
    """One that is done, with what was asked about it and answered."""
    notes = task.of(Kind.QUESTION, Kind.ANSWER)
    more = (f"\n  {note.kind}: {plain.line(note.text, _MOST_OF_A_NOTE)}" for note in notes)
    return "".join((f"- {plain.line(task.text)}", *more))
