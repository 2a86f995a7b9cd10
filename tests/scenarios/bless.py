"""Writes a story's end into its table, the rest of which stays as it is."""

import fcntl
import json
import re
from typing import Any

from tests.scenarios.world import ENDS, HELD, Row

END = re.compile(r"^then\.\w+ = (?:'''.*?'''|\[\n.*?^\]|[^\n]*)\n", re.M | re.S)
NEXT = re.compile(r"^\n*(#.*\n+)*\[\"", re.M)
SUM = re.compile(r"^\d+ done, .*", re.M)


def write_end(name: str, row: Row, before: Row, there: Row, wrong: list[str]) -> None:
    """What is there as it was wanted stays as it is worded; what is as before is not named."""
    asked, done = ("exit", "first", "line"), row.get("done", False)
    ends = {key: value for key, value in row.get("then", {}).items() if key not in wrong}
    others = (key for key in wrong if key not in asked)
    ends |= {key: there[key] for key in others if done or there[key] != before[key]}
    if "exit" in wrong:
        codes = there["exit"]
        ends["exit"] = codes[0] if len({*codes}) == 1 else codes
    if not ({"first", "line"} & {*ends} or (done and "line" not in wrong)):
        sums = [(SUM.search(out) or [""])[0] for out in there["line"]]
        said = sums if any(sums) else [out.partition("\n")[0] for out in there["line"]]
        ends["line" if any(sums) else "first"] = said if len(said) > 1 else said[0]
    for key in ("yours", "shell"):
        ends[key] = {k: v for k, v in there[key].items() if v != before.get("yours", {}).get(k)}
    written = [f"then.{k} = {worded(ends[k])}\n" for k in ENDS if k in ends and ends[k] != {}]
    with row["table"].open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # others write ends of theirs at the same time
        text = file.read()
        at = text.index(f"[{json.dumps(name.removesuffix(HELD), ensure_ascii=False)}]\n")
        after = NEXT.search(text, text.index("\n", at))
        end = after.start() if after else len(text)
        body = [END.sub("", text[at:end]).rstrip("\n") + "\n", *written, "\n"]
        file.seek(0)
        file.write("".join([text[:at], *body, text[end:].lstrip("\n")]).rstrip("\n") + "\n")
        file.truncate()


def worded(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in value.items())
        return f"{{ {', '.join(pairs)} }}"
    plain = isinstance(value, str) and all(c == "\n" or c.isprintable() for c in value)
    if plain and value.count("\n") > 5 and "'''" not in value:
        return f"'''\n{value}'''"
    return json.dumps(value, ensure_ascii=False)
