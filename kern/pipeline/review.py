"""Whether a goal is reached once its tasks are done."""

from pathlib import Path

from kern.config import ROUNDS, Gate
from kern.errors import KernError, UsageError
from kern.events import GateEnded, Warned
from kern.model import Marker, Result
from kern.pipeline import project
from kern.pipeline.session import Session
from kern.stages import proposal
from kern.stages.plan import Planner
from kern.stages.proposal import Mode, Plan

BARREN = 2  # reviews in a row that add nothing
_GOAL = 'kern plan "what you want" writes it into SPEC.md; or put it into specs/*.md'


def goal(root: Path, text: str) -> str:
    """What SPEC.md, that text, states; it may be empty where specifications say it all."""
    goals = "\n\n".join(proposal.goals(text))
    if not goals and not any(root.glob("specs/**/*.md")):
        raise UsageError("there is no goal to hold the work against", hint=_GOAL)
    return goals


class Reviews:
    """Of one run."""

    def __init__(self, begun: Session) -> None:
        site = self.site = begun.site
        self.planner = Planner(site.repo, site.papers, site.templates, site.caller)
        self.sink = site.sink
        self.rounds = self.barren = 0
        self.red: list[str] = []  # what the final gates printed

    def goal(self) -> str:
        return goal(self.site.repo.root, self.site.papers.spec_text())

    def more(self) -> bool:
        """One review, where no task is open; False where the goal is reached or tasks wait."""
        _, parsed = self.site.papers.spec()
        if any(task.marker is not Marker.DONE for task in parsed.tasks):
            return False
        plan = self._review()
        why = "" if plan.titles else self._missing(plan)
        if plan.titles:
            self.barren = 0
            self.planner.take(plan)
            return True
        if not why:
            self.planner.take(plan)
            return False
        self.barren += 1
        self.sink(Warned(why))
        if self.barren >= BARREN:
            raise KernError(
                f"{BARREN} reviews in a row added nothing: {why}",
                hint="fix it, or write the task into SPEC.md yourself; then: kern --until-done",
            )
        return self.more()

    def _review(self) -> Plan:
        if self.rounds >= ROUNDS:
            raise KernError(
                f"not done after {self.rounds} reviews",
                hint="look at what they added to SPEC.md; kern --until-done goes on",
            )
        plan = self.planner.ask(Mode.REVIEW, self.goal(), self.red)
        self.rounds += 1
        return plan

    def _missing(self, plan: Plan) -> str:
        """Why a review without new tasks is not believed; empty where all is done."""
        if plan.wrong:
            return f"the review's answer is refused: {plan.wrong} ({self.planner.answer})"
        if not plan.done:
            return "the review lists nothing but tasks that are done already"
        why = self.red_at_the_end()
        return f"the review says done, but {why}" if why else ""

    def red_at_the_end(self) -> str:
        """Which of the final gates are red, in words."""
        results = [self._ended(gate) for gate in self.site.papers.settings().final]
        red = [result for result in results if result.red]
        self.red = [f"{one.name}, {one.how}:\n{one.output}" for one in red]
        return f"red: {', '.join(one.name for one in red)}" if red else ""

    def _ended(self, gate: Gate) -> Result:
        """A final gate on what is committed."""
        site = self.site
        result = project.run_gate(site, gate, site.repo.tree(site.repo.head().commit))
        self.sink(GateEnded(result))
        return result
