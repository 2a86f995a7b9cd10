"""What opencode prints, as kern reads it; its lines are those of 1.18.33."""

import io
import json
from typing import Any

import pytest

from kern.agents import opencode
from kern.agents.protocol import Agent, Ended, Grade, Launch, Reply
from kern.model import Aide, Role, Stage

AGENT: Agent = opencode
SESSION = {"kern": "m", "type": "session", "version": "1.18.33"}
START = {"type": "step_start", "sessionID": "ses_1", "part": {}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "part": {"text": said}}


def finish(reason: str = "stop", cost: float = 0.25) -> dict[str, Any]:
    tokens = {"input": 10, "output": 2, "reasoning": 1, "cache": {"read": 3, "write": 4}}
    return {"type": "step_finish", "part": {"reason": reason, "tokens": tokens, "cost": cost}}


def call(tool: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "part": {"id": "p", "tool": tool, "state": {"status": status, **state}},
    }


def error(said: str, name: str = "APIError", **data: Any) -> dict[str, Any]:
    return {
        **{"type": "error", "timestamp": 1_000_000, "sessionID": "ses_1"},
        "error": {"name": name, "data": {"message": said, **data}},
    }


def read(*values: object, role: Role = Stage.RESEARCH) -> Reply | None:
    lines = "\n".join(json.dumps(value) for value in values)
    return opencode.read(opencode.objects(io.BytesIO(lines.encode())), role)


def graded(*values: object) -> tuple[Grade, int | None, str]:
    found = opencode.fault(read(*values), Ended(1))
    assert found
    return found.grade, found.resets_at, found.message


def test_the_last_step_is_the_answer_and_all_of_them_are_counted() -> None:
    reply = read(
        *(SESSION, START, text("I look."), call("read"), finish("tool-calls")),
        *(START, text("done"), text("READY"), finish()),
    )
    assert reply
    assert opencode.fault(reply, Ended(0)) is None
    assert (reply.text, reply.cost_usd, reply.turns) == ("done\nREADY", 0.5, 2)
    assert (reply.session, reply.version) == ("ses_1", "1.18.33")
    assert reply.tokens == {
        **{"input": 20, "output": 6, "cache_read_input": 6, "cache_creation_input": 8}
    }
    assert (reply.result["result"], reply.result["total_cost_usd"]) == (reply.text, 0.5)


def test_a_model_without_prices_is_of_unknown_cost() -> None:
    reply = read(START, text("x"), finish(cost=0))
    assert reply
    assert reply.cost_usd is None


def test_errors_become_classes() -> None:
    assert graded(error("Invalid API key", statusCode=401))[0] is Grade.PERMANENT
    assert graded(error("boom", statusCode=500))[0] is Grade.TRANSIENT
    assert graded(error("it is full", name="ContextOverflowError"))[0] is Grade.FAILED
    late = error("Quota", statusCode=429, responseHeaders={"retry-after": "7200"})
    assert graded(late)[:2] == (Grade.LIMIT, 1000 + 7200)
    grade, _, said = graded(
        {**error("Model not found: fake/x."), "kern": "m", "at": 1},
        error("Unexpected server error. Check server logs for details.", name="UnknownError"),
    )
    assert grade is Grade.PERMANENT
    assert "opencode does not know the model: Model not found: fake/x." in said


def test_an_answer_that_was_cut_refused_or_ended_is_no_answer() -> None:
    ends = {"length": Grade.FAILED, "content-filter": Grade.FAILED, "tool-calls": Grade.TRANSIENT}
    for reason, grade in ends.items():
        assert graded(START, text("x"), finish(reason))[0] is grade
    assert read() is None
    assert read(SESSION) is None


def test_an_error_that_it_got_over_is_none() -> None:
    reply = read(error("full", name="ContextOverflowError"), START, text("ok"), finish())
    assert opencode.fault(reply, Ended(0)) is None


def retried(attempt: int, said: str = "boom", after: int = 5) -> bytes:
    known = {"attempt": attempt, "message": said, "next": 1_000_000 + after * 1000}
    return json.dumps({"kern": "m", "type": "retry", "at": 1_000_000, **known}).encode()


def test_it_does_not_ask_again_for_ever() -> None:
    assert opencode.refused(retried(1)) is None
    found = opencode.refused(retried(3))
    assert found
    assert found.grade is Grade.TRANSIENT
    found = opencode.refused(retried(1, after=3600))
    assert found
    assert (found.grade, found.resets_at) == (Grade.LIMIT, 4600)
    assert opencode.refused(b'{"type": "text", "part": {"text": "retry"}}') is None


def test_tools_that_were_refused_or_that_a_role_does_not_have_are_told() -> None:
    refused = call("bash", "error", error="Model tried to call unavailable tool 'invalid'.")
    reply = read(START, refused, call("write"), call("read"), text("x"), finish())
    assert reply
    assert (reply.denied, reply.wrote) == (("bash",), ("write",))
    free = read(START, call("write"), text("x"), finish(), role=Stage.IMPLEMENT)
    assert free
    assert free.wrote == ()


def test_what_it_does_is_seen_while_it_does_it() -> None:
    act = opencode.act(json.dumps(call("bash", input={"command": "make test"})).encode())
    assert act
    assert act.calls == ("bash make test",)
    act = opencode.act(json.dumps(finish()).encode())
    assert act
    assert act.tokens["input"] == 10
    assert opencode.act(b"{torn") is None


@pytest.mark.parametrize("role", [*Stage, *Aide])
def test_rules_bind_whichever_role_of_its_own_it_takes(role: Role) -> None:
    env = opencode.environment(Launch(role, "x/y", contract="/c", folder="/f", mark="m"))
    config = json.loads(env["OPENCODE_CONFIG_CONTENT"])
    free = role is Stage.IMPLEMENT
    assert config["permission"]["*"] == ("allow" if free else "deny")
    assert config["agent"]["kern"]["permission"] == config["permission"]
    assert "ask" not in json.dumps(config["permission"]), "to be asked would end the run"
    assert ("OPENCODE_DISABLE_PROJECT_CONFIG" in env) is not free
    assert config["instructions"] == ["/c"]
    assert list(opencode.files(Launch(role, "x"))) == [config["plugin"][0].rpartition("/")[2]]


def test_a_persons_own_configuration_stays() -> None:
    own = json.dumps({"provider": {"mine": {}}, "permission": {"bash": "allow"}})
    launch = Launch(Stage.RESEARCH, "x", folder="/a b%", given={"OPENCODE_CONFIG_CONTENT": own})
    config = json.loads(opencode.environment(launch)["OPENCODE_CONFIG_CONTENT"])
    assert config["provider"] == {"mine": {}}
    assert config["plugin"] == ["file:///a%20b%25/opencode-plugin.js"]
    assert "bash" not in config["permission"]


def test_it_fetches_nothing_when_it_starts_and_its_shell_may() -> None:
    launch = Launch(Stage.IMPLEMENT, "x", given={"npm_config_offline": "false"})
    assert opencode.environment(launch)["npm_config_offline"] == "true"
    (source,) = opencode.files(launch).values()
    assert 'const GIVEN = "false";' in source


def test_whether_it_is_logged_in_and_who_pays() -> None:
    assert opencode.login(0, "0 credentials") is None, "a key in its configuration would do"
    assert (
        opencode.login(0, "0 credentials\n1 environment variable")
        == "opencode's own word: 1 logins"
    )
    assert opencode.login(1, "boom") is None
    files = {"/h/.local/share/opencode/auth.json": '{"x": {"type": "oauth"}}'}
    assert "subscription" in opencode.payer({}, "/r", "/h", lambda p: files.get(p, "")).who
    keyed = opencode.payer({"XAI_API_KEY": "k"}, "/r", "/h", lambda place: "")
    assert keyed.who == "the key in XAI_API_KEY, by use"


def test_what_a_project_makes_it_start_is_told() -> None:
    config = {"mcp": {"x": {"command": ["sh"]}}, "theme": "dark"}
    files = {
        "opencode.json": json.dumps(config).encode(),
        ".opencode/plugin/a.js": b"x",
        ".opencode/agent/a.md": b"x",
        "opencode.jsonc": b"// a remark\n{}",
    }
    assert opencode.started(files) == [
        ".opencode/plugin/a.js is code, which opencode runs (2d711642b726)",
        'opencode.json mcp: {"x": {"command": ["sh"]}}',
        "opencode.jsonc cannot be read as JSON; opencode may read it otherwise",
    ]
