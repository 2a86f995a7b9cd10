"""The program that asks an endpoint, as kern starts it, on a scripted endpoint with bad days."""

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kern.agents import http_loop
from kern.agents.http import Http
from kern.agents.protocol import Ended, Fault, Grade, Launch, Reply
from kern.endpoint import Endpoint
from kern.model import Role, Stage
from tests.kit.scripted_server import ScriptedServer, Turn, use

pytestmark = pytest.mark.slow


@dataclass
class Ran:
    code: int
    lines: list[dict[str, Any]]
    reply: Reply | None
    fault: Fault | None
    stderr: str

    @property
    def told(self) -> list[str]:
        """Results of tools."""
        return [one["text"] for one in self.lines if one["type"] == "tool"]


def ask(
    url: str,
    root: Path,
    role: Role = Stage.IMPLEMENT,
    prompt: str = "kern implement\n\nDo it.",
    *,
    env: Mapping[str, str] = os.environ,
    **about: Any,
) -> Ran:
    agent = Http(Endpoint(url, "small", **about))
    done = subprocess.run(
        [sys.executable, *agent.argv(Launch(role, "", patience=20))],
        cwd=root,
        env={**env},
        input=prompt.encode(),
        capture_output=True,
        timeout=100,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    reply = agent.read(lines, role)
    said = done.stderr.decode()
    return Ran(
        done.returncode, lines, reply, agent.fault(reply, Ended(done.returncode, said)), said
    )


def played(root: Path, *turns: Turn, role: Role = Stage.IMPLEMENT, **about: Any) -> Ran:
    with ScriptedServer({"implement": turns}) as server:
        return ask(f"{server.url}/v1", root, role, **about)


DONE: Turn = {"text": "Did it.\n\nSUCCESS"}


def test_it_tells_what_it_does(repo: Path) -> None:
    ran = played(repo, use("write", path="new.txt", content="x"), DONE)
    assert (ran.code, ran.fault, ran.stderr) == (0, None, "")
    assert [one["type"] for one in ran.lines] == [
        *("system", "assistant", "tool", "assistant", "result")
    ]
    assert ran.reply and (ran.reply.text, ran.reply.turns) == ("Did it.\n\nSUCCESS", 2)
    assert ran.reply.tokens["output"] > 0
    assert ran.reply.result["total_cost_usd"] is None
    assert (repo / "new.txt").read_text() == "x"


def test_nothing_is_imported_from_where_it_works(repo: Path) -> None:
    for name in ("httpx.py", "json.py", "kern/__init__.py", "argparse.py"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("import os; os.system('touch sprung')\n")
    with ScriptedServer({"implement": [DONE]}) as server:
        path = {**os.environ, "PYTHONPATH": str(repo)}
        assert ask(f"{server.url}/v1", repo, env=path).fault is None
    assert not (repo / "sprung").exists()


@pytest.mark.parametrize(
    ("turn", "why"),
    [
        (use("fetch", url="http://a"), "there is no tool 'fetch' here"),
        (use("read", path="../secret.txt"), "lies outside of the working tree"),
        (use("write", path="/tmp/http-loop-new.txt", content="x"), "lies outside of"),
        (use("write", path=".git/hooks/pre-commit", content="x"), "belongs to git"),
        (use("edit", path="SPEC.md", old="[ ]", new="[x]"), "may be read"),
        (use("run", command="git commit -am x"), "kern commits"),
        (use("read"), "read needs 'path'"),
    ],
)
def test_what_it_may_not_is_told_to_the_model_and_it_goes_on(
    repo: Path, turn: Turn, why: str
) -> None:
    (repo.parent / "secret.txt").write_text("s3cret")
    ran = played(repo, turn, DONE)
    assert ran.fault is None
    assert why in ran.told[0]
    assert "s3cret" not in json.dumps(ran.lines)
    assert not Path("/tmp/http-loop-new.txt").exists()


def test_a_role_that_reads_has_no_other_tools(repo: Path) -> None:
    calls = (use("write", path="x", content=""), use("run", command="touch x"))
    ran = played(repo, *calls, DONE, role=Stage.COMMIT)
    assert all("there is no tool" in text for text in ran.told)
    assert not (repo / "x").exists()


def test_a_circle_has_an_end(repo: Path) -> None:
    ran = played(repo, *[use("run", command="echo a >> made")] * 30)
    assert ran.fault and ran.fault.grade is Grade.FAILED
    assert "goes in a circle: 8 times the same call of run" in ran.fault.message
    assert (repo / "made").read_text() == "a\n" * 3
    assert ran.code == 1


def test_calls_of_nothing_and_turns_have_an_end(repo: Path) -> None:
    ran = played(repo, *[use(f"t{n}") for n in range(30)])
    assert ran.fault and "10 calls of tools in a row" in ran.fault.message
    ran = played(repo, *[use("run", command=f"echo {n}") for n in range(9)], turns=4)
    assert ran.fault and "did not come to an end in 4 turns" in ran.fault.message
    assert len(ran.told) == 4


def test_a_failure_with_work_to_lose_is_tried_again_at_once(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[Turn] = [use("run", command="echo a"), {"status": 503, "message": "Overloaded"}]
    with ScriptedServer({"implement": turns}) as server:

        def mended() -> None:
            while len(server.requests) < 2:
                time.sleep(0.05)
            time.sleep(0.5)
            server._script["implement"][0][1] = DONE

        threading.Thread(target=mended, daemon=True).start()
        ran = ask(f"{server.url}/v1", repo)
    assert ran.fault is None
    assert [one["reason"] for one in ran.lines if one["type"] == "retry"] == ["Overloaded"]
    assert ran.told == ["a\n[exit 0]"]


def test_a_model_that_is_not_there_is_named_with_those_that_are(repo: Path) -> None:
    with raw(b'{"error": {"message": "model small not found"}}', 404) as url:
        ran = ask(url, repo)
    assert ran.fault and ran.fault.grade is Grade.PERMANENT
    assert "does not know the model: model small not found" in ran.fault.message
    assert "(it has one, two)" in ran.fault.message


def test_a_full_context_is_cleared_of_old_results(repo: Path) -> None:
    (repo / "big").write_text("x" * 900 + "\n")
    reads = [use("run", command=f"cat big # {n}") for n in range(6)]
    full: Turn = {"status": 400, "message": "maximum context length is 100 tokens"}
    with ScriptedServer({"implement": [*reads, full]}) as server:

        def mended() -> None:
            while len(server.requests) < 7:
                time.sleep(0.01)
            server._script["implement"][0][6] = DONE

        threading.Thread(target=mended, daemon=True).start()
        server._delay = 0.3
        ran = ask(f"{server.url}/v1", repo)
        assert ran.fault is None, ran.fault
        sent = [one["content"] for one in server.requests[-1].body["messages"][2:]]
    assert sum("left out" in str(one) for one in sent) == 2


# -------------------------------------------------------------------- what an endpoint may send


class raw:
    """An endpoint that answers each POST with these bytes, with or without a length, and GET with
    two models.
    """

    def __init__(
        self, body: bytes, status: int = 200, *headers: str, length: bool = True, most: int = 1
    ) -> None:
        size = [f"Content-Length: {len(body)}"] if length else []
        head = [f"HTTP/1.1 {status} X", *headers, *size, "Connection: close"]
        answer = "\r\n".join(head).encode() + b"\r\n\r\n"
        models = b'{"data": [{"id": "one"}, {"id": "two"}]}'
        listed = b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 40\r\n\r\n" + models
        assert len(models) == 40
        outer = self
        self.heads: list[bytes] = []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = self.rfile.readline()
                    if not line:
                        return
                    head += line
                outer.heads.append(head)
                lengths = [one for one in head.split(b"\r\n") if b"content-length" in one.lower()]
                self.rfile.read(int(lengths[0].split(b":")[1]) if lengths else 0)
                try:
                    if head.startswith(b"GET"):
                        self.wfile.write(listed)
                        return
                    self.wfile.write(answer)
                    for _ in range(most):
                        self.wfile.write(body)
                except ConnectionError:
                    pass

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


SSE = "Content-Type: text/event-stream"
ROLE = b'data: {"choices": [{"delta": {"role": "assistant", "content": "Ha"}}]}\n\n'
END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def chunk(text: str, **more: object) -> bytes:
    value = {"choices": [{"delta": {"content": text}}], **more}
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


WHOLE = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (chunk("a\u2028b\u0085c 😀") + END, "a\u2028b\u0085c 😀"),
        (b": hello\r\n\r\n" + (ROLE + END).replace(b"\n", b"\r\n"), "Ha"),
        (b"event: x\nid: 3\n" + ROLE + END.replace(b"data: [DONE]\n\n", b""), "Ha"),
        (ROLE + b"data: [DONE]", "Ha"),
        (json.dumps(WHOLE).encode(), "Hi"),
        (json.dumps(WHOLE, indent=2).encode(), "Hi"),
        (chunk("x", usage=None) + chunk("", usage={"prompt_tokens": "?"}) + END, "x"),
    ],
)
@pytest.mark.parametrize("length", [True, False])
def test_an_answer_in_any_shape_is_read(repo: Path, body: bytes, text: str, length: bool) -> None:
    with raw(body, 200, SSE, length=length) as url:
        ran = ask(url, repo)
    assert ran.fault is None, ran.fault
    assert ran.reply and ran.reply.text == text


@pytest.mark.parametrize(
    ("body", "grade", "said"),
    [
        (ROLE, Grade.TRANSIENT, "broke off in its middle"),
        (ROLE + b'data: {"choi', Grade.TRANSIENT, "no chat completion"),
        (b"", Grade.TRANSIENT, "it is empty"),
        (b"<html><h1>Welcome</h1></html>", Grade.TRANSIENT, "no chat completion: Welcome"),
        (b'{"content": [{"text": "hi"}]}', Grade.TRANSIENT, 'completion: {"content"'),
        (b'{"message": {"content": "Ollama"}}', Grade.TRANSIENT, "no chat completion"),
        (b"[" * 100_000, Grade.TRANSIENT, "no chat completion"),
        (b"\xff\xfe\x00", Grade.TRANSIENT, "no chat completion"),
        (b'{"error": "model \'x\' not found"}', Grade.PERMANENT, "does not know the model"),
        (b'data: {"error": {"message": "boom", "code": 503}}\n\n', Grade.TRANSIENT, "boom"),
        (
            ROLE + b'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}\n\n',
            *(Grade.FAILED, "cut at its longest"),
        ),
        (
            ROLE + b'data: {"choices": [{"delta": {}, "finish_reason": "content_filter"}]}\n\n',
            *(Grade.FAILED, "filter"),
        ),
    ],
)
def test_what_is_no_answer_says_so(repo: Path, body: bytes, grade: Grade, said: str) -> None:
    with raw(body, 200, SSE) as url:
        ran = ask(url, repo)
    assert ran.fault, ran.reply
    assert (ran.fault.grade, said in ran.fault.message) == (grade, True), ran.fault
    assert ran.stderr == ""


@pytest.mark.parametrize("body", [chunk("word " * 500), b"x" * 100_000, b'data: "' + b"x" * 99])
def test_what_does_not_end_is_ended(repo: Path, body: bytes) -> None:
    with raw(body, 200, SSE, length=False, most=100_000) as url:
        began = time.monotonic()
        ran = ask(url, repo)
    assert ran.fault and "does not end" in ran.fault.message
    assert ran.fault.grade is Grade.FAILED
    assert time.monotonic() - began < 60


def test_half_an_answer_that_breaks_off_is_a_retry(repo: Path) -> None:
    head = f"{SSE}\r\nContent-Length: 1000"
    with raw(ROLE, 200, head, length=False) as url:
        ran = ask(url, repo)
    assert ran.fault and ran.fault.grade is Grade.TRANSIENT
    assert "broke off in its middle" in ran.fault.message


def test_silence_has_an_end(repo: Path) -> None:
    with ScriptedServer({"implement": [{"silent": 60}]}) as server:
        ran = ask(f"{server.url}/v1", repo, quiet=1.0)
    assert ran.fault and ran.fault.grade is Grade.TRANSIENT
    assert "sent nothing" in ran.fault.message


def test_nobody_there_is_said(repo: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = ask(f"http://127.0.0.1:{port}/v1", repo)
    assert ran.fault and ran.fault.grade is Grade.TRANSIENT
    assert f"nobody answers at http://127.0.0.1:{port}/v1" in ran.fault.message


def test_a_redirect_is_not_followed_with_the_key(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GW_KEY", "k3y-of-mine")
    other, first = raw(ROLE + END), None
    with other as elsewhere:
        first = raw(b"", 307, f"Location: {elsewhere}/chat/completions")
        with first as url:
            ran = ask(url, repo, key="GW_KEY")
    assert ran.fault and ran.fault.grade is Grade.PERMANENT
    assert "the endpoint answers 307" in ran.fault.message and elsewhere in ran.fault.message
    assert other.heads == []
    assert b"Bearer k3y-of-mine" in first.heads[0]


@pytest.mark.parametrize(
    ("status", "header", "grade", "wait"),
    [
        (429, "Retry-After: 7200", Grade.LIMIT, 7200),
        (503, "Retry-After: Fri, 01 Jan 2100 00:00:00 GMT", Grade.LIMIT, 10**9),
        (429, "Retry-After: 1", Grade.TRANSIENT, 0),
        (500, "Retry-After: soon", Grade.TRANSIENT, 0),
        (502, "X: y", Grade.TRANSIENT, 0),
        (403, "X: y", Grade.PERMANENT, 0),
    ],
)
def test_a_status_has_its_class(
    repo: Path, status: int, header: str, grade: Grade, wait: int
) -> None:
    with raw(b'{"error": {"message": "no"}}', status, header) as url:
        ran = ask(url, repo)
    assert ran.fault and ran.fault.grade is grade, ran.fault
    waited = [one["seconds"] for one in ran.lines if one["type"] == "retry"]
    assert waited == ([1.0] * 3 if header == "Retry-After: 1" else [])
    if grade is Grade.LIMIT:
        assert ran.fault.resets_at and ran.fault.resets_at >= time.time() + wait - 60


def test_the_models_that_there_are_can_be_asked_for() -> None:
    with raw(b"") as url:
        agent = Http(Endpoint(url))
        done = subprocess.run([sys.executable, *agent.STATUS], capture_output=True, cwd="/")
    assert agent.login(done.returncode, done.stdout.decode()) == f"{url}, which has one, two"


def test_a_wait_is_read_from_seconds_or_a_date() -> None:
    assert http_loop._after("120") == 120
    assert http_loop._after("") == http_loop._after("x") == http_loop._after("-5") == 0
    assert http_loop._after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert http_loop._after("9" * 4000) < 1e15


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield
