"""Each row of faults.toml can be planted, and names its story; `python -m tests.faults` does it."""

from pathlib import Path

from tests.faults.table import Fault, objections, read
from tests.scenarios.test_scenarios import ROWS


def test_each_can_be_planted_and_has_its_story() -> None:
    faults = read()
    assert objections(faults.values(), ROWS) == []
    assert len(faults) >= 40


def test_a_row_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    faults = [Fault("twice", "a.py", "x = 1", "x = 2", "s"), Fault("gone", "b.py", "x", "y", "t")]
    assert objections(faults, ["s"], tmp_path) == [
        "twice: its text stands 2 times in a.py",
        "gone: its text stands 0 times in b.py",
        "gone: no story is called 't'",
    ]
