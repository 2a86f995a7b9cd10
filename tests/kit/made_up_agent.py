"""A module for an agent CLI that nobody has: what a newcomer writes who follows CONTRIBUTING.md.

`pal` reads the prompt on stdin and prints lines: `did: TOOL`, `spent: DOLLARS`, `limit: EPOCH`,
`broken: WHY`; all other lines are its answer. With `--read` it changes nothing.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from kern.agents.protocol import Ended, Fault, Grade, Launch, Payer, Reply
from kern.model import Act, Needs, Role, Stage

NAME = "pal"
PROGRAM = "pal"
VARIABLE = "KERN_PAL"
INSTALL = "copy pal to a folder on PATH"
LOGIN = "pal needs no login"
OLDEST: tuple[int, ...] = (0, 0, 0)
FILES: tuple[str, ...] = (".pal.json",)
STATUS: tuple[str, ...] = ()
TAKES_CONTRACT = False
RUNS_GATES = False
READS_GUIDANCE = False


def unheld(role: Role) -> str:
    return "pal knows no git" if role is Stage.COMMIT else ""


def files(launch: Launch) -> Mapping[str, str]:
    return {"pal.json": json.dumps({"role": launch.role})}


def argv(launch: Launch) -> list[str]:
    reads = ["--read"] if launch.role is not Stage.IMPLEMENT else []
    model = ["--model", launch.model] if launch.model else []
    return [*reads, *model, "--config", f"{launch.folder}/pal.json"]


def environment(launch: Launch) -> dict[str, str]:
    return {"PAL_QUIET": "1"}


def tools(role: Role) -> tuple[str, ...]:
    return ("Read", "Write") if role is Stage.IMPLEMENT else ("Read",)


def objects(file: BinaryIO) -> Iterable[Mapping[str, Any]]:
    for line in file:
        yield {"line": line.decode("utf-8", "replace").rstrip("\n")}


def read(seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
    said, cost, broken, limit = [], None, "", None
    for one in seen:
        kind, colon, value = str(one["line"]).partition(": ")
        match kind if colon else "":
            case "did":
                continue
            case "spent":
                cost = float(value)
            case "broken":
                broken = value
            case "limit":
                limit = int(value)
            case _:
                said.append(str(one["line"]))
    if not said and not broken and limit is None:
        return None
    text = "\n".join(said).strip()
    result = {"type": "result", "result": text, "total_cost_usd": cost}
    errors = tuple(filter(None, (broken, "limit" if limit else "")))
    return Reply(result, text, cost_usd=cost, turns=1, errors=errors, resets_at=limit)


def act(line: bytes) -> Act | None:
    did = line.decode("utf-8", "replace").removeprefix("did: ")
    return Act("", (did.strip(),), {}) if line.startswith(b"did: ") else None


def refused(line: bytes) -> Fault | None:
    return None


def fault(reply: Reply | None, ended: Ended) -> Fault | None:
    if reply is None:
        return Fault(Grade.TRANSIENT, f"pal exited {ended.code} and said nothing")
    if reply.resets_at:
        return Fault(Grade.LIMIT, "pal is tired", resets_at=reply.resets_at)
    return Fault(Grade.TRANSIENT, reply.errors[0]) if reply.errors else None


def unattended(env: Mapping[str, str], *, root: bool) -> Fault | None:
    return None


def login(code: int, said: str) -> str | None:
    return None


def payer(env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]) -> Payer:
    return Payer("nobody: pal is free")


def needs(env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
    return Needs(variables=("PAL_",))


def started(files: Mapping[str, bytes]) -> list[str]:
    return [f"{name} starts what it names" for name in files]
