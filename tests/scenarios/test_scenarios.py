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
`then` does not name is as at the end of USUAL, where the story is `done`, else as it was before
the first kern; an exit code that is not named is 0, and 1 where its `line` says "need you". A key
above the rows holds for all of a table.
`pytest tests/scenarios --bless` writes what is there into the table, so that the review reads the
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
USUAL = "a task is done, and what is yours stays yours"  # its end is that of each that is `done`


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
    words += ["jq"] if "jq -r" in str(row.get("then")) else []
    if missing := [word for word in words if not NEEDS[word]]:
        pytest.skip(f"a story needs {', '.join(missing)}")


def differences(wanted: Row, there: Row) -> dict[str, str]:
    """What is not as it is wanted, with the words that say so."""
    wrong = [key for key in wanted if not matches(key, wanted[key], there[key])]
    return {key: f"{key} is\n{joined(there[key])}\nnot\n{joined(wanted[key])}" for key in wrong}


def wanted_of(row: Row, before: Row) -> Row:
    then: Row = row.get("then", {})
    unasked: Row = {"exit": 0, "line": [], "first": [], "shell": {}}
    needed = [int("need you" in line) for line in as_list(then.get("line", []))]
    unasked["exit"] = needed if len({*needed}) > 1 else max(needed, default=0)
    usual = ROWS[USUAL]["then"] if row.get("done") else {}
    return unasked | before | usual | then | {"yours": before["yours"] | then.get("yours", {})}


def matches(key: str, wanted: Any, there: Any) -> bool:
    if key == "exit":
        return as_list(wanted) == there or [*dict.fromkeys(there)] == [wanted]
    if key in ("line", "first"):
        find = re.search if key == "line" else re.match
        pairs = zip(as_list(wanted), there, strict=False)
        return all(find(pattern(one), out) for one, out in pairs)
    return pattern(wanted).fullmatch(joined(there)) is not None


def joined(value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{name}: {joined(one)}" for name, one in value.items()]
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
    wrong = differences(wanted_of(row, before), there)
    if bless and wrong:
        write_end(name, row, before, there, [*wrong])
    elif wrong:
        pytest.fail("\n".join([f"{name}:", *wrong.values()]), pytrace=False)
