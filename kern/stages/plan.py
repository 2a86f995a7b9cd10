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
from kern.journal import store
from kern.journal.history import Task as Past
from kern.journal.history import fold
from kern.memory.entries import parse as parse_learnings
from kern.memory.recall import shown
from kern.model import LEARNINGS, SPEC, Aide, Marker, Role
from kern.spec.file import Documents
from kern.spec.imports import Added
from kern.spec.parse import Spec, parse
from kern.stages import briefs, prompts, proposal
from kern.stages.call import Caller
from kern.stages.prompts import Template
from kern.stages.proposal import Mode, Plan, Proposed
from kern.system import workspace

_MOST_TOLD = 3000  # characters of finished tasks, and of their history


@dataclass(frozen=True, slots=True)
class Planner:
    repo: Repo
    papers: Documents
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
        self,
        form: Template,
        place: Path,
        exempt: Mapping[str, str],
        sections: Mapping[str, Sequence[str]],
    ) -> tuple[str, str]:
        """What one process answers, and the fault where it ended badly."""
        records = store.load(store.place(self.repo.common_dir), lambda complaint: None)
        known = briefs.known(self.repo, self.papers)
        history = [_became(task) for task in fold(records).tasks.values()]
        usual = {
            "history": prompts.newest(history, _MOST_TOLD),
            "commits": known.commits,
            "learnings": [shown(one) for one in known.learnings.entries if not one.unwanted],
        }
        words = {"guidance": known.guidance.text, **exempt}
        prompt = prompts.compose(form, words, {**usual, **sections}, known.guidance.notices)
        said = self.caller.call(prompt, task="", attempt=1)
        workspace.replace(place, plain.encode(said.reply.text))
        return said.reply.text, said.fault

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
        wanted = goal or "(none is stated: go by the specifications)"
        form = self.templates[Aide.PLANNER]
        text, fault = self._ask(form, self.answer, {"goal": wanted, "mode": mode}, sections)
        return Plan(wrong=fault) if fault else proposal.read(text, self.known(), mode)

    def known(self) -> str:
        """SPEC.md; the tasks of the example that kern init wrote are nobody's."""
        return prompts.without_example(self.papers.spec_text())

    def take(self, plan: Plan, goal: str = "") -> None:
        """Write it into SPEC.md as that is now, or refuse it where it no longer fits."""

        def apply(text: str, _: Spec) -> tuple[str, tuple[str, ...]]:
            taken = self.planned(text, plan, goal)
            return taken.text, taken.new

        self.caller.sink(Planned(self.papers.update(apply), plan.done))

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
        own, there = self.templates[Aide.PLANNER], self.learnings()
        form = prompts.template(self.repo.root, Aide.PLANNER, prompts.TIDY, self.caller.settings)
        form = replace(form, by=own.by, stand_ins=own.stand_ins)
        done = proposal.finished(self.papers.spec()[1])
        sections = {
            "learnings": proposal.listed(parse_learnings(there).entries),
            "tasks": prompts.newest(done, _MOST_TOLD),
        }
        text, fault = self._ask(form, self.tidied, {"mode": "tidy"}, sections)
        if self.learnings() != there:
            return Proposed(wrong=f"{LEARNINGS} has changed while the agent read it")
        return Proposed(wrong=fault) if fault else proposal.changes(text, there)

    def learnings(self) -> str:
        return self.papers.read(LEARNINGS) or ""

    def relearn(self, found: Proposed) -> None:
        """Write what a person was shown, unless LEARNINGS.md has changed since."""
        with self.papers.alone():
            if self.learnings() != found.before:
                raise KernError(
                    f"{LEARNINGS} has changed since it was shown; it is as it was",
                    hint=f"kern learn --tidy looks at it again; this answer: {self.tidied}",
                )
            self.papers.write(LEARNINGS, found.text)


def _became(task: Past) -> str:
    """What the journal has of one, in a line."""
    tried = len(task.of("attempt"))
    tries = f" after {tried} failed attempts" if tried else ""
    why = f": {task.detail}" if task.detail and task.outcome != "done" else ""
    proved = f", {task.proved}" if task.proved else ""
    return plain.line(f"{task.outcome}{tries}{proved}: {task.task}{why}", 300)
