"""The README's jq examples, each carried out on what a real run left."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Fake, Git, Inline

TOP = Path(__file__).resolve().parent.parent
SECTION = (TOP / "README.md").read_text().partition("\n## The journal")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"^(?:kern .*\| )?jq .*$", SECTION, re.M)
TODAY = r"\d{4}-\d\d-\d\d"
# What each prints, by the words that tell it from the others.
EXPECTED = {
    "jq -s 'map": r"2\.09375\n",
    "group_by(.time": rf"{TODAY}\t[\d.]+\n(?:{TODAY}\t[\d.]+\n)?",
    "group_by(.stage": r'\{"commit":0\.09375,"implement":0\.875,"research":1\.125\}\n',
    '== "attempt"': r"add a greeting\tgate check is red \(exit 1, this task broke it\): is bad\n",
    '== "gate" and .red': r"add a greeting: gate check\nis bad\n\n",
    "sort_by": (
        r'\["add a greeting",1\.5625\]\n\["second",0\.40625\]\n\["no task at all",0\.125\]\n'
    ),
    ".review[]": (
        r"attempt\tadd a greeting\tgit show kern/attempts/add-a-greeting-[0-9a-f]{6}/1\n"
        r"learned\tadd a greeting\tLEARNINGS\.md\n"
        r"skipped\tno task at all\tSPEC\.md\n"
    ),
    ".help[]": r"3 no task at all: skipped: it names nothing to do\n",
    ".by_stage": r'\{"research":0\.75,"implement":0\.75,"commit":0\.0625\}\n',
    ".outcome": r"add a greeting\tproved\nsecond\tproved\n",
}


def step(result: str, cost: float, **fields: Any) -> dict[str, Any]:
    """What the fake agent plays; sums of the costs are exact."""
    return {"result": result, "fields": {"total_cost_usd": cost, **fields}}


@pytest.fixture
def evening(
    repo: Path,
    git: Git,
    fake: Fake,
    inline: Inline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A run with a retry, a red gate, an attempt, a learning, two commits and a skip; and `kern` on
    PATH.
    """
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] second\n- [ ] no task at all\n")
    (repo / "n").write_text("good\n")
    (repo / "kern.toml").write_text(
        "[gates]\ncheck = 'grep -q good n || { echo is bad; exit 1; }'\n"
    )
    git("add", "--all")
    git("commit", "--quiet", "--message=more")
    ready = "- Files: a.txt:1\n\nREADY"
    overload = {"is_error": True, "api_error_status": 529}
    fake.script(
        research=[
            step("overloaded", 0.5, **overload),
            *(step(ready, 0.25), step(ready, 0.25)),
            step("NO_TASK: it names nothing to do", 0.125),
        ],
        implement=[
            {**step("did it\n\nSUCCESS", 0.5), "run": ["echo bad > n"]},
            {
                **step("did it\n\n## Learned\nn is good\n\nSUCCESS", 0.25),
                "run": ["echo very good > n"],
            },
            {**step("did it\n\nSUCCESS", 0.125), "run": ["echo good again > n"]},
        ],
        commit=[{**step("done", cost), "commit": True} for cost in (0.0625, 0.03125)],
    )
    assert inline(3).code == 1
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kern").write_text(f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n')
    (folder / "kern").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    return repo


def test_each_example_has_what_it_should_print() -> None:
    assert len(EXAMPLES) == len(EXPECTED) == 10
    for words in EXPECTED:
        assert sum(words in line for line in EXAMPLES) == 1, words


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed: apt-get install jq")
def test_each_example_prints_the_right_thing(evening: Path) -> None:
    for words, shown in EXPECTED.items():
        (line,) = [line for line in EXAMPLES if words in line]
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"], cwd=evening, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        assert re.fullmatch(shown, done.stdout), f"{line}\n{done.stdout}"
