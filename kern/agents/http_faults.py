"""What went wrong in a talk with an endpoint: told by the program that asks, read by kern. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kern.agents import faults
from kern.agents import result as results
from kern.agents.protocol import Ended, Fault, Grade, Reply

NAME = "http"
EXTRA = "KERN_EXTRAS=http kern --update, or pip install 'kern[http]'"
EDIT = 'correct it: [agent.http] in kern.toml; url = "http://localhost:11434/v1" is Ollama\'s'
NOT_INSTALLED = Fault(
    Grade.PERMANENT, "the http agent needs the package httpx, which is not installed", EXTRA
)
_LISTED = 12  # names of models
_NO_TOOLS = re.compile(r"(?:support|auto).{0,30}\btools?\b|tool[ _-]?(?:choice|call)", re.I)
_MODEL = re.compile(r"\bmodels?\b", re.I)


class Kind(StrEnum):
    STATUS = "status"  # the endpoint says that it failed
    NOBODY = "nobody"  # there is none
    TLS = "tls"
    SILENT = "silent"
    BROKEN = "broken"  # half an answer
    GARBAGE = "garbage"  # another schema, or none
    LONG = "long"  # more than can be an answer
    CUT = "cut"  # by the endpoint
    ENDLESS = "endless"  # too many turns, or a circle
    BUDGET = "budget"


_PASSING = (Kind.NOBODY, Kind.SILENT, Kind.BROKEN, Kind.GARBAGE)


@dataclass(slots=True, eq=False)
class Trouble(Exception):
    kind: Kind
    said: str
    status: int | None = None
    after: float = 0.0  # seconds that the endpoint asks to wait

    def told(self, at: float) -> dict[str, Any]:
        """As the result has it; `at`: seconds of the epoch."""
        about = {"kind": str(self.kind), "said": self.said, "status": self.status}
        return {**about, "after": self.after, "at": at}

    @property
    def passes(self) -> bool:
        """Whether the same request may be answered, after no long wait."""
        return self.after <= faults.SOON and _graded(self.told(0.0)).grade is Grade.TRANSIENT

    @property
    def is_full(self) -> bool:
        """The model's context has no room for all of the talk."""
        return self.kind is Kind.STATUS and _graded(self.told(0.0)).grade is Grade.FAILED

    @property
    def of_model(self) -> bool:
        return self.status in (400, 404) and bool(_MODEL.search(self.said))


def with_models(trouble: Trouble, known: Sequence[str]) -> Trouble:
    """With what a person could name in its place."""
    more = ", …" if len(known) > _LISTED else ""
    listed = ", ".join(known[:_LISTED])
    return replace(trouble, said=f"{trouble.said} (it has {listed}{more})")


def fault(reply: Reply | None, ended: Ended, login: str) -> Fault | None:
    """None for a sound reply. `login`: what a person does whose key is refused."""
    if reply is None:
        if "No module named 'httpx'" in ended.stderr:
            return NOT_INSTALLED
        return faults.unanswered(NAME, ended, login=login)
    told = results.part(reply.result, "fault")
    return _graded(told, login) if told else None


def _graded(told: Mapping[str, Any], login: str = "") -> Fault:
    said = str(told.get("said"))
    match told.get("kind"):
        case Kind.STATUS:
            return _of_status(told, said, login)
        case Kind.NOBODY:
            return Fault(Grade.TRANSIENT, f"nobody answers at {said}", f"start it, or {EDIT}")
        case Kind.TLS:
            hint = f"SSL_CERT_FILE names certificates of your own; or {EDIT}"
            return Fault(Grade.PERMANENT, f"the endpoint cannot be trusted: {said}", hint)
        case Kind.GARBAGE:
            said = f"the endpoint's answer is no chat completion: {said or 'it is empty'}"
            return Fault(Grade.TRANSIENT, said, f"if it stays so, {EDIT}")
        case Kind.SILENT | Kind.BROKEN:
            return Fault(Grade.TRANSIENT, said)
        case Kind.LONG:
            return Fault(Grade.FAILED, f"the endpoint's answer does not end: {said}")
    return Fault(Grade.FAILED, f"the agent was ended: {said}")


def _of_status(told: Mapping[str, Any], said: str, login: str) -> Fault:
    status = told.get("status")
    after, at = results.number(told.get("after")), results.number(told.get("at"))
    if status in range(300, 400) or status == 405 or (status == 404 and not _MODEL.search(said)):
        said = f"the endpoint answers {status}: there are no chat completions at this URL: {said}"
        return Fault(Grade.PERMANENT, said, EDIT)
    if status in (400, 422, 501) and _NO_TOOLS.search(said):
        hint = "name a model that can call tools, or have the server let it: kern help settings"
        return Fault(Grade.PERMANENT, f"this model cannot call tools: {said}", hint)
    return faults.of_api(
        NAME,
        said,
        status=status if isinstance(status, int) else None,
        login=login,
        resets_at=round(at + after) if after else None,
        at=at,
    )
