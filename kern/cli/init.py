"""`kern init`: the first files, with the checks that this project has, each run once."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kern import config, plain
from kern.agents import protocol
from kern.checks import detect
from kern.checks.detect import Guess, Proposal
from kern.cli import survey
from kern.cli.check import Gates
from kern.config import FILE, Gate, Settings
from kern.errors import Interrupted, KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import LEARNINGS, SPEC, Marker, Result
from kern.pipeline import agents, trial, trust
from kern.pipeline.site import Leave
from kern.spec.parse import parse
from kern.stages import prompts
from kern.system import workspace

LIMIT_S = 180.0  # for one check
_QUESTION = "Run each of them once now, to see which pass? [Y/n] "
_AGENTS = 'agents = ["{}"]  # is installed here; kern help settings\n\n'
_TODO = ("todo.md", "todo.txt", "todo")


@dataclass(frozen=True, slots=True)
class _Files:
    """What lies at the top level, before anything is written."""

    settings: Settings | None  # of kern.toml; None where there is none
    broken: str  # why it cannot be read
    misnamed: str  # a file of tasks whose name differs from SPEC.md in its letters' case
    todo: str
    open_tasks: int | None  # in SPEC.md; None where it is not there


def main(folder: Path, leave: Leave, *, run: bool) -> None:
    """SPEC.md, LEARNINGS.md and kern.toml at the top level, never over what is there."""
    found = repository.open_at(folder)
    there = _there(found.root)
    folders, note = survey.folders(found)
    guesses = detect.guesses(folders)
    if there.settings:
        guesses = detect.missing(guesses, there.settings)
    _tell(guesses, note, more=there.settings is not None)
    tried = _tried(found, guesses, leave) if run and guesses and not there.broken else []
    results: Sequence[Result | None] = tried or [None] * len(guesses)
    offered = [Proposal(guess, ended) for guess, ended in zip(guesses, results, strict=True)]
    written = _write(found, there, offered)
    print("\n".join(_end(found, there, offered, written)))


def _there(root: Path) -> _Files:
    names = sorted(os.listdir(root))
    data = workspace.read(root / FILE)
    settings, broken = None, ""
    if data is not None:
        try:
            settings = config.parse(data)
        except UsageError as exc:
            settings, broken = Settings(), str(exc)
    tasks = None
    if os.path.lexists(root / SPEC):
        parsed = parse(prompts.without_example(_text(root / SPEC)))
        tasks = sum(task.marker is not Marker.DONE for task in parsed.tasks)
    near = next((name for name in names if name.lower() == SPEC.lower()), "")
    misnamed = near if tasks is None and near and parse(_text(root / near)).tasks else ""
    todo = next((name for name in names if name.lower() in _TODO and (root / name).is_file()), "")
    return _Files(settings, broken, misnamed, todo, tasks)


def _text(place: Path) -> str:
    with contextlib.suppress(KernError):  # what is wrong with it is the next run's to say
        return plain.decode(workspace.read(place) or b"")
    return ""


def _tell(guesses: Sequence[Guess], note: str, *, more: bool) -> None:
    """What was found, before anything of it is run."""
    if note:
        print(f"note: {plain.line(note)}")
    if not guesses:
        print(f"no further checks found beside those in {FILE}" if more else "no checks found")
        return
    beside = f" that {FILE} does not have" if more else ""
    print(f"found {plain.count(len(guesses), 'check')}{beside}:")
    width = max(len(guess.name) for guess in guesses)
    for guess in guesses:
        told = f"{guess.command}  ({guess.why})"
        print(f"  {guess.name:<{width}}  {plain.line(told)}")


def _tried(found: Repo, guesses: Sequence[Guess], leave: Leave) -> list[Result]:
    """How each ends; empty where they may not be run."""
    gates = [Gate(guess.name, guess.command, LIMIT_S, room=guess.room) for guess in guesses]
    if why := _refused(found, gates, leave):
        print(f"none of them was run: {why}")
        return []
    table = Gates()
    table.expect(gates)
    try:
        return trial.run(found, gates, table, table.tick)
    except Interrupted as exc:
        exc.note = "no file was written; kern init --no-run writes them and runs nothing"
        raise
    except KernError as exc:
        table.close()
        print(f"none of them counts as run: {plain.line(str(exc))}")
        return []
    finally:
        table.close()


def _refused(found: Repo, gates: Sequence[Gate], leave: Leave) -> str:
    """Why the repository's commands may not be run; empty where the person lets them."""
    known: frozenset[str] | None = None
    with contextlib.suppress(KernError):
        known = trust.known(trust.place(found))
    if leave.trusted or {f"gate {gate.shown}" for gate in gates} <= (known or frozenset()):
        return ""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "nobody is here to be asked; kern init --trust runs them without asking"
    print(_QUESTION, end="", flush=True)
    answer = sys.stdin.readline()
    return "" if answer and answer.strip().lower() in ("", "y", "yes") else "you said no"


def _write(found: Repo, there: _Files, offered: Sequence[Proposal]) -> list[str]:
    """The names of the files that were not there."""
    example = Path(detect.__file__).with_name("proposed.toml").read_text("utf-8")
    agent = _agent()
    text = _AGENTS.format(agent) * bool(agent) + detect.kern_toml(example, offered)
    files = {
        f"{name}.md": prompts.path(f"{name}.example.md").read_bytes()
        for name in ("SPEC", "LEARNINGS")
    }
    written: list[str] = []
    for name, data in {**files, FILE: text.encode()}.items():
        place = found.root / name
        if name == SPEC and there.misnamed:
            continue
        try:
            with place.open("xb") as file:
                file.write(data)
        except FileExistsError:
            print(f"kept     {plain.line(str(place))}")
        else:
            print(f"written  {plain.line(str(place))}")
            written.append(name)
    if FILE in written:
        settings = config.parse(text)
        for name in settings.agents:
            print(f"         agent {name}, which is installed here")
        for gate in settings.gates:
            print(f"         gate {plain.line(gate.shown)}")
        if any(one.ended for one in offered):  # the person let them run
            with contextlib.suppress(KernError):  # what is wrong is the next run's to say
                trust.agree(found, trust.of_gates(settings.gates))
    return written


def _agent() -> str:
    """One that is here, where the usual one is not."""
    here = [program.agent.name for program in agents.installed()]
    return "" if protocol.DEFAULT in here else next(iter(here), "")


def _end(
    found: Repo, there: _Files, offered: Sequence[Proposal], written: Sequence[str]
) -> list[str]:
    """What is to be done next, as it stands here."""
    lines = [] if FILE in written else _would_add(there, offered)
    if FILE in written and not any(one.gate for one in offered):
        why = "none of these checks passes here" if offered else "no check was found"
        lines.append(f"{why}: name your own under [gates] in {FILE} (kern help settings)")
    more = _untracked(found, there, written)
    if more and written:
        lines.append(f"not in git yet: {plain.some(more)}")
    steps = [*_steps(found, there, offered, written, more)]
    width = max(len(command) for command, what in steps if what)
    shown = (
        f"  {command:<{width}}  # {what}" if what else f"  {command}" for command, what in steps
    )
    return [*lines, "next:", *shown]


def _steps(
    found: Repo,
    there: _Files,
    offered: Sequence[Proposal],
    written: Sequence[str],
    more: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """Commands to type, each with what it does where it does not say so; `more`: not in git yet."""
    if there.misnamed:
        tracked = found.run("ls-files", "-z", "--", f":(top,literal){there.misnamed}")[1]
        move = "git mv" if tracked else "mv"
        yield f"{move} {shlex.quote(there.misnamed)} {SPEC}", f"kern reads {SPEC} alone"
    if there.todo:
        yield f"kern add - < {shlex.quote(there.todo)}", f"takes its tasks into {SPEC}"
    if there.open_tasks:
        yield "kern status", f"shows the {plain.count(there.open_tasks, 'open task')}"
    elif not there.misnamed:
        yield 'kern add "…"', f"or kern plan GOAL, or write your tasks into {SPEC}"
    if there.settings or any(one.ended is None for one in offered):
        yield "kern check", "runs the gates now"
    if new := [name for name in (SPEC, LEARNINGS, FILE) if name in written]:
        begun = found.run("rev-parse", "--verify", "--quiet", "HEAD")[0] == 0
        add = " ".join(new) if begun and not more else "--all"
        yield f'git add {add} && git commit -m "Begin with kern"', ""
    yield "kern -n", "shows what a run would do"


def _untracked(found: Repo, there: _Files, written: Sequence[str]) -> list[str]:
    """Beside kern's own files. What git does not have stays the person's, and no task that changes
    it can be committed.
    """
    how = "--exclude-standard", "--directory", "--no-empty-directory"
    raw = found.run("ls-files", "-z", "--others", *how)[1]
    names = map(os.fsdecode, raw.split(b"\0"))
    return [name for name in names if name and name not in (*written, there.misnamed)]


def _would_add(there: _Files, offered: Sequence[Proposal]) -> list[str]:
    if there.broken:
        return [f"{FILE} was left as it is, and kern cannot use it: {plain.line(there.broken)}"]
    if not offered:
        return []
    new = [f"  {one.line}" for one in offered]
    return [f"{FILE} was left as it is; kern would add to its [gates]:", *new]
