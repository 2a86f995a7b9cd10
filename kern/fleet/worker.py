"""One task in one worktree: an ordinary kern is run there, and what that left is read, by who had
it begun or by the next run. git and its files tell it, not the exit code.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL

import kern
from kern import plain
from kern.config import FILE, Gate
from kern.errors import Exit, KernError
from kern.fleet import work, worktree
from kern.fleet.work import Job, Work
from kern.fleet.worktree import Yard
from kern.git import history, refs
from kern.git.environment import GitFailed
from kern.git.in_place import visible
from kern.git.refs import StartRef
from kern.git.repository import Repo
from kern.git.room import Room, outermost
from kern.git.shadow import PROMPTS
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage
from kern.pipeline import facts
from kern.pipeline.site import Site
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import process, workspace
from kern.system.workspace import Scope

_COMPLAINT = re.compile(r"^kern: (.+(?:\n      .+)*)(?:\n  hint: (.+))?", re.M)
_NO_FAULT = (Exit.HELP_NEEDED, Exit.LIMIT)  # what it says then is in SPEC.md and the journal
_TAIL = 1 << 16  # bytes of what a child printed
_LACKS = "[worktree] copy or setup brings it what git ignores (kern help settings)"
_PORTS = 20_000, 40  # from which on, and how many for each worker


def job(site: Site, one: Job) -> Job:
    """With what is the same for all of the run."""
    options = site.options
    words = [] if options.wait else ["--no-wait"]
    words += [] if options.sign else ["--no-sign"]
    words += ["--allow-red"] if options.allow_red else []
    words += ["--max-cost", f"{options.max_cost:g}"] if options.max_cost else []
    for role, choice in options.models.items():
        words += ["--model", f"{role}={choice.model}"] if choice.model else []
        words += ["--agent", f"{role}={choice.agent}"] if choice.agent else []
    run = site.caller.run
    return replace(one, run=run, options=tuple(words), variables=tuple(_told(site).items()))


def _told(site: Site) -> dict[str, str]:
    return {process.OF: str(site.repo.root), process.ONTO: site.scope.branch, "KERN_TRUST": "1"}


def papers(site: Site, spec: str) -> tuple[tuple[str, str], ...]:
    """What a worktree has as the person's tree has it now."""
    prompts = site.repo.root / PROMPTS
    names = sorted(os.listdir(prompts)) if prompts.is_dir() else []
    paths = [LEARNINGS, FILE, *(f"{PROMPTS}/{name}" for name in names)]
    texts = ((path, site.papers.read(path)) for path in paths)
    return ((SPEC, spec), *((path, text) for path, text in texts if text is not None))


# ---------------------------------------------------------------- carried out


def carry_out(here: Yard, job: Job) -> Work:
    """By an ordinary kern; raises nothing that a worktree or a child can be to blame for."""
    try:
        made = _made(here, job)
        words = ("1", "0", "--task", str(job.number), *job.options)
        env = {process.FLEET: job.run, **dict(job.variables)}
        code, printed = _run(here, made, job.worker, words, env)
    except (KernError, OSError) as exc:
        hint = getattr(exc, "hint", worktree.AGAIN)
        return Work(job, 1, fault=str(exc), hint=hint, unfit=True, under_way=job.again)
    return read(made, job, code, printed)


def _made(here: Yard, job: Job) -> Repo:
    if job.again:
        made = worktree.of(here, job.worker)
        return made or worktree.make(here, job.worker, job.branch)  # somebody deleted it
    made = worktree.make(here, job.worker, job.base, "--no-track", "-B", job.branch)
    if here.home:
        worktree.equip(made, here.home, here.many)
    write(made, job.papers)
    for text in job.failed:  # its kern finds them, as those of an earlier attempt
        scope, known = workspace.scope(made.root, job.branch), json.loads(text)["kern"]
        stage = Stage(known["stage"])
        attempt = known["attempt"] if stage is Stage.IMPLEMENT else 0
        workspace.replace(scope.stage_file(stage, attempt), text.encode())
    return made


def _run(
    here: Yard, made: Repo, number: int, words: Sequence[str], env: Mapping[str, str]
) -> tuple[int, str]:
    """Exit code and what it printed last. It is this kern, whatever the worktree's folder holds."""
    ours = str(Path(kern.__file__).resolve().parent.parent)
    path = f"sys.path.insert(0, {ours!r}); " if ours in sys.path or "" in sys.path else ""
    begin = f"import sys; {path}from kern.cli.main import main; main()"
    first, ports = _PORTS
    own = {process.WORKER: str(number), process.PORT: str(first + ports * number)}
    log = here.log(number)
    before = log.stat().st_size if log.exists() else 0
    with here.guard:
        if here.closed:
            return -2, ""
        with log.open("ab") as out:
            argv = [sys.executable, "-P", "-c", begin, *words]
            child = process.start(argv, made.root, {**os.environ, **own, **env}, DEVNULL, out, out)
        here.at_work[number] = child, made
    try:
        code = child.wait()
    finally:
        del here.at_work[number]
    with log.open("rb") as printed:
        printed.seek(max(before, log.stat().st_size - _TAIL))
        return code, printed.read().decode("utf-8", "replace")


def tried(site: Site, here: Yard, gates: Iterable[Gate]) -> Iterator[str]:
    """A line for each that is red in a fresh worktree. Raises KernError."""
    number = 1 + max((0, *worktree.numbers(here)))
    made = worktree.make(here, number, site.repo.head().commit, "--detach")
    try:
        if here.home:
            worktree.equip(made, here.home, here.many)
        write(made, papers(site, site.papers.read(SPEC) or ""))
        for gate in gates:
            code, printed = _run(here, made, number, ("check", gate.name), _told(site))
            said = _COMPLAINT.search(plain.block(printed))
            why = said[1] if said else f"{_LACKS}; cat {here.log(number)}"
            if code:
                yield f"{gate.label} is red in a fresh worktree, where -j works: {why}"
    finally:
        worktree.remove(here, number, site.scope.base)


def write(made: Repo, texts: Iterable[tuple[str, str]]) -> None:
    """Documents by their paths."""
    for name, text in texts:
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        Documents(made.root).write(name, text)


# ---------------------------------------------------------------- read


def read(made: Repo, job: Job, code: int = 0, printed: str = "") -> Work:
    """What the worktree holds after its kern has ended. Its text is a stranger's to the caller."""
    if not made.root.is_dir():
        gone = f"its worktree is gone: {made.root}"
        return Work(job, code, fault=gone, hint="run kern again", unfit=True)
    try:
        papers = Documents(made.root)
        texts = ((name, papers.read(name)) for name in (SPEC, LEARNINGS))
        kept = tuple((name, text) for name, text in texts if text is not None)
        begun, head = refs.start(made, job.branch) is not None, made.plain_head()
    except (KernError, OSError) as exc:
        return Work(job, code, fault=str(exc), hint=getattr(exc, "hint", ""), unfit=True)
    task = parse(dict(kept).get(SPEC, "")).find(job.key)
    marker = task.marker if task else None
    under_way = begun or marker is Marker.ACTIVE
    ours = head is not None and head.branch == job.branch and head.commit != job.base
    commit = head.commit if ours and head and not under_way and marker is Marker.DONE else ""
    fault, hint = _fault(code, printed) if code else ("", "")
    unfit = bool(fault) and not begun and marker is Marker.PENDING
    return Work(job, code, commit, under_way, kept, fault, hint, unfit)


def _fault(code: int, printed: str) -> tuple[str, str]:
    """What its kern complained of last, and the hint; empty where the journal and SPEC.md tell."""
    if named := [*_COMPLAINT.finditer(plain.block(printed))]:
        return named[-1][1], named[-1][2] or ""
    if code < 0:
        return f"its kern was ended by signal {-code}", ""
    broke = code not in _NO_FAULT or "Traceback (most recent call last)" in printed
    return (f"its kern failed: {plain.last(printed)}" if broke else ""), ""


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
        found = read(made, Job(key, 0, base, branch, number, again=True))
        places = [at for at, one in enumerate(parse(found.spec).tasks, 1) if one.key == key]
        if branch in keys and places and (found.commit or found.under_way):
            yield replace(found, job=replace(found.job, number=places[0]))
        else:
            drop(site, here, found)


def drop(site: Site, here: Yard, one: Work) -> None:
    """The branch, its worktree, and what tells that its task was begun; the work is kept."""
    repo, branch = site.repo, one.job.branch
    made, tip = worktree.of(here, one.job.worker), repo.commit_id(f"refs/heads/{branch}")
    begun = refs.start(made, branch) if made else None
    if begun or repo.run("merge-base", "--is-ancestor", tip, "HEAD")[0]:
        slug, text, tree = branch.removeprefix(work.BRANCHES), one.text, repo.tree(tip)
        if made and begun:
            slug, text = refs.slug(begun.task), begun.task.text
            try:
                tree = _left(made, repo, begun) if begun.mounted else visible(made)
            except GitFailed as exc:  # a repository without a commit, say
                why = plain.line(exc.stderr, 200)
                site.warn(f"git cannot add all that the agent left: {why}")
        ref = refs.keep(repo, slug, "unfinished", tree, f"{text}\n\nunfinished\n", tip)
        what = "half done by an earlier run" if begun else f"no longer in {SPEC}"
        site.warn(f"{what}: {plain.line(text, 200)}: its work is saved as {ref}")
    forget(repo, branch)
    worktree.remove(here, one.job.worker, site.scope.base)


def _left(made: Repo, home: Repo, begun: StartRef) -> str:
    """By an agent, in its room, where a gate may have been since."""
    held = begun.held[:1]
    return made.tree(held[0]) if held else Room(made, "work", home, outermost(home)).candidate()


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
