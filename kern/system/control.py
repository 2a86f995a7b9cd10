"""What another terminal asks of a run, to be heeded between two stages, and what is said of it.

A request is a small file in the git directory, written by another terminal, and read by the run
that it names. It decides nothing that a crash could lose: a run that is gone heeds none.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kern.errors import KernError
from kern.frozen import frozen
from kern.model import Request
from kern.system import workspace

FILE = "kern.request"
_Record = Mapping[str, Any]  # of the journal
MANY = "after the stages in progress"  # of many at once
NOW = "now"  # nothing is under way: a request is heeded at once


@frozen
class Answer:
    """What the person is told of a request, and whether it changes anything."""

    text: str
    changes: bool = True
    refused: str = ""  # what to type instead, where it cannot be


def ask(git_dir: Path, wanted: Request, run: str) -> None:
    """The other terminal's side. Bound to the run, so that none heeds what another was asked."""
    if wanted is Request.RESUME:
        forget(git_dir)
    else:
        workspace.replace(git_dir / FILE, f"{wanted} {run}\n".encode())


def asked(git_dir: Path, run: str) -> Request | None:
    """What the file asks of this run; None where it asks nothing, or of another."""
    try:
        data = workspace.read(git_dir / FILE)
    except KernError:  # something else stands there: no reason to end paid work
        return None
    words = (data or b"").decode("ascii", "replace").split()
    known = {str(request): request for request in (Request.STOP, Request.PAUSE)}
    return known.get(words[0]) if len(words) == 2 and words[1] == run else None


def forget(git_dir: Path) -> None:
    with workspace.reported(git_dir / FILE), contextlib.suppress(FileNotFoundError):
        (git_dir / FILE).unlink()


# ---------------------------------------------------------------- in words


def due(records: Sequence[_Record], *, paused: bool) -> str:
    """When the run with these records will heed a request: `NOW`, or after what."""
    last = at_work(records) or {"kind": ""}
    if paused:
        return NOW
    if _many(records):
        return MANY if _stages(records) else NOW
    match last["kind"], last.get("did"):
        case "stage", "start":
            return f"after its {last['stage']} stage"
        case "task", "start":
            pass
        case "limit" | "commit" | "task", _:
            return NOW
    return "after what it is doing now"


def at_work(records: Sequence[_Record]) -> _Record | None:
    """What was recorded last of the work itself."""
    return next((one for one in reversed(records) if one["kind"] != "request"), None)


def is_paused(records: Sequence[_Record], asked: Request | None) -> bool:
    """Whether the run with these records waits for `kern resume` by now; one of many at once, as
    soon as no worker has a stage in progress.
    """
    if _many(records):
        return asked is Request.PAUSE and not _stages(records)
    told = next((one.get("did") for one in reversed(records) if one["kind"] == "request"), None)
    return asked is Request.PAUSE and told == "paused"


def _many(records: Sequence[_Record]) -> bool:
    return any("worker" in one for one in records)


def _stages(records: Sequence[_Record]) -> Mapping[object, object]:
    """By worker the branch on which it has a stage in progress. What one's kern was killed at, and
    another resumes, is the other's.
    """
    found: dict[object, object] = {}
    for one in records:
        worker, branch = one.get("worker"), one.get("branch")
        if one["kind"] == "stage" and one.get("did") == "start":
            found = {other: its for other, its in found.items() if its != branch}
            found[worker] = branch
        elif one["kind"] in ("stage", "run"):
            found.pop(worker, None)
    return found


def answer(wanted: Request, asked: Request | None, who: str, when: str, *, paused: bool) -> Answer:
    """`asked` is what stands already; `who` names the run, `when` is what `due` says of it."""
    again = asked is wanted
    match wanted, asked:
        case Request.STOP, _:
            told = "was asked to stop already: it ends" if again else "will end"
            sooner = "" if when == NOW else "; kern stop --now ends it at once"
            return Answer(f"{who} {told} {when}{sooner}", not again)
        case Request.PAUSE, Request.STOP:
            instead = "kern resume takes that back, then kern pause"
            return Answer(f"{who} was asked to stop: it ends {when}", False, instead)
        case Request.PAUSE, _:
            told = "was asked to pause already: it waits" if again else "will wait"
            if paused:
                return Answer(f"{who} is paused already; kern resume goes on", False)
            held = "its lock held; kern resume goes on, kern stop ends it"
            return Answer(f"{who} {told} {when}, {held}", not again)
        case _, None:
            return Answer(f"{who} is not paused: it goes on as it is", False)
        case _:
            back = "goes on" if paused else f"goes on: it was to {asked} {when}"
            return Answer(f"{who} {back}")


def standing(request: str, *, paused: bool, many: bool = False) -> str:
    """What `kern status` says of a request that stands; of `many` at once."""
    if request == Request.PAUSE and paused:
        return "paused"
    return f"{request}s {MANY if many else 'after this stage'}"


def announced(asked: Request, at_once: bool, doing: str, *, late: bool = False) -> str:
    """What the run says of a request that has reached it."""
    if late:
        return f"the time of --until has come: ends {'here' if at_once else f'after {doing}'}"
    match asked, at_once:
        case Request.STOP, True:
            return "asked to stop (kern stop): ends here"
        case Request.STOP, False:
            return f"asked to stop (kern stop): ends after {doing}; kern resume takes it back"
        case Request.PAUSE, True:
            return "paused (kern resume goes on, kern stop ends)"
        case Request.PAUSE, False:
            return f"asked to pause (kern pause): waits after {doing}"
    return "asked to go on (kern resume)"
