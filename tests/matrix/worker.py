"""Tells stories and what can happen in them. Imports kern once, then reads a job per line,
{"story", "what", "own"}, and answers {"cases", "writes"}; without "what" the story is told by kerns
that are killed again and again, and the answer is {"deaths", "problems"}.
"""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kern.system import process
from tests.kit.crashing_kern import become_kern, play
from tests.kit.writes import Kind
from tests.matrix import judging
from tests.matrix.cases import AGAIN, BAD, BEFORE, OK, ON, WHAT, Case
from tests.matrix.judging import Ran, Told
from tests.matrix.parked import FAULTS, SIGNALS, Parked
from tests.matrix.place import STAGES, Place, copy
from tests.matrix.stories import MAIN, STORIES

MOST_RUNS = 5
MOST_DEATHS = 60
# In writes. The longest is for stage 2 from its start ref to its saved answer, and for what follows
# a verdict.
LIVES = (1, 2, 1, 3, 1, 2, 3, 9)
HALF = "half.txt"  # what an agent leaves that never answers


@dataclass(frozen=True)
class Stop:
    """Where a parked kern stands."""

    when: str
    step: str
    name: str
    kind: str

    def happens(self, what: str) -> bool:
        """Whether that can happen here: faults in place of a write, signals between two."""
        if self.kind == Kind.CALL:
            known = self.name.startswith("transcript") or self.name.endswith(" hook")
            return self.when == "before" and known and what in SIGNALS
        if what in FAULTS:
            return self.when == "before"
        return self.kind == Kind.DURABLE and (self.when == "before") is (what == BEFORE)


class Steered:
    """A parked kern in a fork, and the two pipes to it."""

    def __init__(self, place: Place) -> None:
        told, says = os.pipe()
        hears, tell = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(told)
            os.close(tell)
            nothing = open(os.devnull, "r+b")  # noqa: SIM115
            parked = Parked(os.fdopen(says, "w"), os.fdopen(hears))
            job = {"argv": ("1", "0"), "cwd": str(place.root), "env": place.env}
            become_kern(job, nothing, nothing, parked)
        os.close(says)
        os.close(hears)
        self.told, self.tell = os.fdopen(told), os.fdopen(tell, "w")

    def stops(self) -> Iterator[Stop]:
        while line := self.told.readline():
            yield Stop(**json.loads(line))
            self._order("go")
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.told.close()
        self.tell.close()

    def disturb(self, order: Mapping[str, Any]) -> int:
        """The exit code of the fork to which it happens."""
        self._order(order)
        return int(json.loads(self.told.readline())["code"])

    def _order(self, order: object) -> None:
        print(json.dumps(order), file=self.tell, flush=True)


class Telling:
    """One story in one folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.story = STORIES[name]
        self.folder = folder
        self.place = Place(folder / "place")
        self.parking = folder / "parked"
        self.known: dict[str, tuple[str, list[str]]] = {}
        self.writes: list[str] = []
        self.place.furnish(self.story)
        self.end = self._to_the_end()

    def _to_the_end(self) -> Told:
        runs: list[Ran] = []
        while len(runs) < MOST_RUNS and not (runs and self.story.ends in self.place.spec):
            runs.append(self._kern())
        return Told(self.place.portrait(), self.place.calls, runs)

    def _kern(self, where: str = "") -> Ran:
        job = {"argv": ("1", "0"), "cwd": str(self.place.root), "env": self.place.env}
        said = play({**job, "where": where})
        return Ran(said["code"], said["err"])

    def cases(
        self, what: Sequence[str], own: Sequence[str], known: Collection[tuple[str, str]]
    ) -> Iterator[Case]:
        """`what` at each write, `own` only where (step, name) is not known from another story."""
        if problems := judging.of_the_telling(self.story, self.end):
            yield Case(self.name, "END", "of the undisturbed kern", WHAT[0], BAD, problems)
            return
        self.place.furnish(self.story)
        steered = Steered(self.place)
        for stop in steered.stops():
            if stop.when == "after" or stop.kind == Kind.SCRATCH:
                self.writes.append(stop.name)
            if stop.name.endswith(" hook") and not self._hooked(stop):
                continue
            new = stop.step in self.story.own or (stop.step, stop.name) not in known
            new = new or self._hooked(stop)
            here = [one for one in (*what, *(own if new else ())) if stop.happens(one)]
            if not here:
                continue
            os.rename(self.place.folder, self.parking)
            for one in here:
                copy(self.parking, self.place.folder)
                outcome, problems = self._happens(steered, stop, one)
                yield Case(self.name, stop.step, stop.name, one, outcome, problems)
                shutil.rmtree(self.place.folder)
            os.rename(self.parking, self.place.folder)
        # Where this differs, stopping was no standing still.
        if problems := judging.of_the_story(self._to_the_end(), self.end, ()):
            yield Case(self.name, "END", "of the parked kern", WHAT[0], BAD, problems)

    def _happens(self, steered: Steered, stop: Stop, what: str) -> tuple[str, list[str]]:
        place, out, err = self.place, self.folder / "out", self.folder / "err"
        what = "SIGKILL" if what == BEFORE else what
        hooked = self._hooked(stop)
        if hooked:
            place.signal_in_hook(SIGNALS[what])
        elif stop.kind == Kind.CALL:
            self._have_the_agent_do_it(stop, what)
        for file in (out, err):
            file.write_bytes(b"")
        code = steered.disturb(
            {
                "what": "" if stop.kind == Kind.CALL or hooked else what,
                "cwd": str(place.root),
                "out": str(out),
                "err": str(err),
                "locks": [str(path) for path in place.locks()],
            }
        )
        place.script(self.story.agent)
        ran = Ran(code, err.read_text())
        went_on, problems = judging.of_the_end(what, ran, self.end.runs[0])
        if what != "SIGKILL":
            problems += judging.alive(place)
        state = place.fingerprint()
        if state not in self.known:
            self.known[state] = self._next_kerns(standing=not (hooked and what == "SIGKILL"))
        outcome, more = self.known[state]
        problems += more
        return BAD if problems else ON if went_on else outcome, problems

    def _hooked(self, stop: Stop) -> bool:
        return stop.when == "before" and stop.name == self.story.hooked

    def _have_the_agent_do_it(self, stop: Stop, what: str) -> None:
        """The agent that is called next does its work, sends kern the signal and hangs."""
        stage = STAGES[int(stop.name[len("transcript")]) - 1]
        steps = self.story.steps(stage)
        calls = self.place.calls.count(stage)
        played = [steps[min(number, len(steps) - 1)] for number in range(calls + 1)]
        last = {"kill": "parent", "signal": SIGNALS[what], "hang": 300}
        half = [f"echo done > {HALF}"] if stage == "implement" else []
        run = [*played[-1].get("run", ()), *half, "setsid sleep 300 &"]
        dying = {**played[-1], "run": run, **last}
        self.place.script({**self.story.agent, stage: [*played[:-1], dying]})

    def _next_kerns(self, *, standing: bool) -> tuple[str, list[str]]:
        """What the next kerns make of what was left, until the story is over. `standing`: nobody
        is at work on it any more.
        """
        problems = judging.in_between(self.place) if standing else []
        half = (self.place.root / HALF).exists()
        forgotten = self.place.forget_unsaved()
        # As if all had come to pass within a second: no time stamp tells SPEC.md from the commit.
        os.utime(self.place.root / "SPEC.md")
        before = self.place.calls
        told = self._to_the_end()
        asked = told.calls[len(before) : len(before) + 1]
        again = asked == [forgotten]
        problems += judging.of_the_story(told, self.end, before)
        problems += judging.alive(self.place)
        if half and not self.place.kept(HALF):
            problems.append("what an agent had done when it was ended is lost")
        return AGAIN if again else OK, problems

    def relentless(self) -> tuple[int, list[str]]:
        """Each kern dies after its first write, its second or its third; now and then one lasts
        from the gates to the commit, since a proof is not handed on.
        """
        self.place.furnish(self.story)
        deaths = 0
        while (ran := self._kern(str(LIVES[deaths % len(LIVES)]))).code == -SIGNALS["SIGKILL"]:
            deaths += 1
            if deaths == MOST_DEATHS:
                return deaths, ["it makes no headway"]
        told = Told(self.place.portrait(), self.place.calls, [ran])
        return deaths, judging.of_the_story(told, self.end, ())


@cache
def boundaries(name: str, folder: Path) -> frozenset[tuple[str, str]]:
    place = Place(folder / "place")
    place.furnish(STORIES[name])
    return frozenset((stop.step, stop.name) for stop in Steered(place).stops())


def answer(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    telling = Telling(job["story"], folder)
    if "what" not in job:
        deaths, problems = telling.relentless()
        return {"deaths": deaths, "problems": problems}
    before = MAIN[: MAIN.index(telling.name)] if telling.name in MAIN else MAIN
    known = [boundary for name in before if job["own"] for boundary in boundaries(name, folder)]
    cases = [asdict(case) for case in telling.cases(job["what"], job["own"], {*known})]
    return {"cases": cases, "writes": telling.writes}


def main() -> None:
    process.adopt_orphans()
    vars(os)["fsync"] = lambda _: None  # what is killed here is kern, not the machine
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), Path(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
