"""What each CLI printed to the conformance suite, by its version, and what kern reads in it.

`pytest -n 0 tests/agents/test_conformance.py --record` writes `recorded/CLI-VERSION.jsonl`: a line
for each case, with its end and what came of it, then what was printed, without paths, ids, times.
A version that is recorded is not asked again for its faults.
"""

import json
import re
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from kern.agents import protocol
from kern.agents.protocol import Agent, AgentError, Ended
from kern.agents.transcript import Object
from tests.agents.conformance import Cli, Talk

FOLDER = Path(__file__).with_name("recorded")
LONGEST, LOG, MOST = 200, 2000, 12  # characters of a text, of a log's line; things in a list
ALIKE = {
    r"(?:/[\w.@+-]+)+/(?=project\b|home\b|scratch\b)": "/w/",
    r"/(?:root|usr|work|tmp|opt)/(?:[\w.@+-]+/)*": "/m/",
    r"127\.0\.0\.1:\d+": "127.0.0.1:1",
    r"\d{4}-\d\d-\d\dT[\d:.]+Z?": "2026-01-01T00:00:00Z",
    r"\b1[789]\d{8}(?:\d{3})?\b": "1790000000",
    r'"(\w*(?:duration|_ms|elapsed|ttft)\w*)": [\d.]+': r'"\1": 1',
}
ID = re.compile(r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z]{3,5}_[0-9a-zA-Z]{16,})\b")


def version(cli: Cli) -> str:
    """As its package says: to ask the program would cost a second."""
    packages = (folder / "package.json" for folder in cli.program.parents)
    texts = (json.loads(one.read_text()) for one in packages if one.is_file())
    return next((text["version"] for text in texts if "version" in text), "")


def file(cli: Cli) -> Path:
    return FOLDER / f"{cli.name}-{version(cli)}.jsonl"


def cases(path: Path) -> Iterator[tuple[Object, list[Object]]]:
    text = path.read_text() if path.is_file() else ""
    lines = [json.loads(line) for line in text.split("\n") if line]
    heads = [at for at, line in enumerate(lines) if "case" in line]
    for at, end in pairwise([*heads, len(lines)]):
        yield lines[at], lines[at + 1 : end]


def read(agent: Agent, objects: list[Object], ended: Ended) -> Object:
    """What kern makes of it."""
    acts, found = list[str](), dict[str, Any]()
    try:
        acts = [call for one in objects if (act := agent.watch(one)) for call in act.calls]
        found = agent.read(objects, ended)._asdict()
    except AgentError as error:
        answer = error.answer._asdict() if error.answer else {}
        found = {**answer, "error": type(error).__name__, "message": error.message}
    told: Object = json.loads(json.dumps({**found, "acts": acts}))
    return {name: value for name, value in told.items() if value}


def scrubbed(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    for pattern, other in ALIKE.items():
        text = re.sub(pattern, other, text)
    numbers = count(1)
    names = {one: f"id-{next(numbers)}" for one in dict.fromkeys(ID.findall(text))}
    return json.loads(ID.sub(lambda match: names[match[0]], text))


def cut(value: Any) -> Any:
    match value:
        case str():
            return value[:LONGEST]
        case list():
            return [cut(one) for one in value[:MOST]]
        case dict():
            return {name: one[:LOG] if name == "log" else cut(one) for name, one in value.items()}
    return value


def write(cli: Cli, case: str, talk: Talk) -> None:
    assert talk.ended
    objects, (code, stderr, *more) = scrubbed([[*map(cut, talk.objects)], [*cut([*talk.ended])]])
    found = read(cli.agent, objects, Ended(code, stderr, *more))
    raw = read(cli.agent, talk.objects, talk.ended)
    for name in ("error", "cost_usd", "turns", "tokens", "sent_back"):
        assert found.get(name) == raw.get(name), f"{case}: {name} is lost"
    head = {"case": case, "ended": [code, stderr, *more], "read": found}
    kept = [one for one in cases(file(cli)) if one[0]["case"] != case]
    lines = [line for one in (*kept, (head, objects)) for line in (one[0], *one[1])]
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    FOLDER.mkdir(exist_ok=True)
    file(cli).write_text(text)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_what_a_cli_printed_is_read_as_it_was(path: Path) -> None:
    agent = protocol.find(path.name.partition("-")[0])
    for head, objects in cases(path):
        assert read(agent, objects, Ended(*head["ended"])) == head["read"], head["case"]
