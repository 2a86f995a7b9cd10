"""Stage 1: what an agent finds out before anything is changed, saved, then noted in SPEC.md."""

from functools import partial

from kern.model import Stage
from kern.pipeline import attempt, project
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.spec import edit, notes
from kern.spec.parse import Kind
from kern.stages import answer, briefs
from kern.stages.record import now


def research(site: Site, at: Situation) -> None:
    """The answer, or its note: one durable step each."""
    key, task = at.opened
    if Stage.RESEARCH in at.files:
        findings = at.files[Stage.RESEARCH].answer.findings
        lines = edit.research(findings or [("Findings", "none")])
        site.papers.edit_task(
            key,
            lambda text, _, now: text if now.of(Kind.RESEARCH) else edit.annotate(text, now, lines),
        )
        return
    began, tree = now(), site.repo.tree(at.head.commit)
    site.rooms.put_back(tree)
    wanted, state = project.standing(site, at)
    known = briefs.known(site.repo, site.papers)
    prompt = briefs.brief(site.templates[Stage.RESEARCH], task, known, wanted, state)
    room = site.rooms.for_agent(tree, at.head, writes=False)
    anew = partial(site.rooms.put_back, tree)
    with attempt.watched(site, "research", back=tree):
        said = site.caller.call(prompt, task=key.text, attempt=at.attempt, again=anew, room=room)
    if task.of(Kind.RESEARCH):  # of an earlier one
        site.papers.edit_task(key, lambda text, _, now: edit.without(text, now.of(Kind.RESEARCH)))
    made = save(site, said, key, Stage.RESEARCH, at.attempt, base=at.head.commit, time=began)
    asked = made.answer.reason if made.answer.code is answer.Code.NEEDS_ANSWER else ""
    if asked and (why := notes.objection(task, asked)):
        site.warn(f"research: {why}; implement goes on with what it found")
