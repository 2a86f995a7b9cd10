"""`kern doctor`: of this machine, or with `--scheduler` of a cluster's."""

from collections.abc import Iterator
from pathlib import Path

from kern import plain
from kern.cli.run import needing_dask
from kern.errors import Exit
from kern.fleet.fitness import Machine
from kern.views import doctor
from kern.views.doctor import OK, PROBLEM, Row


def main(folder: Path, scheduler: str, *, as_json: bool) -> int:
    """The exit code. `scheduler`: of the cluster that is asked instead of this machine."""
    found = _of_cluster(folder, scheduler) if scheduler else doctor.examine(folder)
    print(plain.data(found) if as_json else doctor.text(found))
    return Exit.OK if all(check["ok"] for check in found) else Exit.USAGE


def _of_cluster(folder: Path, where: str) -> list[Row]:
    """What its machines have, and what each of them lacks for the tasks of this project. Raises
    UsageError where no scheduler answers.
    """
    with needing_dask():
        from kern.fleet.cluster import Cluster
    found = Cluster(where)
    try:
        tasks = found.slots()
        machines = found.machines([agent.NAME for agent in doctor.needed(folder)])
    finally:
        found.close()
    rows = [row for address, one in machines.items() for row in _rows(address, one)]
    if len(machines) == 1:
        return [*rows, _row("workers", "there are none", f"dask worker {where}")]
    count = plain.count(len(machines) - 1, "worker")
    return [*rows, _row("cluster", f"{count}, {plain.count(tasks, 'task')} at once")]


def _rows(address: str, machine: Machine) -> Iterator[Row]:
    name = f"{plain.line(address, 80)}{f' ({plain.line(machine.host, 60)})' * bool(machine.host)}"
    lacking = [one for one in machine.findings if one.fix]
    for one in lacking:
        yield _row(name, f"{one.name}: {plain.line(one.detail, 300)}", plain.line(one.fix, 300))
    if not lacking:
        told = [f"kern {machine.kern}, Python {machine.python}"]
        told += [f"{one.name}: {plain.line(one.detail, 120)}" for one in machine.findings]
        yield _row(name, "\n".join(told))


def _row(name: str, detail: str, fix: str = "") -> Row:
    return Row(name=name, mark=PROBLEM if fix else OK, ok=not fix, detail=detail, fix=fix)
