"""One task in one worktree: an ordinary kern is run there, and what that left is read, by who had
it begun or by the next run. git and its files tell it, not the exit code.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL

import kern
from kern import plain
from kern.errors import KernError
from kern.fleet import work, worktree
from kern.fleet.work import Job, Work
from kern.fleet.worktree import Yard
from kern.git import history, refs
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline import facts, session, steps
from kern.pipeline.site import Leave, Options, Site
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import process, workspace
from kern.system.workspace import Scope

_COMPLAINT = re.compile(r"^kern: (.+(?:\n      .+)*)(?:\n  hint: (.+))?", re.M)
_TAIL = 1 << 16  # bytes of what a child printed
_PORTS = 20_000, 40  # from which on, and how many for each worker


def options(site: Site) -> tuple[str, ...]:
    """Of this run, as the command line of a worker's kern."""
    own = site.options
    words = [] if own.wait else ["--no-wait"]
    words += [] if own.sign else ["--no-sign"]
    words += ["--allow-red"] if own.allow_red else []
    words += ["--max-cost", f"{own.max_cost:g}"] if own.max_cost else []
    for role, choice in own.models.items():
        words += ["--model", f"{role}={choice.model}"] if choice.model else []
        words += ["--agent", f"{role}={choice.agent}"] if choice.agent else []
    return tuple(words)


# ---------------------------------------------------------------- carried out


def carry_out(here: Yard, job: Job) -> Work:
    """By an ordinary kern; raises nothing that a worktree or a child can be to blame for."""
    try:
        made = _made(here, job)
        code, printed = _run(here, made, job)
    except (KernError, OSError) as exc:
        hint = getattr(exc, "hint", worktree.AGAIN)
        return Work(job, 1, fault=str(exc), hint=hint, under_way=job.again)
    return read(made, job, code, printed)


def _made(here: Yard, job: Job) -> Repo:
    if job.again:
        made = worktree.of(here, job.worker)
        return made or worktree.make(here, job.worker, job.branch)  # somebody deleted it
    made = worktree.make(here, job.worker, job.base, "--no-track", "-B", job.branch)
    worktree.equip(here, made, job.papers)
    for text in job.failed:  # its kern finds them, as those of an earlier attempt
        scope, known = workspace.scope(made.root, job.branch), json.loads(text)["kern"]
        stage = Stage(known["stage"])
        attempt = known["attempt"] if stage is Stage.IMPLEMENT else 0
        workspace.replace(scope.stage_file(stage, attempt), text.encode())
    return made


def _run(here: Yard, made: Repo, job: Job) -> tuple[int, str]:
    """Exit code and what it printed last. It is this kern, whatever the worktree's folder holds."""
    ours = str(Path(kern.__file__).resolve().parent.parent)
    path = f"sys.path.insert(0, {ours!r}); " if ours in sys.path or "" in sys.path else ""
    begin = f"import sys; {path}from kern.cli.main import main; main()"
    words = ("1", "0", "--task", str(job.number), *job.options)
    first, ports = _PORTS
    env = {
        **{process.WORKER: str(job.worker), process.PORT: str(first + ports * job.worker)},
        **{process.FLEET: job.run, process.ONTO: job.onto, "KERN_TRUST": "1"},
        **({process.OF: str(here.home.root)} if here.home else {}),
    }
    log = here.log(job.worker)
    with log.open("w+b") as out:
        with here.guard:
            if here.closed:
                return -2, ""
            argv = [sys.executable, "-P", "-c", begin, *words]
            child = process.start(argv, made.root, {**os.environ, **env}, DEVNULL, out, out)
            here.at_work[job.worker] = child, made
        try:
            code = child.wait()
        finally:
            del here.at_work[job.worker]
        out.seek(max(0, log.stat().st_size - _TAIL))
        return code, out.read().decode("utf-8", "replace")


# ---------------------------------------------------------------- read


def read(made: Repo, job: Job, code: int = 0, printed: str = "") -> Work:
    """What the worktree holds after its kern has ended. Its text is a stranger's to the caller."""
    if not made.root.is_dir():
        return Work(job, code, fault=f"its worktree is gone: {made.root}")
    try:
        papers = Documents(made.root)
        texts = ((name, papers.read(name)) for name in (SPEC, LEARNINGS))
        kept = tuple((name, text) for name, text in texts if text is not None)
        begun, head = refs.start(made, job.branch) is not None, made.plain_head()
    except (KernError, OSError) as exc:
        return Work(job, code, fault=str(exc), hint=getattr(exc, "hint", ""))
    task = parse(dict(kept).get(SPEC, "")).find(job.key)
    marker = task.marker if task else None
    under_way = begun or marker is Marker.ACTIVE
    ours = head is not None and head.branch == job.branch and head.commit != job.base
    commit = head.commit if ours and head and not under_way and marker is Marker.DONE else ""
    fault, hint = f"its kern failed: {plain.last(printed)}", ""
    if code < 0:
        fault = f"its kern was ended by signal {-code}"
    elif named := [*_COMPLAINT.finditer(plain.block(printed))]:
        fault, hint = named[-1][1], named[-1][2] or ""
    return Work(job, code, commit, under_way, kept, fault * bool(code), hint)


def keep_runs(here: Yard, job: Job, onto: Scope) -> None:
    """What a worker's kern wrote down of its task goes to what is known of the branch's tasks."""
    there = workspace.scope(here.place(job.worker), job.branch, create=False).folder / "history"
    target = onto.folder / "history"
    for entry in sorted(there.glob("*")):
        target.mkdir(mode=0o700, exist_ok=True)
        if not (target / entry.name).exists():
            os.replace(entry, target / entry.name)


# ---------------------------------------------------------------- what an earlier run has left


def left(site: Site, here: Yard) -> Iterator[Work]:
    """Of open tasks, finished or half done; what else is there is kept at a ref, and goes."""
    repo, onto = site.repo, site.scope.branch
    keys = {work.branch(onto, one.key): one.key for one in site.papers.spec()[1].tasks}
    trees = {branch: number for number, branch in worktree.numbers(here).items()}
    form = "--format=%(objectname) %(refname:lstrip=2)"
    rows = repo.text("for-each-ref", form, f"refs/heads/{work.BRANCHES}").splitlines()
    free = max((0, *worktree.numbers(here)))
    for tip, branch in (row.split(" ", 1) for row in rows):
        if branch not in keys and branch not in trees:  # another branch's
            continue
        if not (number := trees.get(branch, 0)) or not worktree.of(here, number):
            number = free = number or free + 1
            worktree.make(here, number, branch)
        key, one = keys.get(branch, Key("", branch)), history.commit(repo, tip)
        base = one.parents[0] if one.parents and facts.ticks(repo, one, key) else tip
        made = worktree.of(here, number)
        assert made
        found = read(made, Job(key, 0, base, branch, number, onto=onto, again=True))
        places = [at for at, one in enumerate(parse(found.spec).tasks, 1) if one.key == key]
        if branch in keys and places and (found.commit or found.under_way):
            yield replace(found, job=replace(found.job, number=places[0]))
        else:
            drop(site, here, found.job)


def drop(site: Site, here: Yard, job: Job) -> None:
    """The branch and its worktree; what was done there is kept at a ref."""
    repo, branch = site.repo, job.branch
    if made := worktree.of(here, job.worker):
        own = Options(leave=Leave(trusted=True))
        how = {"empty": True, "commits": False, "paid": False, "lands": True}
        with session.begin(made.root, own, site.sink, **how) as there:
            at = steps.look(there)
            if at.start:
                steps.undo(there, at)
    tip = repo.commit_id(f"refs/heads/{branch}")
    if repo.run("merge-base", "--is-ancestor", tip, "HEAD")[0]:
        ref = site.keep(job.key, "finished", repo.tree(tip), tip)
        site.warn(
            f"no longer in {SPEC}: {plain.line(job.key.text, 200)}: its work is saved as {ref}"
        )
    forget(repo, branch)
    worktree.remove(here, job.worker, site.scope.base)


def forget(repo: Repo, branch: str) -> None:
    """The branch and its start ref; its commits stay where they landed."""
    listed = repo.text("for-each-ref", "--format=%(refname)", f"{refs.START}/wt/").splitlines()
    starts = [ref for ref in listed if ref.endswith(f"/{branch}/@")]
    gone = "".join(f"delete {one}\n" for one in (f"refs/heads/{branch}", *starts))
    repo.run("update-ref", "--stdin", given=gone.encode())


def tidy(site: Site, here: Yard, *, told: bool) -> int:
    """What is finished, or in progress in its worktree, stays; how many are in progress. `told`: of
    what was printed there, which stays too.
    """
    found = [*left(site, here)]
    stays = {one.job.worker for one in found}
    for number in worktree.numbers(here).keys() - stays:
        worktree.remove(here, number, None if told else site.scope.base)
    if not (stays or told):
        shutil.rmtree(here.folder, ignore_errors=True)
    return sum(one.under_way for one in found)
