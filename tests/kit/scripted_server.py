"""Model APIs on 127.0.0.1 that play a script; it runs no tool and needs no account.

It speaks each of `WIRES` by the path of a request. A script maps a stage's name ("research",
"implement", "commit", "*" for any other) to its turns, or to a list of conversations, each a list
of turns. A turn is one answer of the model:

    {"text": "done"}                                     the final answer
    {"tool": "Bash", "input": {"command": "ls"}}         a tool call, "text" may stand beside it
    {"tools": [{"tool": "Read", "input": {...}}, ...]}   several calls at once
    {"status": 529, "body": {...}, "headers": {...}}     an HTTP error; "message" makes a body
    {"raw": "<html>", "headers": {...}}                  these bytes instead of an answer
    {"drop": "data: {"}                                  these, and the connection breaks
    {"silent": 60}                                       seconds without a byte, then it breaks
    {…, "then": {…}}                                     for who asks the same once more: this

Tools have claude's names; a CLI that asks below `/NAME` gets its own (`tests/kit/tools.py`).

With "tokens" a turn says how many its request had: with many the agent has it summed up, and the
script goes on with its next conversation.
"""

import contextlib
import json
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.kit import tools
from tests.kit.wires import chat, generate, messages, responses
from tests.kit.wires.wire import Answer, Asked, Said, Wire

WIRES: Sequence[Wire] = (messages, responses, chat, generate)
Turn = Mapping[str, Any]
Script = Mapping[str, Sequence[Turn] | Sequence[Sequence[Turn]]]

_HEADING = re.compile(r"^kern (?:stage \d of 3: )?(\w+)$", re.MULTILINE)
_CONTRACT = re.compile(r"^You are the (\w+) stage of", re.MULTILINE)
_KINDS = ("text", "tool", "tools", "status", "raw", "drop", "silent")
_SIDE = {"text": "ok"}  # titles, subagents: nothing that a script speaks of
_SUMMARY = {"text": "<analysis>all of it</analysis>\n<summary>It went well.</summary>"}
_LINGER_SECONDS = 2.0
_COMPACTING = "an <analysis> block followed by a <summary> block"


def say(text: str) -> Turn:
    return {"text": text}


def use(tool: str, **given: object) -> Turn:
    return {"tool": tool, "input": given}


def bash(command: str) -> Turn:
    return use("Bash", command=command)


@dataclass(frozen=True, slots=True)
class Request:
    """One request for a turn; `stage` is empty where kern's words are missing."""

    stage: str
    body: dict[str, Any]
    size: int  # of the body, in bytes
    tools: tuple[str, ...]
    said: int = 0  # turns of the model before it


class ScriptedServer:
    """Serves from `with` until its end. `delay` is the seconds that each answer takes."""

    def __init__(self, script: Script, delay: float = 0.0) -> None:
        self.requests: list[Request] = []
        self._script = {stage: _conversations(stage, value) for stage, value in script.items()}
        self._delay = delay
        self._begun: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(self)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def turn(self, asked: Asked, body: dict[str, Any], size: int) -> tuple[int, Turn]:
        """Record the request; return its number and the turn to play."""
        stage, said = _stage(asked.prompt), asked.said
        if not stage and asked.tools and (stage := _contract(asked.system)):
            said -= 1  # summed up: the prompt is gone, the last turn is kept beside the summary
        with self._lock:
            self.requests.append(Request(stage, body, size, asked.tools, said))
            number = len(self.requests)
            conversations = self._script.get(stage) or (stage and self._script.get("*"))
            if _COMPACTING in asked.last:
                turn: Turn = _SUMMARY
            elif not conversations:
                turn = _SIDE
            else:
                self._begun[stage] += said == 0
                turns = conversations[min(max(self._begun[stage], 1), len(conversations)) - 1]
                # Past its end a script goes quiet: the last tool call again would never end.
                turn = turns[said] if said < len(turns) else {"text": f"no turn {said + 1}"}
                if "then" in turn:
                    turns[said] = turn["then"]
        self.wait(self._delay)
        return number, turn

    def wait(self, seconds: float) -> None:
        """At most until the server ends."""
        self._closing.wait(seconds)


def _conversations(stage: str, value: Sequence[Any]) -> list[list[Turn]]:
    """One list of turns counts as one conversation that every process of the stage plays."""
    found = [list(value)] if value and isinstance(value[0], Mapping) else [list(v) for v in value]
    for turn in (turn for turns in found for turn in turns):
        if not isinstance(turn, Mapping) or not any(kind in turn for kind in _KINDS):
            raise ValueError(f"{stage}: a turn needs one of {', '.join(_KINDS)}: {turn!r}")
    return found


def _stage(prompt: str) -> str:
    heading = _HEADING.search(prompt)
    return heading[1] if heading else ""


def _contract(system: str) -> str:
    """The stage, where the system prompt names it."""
    contract = _CONTRACT.search(system)
    return contract[1] if contract else ""


def _said(turn: Turn, number: int, cli: str, size: int) -> Said:
    asked = [
        (one["tool"], one.get("input", {}))
        for one in turn.get("tools") or ([turn] if "tool" in turn else [])
    ]
    fenced = [tools.fenced(cli, *one) for one in asked]
    calls = [tools.call(cli, *one) for one in asked if not any(fenced)]
    text = turn.get("text") if not any(fenced) else "".join((turn.get("text") or "", *fenced))
    answered = len(json.dumps([text, *(call.given for call in calls)])) // 4
    return Said(number, text, calls, (turn.get("tokens", size // 4), answered))


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self, script: ScriptedServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script

    def shutdown_request(self, request: Any) -> None:
        """Close once the client has: what it still sends would turn the close into a reset, and
        an answer on its way is lost with that."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(_LINGER_SECONDS)
            while request.recv(1 << 16):
                pass
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a killed client is no news
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self._send(Answer(b""))

    def do_GET(self) -> None:
        self._send_json(200, {})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        wire = next((one for one in WIRES if one.takes(path)), None)
        if wire:
            self._play(wire, path, raw)
        else:
            counting = path.endswith("/count_tokens")
            self._send_json(200, {"input_tokens": 10} if counting else {})

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _play(self, wire: Wire, path: str, raw: bytes) -> None:
        body = json.loads(raw)
        number, turn = self.server.script.turn(wire.read(path, body), body, len(raw))
        headers = turn.get("headers", {})
        if "silent" in turn:
            self.server.script.wait(turn["silent"])
            self._break(b"")
        elif "drop" in turn:
            self._break(str(turn["drop"]).encode())
        elif "raw" in turn:
            self._send(Answer(str(turn["raw"]).encode(), turn.get("status", 200), headers))
        elif "status" in turn:
            said = turn.get("message", f"scripted {turn['status']}")
            answer = turn.get("body", wire.error(turn["status"], said))
            self._send_json(turn["status"], answer, headers)
        else:
            cli = path.split("/")[1]
            self._send(wire.write(path, body, _said(turn, number, cli, len(raw))))

    def _send_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        named = {"Content-Type": "application/json", **(headers or {})}
        self._send(Answer(json.dumps(value).encode(), status, named))

    def _break(self, sent: bytes) -> None:
        """Say that more is to come, and leave."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(sent) + 1000))
        self.end_headers()
        self.wfile.write(sent)
        self.close_connection = True

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")  # no socket outlives its answer
        self.end_headers()
        self.wfile.write(answer.body)
