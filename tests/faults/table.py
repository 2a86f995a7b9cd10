"""The rows of faults.toml."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
TABLE = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str
    new: str
    story: str


def read(table: Path = TABLE) -> dict[str, Fault]:
    rows = tomllib.loads(table.read_text())
    for name, row in rows.items():
        assert {*row} == {"file", "old", "new", "story"}, f"{name}: file, old, new and story"
    return {name: Fault(name, **row) for name, row in rows.items()}


def objections(faults: Iterable[Fault], stories: Iterable[str], top: Path = TOP) -> list[str]:
    """What is wrong with the rows, each with its name."""
    wrong, stories = [], {*stories}
    for fault in faults:
        text = (top / fault.file).read_text() if (top / fault.file).is_file() else ""
        count = text.count(fault.old)
        if count != 1:
            wrong.append(f"{fault.name}: its text stands {count} times in {fault.file}")
        if fault.old == fault.new:
            wrong.append(f"{fault.name}: it changes nothing")
        if fault.story not in stories:
            wrong.append(f"{fault.name}: no story is called {fault.story!r}")
    return wrong
