"""Whatever becomes of kern at any of its writes, the next kern comes to the story's own end.

A story whose row says `crash` is watched once. Then it begins anew for each of its durable writes,
and kern is killed just before it; for each call of an agent, which does its work and then kills
kern; and for what else `crash` names (SIGINT, SIGTERM, ENOSPC, EIO). What holds at every moment is
looked at, then the same is typed until the end is there.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scenarios import test_scenarios as stories
from tests.scenarios.test_scenarios import fresh, server  # noqa: F401 - fixtures
from tests.scenarios.world import Row, World

pytestmark = [pytest.mark.crash, pytest.mark.slow]
ROWS = {name: row for name, row in stories.ROWS.items() if row.get("crash")}
MOST_RUNS = 4
# Of the moments of a story one in four is tried; with KERN_TEST_CRASH=all all of them, an hour on
# two cores.
EVERY = 4
ALL = os.environ.get("KERN_TEST_CRASH") == "all"
# What the next kern keeps of work whose answer was never saved.
KEPT = re.compile(r"refs/kern/attempts/[\w-]+/\d+-(killed|commit|edited|retry|stopped)(\+\d+)?$")
COMPARED = ("asked", "log", "tree", "status", "refs", "spec", "learnings", "yours", "left")


@dataclass(frozen=True)
class Case:
    what: str
    at: int = 0  # the number of the write
    call: int = 0  # or of the agent's call
    where: str = ""

    def __str__(self) -> str:
        return f"{self.what} {'in' if self.call else 'before'} {self.call or self.at}: {self.where}"


def cases(events: list[str], row: Row) -> Iterator[Case]:
    also = row["crash"] if isinstance(row["crash"], list) else []
    for at, name in enumerate(events, 1):
        yield from (Case(what, at, where=name) for what in ("SIGKILL", *also))
    for call in range(1, events.count("call") + 1):
        signals = [what for what in ("SIGKILL", *also) if what.startswith("SIG")]
        yield from (Case(what, call=call, where="agent") for what in signals)


def disturb(case: Case, world: World, typed: str) -> list[str]:
    """What is wrong with how kern ended, and with what it left."""
    if case.call:
        kill_at = world.top / "fake/kill-at"
        kill_at.write_text(f"{case.call} {int(signal.Signals[case.what])}")
        code, out = world.kern(typed)
        kill_at.unlink()
    else:
        code, out = world.kern(typed, str(world.top / "events"), case.at, case.what)
    (world.top / "fake/killed").touch()
    wrong = ["a traceback"] if "Traceback" in out else []
    if case.what.startswith("SIG"):
        number = int(signal.Signals[case.what])
        expected = [-number if case.what == "SIGKILL" else 128 + number]
    else:
        expected = [0, 1, 2]
        reason = r"(?mi)^kern: .*(no space left|input/output error)"
        wrong += [] if code == 0 or re.search(reason, out) else ["does not say what failed"]
    wrong += [f"ended with {code}"] if code not in expected else []
    return [f"{one}:\n{out[-600:]}" for one in wrong] + in_between(world)


def in_between(world: World) -> list[str]:
    """What holds at every moment."""
    spec, head = world.text("SPEC.md"), world.shell("git show HEAD:SPEC.md", must=False)
    ticked = {*re.findall(r"\[x\] .*", spec)} - {*re.findall(r"\[x\] .*", head)}
    wrong = [f"[x] on the disk before HEAD has it: {sorted(ticked)}"] if ticked else []
    for ref in re.findall(r"\(kept: ([^)\s]+)\)", spec):
        there = world.shell(f"git for-each-ref refs/{ref}")
        wrong += [] if there else [f"a note without its ref: {ref}"]
    return wrong


def distance(wanted: Row, there: Row, *, left: bool = True) -> list[str]:
    lines = []
    for key in COMPARED if left else COMPARED[:-1]:
        value = there[key]
        if key == "refs":
            value = [ref for ref in value if ref in wanted["refs"] or not KEPT.match(ref)]
        if not stories.matches(key, wanted[key], value):
            lines.append(f"{key} is\n{stories.joined(value)}\nnot\n{stories.joined(wanted[key])}")
    return lines


@pytest.mark.parametrize("name", ROWS)
def test_whatever_happens_at_any_write_the_next_run_comes_to_the_same_end(
    name: str,
    fresh: Path,  # noqa: F811
    server: "subprocess.Popen[str]",  # noqa: F811
    tmp_path: Path,
) -> None:
    row = ROWS[name]
    stories.check(name, row)
    stories.skip_without(row)
    assert isinstance(row["kern"], str), f"{name}: crash is for one kern"
    watched = World(tmp_path / "watched", row, server)
    before = watched.furnish(fresh)
    watched.kern(row["kern"], str(watched.top / "events"))
    events = (watched.top / "events").read_text().splitlines()
    wanted = stories.wanted_of(row, before)
    assert distance(wanted, watched.look()) == [], f"{name}: undisturbed"
    bad = []
    # By name, so that stories do not all leave out the same writes.
    every = 1 if ALL else EVERY
    for case in [*cases(events, row)][len(name) % every :: every]:
        world = World(tmp_path / "w", row, server)
        world.furnish(fresh)
        wrong = disturb(case, world, row["kern"])
        for run in range(MOST_RUNS):
            # Who is killed leaves temporary files: they are the next kern's, where one is due.
            away = distance(wanted, world.look(), left=bool(run))
            if not away:
                break
            _, out = world.kern(row["kern"])
            wrong += ["a traceback:\n" + out[-600:]] if "Traceback" in out else []
        bad += [f"{case}: {line}" for line in [*wrong, *away]]
        shutil.rmtree(world.top)
    assert not bad, f"{name}:\n" + "\n".join(bad)
    assert len(events) > 5
