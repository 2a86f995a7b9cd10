"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kern import endpoint, many, models, plain, toml
from kern.endpoint import Endpoint
from kern.model import OnRed, Output, Role
from kern.models import Choices
from kern.toml import Wrong

FILE = "kern.toml"
FINAL = "final"  # the table below [gates] with those of the whole
_PROBE_S = 20.0
_IDLE_S = 600.0
_MARGIN = 0.01  # US dollars: an agent is not started for less


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that must pass before the commit."""

    name: str  # empty: a task's own
    command: str  # for sh
    timeout: float  # seconds; 0: none
    strict: bool = False  # blocks also where it was red before the task
    known_red: bool = False  # red before any task, which stops no run
    room: bool = True  # in a tree that holds exactly what is to be committed, where there is one
    again: int | None = None  # how often it runs once more where it is red; None: as kern chooses

    @property
    def shown(self) -> str:
        known = " (known to be red)" if self.known_red else ""
        return f"{self.name or 'of the task'}: {self.command}{known}"

    @property
    def label(self) -> str:
        return f"gate {self.name}" if self.name else f"gate `{plain.line(self.command, 40)}`"


@dataclass(frozen=True, slots=True)
class Probe:
    """A command whose output says how things stand now; it decides nothing."""

    name: str
    command: str  # for sh
    timeout: float  # seconds; 0: none

    @property
    def shown(self) -> str:
        return f"{self.name}: {self.command}"

    @property
    def label(self) -> str:
        return f"probe {self.name}"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; 0: none."""

    idle: float | None = None  # without a sign of life from the agent; None: as kern chooses
    research: float = 900
    implement: float = 3600
    commit: float = 600
    judge: float = 600
    gate: float = 600
    planner: float = 1800


@dataclass(frozen=True, slots=True)
class Spent:
    run: float = 0
    task: float = 0  # in all runs
    seconds: float = 0  # of the run


@dataclass(frozen=True, slots=True)
class Budget:
    """US dollars as the agent counts them, API-equivalent, and minutes; 0: no bound."""

    run: float = 0
    task: float = 0
    stage: float = 0
    minutes: float = 0

    def within(self, run: float, minutes: float) -> "Budget":
        """With what the command line says of a run, where it says something."""
        return replace(self, run=run or self.run, minutes=minutes or self.minutes)

    def reached(self, spent: Spent) -> str:
        """Which bound is reached, in words; empty while none is."""
        if self.minutes and spent.seconds >= 60 * self.minutes:
            return f"the run's {self.minutes:g} minutes are over"
        for what, most, so_far in (
            ("run", self.run, spent.run),
            ("task", self.task, spent.task),
        ):
            if most and so_far > most - _MARGIN:
                return f"the {what}'s budget is used up: ${so_far:.2f} of ${most:.2f}"
        return ""

    def left(self, spent: Spent) -> float:
        """What the next stage may cost at most; 0: no bound."""
        bounds = [
            most - so_far
            for most, so_far in (
                (self.run, spent.run),
                (self.task, spent.task),
                (self.stage, 0.0),
            )
            if most
        ]
        return round(max(min(bounds), _MARGIN), 4) if bounds else 0.0


@dataclass(frozen=True, slots=True)
class Holding:
    """What a `[sandbox]` table opens, as it stands there."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    # `example.com`, `*.example.com`, `localhost:5432`; None: any host, but nothing of this machine;
    # `*`: the machine's network as it is.
    network: tuple[str, ...] | None = None

    def without(self, other: "Holding") -> Iterator[tuple[str, list[str]]]:
        """By key, what it opens and the other does not, nor a folder of the other's."""
        for key in ("read", "write", "env", "devices"):
            there = [one.rstrip("/") for one in getattr(other, key)]
            closed = [
                one
                for one in getattr(self, key)
                if not any(one == folder or one.startswith(f"{folder}/") for folder in there)
            ]
            if closed:
                yield key, closed


@dataclass(frozen=True, slots=True)
class Settings:
    gates: tuple[Gate, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_wait: float = 6 * 3600  # seconds, for a usage limit's reset
    max_failures: int = 3  # tasks in a row that came to nothing; 0: no bound
    budget: Budget = field(default_factory=Budget)
    notify: str = ""  # for sh; empty: nobody is notified; the person's to say, see `person.over`
    final: tuple[Gate, ...] = ()  # that must pass before a goal counts as reached
    max_rounds: int = 5  # reviews in one run with --until-done
    probes: tuple[Probe, ...] = ()
    holding: Holding = field(default_factory=Holding)
    on_red: OnRed = OnRed.STOP  # of the command line
    bare: bool = False  # of the command line: nothing that the project would have started counts
    large_file: float = 50  # MiB; an untracked file that is larger is not stored; 0: none is
    printed: Output | None = None  # None: as kern chooses
    endpoint: Endpoint | None = None  # of the `http` agent
    models: Choices = field(default_factory=dict)
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # argv of agents, by name
    agents: tuple[str, ...] = ()  # the first runs, the others stand in for it
    search: tuple[str, ...] = ()  # patterns of further files that kern search reads
    branch: str = ""  # that a run begins, {date} in it for the day; empty: the one in use
    fleet: many.Many = field(default_factory=many.Many)
    remarks: tuple[str, ...] = ()  # of settings that go by an old name, or do not count
    picked: Choices = field(default_factory=dict)  # of the command line: before all others

    def total(self, role: Role) -> float:
        """The time-out of an agent's process as a whole, seconds."""
        return float(getattr(self.timeouts, str(role)))

    def output(self, *, watched: bool) -> Output:
        """Live where a person looks at it, or where its signs of life are waited for."""
        live = watched or bool(self.timeouts.idle)
        return self.printed or (Output.STREAM if live else Output.JSON)

    def idle(self, output: Output) -> float:
        """The time without output after which an agent is ended; 0: none."""
        if output is Output.JSON:  # silent until its end
            return 0.0
        if self.timeouts.idle is not None:
            return self.timeouts.idle
        return max(_IDLE_S, self.patience + 60) if self.patience else 0.0

    @property
    def patience(self) -> float:
        """What a command of the agent's may take: as long as the longest gate; 0: no bound."""
        times = [self.timeouts.gate, *(gate.timeout for gate in self.gates)]
        return max(times) if all(times) else 0.0


def narrowed(own: tuple[str, ...] | None, theirs: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The hosts that a person opens, as few of them as a repository names. It opens none: not this
    machine's ports either, so a list that would hold nothing else is empty.
    """
    if theirs is None or "*" in theirs:
        return own
    if own is None or "*" in own:
        return tuple(host for host in theirs if own or not _local(host))
    found = [host for host in theirs if any(_within(host, one) for one in own)]
    found += [one for one in own if any(_within(one, host) for host in theirs)]
    return tuple(dict.fromkeys(found)) if not all(map(_local, found)) else ()


def _within(host: str, pattern: str) -> bool:
    """Whether all that the one names, the other does."""
    host, pattern = host.lower(), pattern.lower()
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def _local(host: str) -> bool:
    """Whether it may name this machine: its name, or any address."""
    return re.fullmatch(r"(.*\.)?localhost(:\d+)?|[\d.:]+|\[.*", host.lower()) is not None


# ---------------------------------------------------------------- what a file may say


def notify(given: Any) -> str:
    if given == "desktop" or not isinstance(given, str) or "\0" in given:
        hint = "name the command, say: notify = \"jq -r '.event' | xargs notify-send kern\""
        raise Wrong("{} must be a command", hint, given)
    return given.strip()


_NAMES = toml.texts("texts")
_HOST = r"\*|(\*\.)?[\w.-]+(:\d{1,5})?|\[[\da-fA-F:]+\]:\d{1,5}"
_HOSTS = 'network = ["example.com", "*.example.com", "localhost:5432"]; ["*"] for all of it'
HOLDING: toml.Rows = {
    **dict.fromkeys(("read", "write", "env", "devices"), _NAMES),
    "network": toml.texts("hosts", _HOST, _HOSTS),
    "hide": "take it out: of your home folder nothing is seen but what read and write name",
    "hosts": "name them in network",
    "image": 'take it out, and run kern itself in the container, with sandbox = "off" there',
}
_GATE: Mapping[str, toml.Read] = {
    "strict": toml.flag,
    "room": toml.flag,
    "again": toml.whole(0, 1),
}
_SINGLE: toml.Rows = {
    "max_wait": toml.seconds,
    "max_failures": toml.whole(0),
    "max_minutes": toml.amount,
    "max_rounds": toml.whole(1),
    "notify": notify,
    "large_file": toml.amount,
    "branch": toml.text,
    "agents": models.agents,
    "search": toml.texts('patterns, such as ["docs/**/*.md"]'),
    "jobs": many.jobs,
}


def _misplaced(given: Any) -> Any:
    raise Wrong("{} is no command", f"move it above the first table of {FILE}")


def _entries(reader: toml.Read) -> toml.Read:
    """Named commands; a setting that slipped below their table is none."""
    misplaced = dict.fromkeys(_SINGLE, _misplaced)

    def read(given: Any) -> Any:
        rows: toml.Rows = dict.fromkeys(given if isinstance(given, dict) else (), reader)
        final = given.get(FINAL) if isinstance(given, dict) else None
        if isinstance(final, dict) and "run" not in final:  # else it is a gate of that name
            rows = {**rows, FINAL: toml.each(toml.command(**_GATE))}
        return toml.table({**rows, **misplaced})(given)

    return read


def _gate(given: Any) -> Any:
    found = toml.command(**_GATE, known_red=toml.flag)(given)
    if found.get("strict") and found.get("known_red"):
        hint = "a strict gate must be green before the first task: take one of the two off"
        raise Wrong("{} is both strict and known_red", hint)
    return found


_ROWS: toml.Rows = {
    **_SINGLE,
    "gates": _entries(_gate),
    "probes": _entries(toml.command()),
    "snapshot": "it is now called [probes]",
    "timeouts": toml.table(dict.fromkeys(Timeouts.__match_args__, toml.seconds)),
    "max_cost": toml.table(dict.fromkeys(("run", "task", "stage"), toml.amount)),
    "sandbox": toml.table(HOLDING),
    "agent": toml.table({"output": toml.one_of(("auto", *Output)), "http": endpoint.read}),
    "commands": models.COMMANDS,
    "models": models.BY_ROLE,
    "stages": models.BY_ROLE,
    "worktree": many.WORKTREE,
    "fleet": many.FLEET,
}


def parse(data: bytes | str) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    found = toml.read(data, FILE, _ROWS)
    timeouts = Timeouts(**found.get("timeouts", {}))
    gates, agent = found.get("gates", {}), found.get("agent", {})
    final = gates.pop(FINAL) if "run" not in gates.get(FINAL, {"run": ""}) else {}
    output, http = agent.get("output", "auto"), agent.get("http")
    probes = found.get("probes", {}).items()
    same = ("max_wait", "max_failures", "max_rounds", "notify", "large_file", "branch", "search")
    return Settings(
        gates=_gates(gates, timeouts.gate),
        final=_gates(final, timeouts.gate),
        timeouts=timeouts,
        budget=Budget(**found.get("max_cost", {}), minutes=found.get("max_minutes", 0)),
        probes=tuple(Probe(name, row["run"], row.get("timeout", _PROBE_S)) for name, row in probes),
        holding=Holding(**found.get("sandbox", {})),
        printed=None if output == "auto" else Output(output),
        endpoint=http and replace(http, theirs=True),
        models=models.of_settings(found),
        agents=found.get("agents", ()),
        commands=found.get("commands", {}),
        fleet=many.of_settings(found),
        **{key: found[key] for key in same if key in found},
    )


def _gates(rows: Mapping[str, Any], timeout: float) -> tuple[Gate, ...]:
    usual = {"timeout": timeout}
    return tuple(
        Gate(name, command=row["run"], **usual | {key: row[key] for key in row if key != "run"})
        for name, row in rows.items()
    )
