"""The rows of an evaluation: one JSON line for each cell that was played to its end."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple


class Cell(NamedTuple):
    task: str
    arm: str
    seed: int  # which repetition: agents take no seed


@dataclass(frozen=True, slots=True)
class Row:
    suite: str
    task: str
    arm: str
    seed: int
    prompts: str  # hash of all prompts of the arm
    kern: str  # its commit
    cli: str  # the agent's version
    models: Mapping[str, str]  # by stage, as what follows; a judge counts as a stage
    effort: Mapping[str, str]  # where the journal names one
    end: str  # kern's outcome
    hidden_pass: bool  # on HEAD
    finished: bool  # that, and kern ended as it should with this task
    false_done: bool  # kern says done, and it is not
    wasted_correct: int  # discarded attempts on which the hidden tests pass
    attempts: Mapping[str, int]  # failed ones by class: form, gate, judge, hook, time, own
    cost_usd: float
    unpriced: int  # stages that named no cost
    cost: Mapping[str, float]
    tokens: Mapping[str, Mapping[str, int]]
    requests: Mapping[str, int]  # turns of the stages' own agents
    lines: int  # added and removed
    reference_lines: int  # by the reference solution
    tests_touched: tuple[str, ...]  # test files that were there and are changed or gone
    seconds: float
    budget: float = 0.0  # US dollars that it might cost; 0: no bound

    @property
    def cell(self) -> Cell:
        return Cell(self.task, self.arm, self.seed)


def load(path: Path) -> list[Row]:
    """A line that was torn by a kill is passed over; its cell is played again."""
    if not path.exists():
        return []
    return [row for line in path.read_text(encoding="utf-8").splitlines() if (row := _read(line))]


def _read(line: str) -> Row | None:
    try:
        values = json.loads(line)
        known = {one.name for one in fields(Row)}
        return Row(**{name: value for name, value in values.items() if name in known})
    except (ValueError, TypeError, AttributeError):
        return None


def add(path: Path, row: Row) -> None:
    """On a line of its own, also behind a torn one."""
    torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if torn else "") + json.dumps(asdict(row)) + "\n")
