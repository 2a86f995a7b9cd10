"""A dask cluster, found by its address or its scheduler file, as an executor for tasks. Nothing
else of kern knows dask. It brings TLS where dask is configured for it.
"""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed

from kern import __version__, many, person, plain
from kern.errors import UsageError
from kern.fleet import remote
from kern.fleet.child import Workshop
from kern.fleet.remote import Carrier
from kern.fleet.work import Outcome

_DASK: Any = distributed  # it has no types


@dataclass
class Cluster:
    where: str  # host:port, an address with its protocol, or the path of a scheduler file
    patience: float = 10.0  # seconds, for its first answer
    warn: Callable[[str], None] = lambda text: None
    _client: Any = None
    _carrier: Carrier | None = None
    _asked: list[bool] = field(default_factory=list)
    _unfit: set[str] = field(default_factory=set)  # addresses of workers
    _one: threading.Lock = field(default_factory=threading.Lock)  # each task has a thread

    def client(self) -> Any:
        """Connected; a new one where the last has lost its scheduler. Raises UsageError."""
        with self._one:
            if self._client is None or self._client.status != "running":
                self._drop()
                self._client = _connected(self.where, self.patience)
            return self._client

    def executor(self) -> Executor:
        """Each job runs as long as it takes; dask begins one anew whose worker is gone."""
        fit = {"workers": self._others()} if self._unfit else {}
        found = self.client().get_executor(pure=False, **fit)
        assert isinstance(found, Executor)
        return found

    def _others(self) -> list[str]:
        return sorted({*self.client().nthreads()} - self._unfit)

    def _avoid(self, where: str, came: Outcome) -> bool:
        """A worker that cannot work gets no more tasks; whether there are others."""
        if where not in self._unfit:
            hint = f"; {came.hint}" if came.hint else ""
            self.warn(f"worker {where} gets no more tasks: {came.fault}{hint}")
        self._unfit.add(where)
        try:
            return bool(self._others())
        except Exception:  # the scheduler is lost, which is waited for
            return True

    def hire(self, shop: Workshop, jobs: str, tasks: int) -> tuple[int, Carrier]:
        """As `start.here` does on this machine. Raises UsageError where nobody is there."""
        slots = sum(self.client().nthreads().values())  # tasks that its workers take at once
        if not slots:
            raise UsageError(
                f"the scheduler at {self.where} has no workers", hint=f"dask worker {self.where}"
            )
        if not shop.many.remote:
            raise UsageError(
                "a cluster needs a git remote that this machine and its workers share",
                hint=f'name it in {person.FILE}: [fleet] remote = "ssh://host/path.git" (a bare '
                "repository is enough)",
            )
        carrier = Carrier(
            *(shop.yard.repo, self.executor, shop.many.remote, self.warn),
            carry_out=carry_out,
            avoid=self._avoid,
        )
        self._carrier = carrier
        shop.children.afar = self._stop
        return min(slots if jobs == many.AUTO else int(jobs), tasks), carrier

    def _stop(self, now: bool) -> None:
        """The kerns there are asked what those here are."""
        assert self._carrier
        if now:
            self._carrier.stopped.set()
        if now not in self._asked:
            self._asked.append(now)
            with contextlib.suppress(Exception):  # who does not answer has ended it
                self.client().run(remote.stop, self._carrier.run, now=now, on_error="ignore")

    def close(self) -> None:
        if self._carrier:
            self._carrier.tidy()
        self._drop()

    def _drop(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)
            self._client = None


def carry_out(given: str) -> str:
    """On a worker: see `remote.carry_out`."""
    return json.dumps({"where": _DASK.get_worker().address, **json.loads(remote.carry_out(given))})


def _connected(where: str, patience: float) -> Any:
    """Raises UsageError with what to type next."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # kern says what is lost
    is_file = "://" not in where and ("/" in where or ":" not in where)
    if is_file and not Path(where).is_file():  # dask would wait for it
        raise UsageError(
            f"there is no scheduler file {where}",
            hint=f"dask scheduler --scheduler-file {where}, or name its address: host:8786",
        )
    try:
        address = _in_file(where) if is_file else where
        asyncio.run(_greeted(address, patience))  # a client that fails complains as it goes
        name = f"kern-{__version__}"
        return _DASK.Client(address, timeout=patience, set_as_default=False, name=name)
    except Exception as exc:  # dask knows many ways to fail
        reason = plain.line(str(exc) or type(exc).__name__, 160)
        raise UsageError(
            f"no dask scheduler answers at {where}: {reason}",
            hint="start one (dask scheduler), or correct --scheduler or [fleet] scheduler; "
            "one with TLS is named tls://HOST:PORT",
        ) from None


def _in_file(where: str) -> str:
    address: str = json.loads(Path(where).read_text("utf-8"))["address"]
    return address


async def _greeted(address: str, patience: float) -> None:
    """Raises what dask does where nobody, or something else, answers."""
    how = _DASK.Security().get_connection_args("client")
    comm = await _DASK.core.connect(address, timeout=patience, **how)
    await comm.close()
