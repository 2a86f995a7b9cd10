"""What is said to an endpoint and what it answers: messages, a stream put together, the bounds of a
talk, and what went wrong in it: told by the program that asks, read by kern. Values alone.

The wire is OpenAI's Chat Completions as its many copies speak it: a call may come without an index,
its arguments as an object, the whole answer in one piece although a stream was asked for.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kern.agents import faults
from kern.agents import result as results
from kern.agents.protocol import Ended, Fault, Grade, Reply
from kern.model import Role, Stage

NAME = "http"
EXTRA = "KERN_EXTRAS=http kern --update, or pip install 'kern[http]'"
EDIT = 'correct it: [agent.http] in kern.toml; url = "http://localhost:11434/v1" is Ollama\'s'
NOT_INSTALLED = Fault(
    Grade.PERMANENT, "the http agent needs the package httpx, which is not installed", EXTRA
)
_LISTED = 12  # names of models
_NO_TOOLS = re.compile(r"(?:support|auto).{0,30}\btools?\b|tool[ _-]?(?:choice|call)", re.I)
_MODEL = re.compile(r"\bmodels?\b", re.I)
MOST_CALLS = 32  # in one answer
LONGEST_ANSWER = 400_000  # characters, arguments of calls included
_SAME, _SAME_END = 4, 8  # the same call so often in a row: refused, the end
_WRONG_END = 10  # calls in a row that are none
_KEPT = 4  # of the newest results of tools, where the context is full
_SHORT = 400  # characters; a shorter result makes no room
_LEFT_OUT = "[left out to make room; call the tool again if you need it]"
_THOUGHTS = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.S)


def told(role: Role, contract: str) -> str:
    """The system prompt; `contract`: what kern's own has of it."""
    may = (
        "change files and run commands"
        if role is Stage.IMPLEMENT
        else "look at files and change nothing"
    )
    return (
        f"{contract.rstrip()}\n\nYou work in a repository by tools: you can {may}. Paths are from "
        "the top of the working tree; nothing outside of it can be reached. Call tools until you "
        "know what you need and all is done, several at once where they do not depend on each "
        "other. Nobody answers questions. Your first message without a tool call is your answer "
        "and ends the talk."
    ).lstrip()


def request(
    model: str,
    effort: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    level = {"xhigh": "high", "max": "high"}.get(effort, effort)
    return {
        "model": model,
        "messages": [*messages],
        "tools": [*tools],
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"reasoning_effort": level} if level else {}),
    }


# -------------------------------------------------------------------- what it answers


@dataclass(slots=True)
class Call:
    id: str = ""
    name: str = ""
    arguments: str = ""  # JSON, as the model wrote it

    @property
    def given(self) -> Mapping[str, Any]:
        return results.parsed(self.arguments.encode("utf-8", "surrogatepass")) or {}


@dataclass(slots=True)
class Answer:
    """One turn of the model, as far as its stream has come."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str = ""  # why it ended; empty while it has not
    usage: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    size: int = 0  # characters
    known: bool = False  # something of it was what kern knows
    _at: dict[object, int] = field(default_factory=dict)  # of the endpoint's numbers, in `calls`

    def take(self, chunk: Mapping[str, Any]) -> None:
        """A piece of a stream, or the whole in one."""
        choices = results.parts(chunk, "choices")
        usage = results.part(chunk, "usage")
        self.known = self.known or bool(choices or usage)
        self.usage = usage or self.usage
        self.model = str(chunk.get("model") or self.model)
        for choice in choices[:1]:
            said = results.part(choice, "delta") or results.part(choice, "message")
            self.text += (piece := _text(said.get("content")))
            self.size += len(piece) + len(_text(said.get("reasoning_content")))
            for call in results.parts(said, "tool_calls"):
                self._call(call)
            self.finish = str(choice.get("finish_reason") or self.finish)

    def _call(self, piece: Mapping[str, Any]) -> None:
        named = str(piece.get("id") or "")
        at = piece.get("index")
        place = self._at.get(at if isinstance(at, int) else named or None)
        # Some number all of their calls 0: then another id is another call.
        if place is None or (named and self.calls[place].id not in ("", named)):
            place = len(self.calls)
            self.calls.append(Call())
        self._at[at if isinstance(at, int) else named or None] = place
        call, function = self.calls[place], results.part(piece, "function")
        given = function.get("arguments")
        more = given if isinstance(given, str) else json.dumps(given) if given else ""
        call.id = call.id or named
        call.name = call.name or str(function.get("name") or "")
        call.arguments += more
        self.size += len(more)

    def message(self, turn: int) -> dict[str, Any]:
        """As it is said back to the endpoint."""
        for at, call in enumerate(self.calls):
            call.id = call.id or f"call_{turn}_{at}"
        text = self.text.encode("utf-8", "replace").decode()  # half a pair is refused by many
        if not self.calls:
            return {"role": "assistant", "content": text}
        asked = [
            {
                **{"id": call.id, "type": "function"},
                # Some endpoints read it, and fail where it is no object.
                "function": {"name": call.name, "arguments": json.dumps(call.given)},
            }
            for call in self.calls
        ]
        return {"role": "assistant", "content": text or None, "tool_calls": asked}

    @property
    def said(self) -> str:
        """The text without what a model thinks aloud before it."""
        return _THOUGHTS.sub("", self.text)

    @property
    def tokens(self) -> dict[str, int]:
        """By kind, none counted twice: what came from the cache stands in the request's as well."""
        if not self.usage:
            return {}
        asked, answered = (
            results.whole(self.usage.get(f"{name}_tokens")) for name in ("prompt", "completion")
        )
        about = results.part(self.usage, "prompt_tokens_details")
        cached = min(results.whole(about.get("cached_tokens")), asked)
        counts = {"input": asked - cached, "output": answered, "cache_read_input": cached}
        return dict.fromkeys(results.KINDS, 0) | counts

    @property
    def cost(self) -> float | None:
        """US dollars, where the endpoint tells them as OpenRouter does."""
        cost = self.usage.get("cost")
        known = isinstance(cost, int | float) and not isinstance(cost, bool)
        return results.number(cost) if known else None


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(one.get("text") or "") for one in parts if isinstance(one, dict))


def complaint(body: str) -> str:
    """What an error says, in the shapes that endpoints have for it."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return " ".join(re.sub(r"<[^>]*>", " ", body[:4000]).split())[:300]
    value = value[0] if isinstance(value, list) and value else value
    for name in ("error", "detail", "message", "msg"):
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:1000]


# -------------------------------------------------------------------- bounds


@dataclass(slots=True)
class Bounds:
    """What a talk may come to."""

    turns: int
    begun: int = 0
    last: tuple[str, str] = ("", "")
    same: int = 0  # calls like the last, in a row
    wrong: int = 0  # calls that were none, in a row

    def turn(self) -> str:
        """Why there is no other one; empty where there is."""
        self.begun += 1
        return f"it did not come to an end in {self.turns} turns" * (self.begun > self.turns)

    def call(self, call: Call) -> str:
        """Why it is not carried out; empty where it is."""
        now = call.name, call.arguments
        self.same = self.same + 1 if now == self.last else 1
        self.last = now
        if self.same < _SAME:
            return ""
        return "this very call was made just before, and its result is above: do something else"

    def called(self, *, sound: bool) -> None:
        self.wrong = 0 if sound else self.wrong + 1

    @property
    def end(self) -> str:
        """Why the talk ends here; empty where it does not."""
        if self.same >= _SAME_END:
            return f"it goes in a circle: {self.same} times the same call of {self.last[0]}"
        if self.wrong >= _WRONG_END:
            return f"{self.wrong} calls of tools in a row could not be carried out"
        return ""


def make_room(messages: list[dict[str, Any]]) -> bool:
    """Take old results of tools out where the model's context is full; whether that helps."""
    found = [one for one in messages if one["role"] == "tool"]
    old = [one for one in found[:-_KEPT] if len(one["content"]) > _SHORT]
    for one in old:
        one["content"] = _LEFT_OUT
    return bool(old)


# -------------------------------------------------------------------- what went wrong


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
            said, hint = f"nobody answers at {said}", f"start it, or {EDIT}"
            return Fault(Grade.TRANSIENT, said, hint, away=True)
        case Kind.TLS:
            hint = f"SSL_CERT_FILE names certificates of your own; or {EDIT}"
            return Fault(Grade.PERMANENT, f"the endpoint cannot be trusted: {said}", hint)
        case Kind.GARBAGE:
            said = f"the endpoint's answer is no chat completion: {said or 'it is empty'}"
            return Fault(Grade.TRANSIENT, said, f"if it stays so, {EDIT}")
        case Kind.SILENT | Kind.BROKEN:
            return Fault(Grade.TRANSIENT, said, away=True)
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
