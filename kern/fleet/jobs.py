"""What goes to a worker for one task."""

import os
from dataclasses import replace

from kern.config import FILE
from kern.fleet import land, work
from kern.fleet.work import Job
from kern.git.protected_files import PROMPTS
from kern.model import LEARNINGS, SPEC, Key, Marker, OnRed
from kern.pipeline.options import Options
from kern.pipeline.site import Site
from kern.spec import edit
from kern.spec.parse import Spec, Task
from kern.system import process


def fresh(
    site: Site,
    options: Options,
    worker: int,
    tree: int,
    number: int,
    task: Task,
    text: str,
    parsed: Spec,
) -> Job:
    """Of a task that is begun, or was sent back."""
    before, kept = land.sent_back(site, task)
    branch = work.branch(site.scope.branch, task.key)
    head = site.repo.head().commit
    job = made(site, options, task.key, number, head, branch, worker, tree)
    # What is in progress in the person's tree is nothing that a worker would go on with.
    spec = edit.mark_all(text, [(one, Marker.PENDING) for one in parsed.active])
    spec = edit.mark(spec, task, Marker.ACTIVE) if before else spec
    return replace(job, papers=_papers(site, spec), before=before, kept=kept)


def made(
    site: Site,
    options: Options,
    key: Key,
    number: int,
    base: str,
    branch: str,
    worker: int,
    tree: int,
) -> Job:
    """With what is the same for all of the run."""
    given = [(process.OF, str(site.repo.root)), ("KERN_TRUST", "1")]
    given.append((process.ONTO, site.scope.branch))
    run, argv = site.caller.run, _argv(options)
    return Job(key, number, base, branch, worker, run, (), argv, tuple(given), tree)


def _papers(site: Site, spec: str) -> tuple[tuple[str, str], ...]:
    """What a worktree has as the person's tree has it now."""
    prompts = site.repo.root / PROMPTS
    below = sorted(os.listdir(prompts)) if prompts.is_dir() else []
    names = [f"{PROMPTS}/{name}" for name in below if (prompts / name).is_file()]
    texts = ((name, site.papers.read(name)) for name in (LEARNINGS, FILE, *names))
    return ((SPEC, spec), *((name, text) for name, text in texts if text is not None))


def _argv(options: Options) -> tuple[str, ...]:
    """What a worker's kern is called with, beside its task."""
    words = [] if options.wait else ["--no-wait"]
    words += [] if options.sign else ["--no-sign"]
    words += ["--allow-red"] if options.on_red is OnRed.ALLOW else []
    if options.max_cost:
        words += ["--max-cost", f"{options.max_cost:g}"]
    for role, choice in options.models.items():
        words += ["--model", f"{role}={choice.model}"] if choice.model else []
        words += ["--agent", f"{role}={choice.agent}"] if choice.agent else []
    return tuple(words)
