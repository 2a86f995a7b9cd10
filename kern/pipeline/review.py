"""Whether a goal is reached once its tasks are done."""

from pathlib import Path

from kern.config import ROUNDS
from kern.errors import KernError, UsageError
from kern.model import Marker
from kern.pipeline.site import Site
from kern.stages import proposal
from kern.stages.plan import Planner
from kern.stages.proposal import Mode


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
        self.rounds = 0

    def goal(self) -> str:
        return goal(self.site.repo.root, self.site.documents.spec_text())

    def more(self) -> bool:
        """Whether there are new tasks, where none is open; False where the goal is reached or tasks
        wait.
        """
        _, parsed = self.site.documents.spec()
        if any(task.marker is not Marker.DONE for task in parsed.tasks):
            return False
        if self.rounds >= ROUNDS:
            raise KernError(
                f"not done after {self.rounds} reviews",
                hint="look at what they added to SPEC.md; kern --until-done goes on",
            )
        self.rounds += 1
        plan = self.planner.ask(Mode.REVIEW, self.goal())
        if plan.wrong or not (plan.titles or plan.done):
            why = plan.wrong or "it lists nothing but tasks that are done already"
            raise KernError(
                f"the review's answer is refused: {why} ({self.planner.answer})",
                hint="ask again: kern --until-done; or write the task into SPEC.md yourself",
            )
        self.planner.take(plan)
        return bool(plan.titles)
