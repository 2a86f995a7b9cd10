"""The stories: what a person types and sees, and nothing of kern's inside.

Each row of a table beside this file is a story: SPEC.md (`spec`), what is committed beside it
(`files`, a name `x:PATH` is executable; `setup`, shell lines before that commit), what a person has
not committed (`yours`, files that stay as they are; `person`, shell lines), the stand-in's script
(`agent`: tests/scenarios/agent.py), and what is typed (`kern`, one or a list; else the name where
it is `kern …`, else 1 0). `then_person`: shell lines after each kern; `dies`: of each kern the
write just before which it is killed, `stage2.json 3` for the third of that file (forked.py);
`meanwhile`: by name, while an agent has `wait` for that name. `mode`: off or bwrap, where not each
will do, or both, one after the other; `needs`: words of NEEDS, without which it is skipped;
`crash`: see test_crash.py.

`then` is the end: of each kern `exit`, the `first` line or a part of one `line`; the stages that
were `asked`; the commits since (`log`) and what they changed (`tree`); `status`; `refs`; `spec`,
`learnings` and `yours` on the disk; what is `left` (processes, files in the home folder and that
for temporary files); `shell`: commands and their output. `…` stands for anything in a line. What
`then` does not name is as DONE has it, where the story is `done`, else as it was before the first
kern; an exit code that is not named is 0. A key above the rows holds for all of a table. `pytest
tests/scenarios --bless` writes what is there into the table, so that the review reads the
difference.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.bless import write_end
from tests.scenarios.world import ENDS, HELD, MODE, NEEDS, Row, World, as_list

pytestmark = pytest.mark.slow
KEYS = {"spec", "files", "setup", "yours", "person", "agent", "kern", "stdin", "cwd", "env"}
KEYS |= {"then_person", "meanwhile", "dies", "mode", "needs", "crash", "done", "then", "table"}
DONE: Row = {  # the end of a story that is `done`, as far as `then` does not say otherwise
    "exit": 0,
    "line": "1 done, 1 unverified, 0 open; $0.03 (API-equivalent), … s",
    "asked": "research implement commit",
    "log": ["do the task"],
    "tree": ["M SPEC.md", "A work.txt"],
    "spec": "- [x] add a greeting\n  > **R**",
}


def read_tables(folder: Path) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for table in sorted(folder.glob("*.toml")):
        found = tomllib.loads(table.read_text())
        common = {key: found.pop(key) for key in [*found] if key in KEYS}
        for name, row in found.items():
            assert name not in rows, f"{table.name}: {name}: there are two of that name"
            typed = name[5:] if name.startswith("kern ") else "1 0"
            rows[name] = {"kern": typed, "table": table, **common, **row}
            if row.get("mode") == "both":
                rows[name]["mode"], again = "off", f"{name}{HELD}"
                rows[again] = {**rows[name], "mode": "bwrap"}
    return rows


def check(name: str, row: Row, bless: bool = False) -> None:
    """Whether the row is one; and no end is written where nobody reads the difference."""
    then, needs = row.get("then", {}), row.get("needs", "").split()
    strange = [*({*row} - KEYS), *(f"then.{key}" for key in {*then} - {*ENDS})]
    strange += [f"needs {word}" for word in {*needs} - {*NEEDS}]
    strange += [f"mode = {row['mode']}"] if row.get("mode", "off") not in ("off", "bwrap") else []
    assert not strange, f"{name}: not known: {', '.join(sorted(strange))}"
    assert bless or then or row.get("done"), f"{name}: it has no end"
    assert not (bless and os.environ.get("CI")), f"{name}: no --bless in CI, where nobody reads it"


def skip_without(row: Row) -> None:
    words = [*row.get("needs", "").split(), *["bwrap"][: row.get("mode", MODE) == "bwrap"]]
    if missing := [word for word in words if not NEEDS[word]()]:
        pytest.skip(f"a story needs {', '.join(missing)}")


def differences(row: Row, before: Row, there: Row) -> list[str]:
    """The keys of what is not as it is wanted."""
    wanted = wanted_of(row, before)
    return [key for key in ENDS if not matches(key, wanted[key], there[key])]


def wanted_of(row: Row, before: Row) -> Row:
    then: Row = row.get("then", {})
    unasked: Row = {"exit": 0, "line": [], "first": [], "shell": {}}
    usual = DONE if row.get("done") else {}
    return unasked | before | usual | then | {"yours": before["yours"] | then.get("yours", {})}


def matches(key: str, wanted: Any, there: Any) -> bool:
    match key:
        case "exit":
            return as_list(wanted) == there or [*dict.fromkeys(there)] == [wanted]
        case "yours" | "shell":
            return all(pattern(wanted.get(k, "")).fullmatch(v) for k, v in there.items())
        case "line" | "first":
            return all(map(has_line if key == "line" else begins, as_list(wanted), there))
        case _:
            return pattern(wanted).fullmatch(joined(there)) is not None


def begins(wanted: str, out: str) -> bool:
    return not wanted or pattern(f"{wanted}\n").match(f"{out}\n") is not None


def has_line(wanted: str, out: str) -> bool:
    return any(pattern(wanted).search(line) for line in out.splitlines() or [""])


def joined(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value).strip("\n")


def pattern(wanted: Any) -> re.Pattern[str]:
    return re.compile(re.escape(joined(wanted)).replace("…", ".*"))


ROWS = read_tables(Path(__file__).parent)


@pytest.mark.parametrize("name", ROWS)
def test_scenario(
    name: str, fresh: Path, server: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    row, bless = ROWS[name], request.config.getoption("--bless")
    check(name, row, bless)
    skip_without(row)
    world = World(tmp_path / "w", row, server)
    before = world.furnish(fresh)
    there = world.play()
    wrong = differences(row, before, there)
    if wrong and bless:
        write_end(name, row, before, there, wrong)
        return
    wanted = wanted_of(row, before)
    lines = [f"{k} is\n{joined(there[k])}\nnot\n{joined(wanted[k])}" for k in wrong]
    assert not wrong, "\n".join([f"{name}:", *lines])
