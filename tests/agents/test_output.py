"""The objects in what an agent printed: any shape, any size, torn or mixed with other text."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kern.agents import codex, transcript
from kern.model import Stage
from kern.system import workspace

RESULT: dict[str, Any] = {"type": "result", "result": "done\n\nSUCCESS", "num_turns": 2}
START: dict[str, Any] = {"type": "system", "subtype": "init", "tools": ["Read"], "version": "2.1.0"}
SAID: dict[str, Any] = {
    "type": "assistant",
    "message": {"content": [{"type": "text", "text": 'a "quote" } ] {'}]},
}
ALL = [START, SAID, RESULT]


def read(data: bytes) -> list[dict[str, Any]]:
    return [one for one in transcript.objects(io.BytesIO(data)) if "log" not in one]


def dump(value: object, **how: Any) -> bytes:
    return json.dumps(value, **how).encode()


def lines(values: list[dict[str, Any]]) -> bytes:
    return b"".join(dump(value) + b"\n" for value in values)


# -------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    "data",
    [
        lines(ALL),
        lines(ALL).replace(b"\n", b"\r\n"),
        b"\n\n".join(map(dump, ALL)),
        b"\n".join([b'{"a":' * 100_000, *map(dump, ALL)]),
        b"\n".join([dump(START), b'noise " {', dump(SAID), b"[x] }", dump(RESULT), b"end"]),
    ],
)
def test_each_line_that_is_an_object_is_one(data: bytes) -> None:
    assert read(data) == ALL


def test_text_before_between_and_behind_does_no_harm() -> None:
    noise = b'npm {1.2}\nan " { and [ or\n\x1b[31mred\x1b[0m\n\xff\xfe\x00\nnull\n"text"\n[[]]\n\n'
    assert read(noise) == read(b"") == []
    assert read(noise + lines(ALL) + noise + b'{"torn": "x') == ALL


# -------------------------------------------------------------------- torn


def test_torn_output_gives_the_objects_that_are_whole() -> None:
    data = lines(ALL)
    for end in range(len(data)):
        assert all(value in ALL for value in read(data[:end])), end


# -------------------------------------------------------------------- large


@pytest.mark.slow
def test_what_is_longer_than_could_be_held_is_passed_over() -> None:
    huge = dump({**RESULT, "result": "x" * 4 * transcript.LINE_LIMIT})
    assert read(lines([START]) + huge + b"\n" + lines([RESULT])) == [START, RESULT]


@pytest.mark.parametrize("half", [r"\ud83d", r"\udc80", r"\ude00\ud83d", r"\udcff"])
def test_half_a_character_comes_through_a_stage_file(tmp_path: Path, half: str) -> None:
    """JavaScript cuts a string in the middle of a pair, and its JSON then has the half of it."""
    (value,) = read(f'{{"type":"result","result":"caf\u00e9 {half}","{half}":1}}'.encode())
    scope = workspace.Scope(tmp_path, "project", "main")
    scope.folder.mkdir(parents=True)
    value["kern"] = {"task": half}
    workspace.save(scope, Stage.IMPLEMENT, value)
    assert json.loads(scope.stage_file(Stage.IMPLEMENT).read_bytes()) == value


def test_codex_whose_own_agents_work_is_not_idle() -> None:
    item = {"type": "collab_tool_call", "tool": "spawn_agent"}
    act = codex.watch({"type": "item.started", "item": item})
    assert act and act.calls == ("collab_tool_call spawn_agent",)
