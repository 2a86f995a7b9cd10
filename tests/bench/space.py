"""kern's own peak memory, with agents that print too much."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measuring import Row, environment, peak_of, row, sample

RUN = """
sys.argv = ["kern", "1", "0"]
from kern.cli.main import main
main()
"""

# Plays research with much output; the other stages fail at once, so that one stage is measured.
AGENT = """#!{python} -IS
import json, sys
how = {how!r}
prompt = sys.stdin.read()
write = sys.stdout.write
answer = "- Files: a.txt:1-1\\n\\nNO_TASK: measured"
result = {{"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}}
if how == "one":
    write(json.dumps({{**result, "result": "x" * 15_000_000 + "\\n" + answer}}))
elif how != "none":
    block = {{"type": "text", "text": "y" * 300}}
    one = json.dumps({{"type": "assistant", "message": {{"content": [block]}}}}) + "\\n"
    size = {{"many": 20_000_000, "most": 95_000_000, "flood": 200_000_000}}[how]
    for _ in range(size // len(one)):
        write(one)
    write(json.dumps({{**result, "result": answer}}))
else:
    write(json.dumps({{**result, "result": answer}}))
"""

CASES = {
    "none": "prints next to nothing",
    "one": "prints 15 MB as one result",
    "many": "prints 20 MB in short lines",
    "most": "prints 95 MB in short lines",
    "flood": "prints 200 MB",
}


def rows(folder: Path) -> Iterator[Row]:
    for how, what in CASES.items():
        place = folder / how
        env = environment(place / "home", KERN_CLAUDE=str(place / "agent"))
        root = sample(place / "project", env, {"SPEC.md": "- [ ] one\n", "a.txt": "a\n"})
        agent = place / "agent"
        agent.write_text(AGENT.format(python=sys.executable, how=how))
        agent.chmod(0o755)
        peak, took, said = peak_of(RUN, env, root)
        if not re.search(r"skipped|blocked", said):
            raise RuntimeError(f"{what}: not what was to be measured:\n{said[-2000:]}")
        note = f"{took:.1f} s in all"
        yield row(f"kern's peak memory, agent {what}", peak, "MB", most=80, note=note)
