"""What kern is worth beside the bare agent, and what a prompt is, with an agent that does the work.

    python -m tests.eval run --suite aider=../polyglot-benchmark --budget 2 --max-cost 40
    python -m tests.eval report > page.md
    python -m tests.eval --dry

A cell is a task, an arm and a seed. The arm is given the task in a fresh repository, with the
visible checks in its kern.toml. Afterwards hidden tests are laid over a clean worktree of HEAD, and
over each attempt that kern discarded. The report says what its words mean. Each cell adds a line of
JSON to the rows; a cell that has its line is not played again, so that a run which was stopped goes
on.

An arm is `kern` (with its own prompts), `bare` (one `claude -p` for each task, with the same
budget, model and checks) or a folder of prompt files as in .kern/prompts/.

A suite is `micro` (four tasks of our own over two small repositories, each aimed at one failure) or
`aider=FOLDER` (a local copy, see tests/eval/aider.py).

It costs money: the agent is your `claude`, with your login and settings. What agents write is run
under your account, by kern's gates in its sandbox, by the bare agent and the hidden tests without
one, and the hidden tests lie in this source tree: use a container that holds nothing else. `--dry`
needs no account; `run --help` lists the options.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.eval import arms, cell, dry, report, rows, suites
from tests.eval.arms import Arm
from tests.eval.cell import NotPlayed, Play
from tests.eval.rows import Cell, Row
from tests.eval.task import Task

ROWS = "eval.jsonl"


def main(argv: Sequence[str]) -> int:
    given = _parser().parse_args(["run", *argv] if argv[:1] == ["--dry"] else argv)
    try:
        return int(given.act(given))
    except (ValueError, NotPlayed) as exc:
        print(f"eval: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("eval: stopped; the same command goes on with this cell", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser("python -m tests.eval", description=__doc__, formatter_class=raw)
    commands = top.add_subparsers(required=True, metavar="run | report")
    run = commands.add_parser("run", help="play the cells that have no row yet")
    run.add_argument("--suite", default="micro", help="micro or aider=FOLDER")
    run.add_argument("--arm", action="append", help="kern, bare or a folder; kern and bare")
    run.add_argument("-k", type=int, metavar="SEEDS", help="repetitions of each cell: 1; dry: 4")
    run.add_argument("--only", action="append", default=[], metavar="TASK", help="a part of a name")
    run.add_argument("--budget", type=float, default=0.0, metavar="USD", help="for each cell")
    run.add_argument("--max-cost", type=float, metavar="USD", help="begin no cell above this sum")
    run.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the repositories there")
    run.add_argument("--out", type=Path, metavar="FILE", help=f"the rows ({ROWS})")
    run.add_argument("--dry", action="store_true", help="a script for an agent, which often cheats")
    run.set_defaults(act=_run)
    told = commands.add_parser("report", help="compare the arms")
    told.add_argument("rows", type=Path, nargs="?", default=Path(ROWS))
    told.add_argument("--base", default="", help="the arm that others are compared with")
    told.set_defaults(act=_report)
    return top


def _report(given: argparse.Namespace) -> int:
    found = rows.load(given.rows)
    if not found:
        raise ValueError(f"{given.rows} holds no rows: python -m tests.eval run")
    if given.base and given.base not in {row.arm for row in found}:
        raise ValueError(f"{given.rows} holds no rows of {given.base}")
    print("\n".join(report.lines(found, given.base)))
    return 0


def _run(given: argparse.Namespace) -> int:
    compared = [arms.arm(name) for name in given.arm or (arms.OWN, arms.BARE)]
    tasks = _playable(suites.tasks(given.suite, given.only))
    with tempfile.TemporaryDirectory(prefix="kern-eval-") as temp:
        folder = Path(temp).resolve()
        out = given.out or (folder / ROWS if given.dry else Path(ROWS))
        version, stage = ("dry", dry.stage) if given.dry else (cell.cli(), _as_it_is)
        suite = given.suite.partition("=")[0]
        play = Play(suite, cell.commit(), version, stage, given.budget)
        cells = cells_of(tasks, compared, given.k or (4 if given.dry else 1))
        played(play, cells, out, given.keep or folder, given.max_cost)
        return _report(argparse.Namespace(rows=out, base=""))


def _playable(tasks: Sequence[Task]) -> list[Task]:
    lacking = {task.name: [one for one in task.needs if not shutil.which(one)] for task in tasks}
    for name, programs in lacking.items():
        if programs:
            print(f"left out, {', '.join(programs)} is not installed: {name}", file=sys.stderr)
    return [task for task in tasks if not lacking[task.name]]


def _as_it_is(task: Task, cell: Cell, folder: Path) -> dict[str, str]:
    return {}


def cells_of(
    tasks: Sequence[Task], compared: Sequence[Arm], seeds: int
) -> list[tuple[Task, Arm, int]]:
    """Arms in turns, and each of them first as often as the others: an hour in which the API is
    slow or weak hits all alike.
    """
    found = []
    for seed in range(1, seeds + 1):
        for number, task in enumerate(tasks, seed):
            at = number % len(compared)
            found += [(task, arm, seed) for arm in (*compared[at:], *compared[:at])]
    return found


def played(
    play: Play,
    cells: Sequence[tuple[Task, Arm, int]],
    out: Path,
    folder: Path,
    max_cost: float | None,
) -> None:
    """Each cell that has no row, in order; the sum that bounds them counts all rows."""
    known = {row.cell: row for row in rows.load(out)}
    for number, (task, arm, seed) in enumerate(cells, 1):
        one = Cell(task.name, arm.name, seed)
        if one in known:
            _same(known[one], arm, play.budget, out)
            continue
        spent = sum(row.cost_usd for row in known.values())
        if max_cost is not None and spent > max_cost:
            print(f"stopped at ${spent:.2f}, above --max-cost; {out} has the rows so far")
            return
        row = play.row(task, arm, seed, _place(folder, one))
        rows.add(out, row)
        known[one] = row
        print(f"{number}/{len(cells)} {_line(row)}", file=sys.stderr, flush=True)


def _same(row: Row, arm: Arm, budget: float, out: Path) -> None:
    if (row.prompts, row.budget) != (arm.hash, budget):
        raise ValueError(
            f"{out} holds rows of {arm.name} with other prompts, or another budget: name another "
            "file with --out"
        )


def _place(folder: Path, one: Cell) -> Path:
    """A new folder for each try."""
    name = re.sub(r"[^\w-]+", "-", f"{one.task} {one.arm} {one.seed}").strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder.resolve()))


def _line(row: Row) -> str:
    found = "finished" if row.finished else "false done" if row.false_done else row.end
    wasted = f", {row.wasted_correct} wasted correct" if row.wasted_correct else ""
    return f"{row.task}, {row.arm}, {row.seed}: {found}{wasted}, ${row.cost_usd:.2f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
