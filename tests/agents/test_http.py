"""An endpoint as an agent: what kern makes of its output, and whole tasks by kern on a scripted
API. What each agent has to pass is in `test_conformance.py`, its bad days in `test_http_loop.py`.
"""

import contextlib
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kern import endpoint
from kern.agents import http_talk
from kern.agents.http import Http
from kern.agents.http_talk import Kind, Trouble
from kern.agents.protocol import Agent, Ended, Fault, Grade, Launch, Reply
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.model import Needs, Stage
from kern.toml import checked
from kern.toml import table as a_table
from tests.agents.test_http_loop import raw
from tests.checks.test_gates import toml
from tests.conftest import Fake, Git, Kern
from tests.kit.scripted_server import ScriptedServer, Turn
from tests.sandbox.test_wall import needs_bwrap

URL = "https://gw.example/v1"
AGENT: Agent = Http(Endpoint(URL, "big", "GW_KEY"))


def read(*values: object) -> Reply | None:
    lines = [v if isinstance(v, str) else json.dumps(v) for v in values]
    return AGENT.read(AGENT.objects(io.BytesIO("\n".join(lines).encode())), Stage.IMPLEMENT)


def result(text: str = "Done", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 2}
    about = {"num_turns": 3, "session_id": "s", "usage": usage, "total_cost_usd": None}
    return {"type": "result", "result": text, **about, **more}


def faulty(kind: Kind, said: str = "no", status: int | None = None, after: float = 0.0) -> Fault:
    told = Trouble(kind, said, status, after).told(1_000_000)
    found = AGENT.fault(read(result("", is_error=True, fault=told)), Ended(1))
    assert found
    return found


def test_the_result_is_the_reply() -> None:
    tool = {"type": "tool", "name": "run", "text": "boom\n[exit 1]", "failed": True}
    shut = {"type": "tool", "name": "read", "text": "error: no", "failed": True, "denied": True}
    reply = read({"type": "system"}, shut, tool, "not json", result())
    assert reply
    assert (reply.text, reply.turns, reply.session) == ("Done", 3, "s")
    assert (reply.tokens["input"], reply.tokens["output"]) == (7, 2)
    assert reply.cost_usd is None
    assert (reply.complaint, reply.denied) == ("boom\n[exit 1]", ("read",))
    assert AGENT.fault(reply, Ended(0)) is None
    cheap = read(result(usage={}, total_cost_usd=0.5))
    assert cheap and (cheap.cost_usd, cheap.tokens) == (0.5, {})
    assert read({"type": "system"}) is None


def test_calls_are_shown_as_they_are_made() -> None:
    function = {"name": "run", "arguments": '{"command": "make test"}'}
    message = {"role": "assistant", "tool_calls": [{"id": "a", "function": function}]}
    line = {"type": "assistant", "turn": 2, "message": message, "usage": {"input": 3}}
    act = AGENT.act(json.dumps(line).encode())
    assert act and (act.message, act.calls, act.tokens) == ("2", ("run make test",), {"input": 3})
    for other in (b'{"type": "progress"}', b"{", b'{"type": "tool"}'):
        assert AGENT.act(other) is None


def test_the_key_is_never_an_argument() -> None:
    launch = Launch(Stage.RESEARCH, "", effort="high", patience=60, budget=0.5, contract="/c")
    argv = AGENT.argv(launch)
    assert argv[:2] == ["-E", "-P"]
    told = dict(zip(argv[4::2], argv[5::2], strict=True))
    assert told == {
        **{"--url": URL, "--key": "GW_KEY", "--model": "big", "--effort": "high"},
        **{"--role": "research", "--contract": "/c", "--turns": "200", "--quiet": "600"},
        **{"--patience": "60", "--budget": "0.5000"},
    }
    assert "--model" in argv and AGENT.argv(Launch(Stage.RESEARCH, "own"))[9] == "own"
    with pytest.raises(UsageError, match="no model is named for the research stage"):
        Http(Endpoint(URL)).argv(Launch(Stage.RESEARCH, ""))


def test_what_it_needs_is_its_host_and_its_key() -> None:
    assert AGENT.needs({}, "/h", str) == Needs(variables=("GW_KEY",), hosts=("gw.example",))
    assert Http(Endpoint("http://[::1]/v1")).needs({}, "/h", str) == Needs(hosts=("[::1]:80",))
    assert AGENT.payer({}, "/", "/h", str).who == f"the key in GW_KEY, by use, at {URL}"
    assert AGENT.payer({}, "/", "/h", str).warning == ""
    bare = Http(Endpoint("http://gw.example/v1", key="K")).payer({}, "/", "/h", str)
    assert "unencrypted" in bare.warning
    assert Http(Endpoint("http://localhost/v1", key="K")).payer({}, "/", "/h", str).warning == ""


def test_what_is_missing_is_said_before_a_run() -> None:
    missing = AGENT.unattended({"GW_KEY": " "}, root=False)
    assert missing and "GW_KEY is to hold the key" in missing.message
    assert AGENT.unattended({"GW_KEY": "x"}, root=False) is None
    nowhere = Http(Endpoint()).unattended({}, root=False)
    assert nowhere and "[agent.http]" in nowhere.hint
    error = "Traceback\nModuleNotFoundError: No module named 'httpx'\n"
    found = AGENT.fault(None, Ended(1, error))
    assert found and (found.grade, "kern[http]" in found.hint) == (Grade.PERMANENT, True)


HOUR = 1_000_000 + 3600


@pytest.mark.parametrize(
    ("kind", "said", "status", "after", "grade", "words"),
    [
        (Kind.STATUS, "Overloaded", 503, 0, Grade.TRANSIENT, "Overloaded"),
        (Kind.STATUS, "Slow down", 429, 20, Grade.TRANSIENT, "Slow down"),
        (Kind.STATUS, "Slow down", 429, 3600, Grade.LIMIT, "Slow down"),
        (Kind.STATUS, "Down for an hour", 503, 3600, Grade.LIMIT, "Down"),
        (Kind.STATUS, "You exceeded your quota", 429, 0, Grade.LIMIT, "quota"),
        (Kind.STATUS, "no", 401, 0, Grade.PERMANENT, "http is not logged in"),
        (Kind.STATUS, "no", 403, 0, Grade.PERMANENT, "http is not logged in"),
        (Kind.STATUS, "pay", 402, 0, Grade.PERMANENT, "the account cannot pay"),
        (Kind.STATUS, "model 'x' not found", 404, 0, Grade.PERMANENT, "does not know the model"),
        (Kind.STATUS, "404 page not found", 404, 0, Grade.PERMANENT, "no chat completions at"),
        (Kind.STATUS, " https://b/", 301, 0, Grade.PERMANENT, "the endpoint answers 301"),
        (Kind.STATUS, "not allowed", 405, 0, Grade.PERMANENT, "no chat completions at"),
        (Kind.STATUS, "m does not support tools", 400, 0, Grade.PERMANENT, "cannot call tools"),
        (
            *(Kind.STATUS, '"auto" tool choice requires --enable-auto-tool-choice', 400, 0),
            *(Grade.PERMANENT, "cannot call tools"),
        ),
        (Kind.STATUS, "context length exceeded", 400, 0, Grade.FAILED, "context is full"),
        (Kind.STATUS, "bad temperature", 422, 0, Grade.PERMANENT, "refused the request"),
        (Kind.STATUS, "odd", None, 0, Grade.TRANSIENT, "odd"),
        (Kind.NOBODY, "u: refused", None, 0, Grade.TRANSIENT, "nobody answers at u"),
        (Kind.TLS, "u", None, 0, Grade.PERMANENT, "cannot be trusted"),
        (Kind.SILENT, "sent nothing", None, 0, Grade.TRANSIENT, "sent nothing"),
        (Kind.BROKEN, "broke off", None, 0, Grade.TRANSIENT, "broke off"),
        (Kind.GARBAGE, "<html>", None, 0, Grade.TRANSIENT, "is no chat completion: <html>"),
        (Kind.GARBAGE, "", None, 0, Grade.TRANSIENT, "is no chat completion: it is empty"),
        (Kind.LONG, "more", None, 0, Grade.FAILED, "does not end"),
        (Kind.CUT, "cut", None, 0, Grade.FAILED, "cut"),
        (Kind.ENDLESS, "a circle", None, 0, Grade.FAILED, "the agent was ended: a circle"),
    ],
)
def test_each_fault_has_its_class(
    kind: Kind, said: str, status: int | None, after: float, grade: Grade, words: str
) -> None:
    found = faulty(kind, said, status, after)
    assert (found.grade, words in found.message) == (grade, True), found
    assert (found.resets_at == HOUR) is (after == 3600)


def test_a_used_up_budget_is_one() -> None:
    told = Trouble(Kind.BUDGET, "$1").told(0)
    reply = read(result("", fault=told))
    assert reply and reply.broke


def test_the_models_that_there_are_are_named() -> None:
    trouble = http_talk.with_models(Trouble(Kind.STATUS, "model x not found", 404), ["a", "b"])
    assert trouble.of_model
    assert trouble.said == "model x not found (it has a, b)"
    assert AGENT.login(0, "a\nb\n") == f"{URL}, which has a, b"
    assert (AGENT.login(1, "status: 401"), AGENT.login(0, "")) == ("", None)


# -------------------------------------------------------------------- settings


def parsed(**table: object) -> Endpoint:
    rows = a_table({"agent": a_table({"http": endpoint.read})})
    found = checked({"agent": {"http": table}}, rows, "", "", "kern.toml")
    own: Endpoint = found["agent"]["http"]
    return replace(own, theirs=True)


@pytest.mark.parametrize(
    "url",
    [
        *("http://localhost:11434/v1", "http://localhost:11434/v1/"),
        "http://localhost:11434/v1/chat/completions",
    ],
)
def test_a_url_ends_before_what_kern_adds(url: str) -> None:
    assert parsed(url=url) == Endpoint("http://localhost:11434/v1", theirs=True)


def test_all_of_it_can_be_set() -> None:
    found = parsed(url=URL, key="K_1", model="hf.co/a/b:Q4", turns=5, quiet="2m")
    assert found == Endpoint(URL, "hf.co/a/b:Q4", "K_1", 5, 120.0, theirs=True)
    assert found.asks == (f"agent http: sends what it reads to {URL}, with the key in K_1",)
    assert Endpoint(URL).asks == ()


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({}, "agent.http.url is missing"),
        ({"url": 3}, "agent.http.url must be an http or https URL"),
        *(
            ({"url": url}, "agent.http.url")
            for url in (
                *("", "localhost:11434", "ftp://a/v1", "http://", "http://a:x/v1", "http://a b/"),
                *("http://a/v1?x=1", "http://a/#b", "http://[::1/v1", "http://\u0430pi.example/v1"),
                *("http://u:p@a/v1", "http://u@a/v1", "file:///etc/passwd", "http://a\u200b/v1"),
            )
        ),
        *(({"url": URL, "key": key}, "agent.http.key") for key in ("sk-abc123", 3, "KERN_X", "a")),
        *(({"url": URL, "model": model}, "agent.http.model") for model in (3, "-x", "a b")),
        *(({"url": URL, "turns": turns}, "agent.http.turns") for turns in (0, True, "5", 1e9)),
        *(({"url": URL, "quiet": quiet}, "agent.http.quiet") for quiet in (0, True, "x", None)),
        ({"url": URL, "headers": {}}, "unknown setting agent.http.headers"),
    ],
)
def test_a_setting_that_is_none_is_refused(table: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError) as raised:
        parsed(**table)
    assert named in str(raised.value)
    assert raised.value.hint
    assert "sk-abc123" not in str(raised.value) + raised.value.hint


# -------------------------------------------------------------------- by kern

READY: Turn = {"text": "- Files: a.txt:1-7\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"}
WRITE: Turn = {"tool": "write", "input": {"path": "hi.txt", "content": "hello 😀\n"}}
DONE: Turn = {"text": "Did it.\n\nSUCCESS"}
WORDS: Turn = {"text": "Greet people 😀"}
Serve = Callable[..., ScriptedServer]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """An endpoint, and the key to it."""
    monkeypatch.setenv("GW_KEY", "k3y-for-the-gateway")
    with contextlib.ExitStack() as stack:
        yield lambda **script: stack.enter_context(ScriptedServer(script))


def table(url: str) -> str:
    return f'[agent.http]\nurl = "{url}/v1"\nmodel = "small"\nkey = "GW_KEY"\n'


def whole(serve: Serve) -> ScriptedServer:
    """A task of three stages, each with a call that is not its own to make."""
    run: Turn = {"tool": "run", "input": {"command": "env >seen; touch more.txt; git commit"}}
    return serve(
        research=[{"tool": "read", "input": {"path": "a.txt"}}, WRITE, READY],
        implement=[WRITE, {"tool": "run", "input": {"command": "env"}}, DONE],
        commit=[run, WORDS],
    )


def done(git: Git) -> None:
    assert git("log", "-1", "--format=%s") == "Greet people 😀"
    assert git("log", "-1", "--format=%B").splitlines()[-1].startswith("Kern-Task: ")
    changed = git("show", "--format=", "--name-only", "HEAD").split()
    assert changed == ["SPEC.md", "hi.txt"]
    assert git("show", "HEAD:hi.txt") == "hello 😀"
    assert git("status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.parametrize("hosts", ["", "[sandbox]\nnetwork = []\n"])
@pytest.mark.parametrize("sandbox", ["off", pytest.param("bwrap", marks=needs_bwrap)])
def test_a_task_from_research_to_commit(
    repo: Path, git: Git, kern: Kern, serve: Serve, sandbox: str, hosts: str
) -> None:
    """Also where the endpoint's host is the only one that a sandbox lets through."""
    server = whole(serve)
    toml(repo, git, f'agents = ["http"]\n{table(server.url)}{hosts}')
    assert re.search(r"research: .*small", kern("-n").out)
    ran = kern("1", "0", "--sandbox", sandbox)
    assert ran.code == 0, ran.said
    done(git)
    assert re.search(r"stage 1/3 research \(.*small", ran.said)
    assert [one.stage for one in server.requests if not one.said] == [*map(str, Stage)]
    first = server.requests[0]
    assert [one["role"] for one in first.body["messages"]] == ["system", "user"]
    assert first.body["model"] == "small"
    asked = json.dumps([one.body for one in server.requests])
    assert "GW_KEY" not in asked, "no command sees it"
    assert "k3y-for-the-gateway" not in asked + ran.said
    assert "the key in GW_KEY" in ran.said


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["off", pytest.param("bwrap", marks=needs_bwrap)])
def test_the_key_comes_to_the_endpoint_and_a_refused_one_is_said(
    repo: Path, git: Git, kern: Kern, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GW_KEY", "k3y-for-the-gateway")
    server = raw(b'{"error": {"message": "Invalid API key"}}', 401)
    with server as url:
        toml(repo, git, f'agents = ["http"]\n{table(url.removesuffix("/v1"))}')
        ran = kern("1", "0", "--sandbox", sandbox)
    assert ran.code == 1
    assert "http is not logged in: Invalid API key" in ran.err
    assert f"see that {url} answers, and set GW_KEY to a key that it takes" in ran.err
    assert [b"Bearer k3y-for-the-gateway" in head for head in server.heads] == [True]


@pytest.mark.slow
def test_a_person_s_own_endpoint_needs_no_trust(
    repo: Path, git: Git, kern: Kern, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    own = tmp_path / "home/.config/kern/config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    before = own.read_text() if own.exists() else ""
    own.write_text(before + table(whole(serve).url))
    ran = kern("1", "0", "--agent", "http")
    assert ran.code == 0, ran.said
    done(git)


def test_a_repository_s_endpoint_gets_nothing_without_a_yes(
    repo: Path, git: Git, kern: Kern, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    server = whole(serve)
    gates = '[gates]\ncheck = "true"\n'
    toml(repo, git, gates)
    assert kern("trust", "--yes").code == 0
    for _ in range(2):
        toml(repo, git, f'agents = ["http"]\n{table(server.url)}{gates}# {_}\n')
        ran = kern("1", "0")
        assert ran.code == 2
        line = f"sends what it reads to {server.url}/v1, with the key in GW_KEY"
        assert line in ran.err
        assert "kern trust" in ran.err
    assert server.requests == []
    assert kern("trust", "--yes").code == 0
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    done(git)


def test_without_an_endpoint_or_its_key_nothing_begins(
    repo: Path, git: Git, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = kern("1", "0", "--agent", "http")
    assert ran.code != 0
    assert "nothing says which endpoint the http agent asks" in ran.err
    assert '[agent.http] in kern.toml; url = "http://localhost:11434/v1"' in ran.err
    toml(repo, git, table("http://127.0.0.1:9"))
    ran = kern("1", "0", "--agent", "http")
    assert ran.code != 0
    assert "GW_KEY is to hold the key of http://127.0.0.1:9/v1, and is not set" in ran.err
    assert "hint: export GW_KEY=…" in ran.err


@pytest.mark.slow
def test_nobody_there_is_an_outage_that_another_agent_stands_in_for(
    repo: Path, git: Git, kern: Kern, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GW_KEY", "k3y-for-the-gateway")
    toml(repo, git, f'agents = ["http", "claude"]\n{table("http://127.0.0.1:9")}')
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert "nobody answers at http://127.0.0.1:9/v1" in ran.said
    assert "claude takes the research stage over" in ran.said
    assert fake.stages == ["research", "implement", "commit"]


class _Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        SEEN.append(str(self.headers.get("Authorization")))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "small"}]}')

    def log_message(self, format: str, *args: Any) -> None:
        pass


SEEN: list[str] = []  # keys that came


def test_the_doctor_sends_no_key_to_where_only_the_repository_wants_it(
    repo: Path, git: Git, kern: Kern, serve: Serve
) -> None:
    SEEN.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Models) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        toml(repo, git, f'agents = ["http"]\n{table(url)}')
        ran = kern("doctor")
        assert ", Python 3." in ran.out
        asks = f"agent http: sends what it reads to {url}/v1, with the key in GW_KEY"
        assert f"login: not looked at before you agree: {asks}\n         fix: kern trust" in ran.out
        assert SEEN == []
        assert kern("trust", "--yes").code == 0
        assert f"login: by {url}/v1, which has small" in kern("doctor").out
        assert SEEN == ["Bearer k3y-for-the-gateway"]
        server.shutdown()


def test_the_doctor_says_whether_the_endpoint_answers(
    repo: Path, git: Git, kern: Kern, serve: Serve
) -> None:
    toml(repo, git, f'agents = ["http"]\n{table(serve().url)}')
    assert kern("trust", "--yes").code == 0
    assert "login: unknown" in kern("doctor").out, "this endpoint lists no models"
    toml(repo, git, f'agents = ["http"]\n{table("http://127.0.0.1:9")}')
    assert kern("trust", "--yes").code == 0
    said = kern("doctor").out
    assert "login: http is not logged in" in said
    assert "see that http://127.0.0.1:9/v1 answers, and set GW_KEY to a key" in said
