"""An agent's live output, read while it grows."""

import tracemalloc
from pathlib import Path

from kern.agents import claude
from kern.model import Stage
from kern.stages.output import Watch
from kern.system import process


def growing_at(path: Path) -> Watch:
    return Watch(claude.AGENT, Stage.IMPLEMENT, path, lambda event: None, process.unwatched)


def test_a_line_is_told_once_and_whole(tmp_path: Path) -> None:
    growing = growing_at(path := tmp_path / "out")
    path.write_bytes(b"one\ntw")
    assert growing.lines() == [b"one"]
    path.write_bytes(b"one\ntwo\n")
    assert growing.lines() == [b"two"]


def test_of_a_burst_only_the_newest_lines_are_told_and_memory_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "out"
    growing = growing_at(path)
    with path.open("wb") as file:
        for number in range(100_000):
            file.write(b"%099d\n" % number)  # 10 MB
    tracemalloc.start()
    found = growing.lines()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[-1] == b"%099d" % 99_999
    assert all(len(line) == 99 for line in found), "no part of a line"
    assert peak < 3_000_000
