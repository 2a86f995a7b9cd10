"""Writes a story's end into its table, the rest of which stays as it is."""

import fcntl
import json
import re
from collections.abc import Iterable
from typing import Any

from tests.scenarios.world import ENDS, Row, as_list

END = re.compile(r"^then\.\w+ = (?:'''.*?'''|\[\n.*?^\]|[^\n]*)\n", re.M | re.S)
NEXT = re.compile(r"^\n*(#.*\n+)*\[\"", re.M)
RUN = re.compile(r"(run\b|-|\d|$)(?!.*(-h|--help|-n|-V))")


def write_end(name: str, row: Row, before: Row, there: Row, wrong: list[str]) -> None:
    """What is there as it was wanted stays as it is worded; what is as before is not named."""
    then = row.get("then", {})
    ends = {key: then[key] for key in then if key not in wrong}
    asked = ("exit", "first", "line")
    ends |= {key: there[key] for key in wrong if key not in asked and there[key] != before[key]}
    if "exit" in wrong:
        codes = there["exit"]
        ends["exit"] = codes[0] if len({*codes}) == 1 else codes
    for key in {"first", "line"} & {*wrong} or {choice(row)} - {*then}:
        if key in then or not {"first", "line"} & {*then}:
            ends[key] = lines(row, there[key])
    for key in ("yours", "shell"):
        ends[key] = {k: v for k, v in there[key].items() if v != before.get("yours", {}).get(k)}
    written = [f"then.{k} = {worded(ends[k])}\n" for k in ENDS if k in ends and ends[k] != {}]
    with row["table"].open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # others write ends of theirs at the same time
        text = file.read()
        at = text.index(f"[{json.dumps(name, ensure_ascii=False)}]\n")
        after = NEXT.search(text, text.index("\n", at))
        end = after.start() if after else len(text)
        body = END.sub("", text[at:end]).rstrip("\n") + "\n"
        file.seek(0)
        file.write(
            text[:at]
            + body
            + ("".join(written) + "\n" + text[end:].lstrip("\n")).rstrip("\n")
            + "\n"
        )
        file.truncate()


def choice(row: Row) -> str:
    return "line" if any(map(RUN.match, as_list(row["kern"]))) else "first"


def lines(row: Row, outs: Iterable[str]) -> Any:
    """The line that says most of each kern: of a run its sum, of the rest the first."""
    typed = as_list(row["kern"])
    chosen = [
        best(out) if RUN.match(one) else next(iter(out.splitlines()), "")
        for one, out in zip(typed, outs, strict=True)
    ]
    return chosen if len(chosen) > 1 else chosen[0]


def best(out: str) -> str:
    """The sum, else what ended it, else the last that was said."""
    for good in (r"(?m)^\d+ done, .*", r"(?m)^kern: .*", r".*\S(?=\s*\Z)"):
        if match := re.search(good, out):
            return match[0]
    return ""


def worded(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        words = [json.dumps(one, ensure_ascii=False) for one in value]
        line = f"[{', '.join(words)}]"
        return line if len(line) < 110 else "[\n" + "".join(f"  {one},\n" for one in words) + "]"
    plain = isinstance(value, str) and all(c == "\n" or c.isprintable() for c in value)
    if plain and value.count("\n") > 1 and "'''" not in value:
        return f"'''\n{value}'''"
    return json.dumps(value, ensure_ascii=False)
