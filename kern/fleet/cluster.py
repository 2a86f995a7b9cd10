"""A dask cluster, found by its address or its scheduler file: as an executor, and asked what its
machines have. Nothing else of kern knows dask. It brings TLS where dask is configured for it.
"""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed

from kern import __version__, many, person, plain
from kern.errors import UsageError
from kern.fleet import fitness, remote
from kern.fleet.child import Workshop
from kern.fleet.fitness import Finding, Machine
from kern.fleet.remote import Carrier
from kern.fleet.work import Outcome

_SAME = f"install the same on all machines: pip install 'kern[dask]=={__version__}'"

_LOOK_S = 5.0  # between two looks at which worker has which task
_DASK: Any = distributed  # it has no types


@dataclass
class Cluster:
    where: str  # host:port, an address with its protocol, or the path of a scheduler file
    patience: float = 10.0  # seconds, for its first answer
    warn: Callable[[str], None] = lambda text: None
    _client: Any = None
    _unfit: set[str] = field(default_factory=set)
    _places: dict[str, tuple[str, str]] = field(default_factory=dict)
    _carrier: Carrier | None = None
    _closed: threading.Event = field(default_factory=threading.Event)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def client(self) -> Any:
        """Connected; a new one where the last has lost its scheduler. Raises UsageError."""
        with self._one:
            if self._client is None or self._client.status != "running":
                self._dropped()
                self._client = _connected(self.where, self.patience)
            return self._client

    def executor(self) -> Executor:
        """Each job runs as long as it takes; dask begins one anew whose worker is gone."""
        client = self.client()
        fit = {"workers": sorted({*self.workers()} - self._unfit)} if self._unfit else {}
        found = client.get_executor(pure=False, **fit)
        assert isinstance(found, Executor)
        return found

    def hire(self, shop: Workshop, jobs: str, tasks: int) -> tuple[int, Carrier]:
        """As `start.here` does on this machine; what its kerns are asked, those there are asked as
        well. Raises UsageError where nobody is there.
        """
        slots = self.slots()
        if not slots:
            raise UsageError(
                f"the scheduler at {self.where} has no workers", hint=f"dask worker {self.where}"
            )
        count = min(slots if jobs == many.AUTO else int(jobs), tasks)
        if not shop.many.remote:
            raise UsageError(
                "a cluster needs a git remote that this machine and its workers share",
                hint=f'name it in {person.FILE}: [fleet] remote = "ssh://host/path.git" (a bare '
                "repository is enough)",
            )
        carrier = self._carrier = Carrier(
            shop.yard.repo, self.executor, shop.many.remote, self.warn, self._avoid
        )
        asked: list[bool] = []

        def elsewhere(now: bool) -> None:
            if now:
                carrier.stopped.set()
            if now not in asked:
                asked.append(now)
                with contextlib.suppress(Exception):  # who does not answer has ended it
                    self.client().run(remote.stop, carrier.run, now=now, on_error="ignore")

        shop.children.elsewhere = elsewhere
        shop.children.places = lambda: dict(self._places)
        threading.Thread(target=self._watch, args=(carrier,), daemon=True).start()
        return count, carrier

    def _watch(self, carrier: Carrier) -> None:
        """Which worker has which task: nobody else could say before it comes back."""
        while not self._closed.wait(_LOOK_S):
            with contextlib.suppress(Exception):  # the scheduler is lost, which is waited for
                told = self.client().run(remote.under_way, carrier.run, on_error="ignore")
                found = ((where, one) for where, one in told.items() if isinstance(one, dict))
                self._places = {
                    branch: (plain.line(where, 80), stage)
                    for where, one in found
                    for branch, stage in one.items()
                }

    def _avoid(self, where: list[Any], came: Outcome) -> bool:
        """See `Carrier.avoid`."""
        try:
            told = self.client().run(remote.whoami, on_error="ignore")
            others = {*self.workers()}
        except Exception:  # the scheduler is lost, which is waited for
            return True
        found = {one for one, named in told.items() if [*named] == where}
        for one in found - self._unfit:
            hint = f"; {came.hint}" if came.hint else ""
            self.warn(f"worker {one} ({where[0]}) gets no more tasks: {came.fault}{hint}")
        self._unfit |= found
        return bool(others - self._unfit)

    def workers(self) -> Mapping[str, int]:
        """By address, how many tasks each takes at once."""
        found: Mapping[str, int] = self.client().nthreads()
        return found

    def slots(self) -> int:
        """Tasks that its workers take at once."""
        return sum(self.workers().values())

    def machines(self, agents: Sequence[str]) -> dict[str, Machine]:
        """What the scheduler and each worker have, by address."""
        client = self.client()
        found = {self.where: _machine(_tried(client.run_on_scheduler, fitness.version))}
        told = _tried(client.run, fitness.examine, tuple(agents), on_error="return")
        asked = told if isinstance(told, dict) else dict.fromkeys(self.workers(), told)
        return found | {address: _machine(said) for address, said in asked.items()}

    def close(self) -> None:
        self._closed.set()
        if self._carrier:
            self._carrier.tidy()
        self._dropped()

    def _dropped(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)
            self._client = None


def _connected(where: str, patience: float) -> Any:
    """Raises UsageError with what to type next."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is lost is told by kern
    address = _address(where)
    try:
        asyncio.run(_greeted(address, patience))  # a client that fails complains as it goes
        client = _DASK.Client(
            address, timeout=patience, set_as_default=False, name=f"kern-{__version__}"
        )
    except Exception as exc:  # dask knows many ways to fail
        said = plain.line(str(exc) or type(exc).__name__, 160)
        raise UsageError(
            f"no dask scheduler answers at {where}: {said}", hint=remedy(address, said)
        ) from None
    _compare(client, where)
    return client


def remedy(address: str, said: str) -> str:
    """What to do where nobody answers."""
    if "encryption required" in said:
        return f"kern --scheduler tls://{address.rpartition('://')[2]}"
    if address.startswith("tls://"):
        return "start one (dask scheduler) with the same certificates: kern help parallel"
    return "start one (dask scheduler), or correct --scheduler or [fleet] scheduler"


def _address(where: str) -> str:
    """Of a scheduler, where it is named by its file."""
    if not _is_file(where):
        return where
    try:
        found = json.loads(Path(where).read_text("utf-8"))["address"]
    except FileNotFoundError:
        why = f"there is no scheduler file {where}"
    except (OSError, ValueError, KeyError, TypeError):
        why = f"{where} is no scheduler file of dask's"
    else:
        return str(found)
    hint = f"dask scheduler --scheduler-file {where}, or name its address: host:8786"
    raise UsageError(why, hint=hint)


async def _greeted(address: str, patience: float) -> None:
    """Raises what dask does where nobody, or something else, answers."""
    how = _DASK.Security().get_connection_args("client")
    comm = await _DASK.core.connect(address, timeout=patience, **how)
    await comm.close()


def _is_file(where: str) -> bool:
    return "://" not in where and ("/" in where or where.endswith(".json") or ":" not in where)


def _compare(client: Any, where: str) -> None:
    """Two versions of dask do not understand each other for long."""
    told = client.get_versions(check=False)
    ours = told["client"]["packages"]["distributed"]
    theirs = told["scheduler"]["packages"]["distributed"]
    if ours != theirs:
        client.close(timeout=2)
        raise UsageError(
            f"the scheduler at {where} has distributed {theirs}, this machine has {ours}",
            hint=f"pip install distributed=={theirs}",
        )


def _tried(ask: Any, *given: Any, **more: Any) -> object:
    """What is said, or how it failed."""
    try:
        return ask(*given, **more)
    except Exception as exc:
        return exc


def _machine(said: object) -> Machine:
    """What a worker answers; one that has no kern, or another one, cannot say it itself."""
    if isinstance(said, Machine) and said.kern == __version__:
        return said
    kern = getattr(said, "kern", "")
    detail = f"has kern {kern}, this machine has {__version__}" if kern else "has no kern"
    host = getattr(said, "host", "")
    if not kern and "kern" not in str(said):
        detail = plain.line(f"{type(said).__name__}: {said}", 160)
    return Machine(host, kern, "", (Finding("kern", detail, _SAME),))
