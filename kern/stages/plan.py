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
from kern.spec.file import Documents
from kern.spec.parse import Spec
from kern.stages import briefs, prompts, proposal, reflection
from kern.stages.call import Caller, Said
from kern.stages.ending import may_not_write
from kern.stages.prompts import Template
from kern.stages.proposal import Mode, Plan
from kern.stages.reflection import Proposed
from kern.system import workspace

_MOST_TOLD = 3000  # characters of finished tasks, and of their history


@frozen
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
    def reflected(self) -> Path:
        """The same for LEARNINGS.md."""
        return self.caller.scope.folder / prompts.REFLECT

    def _said(
        self,
        form: Template,
        mode: str,
        place: Path,
        exempt: Mapping[str, str],
        sections: Mapping[str, Sequence[str]],
        known: briefs.Known,
    ) -> Said:
        """One process. `place`: where the answer is put as it comes."""
        records = store.load(store.place(self.repo.common_dir), lambda complaint: None)
        history = proposal.history(totals.summary(records)["tasks"])
        prompt = prompts.compose(
            form,
            {**exempt, "guidance": known.guidance.text},
            {
                "history": reflection.newest(history, _MOST_TOLD),
                "commits": known.commits,
                **sections,
            },
            known.guidance.notices,
        )
        settle = may_not_write("planner")
        said = self.caller.call(prompt, task="", attempt=1, mode=mode, settle=settle)
        workspace.replace(place, said.reply.text.encode("utf-8", "surrogateescape"))
        return said

    # ------------------------------------------------------------ SPEC.md

    def ask(self, mode: Mode, goal: str, red: Sequence[str] = ()) -> Plan:
        """A refused answer comes back as such. `red`: the checks that fail now, with the end of
        what they printed. Of specifications the paths are listed: they may be many.
        """
        text, parsed = self.papers.spec()
        tasks = () if prompts.is_example(text) else parsed.tasks  # the example's are nobody's
        listed = sorted(tasks, key=lambda task: task.marker is not Marker.DONE)  # open: last
        root, known = self.repo.root, briefs.known(self.repo, self.papers)
        said = self._said(
            *(self.templates[Aide.PLANNER], str(mode), self.answer),
            {"goal": goal or "(none is stated: go by the specifications)", "mode": str(mode)},
            {
                "red": red,
                "specs": sorted(str(p.relative_to(root)) for p in root.glob("specs/**/*.md")),
                "tasks": [f"[{task.marker}] {task.text}" for task in listed],
                "learnings": [shown(one) for one in known.learnings if not one.unwanted],
            },
            known,
        )
        plan = proposal.read(said.reply.text, self.known(), mode)
        return Plan(wrong=said.fault) if said.fault else plan

    def known(self) -> str:
        """SPEC.md; the tasks of the example that kern init wrote are nobody's."""
        return prompts.without_example(self.papers.spec_text())

    def take(self, plan: Plan, goal: str = "") -> None:
        """Write it into SPEC.md as that is now, or refuse it where it no longer fits."""

        def apply(text: str, _: Spec) -> tuple[str, Plan]:
            fitted = proposal.fitted(plan, prompts.without_example(text))
            if fitted.wrong:
                raise self.refusal(fitted)
            return planned(text, plan, goal), fitted

        taken = self.papers.update(apply)
        self.caller.sink(Planned(taken.titles, plan.done))

    def refusal(self, plan: Plan) -> KernError:
        return KernError(
            f"the planner's answer is refused: {plan.wrong or 'nothing in it is new'}",
            hint=f"{SPEC} is untouched; the answer: {self.answer}",
        )

    # ------------------------------------------------------------ LEARNINGS.md

    def reflect(self) -> Proposed:
        """As `ask`."""
        own, settings = self.templates[Aide.PLANNER], self.caller.settings
        form = prompts.template(self.repo.root, Aide.PLANNER, prompts.REFLECT, settings)
        there, known = self.learnings(), briefs.known(self.repo, self.papers)
        done = reflection.finished(self.papers.spec()[1])
        said = self._said(
            *(replace(form, by=own.by, stand_ins=own.stand_ins), "reflect", self.reflected),
            {},
            {
                "learnings": reflection.listed(entries.parse(there)),
                "tasks": reflection.newest(done, _MOST_TOLD),
            },
            known,
        )
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


def planned(text: str, plan: Plan, goal: str = "") -> str:
    """SPEC.md with the plan in it."""
    text = proposal.with_goal(prompts.without_example(text), goal)
    return proposal.added(text, plan)


def relearned(text: str, found: Proposed) -> str:
    """LEARNINGS.md with the changes in it, as of today."""
    return reflection.applied(text, found.changes, date.today().isoformat())
