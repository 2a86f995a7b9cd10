"""`kern init` and `kern check`: the checks that a project has, found and run."""

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kern import config, plain
from kern.agents import protocol
from kern.checks import detect, result
from kern.checks.detect import PROJECT, TELLING, Folder, Guess, matches
from kern.cli import asking
from kern.config import FILE, Gate
from kern.errors import Asked, Exit, KernError, UsageError
from kern.fleet import worktree
from kern.git import repository
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Result
from kern.pipeline import agents, hidden, project, session, trust
from kern.pipeline.site import Leave, Options
from kern.stages import prompts
from kern.system import process, workspace
from kern.views.live import Console

DEPTH = 3  # folders between the top level and a part
MOST_PARTS = 24
_MOST_TEXT = 1 << 18  # bytes of one file
_ELSEWHERE = frozenset(  # what lies there belongs to others, or is material of tests
    (
        *("node_modules", "vendor", "third_party", "venv", ".venv", "site-packages", "target"),
        *("dist", "build", "testdata", "fixtures", "__fixtures__", "examples", "templates"),
    )
)


def init(folder: Path, leave: Leave) -> None:
    """SPEC.md, LEARNINGS.md and kern.toml at the top level, never over what is there."""
    repo = repository.open_at(folder)
    guesses = detect.guesses(folders(repo))
    print(f"found {plain.count(len(guesses), 'check')}:" if guesses else "no checks found")
    for guess in guesses:
        print(f"  {guess.name}  {plain.line(guess.command)}  ({plain.line(guess.why)})")
    names = _write(repo, guesses)
    if FILE in names and guesses:
        _try(repo, guesses, leave)
    gates = config.parse(workspace.read(repo.root / FILE) or b"").gates
    if not gates:
        print(f"no gate yet: name your own under [gates] in {FILE} (kern help settings)")
    print('next: kern add "…", or write your tasks into SPEC.md; kern check; kern -n')
    if names:
        print(f'then: git add {" ".join(names)} && git commit -m "Begin with kern"')


def _write(repo: Repo, proposed: Sequence[Guess]) -> list[str]:
    """The names of the files that were not there."""
    examples = {name: prompts.path(name.replace(".", ".example.")) for name in (SPEC, LEARNINGS)}
    files = {name: place.read_text("utf-8") for name, place in examples.items()}
    names = []
    for name, text in {**files, FILE: _toml(proposed)}.items():
        try:
            with (repo.root / name).open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            print(f"kept     {plain.line(str(repo.root / name))}")
        else:
            print(f"written  {plain.line(str(repo.root / name))}")
            names.append(name)
    return names


def _toml(proposed: Sequence[Guess]) -> str:
    """The agent is named where it is not the usual one, which is not here."""
    here = [program.agent.name for program in agents.installed()]
    named = here and protocol.DEFAULT not in here
    line = f'agents = ["{here[0]}"]  # is installed here; kern help settings\n\n' if named else ""
    example = Path(detect.__file__).with_name("proposed.toml").read_text("utf-8")
    return line + detect.kern_toml(example, proposed) + _second_opinion(here)


def _second_opinion(here: Sequence[str]) -> str:
    """Commented lines: a judge by another vendor than who does the work."""
    first = "".join(here[:1])  # claude, where it is installed
    for program in agents.installed():
        name, login = program.agent.name, agents.login(program.agent, program.command)
        if name != first and not (login.fault or login.advice):
            why = f"{name} is logged in here, and may see what {first} overlooks"
            return f'\n# [stages.judge]       # {why}\n# agent = "{name}"\n'
    return ""


def _try(repo: Repo, guesses: Sequence[Guess], leave: Leave) -> None:
    """Each once, by a person's leave."""
    question = "Run each of them once now, to see which pass? [Y/n]"
    if not (leave.trusted or asking.yes(question, "y")):
        print("none of them was run: kern check does it, and kern init --trust without asking")
        return
    try:
        results, _ = _ran(repo.root, (), replace(leave, trusted=True), compared=False)
    except KernError as exc:
        print(f"none of them counts as run: {plain.line(str(exc))}")
        return
    by_name = {one.name.removeprefix("gate "): one for one in results}
    text = _toml([guess._replace(ended=by_name.get(guess.name)) for guess in guesses])
    workspace.replace(repo.root / FILE, text.encode())
    trust.agree(repo, trust.of_gates(config.parse(text).gates))


# ---------------------------------------------------------------- what tells of a project's checks


def folders(repo: Repo) -> list[Folder]:
    """The top level, and the parts of a monorepo, each with its files: bounded in depth, number and
    size; what git ignores does not count, but for the tools of a virtual environment.
    """
    specs = [f":(glob)**/{name.removeprefix('**/')}" for name in TELLING]
    how = "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"
    listed = {*repo.run(*how, *specs)[1].decode("utf-8", "replace").split("\0")} - {""}
    ours = (path for path in listed if _ELSEWHERE.isdisjoint(path.split("/")[:-1]))
    paths = sorted(ours, key=lambda path: (path.count("/"), path))
    names = (path.rpartition("/") for path in paths if path.count("/") <= DEPTH)
    nested = (part for part, _, name in names if any(matches(name, one) for one in PROJECT))
    parts = list(dict.fromkeys(["", *nested]))[: MOST_PARTS + 1]
    files = {part: dict[str, str]() for part in parts}
    tools = [f"{part}/{name}".lstrip("/") for part in files for name in TELLING if "venv/" in name]
    for path in (*tools, *paths):
        part = max((one for one in files if not one or path.startswith(f"{one}/")), key=len)
        text = _text(repo.root / path)
        if text is not None:
            files[part][path.removeprefix(f"{part}/")] = text
    return [Folder(part, names, _above(part, files)) for part, names in files.items()]


def _above(part: str, files: dict[str, dict[str, str]]) -> frozenset[str]:
    around = [one for one in files if one != part and (not one or part.startswith(f"{one}/"))]
    return frozenset(name for one in around for name in files[one])


def _text(place: Path) -> str | None:
    """None where there is no file; of one that is too large its name alone tells."""
    if not os.path.isfile(place):  # or nobody may look
        return None
    large = place.stat().st_size > _MOST_TEXT or not os.access(place, os.R_OK)
    return "" if large else place.read_text("utf-8", "replace")


# ---------------------------------------------------------------- kern check

_ROOM = "{}: room = false, so that the daemon outside sees what the gate does (kern help settings)"


def check(folder: Path, names: Sequence[str], leave: Leave, *, jobs: bool = False) -> int:
    """Its exit code is that of a run which the gates let begin, or not. `jobs`: what is green is
    tried where -j works, too.
    """
    try:
        results, notes = _ran(folder, names, leave, jobs=jobs)
    except Asked:
        print("stopped, as asked: not every gate was run", file=sys.stderr)
        return Exit.HELP_NEEDED
    stopping = [one for one in results if one.stops(False, first=True)]
    red = sum(one.red for one in results)
    begins = ": a run begins all the same" * bool(red and not stopping)
    print(*notes, f"{len(results) - red} green, {red} red{begins}", sep="\n")
    if not stopping:
        return Exit.OK
    print(f"no run begins like this: {result.refusal(stopping)[1]}")
    return Exit.USAGE


def _ran(
    folder: Path, names: Sequence[str], leave: Leave, *, compared: bool = True, jobs: bool = False
) -> tuple[list[Result], list[str]]:
    """How each ended, a row as it does; and what is to be said of them. `compared`: with what they
    do outside of the sandbox.
    """
    console = Console()
    options = Options(tick=console.tick, leave=leave)
    with (
        contextlib.closing(console),
        session.begin(folder, options, console, paid=False) as site,
    ):
        theirs = site.documents.settings().gates
        gates = _chosen(theirs, names) if theirs or names or not hidden.gate(site) else []
        if process.OF in os.environ and not site.rooms.mounted:
            worktree.set_up(site)
        results = [project.ended(site, gate) for gate in gates]
        if not compared:
            return results, []
        notes = project.outside(site, gates, results, hooked=not names)
        if jobs:
            green = [gate for gate, was in zip(gates, results, strict=True) if not was.red]
            notes += worktree.tried(site, green)
        head = site.repo.tree(site.repo.head().commit)
        results += [] if names else hidden.run(site, head, before=True, open_end=True)
        daemons = [one for one in gates if one.room and detect.DAEMON.search(one.command)]
        return results, [*notes, *(_ROOM.format(one.label) for one in daemons if site.rooms.held)]


def _chosen(gates: Sequence[Gate], names: Sequence[str]) -> list[Gate]:
    """Those of the names, in the order of kern.toml; all without names."""
    if not gates:
        what = "no gates: [gates] in kern.toml names no command, so commits are unverified"
        raise UsageError(what, hint="kern init shows the checks of a project; kern help settings")
    known = [gate.name for gate in gates]
    if new := [name for name in names if name not in known]:
        what = f"no gate {plain.line(new[0], 60)!r} in kern.toml"
        raise UsageError(what, hint=f"the gates are {plain.some(known)}")
    return [gate for gate in gates if not names or gate.name in names]
