"""Whether a goal is reached once its tasks are done."""

from pathlib import Path

from kern.config import ROUNDS
from kern.errors import KernError, UsageError
from kern.events import Warned
from kern.model import Marker
from kern.pipeline.site import Site
from kern.stages import proposal
from kern.stages.plan import Planner
from kern.stages.proposal import Mode, Plan

BARREN = 2  # reviews in a row that add nothing


def goal(root: Path, text: str) -> str:
    """What SPEC.md, that text, states; it may be empty where specifications say it all."""
    goals = "\n\n".join(proposal.goals(text))
    if not goals and not any(root.glob("specs/**/*.md")):
        raise UsageError(
            "there is no goal to hold the work against",
            hint='kern plan "what you want" writes it into SPEC.md; or put it into specs/*.md',
        )
    return goals


class Reviews:
    """Of one run."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.planner = Planner(site.repo, site.documents, site.templates, site.caller)
        self.rounds = self.barren = 0

    def goal(self) -> str:
        return goal(self.site.repo.root, self.site.documents.spec_text())

    def more(self) -> bool:
        """Whether there are new tasks, where none is open; False where the goal is reached or tasks
        wait.
        """
        _, parsed = self.site.documents.spec()
        while all(task.marker is Marker.DONE for task in parsed.tasks):
            if self.rounds >= ROUNDS:
                raise KernError(
                    f"not done after {self.rounds} reviews",
                    hint="look at what they added to SPEC.md; kern --until-done goes on",
                )
            plan = self.planner.ask(Mode.REVIEW, self.goal())
            self.rounds += 1
            why = "" if plan.titles else self._missing(plan)
            if not why:
                self.barren = 0
                self.planner.take(plan)
                return bool(plan.titles)
            self.barren += 1
            self.site.sink(Warned(why))
            if self.barren >= BARREN:
                raise KernError(
                    f"{BARREN} reviews in a row added nothing: {why}",
                    hint="fix it, or write the task into SPEC.md yourself; then: kern --until-done",
                )
        return False

    def _missing(self, plan: Plan) -> str:
        """Why a review without new tasks is not believed; empty where all is done."""
        if plan.wrong:
            return f"the review's answer is refused: {plan.wrong} ({self.planner.answer})"
        return "" if plan.done else "the review lists nothing but tasks that are done already"
