"""Asks the planner what is to be done, and takes its tasks into SPEC.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kern.errors import KernError
from kern.events import Planned
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.model import SPEC, Aide, Marker, Role
from kern.spec.checklist import Spec
from kern.spec.documents import Documents
from kern.stages import briefs, bundle, prompt, proposal
from kern.stages.call import Caller
from kern.stages.ending import may_not_write
from kern.stages.prompt import Prompt
from kern.stages.proposal import Mode, Plan
from kern.stages.template import Template
from kern.system import workspace

FILE = "plan.md"  # the raw answer, beside the stage files


@dataclass(frozen=True, slots=True)
class Planner:
    repo: Repo
    papers: Documents
    templates: Mapping[Role, Template]
    caller: Caller

    def ask(self, mode: Mode, goal: str, red: Sequence[str] = ()) -> Plan:
        """One process. A refused answer comes back as such, and lies in the stage files' folder."""
        said = self.caller.call(
            self._prompt(mode, goal, red),
            task="",
            attempt=1,
            mode=str(mode),
            settle=may_not_write("planner"),
        )
        assert said is not None
        text = said.reply.text
        workspace.replace(self.answer, text.encode("utf-8", "surrogateescape"))
        plan = proposal.read(text, self.known(), mode)
        return Plan(wrong=said.fault) if said.fault else plan

    def _prompt(self, mode: Mode, goal: str, red: Sequence[str]) -> Prompt:
        """`red`: the checks that fail now, with the end of what they printed. Of specifications the
        paths are listed: they may be many.
        """
        text, parsed = self.papers.spec()
        tasks = () if bundle.is_example(text) else parsed.tasks  # the example's are nobody's
        listed = sorted(tasks, key=lambda task: task.marker is not Marker.DONE)  # open: last
        summed = totals.summary(
            store.load(store.place(self.repo.common_dir), lambda complaint: None)
        )
        root = self.repo.root
        known = briefs.known(self.repo, self.papers)
        return prompt.compose(
            self.templates[Aide.PLANNER],
            {
                "GOAL": goal or "(none is stated: go by the specifications)",
                "MODE": str(mode),
                "GUIDANCE": known.guidance.text,
            },
            {
                "RED": red,
                "SPECS": sorted(str(p.relative_to(root)) for p in root.glob("specs/**/*.md")),
                "TASKS": [f"[{task.marker}] {task.text}" for task in listed],
                "HISTORY": proposal.history(summed["tasks"]),
                "LEARNINGS": known.learnings,
                "COMMITS": known.commits,
            },
            known.guidance.notices,
        )

    def known(self) -> str:
        """SPEC.md; the tasks of the example that kern init wrote are nobody's."""
        return bundle.without_example(self.papers.spec_text())

    def take(self, plan: Plan, goal: str = "") -> None:
        """Write it into SPEC.md as that is now, or refuse it where it no longer fits."""

        def apply(text: str, _: Spec) -> tuple[str, Plan]:
            fitted = proposal.fitted(plan, bundle.without_example(text))
            if fitted.wrong:
                raise self.refusal(fitted)
            return planned(text, plan, goal), fitted

        taken = self.papers.update(apply)
        self.caller.sink(Planned(taken.titles, plan.done))

    @property
    def answer(self) -> Path:
        """Where the last answer lies as it came."""
        return self.caller.scope.folder / FILE

    def refusal(self, plan: Plan) -> KernError:
        return KernError(
            f"the planner's answer is refused: {plan.wrong or 'nothing in it is new'}",
            hint=f"{SPEC} is untouched; the answer: {self.answer}",
        )


def planned(text: str, plan: Plan, goal: str = "") -> str:
    """SPEC.md with the plan in it."""
    text = proposal.with_goal(bundle.without_example(text), goal)
    return proposal.added(text, plan)
