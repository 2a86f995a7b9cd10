"""Asks the planner what is to be done, and takes its tasks into SPEC.md; or what of LEARNINGS.md
is to be changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from kern.errors import KernError
from kern.events import Planned
from kern.frozen import frozen
from kern.git.repository import Repo
from kern.journal import store, totals
from kern.memory import entries
from kern.memory.select import shown
from kern.model import LEARNINGS, SPEC, Aide, Marker, Role
from kern.spec.checklist import Spec
from kern.spec.documents import Documents
from kern.stages import briefs, bundle, prompt, proposal, reflection, template
from kern.stages.call import Caller, Said
from kern.stages.ending import may_not_write
from kern.stages.prompt import Prompt
from kern.stages.proposal import Mode, Plan
from kern.stages.reflection import Proposed
from kern.stages.template import Template
from kern.system import workspace

FILE = "plan.md"  # the raw answer, beside the stage files
REFLECTED = "reflect.md"
_MOST_TOLD = 3000  # characters of finished tasks, and of their history


@frozen
class Planner:
    repo: Repo
    papers: Documents
    templates: Mapping[Role, Template]
    caller: Caller

    def ask(self, mode: Mode, goal: str, red: Sequence[str] = ()) -> Plan:
        """One process. A refused answer comes back as such, and lies in the stage files' folder."""
        said = self._said(self._prompt(mode, goal, red), str(mode), self.answer)
        plan = proposal.read(said.reply.text, self.known(), mode)
        return Plan(wrong=said.fault) if said.fault else plan

    def _said(self, told: Prompt, mode: str, place: Path) -> Said:
        """`place`: where the answer is put as it comes."""
        by = may_not_write("planner")
        said = self.caller.call(told, task="", attempt=1, mode=mode, settle=by)
        workspace.replace(place, said.reply.text.encode("utf-8", "surrogateescape"))
        return said

    def _prompt(self, mode: Mode, goal: str, red: Sequence[str]) -> Prompt:
        """`red`: the checks that fail now, with the end of what they printed. Of specifications the
        paths are listed: they may be many.
        """
        text, parsed = self.papers.spec()
        tasks = () if bundle.is_example(text) else parsed.tasks  # the example's are nobody's
        listed = sorted(tasks, key=lambda task: task.marker is not Marker.DONE)  # open: last
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
                "HISTORY": self._history(),
                "LEARNINGS": [shown(one) for one in known.learnings if not one.unwanted],
                "COMMITS": known.commits,
            },
            known.guidance.notices,
        )

    def _history(self) -> list[str]:
        records = store.load(store.place(self.repo.common_dir), lambda complaint: None)
        return proposal.history(totals.summary(records)["tasks"])

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

    def reflect(self) -> Proposed:
        """One process, as `ask`; what is refused lies in `reflected`."""
        own = self.templates[Aide.PLANNER]
        form = template.form(self.repo.root, Aide.PLANNER, template.REFLECT, self.caller.settings)
        there, known = self.learnings(), briefs.known(self.repo, self.papers)
        done = reflection.finished(self.papers.spec()[1])
        told = prompt.compose(
            replace(form, by=own.by, stand_ins=own.stand_ins),
            {"GUIDANCE": known.guidance.text},
            {
                "LEARNINGS": reflection.listed(entries.parse(there)),
                "TASKS": reflection.newest(done, _MOST_TOLD),
                "HISTORY": reflection.newest(self._history(), _MOST_TOLD),
                "COMMITS": known.commits,
            },
            known.guidance.notices,
        )
        said = self._said(told, "reflect", self.reflected)
        if self.learnings() != there:
            return Proposed(wrong=f"{LEARNINGS} has changed while the agent read it")
        found = reflection.read(said.reply.text, there)
        return Proposed(wrong=said.fault) if said.fault else found

    def learnings(self) -> str:
        return self.papers.read(LEARNINGS) or ""

    def relearn(self, found: Proposed, seen: str) -> None:
        """Write what a person was shown, unless LEARNINGS.md has changed since (`seen`)."""
        with self.papers.alone():
            if self.learnings() != seen:
                raise KernError(
                    f"{LEARNINGS} has changed since it was shown; it is as it was",
                    hint=f"kern reflect looks at it again; this answer: {self.reflected}",
                )
            self.papers.write(LEARNINGS, relearned(seen, found))

    @property
    def answer(self) -> Path:
        """Where the last answer lies as it came."""
        return self.caller.scope.folder / FILE

    @property
    def reflected(self) -> Path:
        """The same for LEARNINGS.md."""
        return self.caller.scope.folder / REFLECTED

    def refusal(self, plan: Plan) -> KernError:
        return KernError(
            f"the planner's answer is refused: {plan.wrong or 'nothing in it is new'}",
            hint=f"{SPEC} is untouched; the answer: {self.answer}",
        )


def planned(text: str, plan: Plan, goal: str = "") -> str:
    """SPEC.md with the plan in it."""
    text = proposal.with_goal(bundle.without_example(text), goal)
    return proposal.added(text, plan)


def relearned(text: str, found: Proposed) -> str:
    """LEARNINGS.md with the changes in it, as of today."""
    return reflection.applied(text, found.changes, date.today().isoformat())
