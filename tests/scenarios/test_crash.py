"""Whatever becomes of kern at any of its writes, the next kern comes to the story's own end.

A story whose row says `crash` is watched once. Then it is told for moments of it: just before a
durable write, where kern is killed (what lies there then is copied, which is all that it leaves),
and in a call of an agent, which does its work and then kills kern. A write by the same functions of
kern, the INNERMOST, is killed once, in the first of the stories that come to it. For what else
`crash` names (SIGINT, SIGTERM, ENOSPC, EIO) a few moments are picked. What holds at every moment is
looked at, then kern is typed, for one task each, until the end is there.
"""

import fcntl
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from zlib import crc32

import pytest

from tests.kit.stable import Server
from tests.scenarios import test_scenarios as stories
from tests.scenarios.forked import LOOSE
from tests.scenarios.world import Row, World

pytestmark = [pytest.mark.crash, pytest.mark.slow]
USUAL = stories.ROWS[stories.USUAL]["then"]["asked"]


def length(row: Row) -> tuple[int, bool]:
    """The short ones come first: what all come to is killed where it costs least."""
    return len(row["then"].get("asked", USUAL).split()), "person" in row


ROWS = {name: row for name, row in stories.ROWS.items() if row.get("crash")}
ROWS = dict(sorted(ROWS.items(), key=lambda item: length(item[1])))
MOST_RUNS = 4
# Of a story, with each thing but a kill. With KERN_TEST_CRASH=all all moments are tried, of kills
# as well.
MOMENTS, INNERMOST = 4, 4
ALL = os.environ.get("KERN_TEST_CRASH") == "all"
# What the next kern keeps of work whose answer was never saved.
KEPT = re.compile(
    r"refs/kern/attempts/[\w-]+/(\d+-(killed|edited|retry|stopped)|commit|changed)(\+\d+)?$"
)
TASK, NUMBER = r"[\w-]+-[0-9a-f]{6}\b", r"(?<!stage)\d+"
WAITING = "refs/kern/waiting/main/main/@"  # of commits that an edit of a person's keeps from HEAD
COMPARED = ("asked", "log", "tree", "status", "refs", "spec", "learnings", "yours", "left")
START = "update refs/kern/start/main/main/@"
# The start ref; it holds the agent's tree; the answer with its outcome.
ATTEMPTED = [START, "call", START, "stage2.json"]
# Kept; the votes; noted.
BOOKED = ["update refs/kern/attempts/add-a-greeting-9ac542/1", "LEARNINGS.md"]
BOOKED += ["SPEC.md", "attempt1.json"]
# The message; the start ref holds the tree, the commit is noted, the branch moves to it.
COMMITTED = ["call", "stage3.json", START, "stage2.json", "git update-ref"]
ENDED = ["SPEC.md", START.replace("update", "delete"), "last"]
ORDER = {
    "a learning that was used is voted up in the task's commit": [
        *(*ATTEMPTED, *COMMITTED, "LEARNINGS.md", *ENDED)
    ],
    "a learning that misled is voted down, also by an attempt that failed": [
        *(*ATTEMPTED, *BOOKED, *ATTEMPTED, *COMMITTED, *ENDED)
    ],
}


@dataclass(frozen=True)
class Case:
    what: str
    at: int = 0  # the number of the write
    call: int = 0  # or of the agent's call
    where: str = ""

    @property
    def is_kill(self) -> bool:
        """And of kern alone."""
        return self.what == "SIGKILL" and not self.call

    def __str__(self) -> str:
        return f"{self.what} {'in' if self.call else 'before'} {self.call or self.at}: {self.where}"


@dataclass(frozen=True)
class Event:
    name: str
    site: str  # in kern

    def kind(self, mode: str) -> str:
        """What is alike in all stories: not the names of tasks, nor numbers. git's own folder is
        written otherwise in each mode.
        """
        name = "no" if self.name.startswith("no ") else re.sub(TASK, "TASK", self.name)
        mode = mode if self.name.startswith(("git ", "update ", "delete ")) else ""
        return f"{mode} {re.sub(NUMBER, '', name)} {' '.join(self.site.split()[:INNERMOST])}"


def cases(name: str, row: Row, events: Sequence[Event], claims: Path) -> list[Case]:
    found, mode = list[Case](), row.get("mode", "")
    for what in ("SIGKILL", *(row["crash"] if isinstance(row["crash"], list) else [])):
        these = {Case(what, at, where=one.name): one.kind(mode) for at, one in enumerate(events, 1)}
        if what.startswith("SIG"):
            calls = enumerate((one for one in events if one.name == "call"), 1)
            these |= {
                Case(what, call=call, where="agent"): f"in {one.kind(mode)}" for call, one in calls
            }
        if what == "SIGKILL" and not ALL:
            found += claimed(name, these, claims)
            continue
        step = 1 if ALL else -(-len(these) // MOMENTS)
        found += [*these][crc32(f"{name} {what}".encode()) % step :: step]
    return found


def claimed(name: str, cases: Mapping[Case, str], claims: Path) -> list[Case]:
    """The first case of each kind that no other story has taken; `claims` is all workers' own."""
    kinds = {kind: case for case, kind in [*cases.items()][::-1]}
    with claims.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        taken = dict(line.rstrip("\n").split("\t")[::-1] for line in file)
        mine = {kind: case for kind, case in kinds.items() if taken.get(kind, name) == name}
        file.writelines(f"{name}\t{kind}\n" for kind in mine)
    return sorted(mine.values(), key=lambda case: (case.call, case.at))


def disturb(case: Case, world: World, typed: str) -> list[str]:
    """What is wrong with how kern ended, and with what it left."""
    if case.is_kill:
        (world.top / "fake/killed").touch()
        return in_between(world)
    if case.call:
        kill_at = world.top / "fake/kill-at"
        kill_at.write_text(f"{case.call} {int(signal.Signals[case.what])}")
        code, out = world.kern(typed)
        kill_at.unlink()
    else:
        code, out = world.kern(typed, case.at, case.what)
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
    """What holds at every moment; `kern undo` alone opens a task in HEAD first."""
    show = f"git show {WAITING}:SPEC.md || git show HEAD:SPEC.md"
    spec, head = world.text("SPEC.md"), world.shell(f"({show}) 2>/dev/null", must=False)
    ticked = {*re.findall(r"- \[x\] .*", spec)} - {*re.findall(r"- \[x\] .*", head)}
    early = ticked and not str(world.row["kern"]).startswith("undo")
    wrong = [f"[x] on the disk before HEAD has it: {sorted(ticked)}"] if early else []
    for ref in re.findall(r"\(kept: ([^)\s]+)\)", spec):
        there = world.shell(f"git for-each-ref refs/{ref}")
        wrong += [] if there else [f"a note without its ref: {ref}"]
    return wrong


def distance(wanted: Row, there: Row, *, left: bool = True) -> list[str]:
    refs = [ref for ref in there["refs"] if ref in wanted["refs"] or not KEPT.match(ref)]
    compared = {key: wanted[key] for key in (COMPARED if left else COMPARED[:-1])}
    return [*stories.differences(compared, {**there, "refs": refs}).values()]


class Telling:
    """A story that is watched once, and told again from its beginning."""

    def __init__(self, name: str, fresh: Path, folder: Path, server: Server) -> None:
        self.row = ROWS[name]
        stories.check(name, self.row)
        stories.skip_without(self.row)
        assert isinstance(self.row["kern"], str), f"{name}: crash is for one kern"
        self.typed = self.row["kern"]
        self.again = re.sub(r"^\d+", "1", self.typed)  # what was done is not to be done again
        self.world = World(folder / "w", self.row, server)
        self.wanted = stories.wanted_of(self.row, self.world.furnish(fresh))
        self.kept = shutil.copytree(self.world.top, folder / "kept", symlinks=True)
        self.code = self.world.kern(self.typed, 0)[0]
        lines = (self.world.top / "events").read_text().splitlines()
        self.events = [Event(*line.split("\t")) for line in lines]
        assert distance(self.wanted, self.world.look()) == [], f"{name}: undisturbed"

    def anew(self) -> World:
        shutil.rmtree(self.world.top)
        shutil.copytree(self.kept, self.world.top, symlinks=True)
        return self.world

    def copy(self, moments: list[int]) -> None:
        """Of all that lies there before each of these writes."""
        if moments:
            assert self.anew().kern(self.typed, moments, "COPY")[0] == self.code

    def at(self, case: Case) -> World:
        if not case.is_kill:
            return self.anew()
        shutil.rmtree(self.world.top)
        os.rename(f"{self.world.top}-{case.at}", self.world.top)
        return self.world


@pytest.fixture
def telling(request: pytest.FixtureRequest, fresh: Path, server: Server, tmp_path: Path) -> Telling:
    return Telling(request.param, fresh, tmp_path, server)


@pytest.mark.parametrize(
    ("name", "telling"), [(name, name) for name in ROWS], indirect=["telling"], ids=[*ROWS]
)
def test_whatever_happens_at_any_write_the_next_run_comes_to_the_same_end(
    name: str, telling: Telling, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bad, claims = [], tmp_path_factory.getbasetemp()
    claims = claims.parent if "PYTEST_XDIST_WORKER" in os.environ else claims
    found = cases(name, telling.row, telling.events, claims / "claims")
    telling.copy([case.at for case in found if case.is_kill])
    for case in found:
        world = telling.at(case)
        wrong = disturb(case, world, telling.typed)
        for run in range(MOST_RUNS):
            # Who is killed leaves temporary files: they are the next kern's, where one is due.
            away = distance(telling.wanted, world.look(), left=bool(run))
            if not away:
                break
            _, out = world.kern(telling.again)
            wrong += ["a traceback:\n" + out[-600:]] if "Traceback" in out else []
        bad += [f"{case}: {line}" for line in [*wrong, *away]]
    assert not bad, f"{name}:\n" + "\n".join(bad)


@pytest.mark.parametrize(
    ("telling", "order"), ORDER.items(), indirect=["telling"], ids=["learns", "fails once"]
)
def test_the_order_of_the_durable_writes(telling: Telling, order: list[str]) -> None:
    order = ["SPEC.md", "call", "stage1.json", "SPEC.md", *order]
    names = [one.name for one in telling.events]
    loose = {name.removesuffix(LOOSE) for name in names if name.endswith(LOOSE)}
    assert not loose & {*order}, "put in place before it was on the disk"
    # Each run file is written again, into git's folder.
    assert [name for name, _ in groupby(name for name in names if name in order)] == order


@pytest.mark.parametrize("telling", [[*ORDER][1]], indirect=True)
def test_killed_again_and_again_it_still_gets_there(telling: Telling) -> None:
    """Each kern lives one write longer than the one before."""
    world, deaths = telling.anew(), 0
    while world.kern(telling.typed, deaths + 1, "SIGKILL")[0] == -9:
        (world.top / "fake/killed").touch()
        assert in_between(world) == []
        deaths += 1
    assert deaths > 12
    assert distance(telling.wanted, world.look()) == []
