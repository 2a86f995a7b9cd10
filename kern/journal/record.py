"""A line of the journal, and the order of its records. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

VERSION = 1
Record = Mapping[str, Any]
BEGUN = b'{"v": 1, "id": "'  # how `line` begins each


def line(record: Record) -> bytes:
    """One line of the file, whatever the record's texts hold."""
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


def ordered(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, runs by when they began, within a run by sequence: a clock that goes back
    disturbs nothing. The union of two journals is one. Runs that belong together are one story, by
    the clock.
    """
    known = {record["id"]: record for record in found}
    began: dict[str, str] = {}
    many = {record["fleet"] for record in known.values() if "fleet" in record}
    for record in known.values():
        run, time = record.get("fleet", record["run"]), record["time"]
        began[run] = min(began.get(run, time), time)

    def place(one: Record) -> tuple[str, str, str, str, int]:
        run = one.get("fleet", one["run"])
        time = one["time"] if run in many else ""
        return began[run], run, time, one["run"], one["seq"]

    return sorted(known.values(), key=place)
