"""One cell: a task given to kern in a fresh repository, and what came of it as a row."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.eval import bare, repository
from tests.eval.arms import BARE, SOURCE, Arm
from tests.eval.rows import Cell, Row
from tests.eval.task import Task

Record = Mapping[str, Any]
# More of kern's environment, for one cell in its folder: the scripted agent of a dry run.
Stage = Callable[[Task, Cell, Path], Mapping[str, str]]
# This source tree's, without a variable that would lead agents and gates into it as well.
_KERN = """\
import sys
sys.path.insert(0, sys.argv[1])
sys.argv[:2] = ["kern"]
from kern.cli.main import main
main()
"""


class NotPlayed(Exception):
    """kern came to no end that says anything about the arm: no login, a budget, a full disk."""


@dataclass(frozen=True, slots=True)
class Play:
    """What all cells of an evaluation have in common."""

    suite: str
    kern: str
    cli: str
    stage: Stage
    budget: float = 0.0  # US dollars for a cell; 0: no bound

    def row(self, task: Task, arm: Arm, seed: int, folder: Path) -> Row:
        """The repository is `folder`/project, kern's run files are beside it."""
        cell, root = Cell(task.name, arm.name, seed), folder / "project"
        root.mkdir(parents=True)
        start = repository.build(task, root)
        more = {"KERN_DIR": str(folder / "kern"), "KERN_TRUST": "1"}
        env = repository.environment(**more, **self.stage(task, cell, folder))
        began = time.monotonic()
        if arm.name == BARE:
            found = bare.play(task, root, env, self.budget)
        else:
            _give(arm, root)
            found = _by_kern(task, root, start, env, self.budget)
        seconds = round(time.monotonic() - began, 1)
        if isinstance(found, str):
            raise NotPlayed(f"{task.name}, {arm.name}, {seed}: {found}")
        right = repository.passes(task, root, "HEAD")
        finished = right and found["end"] in task.ends
        changed = repository.changed_lines(root, start, "HEAD")
        return Row(
            **found,
            suite=self.suite,
            task=task.name,
            arm=arm.name,
            seed=seed,
            prompts=arm.hash,
            kern=self.kern,
            cli=self.cli,
            budget=self.budget,
            hidden_pass=right,
            finished=finished,
            false_done=found["end"] in ("done", "concluded") and not finished,
            lines=sum(changed.values()),
            reference_lines=repository.reference_lines(task, root, start),
            tests_touched=tuple(name for name in changed if name in task.tests),
            seconds=seconds,
        )


def _by_kern(
    task: Task, root: Path, start: str, env: Mapping[str, str], budget: float
) -> dict[str, Any] | str:
    """Of a row what its journal says; or why it says nothing about the arm."""
    most = ["--max-cost", str(budget)] if budget else []
    ended = _kern(root, env, str(task.iterations), "0", *most)
    records = _journal(root)
    stages = [one for one in records if one["kind"] == "stage" and one["did"] != "start"]
    spent = sum(one["cost_usd"] or 0.0 for one in stages)
    why = _not_played(records, ended)
    if why and not (budget and "used up" in why):
        return why
    return {
        "end": "budget" if why else _end(records, (root / "SPEC.md").read_text(encoding="utf-8")),
        "models": _named(records, "model"),
        "effort": _named(records, "effort", "end"),
        "wasted_correct": _wasted(task, root, start, records),
        "attempts": _causes(records),
        "cost_usd": round(spent, 6),
        "unpriced": sum(one["cost_usd"] is None for one in stages),
        "cost": {name: round(usd, 6) for name, usd in _summed(stages, "cost_usd").items()},
        "tokens": _tokens(stages),
        "requests": {name: int(turns) for name, turns in _summed(stages, "turns").items()},
    }


def _give(arm: Arm, root: Path) -> None:
    """The prompts are in the tree and in no commit: the repository is the same in each arm."""
    exclude = root / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("/.kern/\n")
    repository.lay(root, {f".kern/prompts/{name}": text for name, text in arm.files.items()})


# ------------------------------------------------------------------ kern's command line


def _kern(root: Path, env: Mapping[str, str], *argv: str) -> "subprocess.CompletedProcess[str]":
    """Until it ends, also after Ctrl-C, which reaches it as well: it puts its house in order."""
    command = [sys.executable, "-P", "-c", _KERN, str(SOURCE), *argv]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=root, env=dict(env), stdin=null, stdout=pipe, stderr=pipe, text=True
    )
    try:
        out, err = process.communicate()
    except KeyboardInterrupt:
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _journal(root: Path) -> list[Record]:
    """See `kern help inside`; of one run the lines are in order."""
    path = root / ".git" / "kern" / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def commit() -> str:
    """kern's own."""
    argv = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(argv, cwd=SOURCE, capture_output=True, text=True).stdout.strip()


def cli() -> str:
    """The agent's version."""
    argv = [os.environ.get("KERN_CLAUDE", "claude"), "--version"]
    try:
        found = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as exc:
        raise NotPlayed(f"the agent cannot be started: {exc}") from None
    return found.stdout.partition(" ")[0].strip()


# ------------------------------------------------------------------ what the journal says


def _not_played(records: Iterable[Record], ended: "subprocess.CompletedProcess[str]") -> str:
    """Why the run says nothing about its arm; empty where it does."""
    errors = [str(one["text"]) for one in records if one["kind"] == "error"]
    if errors:
        return errors[-1]
    finished = any(one["kind"] == "run" and one["did"] == "end" for one in records)
    return "" if finished else ended.stderr.strip()[-1000:] or f"exit {ended.returncode}"


def _end(records: Iterable[Record], spec: str) -> str:
    """`done` where all is ticked, subtasks included; else how the last task of the run ended."""
    outcomes = [one["did"] for one in records if one["kind"] == "task" and one["did"] != "start"]
    last = str(outcomes[-1]) if outcomes else "nothing"
    ticked = set(re.findall(r"^\s*- \[(.)\]", spec, re.M)) == {"x"}
    return "done" if ticked and last != "concluded" else last


def _wasted(task: Task, root: Path, start: str, records: Iterable[Record]) -> int:
    refs = [f"refs/{one['ref']}" for one in records if one["kind"] == "attempt" and one["ref"]]
    graded = (repository.attempt_passes(task, root, start, ref) for ref in refs)
    return sum(graded) if task.acts else 0


def _causes(records: Iterable[Record]) -> dict[str, int]:
    """What failed attempts failed over, as kern noted it."""
    return dict(Counter(str(one["cause"]) for one in records if one["kind"] == "attempt"))


def _named(records: Iterable[Record], key: str, did: str = "start") -> dict[str, str]:
    found = (one for one in records if one["kind"] == "stage" and one["did"] == did)
    return {str(one["stage"]): str(one[key]) for one in found if one.get(key)}


def _summed(stages: Iterable[Record], key: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in stages:
        found[str(one["stage"])] += one.get(key) or 0
    return found


def _tokens(stages: Iterable[Record]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for one in stages:
        found.setdefault(str(one["stage"]), Counter()).update(one.get("tokens") or {})
    return {name: dict(counted) for name, counted in found.items()}
