"""One task in one worktree: what it needs is brought there, an ordinary kern is run, and what that
left is read. git and its files tell it, not the exit code.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL

import kern
from kern import plain
from kern.config import FILE, Gate
from kern.errors import Exit, KernError, UsageError
from kern.fleet import worktree
from kern.fleet.work import Job, Work
from kern.fleet.worktree import Yard
from kern.git import refs
from kern.git.repository import Repo
from kern.git.shadow import PROMPTS
from kern.many import Many
from kern.model import LEARNINGS, SPEC, Marker, Stage
from kern.pipeline.site import Options, Site
from kern.spec.file import Documents
from kern.spec.parse import parse
from kern.system import process, workspace

INCLUDE = ".worktreeinclude"
_DONE = "kern.setup"  # in the worktree's git folder: the command that has set it up
_COPY = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")
_COPY_S = 600.0
_COMPLAINT = re.compile(r"^kern: (.+(?:\n      .+)*)(?:\n  hint: (.+))?", re.M)
_NO_FAULT = (Exit.HELP_NEEDED, Exit.LIMIT)  # what it says then is in SPEC.md and the journal
_TAIL = 1 << 16  # bytes of what a child printed
# Where Python and builds keep paths of what was installed or configured.
_NAMING = ("*.pth", "*.egg-link", "__editable__*", "CMakeCache.txt")
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")  # in one of Python's, or conda's


def job(site: Site, options: Options, one: Job) -> Job:
    """With what is the same for all of the run."""
    own = {process.OF: str(site.repo.root), process.ONTO: site.scope.branch, "KERN_TRUST": "1"}
    words = [] if options.wait else ["--no-wait"]
    words += [] if options.sign else ["--no-sign"]
    words += ["--allow-red"] if options.allow_red else []
    words += ["--max-cost", f"{options.max_cost:g}"] if options.max_cost else []
    for role, choice in options.models.items():
        words += ["--model", f"{role}={choice.model}"] if choice.model else []
        words += ["--agent", f"{role}={choice.agent}"] if choice.agent else []
    run = site.caller.run
    return replace(one, run=run, options=tuple(words), variables=tuple(own.items()))


def papers(site: Site, spec: str) -> tuple[tuple[str, str], ...]:
    """What a worktree has as the person's tree has it now."""
    prompts = site.repo.root / PROMPTS
    names = sorted(os.listdir(prompts)) if prompts.is_dir() else []
    paths = [LEARNINGS, FILE, *(f"{PROMPTS}/{name}" for name in names)]
    texts = ((path, site.papers.read(path)) for path in paths)
    return ((SPEC, spec), *((path, text) for path, text in texts if text is not None))


def carry_out(here: Yard, job: Job) -> Work:
    """By an ordinary kern; raises nothing that a worktree or a child can be to blame for."""
    try:
        made = _made(here, job)
        code, printed = _run(here, job, made)
    except (KernError, OSError) as exc:
        hint = getattr(exc, "hint", worktree.AGAIN)
        return Work(job, 1, fault=str(exc), hint=hint, unfit=True, under_way=job.again)
    return read(made, job, code, printed)


def _made(here: Yard, job: Job) -> Repo:
    made = worktree.of(here, job.worker) if job.again else None
    head = made.plain_head() if made else None
    if made and head and head.branch == job.branch:
        return made
    if job.again:  # somebody deleted it
        return worktree.make(here, job.worker, job.branch)
    made = worktree.make(here, job.worker, job.base, "--no-track", "-B", job.branch)
    if here.home:
        equip(made, here.home, here.many)
    write(made, job.papers)
    for text in job.failed:  # its kern finds them, as those of an earlier attempt
        scope, known = workspace.scope(made.root, job.branch), json.loads(text)["kern"]
        stage = Stage(known["stage"])
        attempt = known["attempt"] if stage is Stage.IMPLEMENT else 0
        workspace.replace(scope.stage_file(stage, attempt), text.encode())
    return made


def _run(here: Yard, job: Job, made: Repo) -> tuple[int, str]:
    """Exit code and what it printed last. It is this kern, whatever the worktree's folder holds."""
    ours = str(Path(kern.__file__).resolve().parent.parent)
    path = f"sys.path.insert(0, {ours!r}); " if ours in sys.path or "" in sys.path else ""
    begin = f"import sys; {path}from kern.cli.main import main; main()"
    argv = [sys.executable, "-P", "-c", begin, "1", "0", "--task", str(job.number), *job.options]
    own = {process.WORKER: str(job.worker), process.FLEET: job.run, **dict(job.variables)}
    log = here.log(job.worker)
    before = log.stat().st_size if log.exists() else 0
    with here.guard:
        if here.closed:
            return -2, ""
        with log.open("ab") as out:
            child = process.start(argv, made.root, {**os.environ, **own}, DEVNULL, out, out)
        here.at_work[job.branch] = child, made
    try:
        code = child.wait()
    finally:
        del here.at_work[job.branch]
    with log.open("rb") as printed:
        printed.seek(max(before, log.stat().st_size - _TAIL))
        return code, printed.read().decode("utf-8", "replace")


def read(made: Repo, job: Job, code: int, printed: str = "") -> Work:
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


def write(made: Repo, texts: Iterable[tuple[str, str]]) -> None:
    """Documents by their paths."""
    for name, text in texts:
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        Documents(made.root).write(name, text)


# ---------------------------------------------------------------- what git does not bring


def equip(made: Repo, home: Repo, wanted: Many) -> None:
    """Copies of the person's ignored files. Raises KernError for what is not there or cannot be
    made.
    """
    for path in _brought(home, wanted):
        source, target = home.root / path, made.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        code, said = process.capture([*_COPY, str(source), str(target)], _COPY_S)
        if code:
            raise KernError(
                f"cannot copy {path} to {target}: {plain.last(said)}", hint=worktree.AGAIN
            )


def _brought(home: Repo, wanted: Many) -> list[str]:
    """Paths of the person's tree, whole folders by their names. Raises UsageError."""
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    listing = ("ls-files", "-z", "--others", "--ignored", "--directory")
    found = list[str]()
    for path in wanted.copy:
        code, out, said = home.run(*listing, "--exclude-standard", "--", path, env=literal)
        names = [name.rstrip("/") for name in os.fsdecode(out).split("\0") if name]
        above = os.path.dirname(home.root / path)
        if code or not names or os.path.realpath(above) != above:
            why = plain.last(said) or "git ignores nothing there, or a link leads to it"
            raise UsageError(
                f"worktree.copy in kern.toml names {path}: {why}",
                hint="take it out of worktree.copy; what is committed each worktree has",
            )
        inside = any(path == name or path.startswith(f"{name}/") for name in names)
        found += [path] if inside else names
    if (home.root / INCLUDE).is_file():
        matched = home.git(*listing[:-1], f"--exclude-from={INCLUDE}")
        ignored = home.run("check-ignore", "-z", "--stdin", given=matched)[1] if matched else b""
        found += [name for name in os.fsdecode(ignored).split("\0") if name]
    return found


def check(home: Repo, wanted: Many) -> None:
    """Raises UsageError for what no worktree can get, or would have its gates judge the person's
    tree: what is copied, and where Python and node find what was installed.
    """
    above = [Path(one).parent for one in os.environ.get("PATH", "").split(os.pathsep)]
    places = [
        *(home.root / one for one in _brought(home, wanted)),
        *(one for one in above if any((one / name).exists() for name in _ENVIRONMENT)),
        *Path.home().glob(".local/lib/python3*/site-packages"),
    ]
    leads = [(place, found) for place in places if (found := _back(home.root, place))]
    for name in ("PYTHONPATH", "NODE_PATH"):
        paths = map(Path, os.environ.get(name, "").split(os.pathsep))
        leads += [(Path(name), one) for one in paths if one.is_relative_to(home.root)]
    for place, found in leads:
        raise UsageError(
            f"{place} leads back to your tree ({found}): a worker would test your code",
            hint='have it made in the worktree ([worktree] setup = "python3 -m venv .venv && '
            '.venv/bin/pip install -e .", or "npm ci"), and neither copy it nor have it on PATH',
        )


def _back(root: Path, folder: Path) -> Path | None:
    """The first link, editable install or configured build below the folder that leads to the tree
    around it. No link is followed.
    """
    for own in {str(root), os.path.realpath(root)}:
        leads = ("(", "-lname", own, "-o", "-lname", f"{own}/*", ")")
        links = ("find", str(folder), *leads, "!", "-lname", f"{folder}/*")
        names = [f"--include={name}" for name in _NAMING]
        for argv in (links, ("grep", "-rlwF", *names, "-e", own, "--", str(folder))):
            for line in process.heard(argv, _COPY_S)[1].splitlines():
                return Path(os.path.relpath(os.fsdecode(line), folder))
    return None


def set_up(site: Site) -> None:
    """By the project's command, once for each worktree, where it is held as a gate is. Raises
    UsageError.
    """
    wanted = site.caller.settings.fleet
    mark = site.repo.git_dir / _DONE
    if not wanted.setup or (mark.exists() and mark.read_text() == wanted.setup):
        return
    ended = site.gates.beside(Gate("setup", wanted.setup, wanted.setup_s, room=False))
    if ended.red:
        last = plain.last(ended.output) or "it printed nothing"
        raise UsageError(
            f"the worktree's setup `{wanted.setup}` failed ({ended.how}): {last}",
            hint=f"cat {ended.log}; worktree.setup in kern.toml",
        )
    workspace.replace(mark, wanted.setup.encode())
