"""Stage 1: what an agent finds out before anything is changed, saved, then noted in SPEC.md."""

from functools import partial

from kern.model import Stage
from kern.pipeline import baseline, project, watched
from kern.pipeline.facts import Situation
from kern.pipeline.site import Site, save
from kern.spec import edit, notes
from kern.spec.parse import Kind
from kern.stages import answer, briefs
from kern.stages.record import now


def research(site: Site, at: Situation) -> None:
    if Stage.RESEARCH in at.files:
        _note(site, at)
    else:
        _ask(site, at)


def _ask(site: Site, at: Situation) -> None:
    key, task = at.opened
    began, tree = now(), site.repo.tree(at.head.commit)
    site.rooms.put_back(tree)
    settings = project.settings(site)
    wanted = baseline.checks(site, task, settings)
    state = [*baseline.own(site, at, wanted), *project.state(site, at.head, settings.probes)]

    prompt = briefs.brief(
        site.templates[Stage.RESEARCH],
        task,
        briefs.known(site.repo, site.papers),
        baseline.seen(site, wanted, at.head.commit),
        state,
    )

    room = site.rooms.for_agent(tree, at.head, writes=False)
    anew = partial(site.rooms.put_back, tree)
    with watched.watched(site, at.head, at.start, "research", back=tree):
        said = site.caller.call(prompt, task=key.text, attempt=at.attempt, again=anew, room=room)
    if task.of(Kind.RESEARCH):  # of an earlier one
        site.papers.edit_task(
            key, lambda text, _, found: edit.without(text, found.of(Kind.RESEARCH))
        )
    made = save(site, said, key, Stage.RESEARCH, at.attempt, base=at.head.commit, time=began)
    asked = made.answer.reason if made.answer.code is answer.Code.NEEDS_ANSWER else ""
    if asked and (why := notes.objection(task, asked)):
        site.warn(f"research: {why}; implement goes on with what it found")


def _note(site: Site, at: Situation) -> None:
    findings = at.files[Stage.RESEARCH].answer.findings
    lines = edit.research(findings or [("Findings", "none")])
    site.papers.edit_task(
        at.opened[0],
        lambda text, _, task: text if task.of(Kind.RESEARCH) else edit.annotate(text, task, lines),
    )
