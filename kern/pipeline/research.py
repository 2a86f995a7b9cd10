"""Stage 1: what an agent finds out before anything is changed, saved, then noted in SPEC.md."""

from dataclasses import replace

from kern.git import refs
from kern.model import Cause, Stage, Tier
from kern.pipeline import attempt, project
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.spec import edit, notes
from kern.spec.parse import Kind
from kern.stages import answer, briefs
from kern.stages.call import Said
from kern.stages.record import now
from kern.system import workspace


def research(site: Site, at: Situation) -> None:
    """The answer, or its note: one durable step each."""
    key, task = at.opened
    if Stage.RESEARCH in at.files:
        findings = at.files[Stage.RESEARCH].answer.findings
        lines = edit.research(findings or [("Findings", "none")])
        site.documents.edit_task(key, lambda text, _, now: edit.annotate(text, now, lines))
        return
    began, tree = now(), site.repo.tree(at.head.commit)
    site.rooms.put_back(tree)
    required, state = project.standing(site, at)
    form = site.templates[Stage.RESEARCH]
    prompt = briefs.brief(site.repo, site.documents, form, task, required, state)
    room = site.rooms.for_agent(tree, at.head, writes=False)
    reply, _ = attempt.ask(
        *(site, at, prompt, "research"),
        tree=tree,
        back=tree,
        red=required.red,
        again=lambda: site.rooms.put_back(tree),
        room=room,
    )
    if reply.doubt and at.due is not Tier.SKIP:
        _fail(site, at, reply, began)
        return
    reply = replace(reply, fault=reply.fault or reply.doubt)
    if task.of(Kind.RESEARCH):  # of an earlier one
        site.documents.edit_task(
            key, lambda text, _, now: edit.without(text, now.of(Kind.RESEARCH))
        )
    first = save(site, reply, key, Stage.RESEARCH, at.attempt, base=at.head.commit, time=began)
    question = first.answer.reason if first.answer.code is answer.Code.NEEDS_ANSWER else ""
    if question and (why := notes.objection(task, question)):
        site.warn(f"research: {why}; implement goes on with what it found")


def _fail(site: Site, at: Situation, reply: Said, began: str) -> None:
    """An attempt that came no further."""
    if at.attempt > 1:
        workspace.retire(site.scope, str(at.attempt - 1))
    start = attempt.begin(site, at)
    refs.hold(site.repo, start, start.tree)
    facts: dict[str, object] = {"base": at.head.commit, "start": start.tree, "tree": start.tree}
    facts["outcome"] = str(answer.broken(f"research: {reply.doubt}", at.due))
    facts |= {"cause": Cause.FORM, "time": began}
    save(site, reply, at.opened[0], Stage.IMPLEMENT, at.attempt, **facts)
