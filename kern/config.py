"""kern.toml as data: settings that a project chooses. Text in, values out; nothing in it is ever
executed by reading it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kern import endpoint, many, models, plain, toml
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.model import OnRed, Output, Role
from kern.models import Choices

FILE = "kern.toml"
FINAL = "final"  # the table below [gates] with those of the whole
_PROBE_S = 20.0
_SINGLE = (
    *("max_wait", "max_failures", "max_minutes", "max_rounds", "notify", "large_file", "branch"),
    *("agents", "search", many.SINGLE),
)
_RENAMED = f"{FILE}: [snapshot] is now called [probes]; rename it, the old name works for now"
_TABLES = (
    *("gates", "probes", "snapshot", "timeouts", "max_cost", "sandbox", "agent"),
    *("commands", *models.TABLES, *many.TABLES),
)
_GONE = {
    "hide": "take it out: of your home folder nothing is seen but what read and write name",
    "hosts": "name them in network",
    "image": 'take it out, and run kern itself in the container, with sandbox = "off" there',
}
_HOST = r"\*|(\*\.)?[\w.-]+(:\d{1,5})?|\[[\da-fA-F:]+\]:\d{1,5}"
_HOSTS = 'network = ["example.com", "*.example.com", "localhost:5432"]; ["*"] for all of it'
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


def parse(data: bytes | str) -> Settings:
    """Raises UsageError with file and key for anything that is not a known setting."""
    given = toml.loaded(data, FILE)
    toml.known(given, (*_TABLES, *_SINGLE), FILE)
    costs = toml.table(given, "max_cost", FILE, "run", "task", "stage")
    times = toml.table(given, "timeouts", FILE, *Timeouts.__match_args__)
    agent = toml.table(given, "agent", FILE, "output", "http")
    timeouts = Timeouts(**{key: _seconds(one, f"timeouts.{key}") for key, one in times.items()})
    gates = dict(toml.table(given, "gates", FILE))
    final = gates.get(FINAL)
    nested = isinstance(final, dict) and "run" not in final  # else it is a gate of that name
    last = gates.pop(FINAL) if nested else {}
    place = "snapshot" if "snapshot" in given else "probes"  # the first is its old name
    if place != "probes" and "probes" in given:
        raise UsageError(f"{FILE}: [snapshot] is the old name of [probes]", hint="keep [probes]")
    probes = toml.table(given, place, FILE)
    return Settings(
        tuple(_gate("gates", *one, timeouts.gate, "known_red") for one in gates.items()),
        timeouts,
        _seconds(given.get("max_wait", Settings().max_wait), "max_wait"),
        _count(given, "max_failures", 0),
        Budget(
            **{name: _amount(value, f"max_cost.{name}") for name, value in costs.items()},
            minutes=_amount(given.get("max_minutes", 0), "max_minutes"),
        ),
        notify(given.get("notify", ""), FILE),
        tuple(_gate(f"gates.{FINAL}", name, value, timeouts.gate) for name, value in last.items()),
        _count(given, "max_rounds", 1),
        tuple(Probe(key, *_command(place, key, one, _PROBE_S)[:2]) for key, one in probes.items()),
        holding(given.get("sandbox", {}), FILE),
        large_file=_amount(given.get("large_file", Settings().large_file), "large_file"),
        printed=_printed(agent.get("output", "auto")),
        endpoint=endpoint.parse(agent.get("http"), FILE, theirs=True),
        models=models.of_settings(given, FILE),
        agents=models.of_agents(given.get("agents", []), FILE),
        commands=models.of_commands(toml.table(given, "commands", FILE), FILE),
        search=_patterns(given.get("search", [])),
        branch=_branch(given.get("branch", "")),
        fleet=many.of_settings(given, FILE),
        remarks=(_RENAMED,) if place != "probes" else (),
    )


def _printed(value: object) -> Output | None:
    if value not in ("auto", *Output):
        raise _wrong("agent.output", '"auto", "json" or "stream-json"')
    return None if value == "auto" else Output(str(value))


def holding(table: Any, origin: str) -> Holding:
    """A `[sandbox]` table. Raises UsageError."""
    given: Mapping[str, Any] = table if isinstance(table, dict) else {"": None}
    for key in given.keys() & _GONE.keys():
        raise UsageError(f"{origin}: there is no sandbox.{key} any more", hint=_GONE[key])
    toml.known(given, Holding.__match_args__, origin, "sandbox.")
    found = {key: toml.texts(names) for key, names in given.items()}
    for key, names in found.items():
        if names is None:
            raise toml.wrong(origin, f"sandbox.{key}", "a list of texts")
    for host in found.get("network") or ():
        if not re.fullmatch(_HOST, host):
            wanted = f"a list of hosts, not {plain.line(host, 40)!r}"
            raise toml.wrong(origin, "sandbox.network", wanted, _HOSTS)
    return Holding(**found)  # type: ignore[arg-type]


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


def _count(given: Mapping[str, Any], key: str, least: int) -> int:
    value = given.get(key, getattr(Settings(), key))
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < toml.MOST:
        unbounded = ", 0 for no bound" if not least else f", at least {least}"
        raise _wrong(key, f"a whole number{unbounded}")
    return value


def _amount(value: Any, key: str) -> float:
    """Dollars, minutes or MiB, 0 for no bound."""
    if not toml.is_amount(value):
        raise _wrong(key, "a number, 0 for no bound")
    return float(value)


def _gate(table: str, name: str, value: object, timeout: float, *more: str) -> Gate:
    words = ("strict", "room", "again", *more)
    command, timeout, given = _command(table, name, value, timeout, *words)
    flags = {word: given.get(word, word == "room") for word in ("strict", "known_red", "room")}
    again = given.get("again")
    if again is not None and (isinstance(again, bool) or again not in (0, 1)):
        raise _wrong(f"{table}.{name}.again", "0 or 1: how often it runs once more where it is red")
    for word, flag in flags.items():
        if not isinstance(flag, bool):
            raise _wrong(f"{table}.{name}.{word}", "true or false")
    if flags["strict"] and flags["known_red"]:
        raise UsageError(
            f"{FILE}: {table}.{name} is both strict and known_red",
            hint="a strict gate must be green before the first task: take one of the two off",
        )
    return Gate(name, command, timeout, again=again, **flags)


def _command(
    table: str, name: str, value: object, timeout: float, *more: str
) -> tuple[str, float, Mapping[str, Any]]:
    """Command and time-out of an entry of `[gates]` or `[probes]`, and all that it says; `more`:
    what else it may say.
    """
    if name in (*_SINGLE, "timeouts", "max_cost"):
        raise UsageError(
            f"{FILE}: {name} stands below [{table}]: it is no command",
            hint=f"move it above the first table of {FILE}",
        )
    key = f"{table}.{name}"
    given = {"run": value} if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise _wrong(key, 'a command, or { run = "a command", … }')
    toml.known(given, ("run", "timeout", *more), FILE, f"{key}.")
    command = given.get("run")
    if not toml.is_text(command):
        raise _wrong(key, 'a command, like "make check"')
    if "timeout" in given:
        timeout = _seconds(given["timeout"], f"{key}.timeout")
    return str(command).strip(), timeout, given


def _branch(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong("branch", 'the name of a branch, such as "kern/{date}"; "" for the one in use')
    return value.strip()


def _patterns(value: object) -> tuple[str, ...]:
    found = toml.texts(value)
    if found is None:
        raise _wrong("search", 'a list of patterns, such as ["docs/**/*.md"]')
    return found


def notify(value: object, origin: str) -> str:
    """Raises UsageError."""
    if not isinstance(value, str) or "\0" in value:
        raise toml.wrong(origin, "notify", 'a command; "" for none')
    if value.strip() == "desktop":
        raise UsageError(
            f'{origin}: notify = "desktop" is no longer known',
            hint="name the command, say: notify = \"jq -r '.event' | xargs notify-send kern\"",
        )
    return value.strip()


def _seconds(value: object, key: str) -> float:
    """0 for none."""
    found = toml.seconds(value)
    if found is None:
        given = f"; {plain.line(value, 80)!r} is not" if isinstance(value, str) and value else ""
        raise _wrong(key, f'seconds, or "90s", "10m", "1h30m"; 0 for none{given}')
    return found


def _wrong(key: str, wanted: str) -> UsageError:
    return toml.wrong(FILE, key, wanted)
