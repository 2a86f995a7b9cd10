"""An agent's live output, read while it grows."""

import json
import tracemalloc
from pathlib import Path

import pytest

from kern.agents import claude
from kern.agents.protocol import Ended
from kern.errors import BudgetReached
from kern.events import Event
from kern.model import Stage
from kern.stages.output import Watch


def shown(message: str, tokens: int, tool: str = "Bash") -> bytes:
    usage = {"output_tokens": tokens}
    part = {"type": "tool_use", "name": tool, "input": {}}
    value = {"id": message, "content": [part], "usage": usage}
    return json.dumps({"type": "assistant", "message": value}).encode() + b"\n"


def test_a_line_is_told_once_and_whole_and_a_message_counts_once(tmp_path: Path) -> None:
    events: list[Event] = []
    path = tmp_path / "out"
    watch = Watch(claude.AGENT, Stage.IMPLEMENT, path, events.append, most=50)
    one, same, two = shown("a", 40), shown("a", 40), shown("b", 11)
    path.write_bytes(one + same + two[:9])
    watch.look()
    assert len(events) == 2 and events[0].record["kind"] == "act"
    path.write_bytes(one + same + two)
    with pytest.raises(BudgetReached, match="its 50 tokens"):
        watch.look()
    assert len(events) == 3
    assert watch.read(Ended(-1)).tokens == {"output": 51}


def test_who_only_reads_has_changed_nothing(tmp_path: Path) -> None:
    for tool, acted in (("Read", False), ("Bash", True)):
        path = tmp_path / tool
        path.write_bytes(shown("a", 1, tool))
        assert Watch(claude.AGENT, Stage.IMPLEMENT, path).read(Ended(-1)).acted is acted


def test_a_burst_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"%0999d\n" % 7 * 10_000 + b"x" * 9_000_000)
    tracemalloc.start()
    watch = Watch(claude.AGENT, Stage.IMPLEMENT, path)
    watch.read(Ended(-1))
    assert watch.at > 18_000_000
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()
