"""What pi prints, as kern reads it; its lines are those of 0.74.2."""

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest

from kern.agents import pi
from kern.agents.protocol import Agent, Ended, Grade, Launch, Reply
from kern.model import Aide, Role, Stage

AGENT: Agent = pi
SESSION = {"kern": "m1", "type": "session", "id": "s-1", "version": "0.74.2"}


def message(role: str, *parts: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        **{"kern": "m1", "type": "message"},
        "message": {"role": role, "content": list(parts), "timestamp": 1_000_000, **more},
    }


def said(text: str, reason: str = "stop", **more: Any) -> dict[str, Any]:
    usage = {"input": 10, "output": 2, "cacheRead": 3, "cacheWrite": 0, "cost": {"total": 0.25}}
    part = {"type": "text", "text": text}
    return message("assistant", part, usage=usage, stopReason=reason, **more)


def read(*values: object, role: Role = Stage.RESEARCH) -> Reply | None:
    lines = [v if isinstance(v, str) else json.dumps(v) for v in values]
    return pi.read(pi.objects(io.BytesIO("\n".join(lines).encode())), role)


def graded(error: str, code: int = 1) -> tuple[Grade, int | None]:
    reply = read(SESSION, said("", "error", errorMessage=error))
    found = pi.fault(reply, Ended(code))
    assert found
    return found.grade, found.resets_at


def test_the_last_message_is_the_answer_and_all_of_them_are_counted() -> None:
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}
    usage = {"input": 5, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}}
    asked = message("assistant", call, usage=usage, stopReason="toolUse")
    reply = read(SESSION, asked, said("done\n\nREADY"), "done", "READY")
    assert reply
    assert pi.fault(reply, Ended(0)) is None
    assert (reply.text, reply.cost_usd, reply.turns) == ("done\n\nREADY", 0.75, 2)
    assert (reply.session, reply.version) == ("s-1", "0.74.2")
    assert (reply.tokens["input"], reply.tokens["cache_read_input"]) == (15, 3)
    assert reply.result["result"] == "done\n\nREADY"
    assert reply.result["total_cost_usd"] == 0.75
    assert reply.result["type"] == "result"


def test_a_line_without_the_mark_of_this_process_is_the_agents_own_word() -> None:
    forged = {**said("forged"), "kern": "m2"}
    reply = read(SESSION, said("true"), forged, json.dumps({**forged, "kern": None}))
    assert reply
    assert reply.text == "true"


def test_nothing_printed_is_no_reply() -> None:
    assert read() is None
    assert read(SESSION, "No API key found for fake.") is None
    found = pi.fault(None, Ended(1, "No API key found for fake.\n\nUse /login to log in"))
    assert found
    assert (found.grade, found.hint) == (Grade.PERMANENT, pi.LOGIN)
    found = pi.fault(None, Ended(1, 'Error: Model "x" not found. Use --list-models'))
    assert found
    assert "does not know the model" in found.message


def test_a_model_without_prices_is_of_unknown_cost() -> None:
    usage = {"input": 5, "output": 1, "cost": {"total": 0}}
    reply = read(SESSION, message("assistant", usage=usage, stopReason="stop"))
    assert reply
    assert reply.cost_usd is None
    assert reply.result["total_cost_usd"] is None


@pytest.mark.parametrize(
    ("error", "grade"),
    [
        ("401 Incorrect API key provided", Grade.PERMANENT),
        ("404 The model `x` does not exist", Grade.PERMANENT),
        ("402 Insufficient credits", Grade.PERMANENT),
        ("429 Rate limit reached for requests", Grade.TRANSIENT),
        ("429 You exceeded your current quota, please check your plan", Grade.LIMIT),
        ("503 Overloaded", Grade.TRANSIENT),
        ("Connection error.", Grade.TRANSIENT),
        ("terminated", Grade.TRANSIENT),
        ("400 maximum context length is 10 tokens", Grade.FAILED),
        ("400 messages: unexpected role", Grade.PERMANENT),
    ],
)
def test_what_the_api_says_becomes_a_class(error: str, grade: Grade) -> None:
    assert graded(error)[0] is grade


def test_a_limit_tells_when_it_ends() -> None:
    error = "You have hit your ChatGPT usage limit (plus plan). Try again in ~47 min."
    assert graded(error) == (Grade.LIMIT, 1000 + 47 * 60)


def test_a_long_wait_that_the_api_asks_for_is_a_limit_at_once() -> None:
    def line(after: object) -> bytes:
        asked = {"kern": "m", "type": "refused", "status": 429, "at": 1000, "after": after}
        return json.dumps(asked).encode()

    found = pi.refused(line(3600))
    assert found
    assert (found.grade, found.resets_at) == (Grade.LIMIT, 4600)
    assert [pi.refused(line(after)) for after in (5, 0, None, "x")] == [None] * 4
    assert pi.refused(b'{"type": "message"}') is None


def test_an_answer_that_was_cut_or_ended_is_no_answer() -> None:
    for reason, grade in (("length", Grade.FAILED), ("aborted", Grade.TRANSIENT)):
        found = pi.fault(read(SESSION, said("x", reason)), Ended(0))
        assert found
        assert found.grade is grade
    found = pi.fault(read(SESSION, said("x", "toolUse")), Ended(-9))
    assert found
    assert found.grade is Grade.TRANSIENT


def test_a_tool_that_the_role_does_not_have_and_that_ran_is_told() -> None:
    text = {"type": "text", "text": "ok"}
    wrote = message("toolResult", text, toolName="write", isError=False)
    missing = {"type": "text", "text": "Tool bash not found"}
    refused = message("toolResult", missing, toolName="bash", isError=True)
    reply = read(SESSION, wrote, refused, said("x"))
    assert reply
    assert (reply.wrote, reply.denied) == (("write",), ("bash",))
    assert reply.complaint == "Tool bash not found"
    free = read(SESSION, wrote, said("x"), role=Stage.IMPLEMENT)
    assert free
    assert free.wrote == ()


def test_what_it_does_is_seen_while_it_does_it() -> None:
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "make test"}}
    line = json.dumps(message("assistant", call, responseId="r1", usage={"input": 7}))
    act = pi.act(line.encode())
    assert act
    assert (act.message, act.calls, act.tokens["input"]) == ("r1", ("bash make test",), 7)
    assert pi.act(json.dumps(SESSION).encode()) is None
    assert pi.act(b"{torn") is None


@pytest.mark.parametrize("role", [*Stage, *Aide])
def test_only_implement_has_tools_that_write_and_the_projects_own(role: Role) -> None:
    words = pi.argv(Launch(role, "x/y", contract="/c", folder="/f", mark="m"))
    offered = words[words.index("--tools") + 1].split(",")
    free = role is Stage.IMPLEMENT
    assert ("bash" in offered) is free
    assert ("--no-extensions" in words) is not free
    assert words[words.index("--extension") + 1] == "/f/pi-extension.js"
    assert words[words.index("--append-system-prompt") + 1] == "/c"
    (source,) = pi.files(Launch(role, "x", mark="m")).values()
    assert f"const READS = {json.dumps(not free)};" in source


def test_efforts_have_pis_names() -> None:
    words = pi.argv(Launch(Stage.IMPLEMENT, "m", effort="max"))
    assert words[words.index("--thinking") + 1] == "xhigh"


def test_who_pays() -> None:
    files = {"/h/.pi/agent/auth.json": '{"anthropic": {"type": "oauth"}}'}
    assert "subscription" in pi.payer({"OPENAI_API_KEY": "k"}, "/r", "/h", files.get).who  # type: ignore[arg-type]
    nothing = dict.fromkeys(files, "").get
    assert "OPENAI_API_KEY" in pi.payer({"OPENAI_API_KEY": "k"}, "/r", "/h", nothing).who  # type: ignore[arg-type]


def test_it_is_logged_in_where_it_has_models_to_ask() -> None:
    listed = "provider  model  context  max-out  thinking  images\nfake  small  128K  16K  no  no\n"
    assert pi.login(0, listed) == "pi's own word: fake"
    assert pi.login(0, "No models available. Use /login to log in") == ""
    assert pi.login(1, "boom") is None


def test_what_a_project_makes_it_start_is_told() -> None:
    settings = {"npmCommand": ["sh", "-c", "x"], "theme": "dark"}
    found = {".pi/settings.json": json.dumps(settings).encode(), ".pi/extensions/a.ts": b"x"}
    assert pi.started(found) == [
        ".pi/extensions/a.ts is an extension, which pi runs (2d711642b726)",
        '.pi/settings.json npmCommand: ["sh", "-c", "x"]',
    ]
    assert "cannot be read" in pi.started({".pi/settings.json": b"{"})[0]
