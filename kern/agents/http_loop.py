"""The program that kern starts where an endpoint's model is the agent: it asks, carries out the
tools that the model calls, and prints what happens, a JSON object a line; the last is the result.

The exit code is 0 where there is an answer.
"""

import argparse
import contextlib
import email.utils
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from kern import __version__
from kern.agents import http_talk as talk
from kern.agents import result as results
from kern.agents.http_talk import Answer, Bounds, Call, Kind, Trouble
from kern.agents.http_tools import Tools, failed, offered, read, schemas
from kern.agents.http_tree import Closed, Refused, Tree
from kern.model import Aide, Role, Stage

_CONNECT_S = 30.0
_LOOK_S = 10.0  # for what an endpoint has, which is worth no longer wait
_WAITS = (2.0, 10.0, 30.0)  # seconds before another try, where there is work to lose
_LIFE_S = 10.0  # between two signs of life while an answer comes
_LONGEST_LINE = 8_000_000  # bytes, of a stream
_LONGEST_BODY = 64_000_000  # bytes, of one answer


def say(kind: str, **more: object) -> None:
    print(json.dumps({"type": kind, **more}), flush=True)


@dataclass(slots=True)
class Asked:
    """An endpoint and what it is asked as."""

    url: str
    model: str
    client: httpx.Client
    at: float = field(default_factory=time.monotonic)  # of the last sign of life

    def answer(self, body: dict[str, Any]) -> Answer:
        """Raises Trouble."""
        try:
            # Letters as escapes: httpx itself fails over half of a surrogate pair.
            sent, where = json.dumps(body).encode(), f"{self.url}/chat/completions"
            with self.client.stream("POST", where, content=sent) as came:
                if came.status_code != 200:
                    raise self._status(came)
                return self._read(came)
        except httpx.HTTPError as exc:
            raise _trouble(exc, self.url) from None

    def _read(self, came: httpx.Response) -> Answer:
        answer, whole, ended = Answer(), [b""], False
        for line in _lines(came):
            self._live()
            if not line.startswith(b"data:"):
                whole.append(line)
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                ended = True
                break
            self._take(answer, data)
            if answer.size > talk.LONGEST_ANSWER:
                raise Trouble(Kind.LONG, f"more than {talk.LONGEST_ANSWER} characters")
        if not answer.known:  # no stream, although one was asked for
            body, ended = b"\n".join(whole), True
            self._take(answer, body)
        if not answer.known:
            raise Trouble(Kind.GARBAGE, _said(body))
        if not ended and not answer.finish:
            raise Trouble(Kind.BROKEN, "the answer broke off in its middle")
        return answer

    def _take(self, answer: Answer, data: bytes) -> None:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise Trouble(Kind.GARBAGE, _said(data)) from None
        if isinstance(value, dict) and value.get("error"):
            code = results.part(value, "error").get("code")
            known = code if isinstance(code, int) and 400 <= code < 600 else None
            raise Trouble(Kind.STATUS, _said(data), known)
        if isinstance(value, dict):
            answer.take(value)

    def _status(self, came: httpx.Response) -> Trouble:
        said = _said(b"\n".join(_lines(came)))
        to = came.headers.get("location", "")
        after = _after(came.headers.get("retry-after", ""))
        return Trouble(Kind.STATUS, f"{said} {to}".strip(), came.status_code, after)

    def _live(self) -> None:
        if time.monotonic() - self.at > _LIFE_S:
            self.at = time.monotonic()
            say("progress")

    def models(self) -> list[str]:
        """Those that it says it has; none where it does not say. Raises Trouble."""
        try:
            came = self.client.get(f"{self.url}/models", timeout=_LOOK_S)
            if came.status_code in (401, 403):
                raise Trouble(Kind.STATUS, _said(came.content), came.status_code)
            known = results.parts(came.json(), "data")
        except httpx.HTTPError as exc:
            raise _trouble(exc, self.url) from None
        except (ValueError, RecursionError, AttributeError):
            return []
        return [str(one.get("id")) for one in known]


def _lines(came: httpx.Response) -> Iterator[bytes]:
    """httpx itself would also end a line at U+2028, which may stand in JSON."""
    rest, size = b"", 0
    for piece in came.iter_bytes():
        size += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if size > _LONGEST_BODY or len(rest) > _LONGEST_LINE:
            raise Trouble(Kind.LONG, f"more than {size // 1_000_000} MB")
    yield rest


def _said(body: bytes) -> str:
    return talk.complaint(body.decode("utf-8", "replace"))


def _trouble(exc: httpx.HTTPError, url: str) -> Trouble:
    said = str(exc) or type(exc).__name__
    match exc:
        case httpx.ConnectTimeout() | httpx.ConnectError() | httpx.ProxyError():
            kind = Kind.TLS if "CERTIFICATE" in said.upper() else Kind.NOBODY
            return Trouble(kind, f"{url}: {said}")
        case httpx.TimeoutException():
            return Trouble(Kind.SILENT, f"{url} sent nothing for too long")
        case httpx.UnsupportedProtocol():
            return Trouble(Kind.NOBODY, f"{url}: {said}")
    return Trouble(Kind.BROKEN, f"the answer broke off in its middle: {said}")


def _after(value: str) -> float:
    """Seconds, of a header that has them or a date; 0 where it has neither."""
    if value.strip().isdigit():
        return float(value[:9])
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0


# -------------------------------------------------------------------- the talk


@dataclass(slots=True)
class Talk:
    asked: Asked
    role: Role
    effort: str
    tools: Tools
    bounds: Bounds
    budget: float
    messages: list[dict[str, Any]]
    session: str
    counts: list[dict[str, int]] = field(default_factory=list)  # of tokens
    costs: list[float] = field(default_factory=list)
    model: str = ""  # as the endpoint calls it

    def held(self) -> str:
        """Until there is an answer. Raises Trouble."""
        while True:
            if why := self.bounds.turn():
                raise Trouble(Kind.ENDLESS, why)
            answer = self._answered()
            message = answer.message(self.bounds.begun)
            self.messages.append(message)
            self._count(answer, message)
            if not answer.calls:
                return _whole(answer)
            for at, call in enumerate(answer.calls):
                self._carry_out(call, at)
                if why := self.bounds.end:
                    raise Trouble(Kind.ENDLESS, why)
            if self.budget and sum(self.costs) >= self.budget:
                raise Trouble(Kind.BUDGET, f"${sum(self.costs):.2f} is used up")

    def _answered(self) -> Answer:
        """Where nothing is done yet, another try is kern's, unless the endpoint names a wait."""
        waits = iter(_WAITS)
        while True:
            body = talk.request(self.asked.model, self.effort, self.messages, schemas(self.role))
            try:
                return self.asked.answer(body)
            except Trouble as trouble:
                if trouble.is_full and talk.make_room(self.messages):
                    continue
                wait = next(waits, None) if self.counts or trouble.after else None
                if wait is None or not trouble.passes:
                    raise
                seconds = trouble.after or wait
                say("retry", reason=trouble.said, seconds=seconds)
                time.sleep(seconds)

    def _count(self, answer: Answer, message: dict[str, Any]) -> None:
        self.counts.append(answer.tokens)
        self.costs += [] if answer.cost is None else [answer.cost]
        self.model = answer.model or self.model
        say("assistant", turn=self.bounds.begun, message=message, usage=answer.tokens)

    def _carry_out(self, call: Call, at: int) -> None:
        given, why = read(call, self.role)
        if at >= talk.MOST_CALLS:
            why = f"more than {talk.MOST_CALLS} calls at once: make this one again"
        self.bounds.called(sound=not why)
        why = why or self.bounds.call(call)
        denied = False
        try:
            text = f"error: {why}" if why else self.tools.use(call.name, given)
        except Refused as exc:
            text, denied = f"error: {exc}", isinstance(exc, Closed)
        text = text.encode("utf-8", "replace").decode()  # half a pair is refused by many
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        wrong = text.startswith("error: ") or failed(call.name, text)
        say("tool", id=call.id, name=call.name, text=text, failed=wrong, denied=denied)

    def result(self, text: str, trouble: Trouble | None) -> dict[str, Any]:
        told = [one for one in self.counts if one]
        return results.made(
            text,
            cost=sum(self.costs) if self.costs else None,
            turns=len(self.counts),
            session=self.session,
            tokens=results.added(told) if told else {},
            model=self.model or self.asked.model,
            errors=[trouble.said] if trouble else [],
            **({"fault": trouble.told(time.time())} if trouble else {}),
        )


def _whole(answer: Answer) -> str:
    if answer.finish == "length":
        raise Trouble(Kind.CUT, "the answer was cut at its longest")
    if answer.finish == "content_filter":
        raise Trouble(Kind.CUT, "the endpoint's filter cut the answer")
    return answer.said


def main() -> int:
    """As kern starts it, with the prompt on standard input."""
    given = _arguments()
    key = os.environ.get(given.key, "").strip() if given.key else ""
    headers = {"User-Agent": f"kern/{__version__}", "Accept-Encoding": "identity"}
    headers |= {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    timeout = httpx.Timeout(given.quiet, connect=_CONNECT_S)
    with httpx.Client(headers=headers, timeout=timeout) as client:
        asked = Asked(given.url, given.model, client)
        if not given.models:
            return _talked(asked, given)
        try:
            print(*asked.models(), sep="\n")
        except Trouble as trouble:
            print(trouble.said)
            return 1
        return 0


def _talked(asked: Asked, given: argparse.Namespace) -> int:
    role = Stage(given.role) if given.role in {*Stage} else Aide(given.role)
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    contract = Path(given.contract).read_text("utf-8", "replace") if given.contract else ""
    messages = [
        {"role": "system", "content": talk.told(role, contract)},
        {"role": "user", "content": prompt},
    ]
    held = Talk(
        asked,
        role,
        given.effort,
        Tools(Tree(os.getcwd()), patience=given.patience, secret=given.key),
        Bounds(given.turns),
        given.budget,
        messages,
        str(uuid.uuid4()),
    )
    about = {"url": asked.url, "model": asked.model, "tools": offered(role)}
    say("system", subtype="init", session_id=held.session, version=__version__, **about)
    text, trouble = "", None
    try:
        text = held.held()
    except Trouble as exc:
        trouble = exc
        with contextlib.suppress(Trouble):
            if trouble.of_model and (known := asked.models()):
                trouble = talk.with_models(trouble, known)
    print(json.dumps(held.result(text, trouble)), flush=True)
    return 1 if trouble else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", default="", help="the variable of the environment that has it")
    parser.add_argument("--models", action="store_true", help="print those that there are")
    parser.add_argument("--model", default="")
    parser.add_argument("--effort", default="")
    parser.add_argument("--role", default=str(Stage.RESEARCH))
    parser.add_argument("--contract", default="")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--quiet", type=float, default=600.0)
    parser.add_argument("--patience", type=float, default=0.0)
    parser.add_argument("--budget", type=float, default=0.0)
    return parser.parse_args()
