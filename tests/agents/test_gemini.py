"""What Gemini CLI prints, as kern reads it; its lines are those of 0.61.0."""

import io
import json
import tomllib
from typing import Any

import pytest

from kern.agents import gemini
from kern.agents.protocol import Agent, Ended, Grade, Launch, Reply
from kern.model import Aide, Role, Stage

AGENT: Agent = gemini
INIT = {"type": "init", "session_id": "s-1", "model": "m"}
TIME = "1970-01-01T00:16:40.000Z"  # 1000


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def used(name: str, at: str = "c1") -> dict[str, Any]:
    parameters = {"command": "make test"}
    return {"type": "tool_use", "tool_name": name, "tool_id": at, "parameters": parameters}


def ended(status: str = "success", message: str = "") -> dict[str, Any]:
    stats = {"input_tokens": 13, "output_tokens": 2, "cached": 3, "input": 10}
    failed = {"error": {"type": "unknown", "message": message}} if message else {}
    return {"type": "result", "timestamp": TIME, "status": status, "stats": stats, **failed}


def read(*values: object, role: Role = Stage.RESEARCH) -> Reply | None:
    lines = "\n".join(json.dumps(value) for value in values)
    return gemini.read(gemini.objects(io.BytesIO(lines.encode())), role)


def graded(message: str) -> tuple[Grade, int | None, str]:
    found = gemini.fault(read(INIT, ended("error", message)), Ended(1))
    assert found
    return found.grade, found.resets_at, found.message


def test_what_it_said_since_its_last_call_is_the_answer() -> None:
    result = {"type": "tool_result", "tool_id": "c1", "status": "success", "output": ""}
    reply = read(
        *(INIT, {**said("the prompt"), "role": "user"}, said("I look."), used("read_file"), result),
        *(said("do"), said("ne\n\nREADY"), ended()),
    )
    assert reply
    assert gemini.fault(reply, Ended(0)) is None
    assert (reply.text, reply.session, reply.cost_usd) == ("done\n\nREADY", "s-1", None)
    assert reply.tokens == {"input": 10, "output": 2, "cache_read_input": 3}
    assert reply.result["result"] == reply.text
    assert reply.result["total_cost_usd"] is None


def test_errors_become_classes() -> None:
    inner = {"error": {"code": 400, "message": "API key not valid.", "status": "X"}}
    assert graded(f"[API Error: {json.dumps(inner)}]")[0] is Grade.PERMANENT
    grade, _, told = graded("[API Error: models/x is not found for API version v1beta]")
    assert grade is Grade.PERMANENT
    assert "gemini does not know the model" in told
    assert graded("You exceeded your current quota. Please retry in 2h.")[:2] == (
        Grade.LIMIT,
        1000 + 7200,
    )
    assert graded("[API Error: fetch failed]")[0] is Grade.TRANSIENT
    found = gemini.fault(None, Ended(41, "Please set an Auth method"))
    assert found
    assert (found.grade, found.hint) == (Grade.PERMANENT, gemini.LOGIN)


def test_a_refusal_of_the_model_is_no_answer() -> None:
    blocked = {"type": "error", "severity": "error", "message": "blocked: SAFETY"}
    found = gemini.fault(read(INIT, blocked, ended()), Ended(0))
    assert found
    assert found.grade is Grade.FAILED
    assert read(INIT, said("half")) is None


def test_it_does_not_ask_again_for_ever() -> None:
    def line(again: int, after: int = 0, status: int = 503) -> bytes:
        known = {"status": status, "message": "busy", "at": 1000, "after": after, "again": again}
        return json.dumps({"kern": "m", "type": "refused", **known}).encode()

    assert gemini.refused(line(1)) is None
    found = gemini.refused(line(3))
    assert found
    assert found.grade is Grade.TRANSIENT
    found = gemini.refused(line(1, after=3600, status=429))
    assert found
    assert (found.grade, found.resets_at) == (Grade.LIMIT, 4600)
    assert gemini.refused(b"{torn") is None


def test_tools_that_were_refused_or_that_a_role_does_not_have_are_told() -> None:
    denied = {"type": "tool_result", "tool_id": "c1", "status": "error", "output": "no"}
    denied["error"] = {"type": "tool_not_registered"}  # type: ignore[assignment]
    done = {"type": "tool_result", "tool_id": "c2", "status": "success"}
    seen = (INIT, used("write_file"), denied, used("replace", "c2"), done, said("x"), ended())
    reply = read(*seen)
    assert reply
    assert (reply.denied, reply.wrote, reply.complaint) == (("write_file",), ("replace",), "no")
    free = read(*seen, role=Stage.IMPLEMENT)
    assert free
    assert free.wrote == ()


def test_what_it_does_is_seen_while_it_does_it() -> None:
    act = gemini.act(json.dumps(used("run_shell_command")).encode())
    assert act
    assert act.calls == ("run_shell_command make test",)
    assert gemini.act(json.dumps(INIT).encode()) is None


@pytest.mark.parametrize("role", [*Stage, *Aide])
def test_policies_bind_each_role(role: Role) -> None:
    launch = Launch(role, "m", folder="/f", mark="x")
    free = role is Stage.IMPLEMENT
    rules = tomllib.loads(gemini.files(launch)["gemini-policy.toml"])["rule"]
    if free:
        assert {rule["decision"] for rule in rules} == {"deny"}
    else:
        assert rules[-1]["toolName"] == "*"
        assert rules[0]["priority"] > rules[-1]["priority"]
        assert "run_shell_command" not in rules[0]["toolName"]
    words, env = gemini.argv(launch), gemini.environment(launch)
    assert words[words.index("--admin-policy") + 1] == "/f/gemini-policy.toml"
    assert ("yolo" in words) is free
    assert env["GEMINI_CLI_TRUST_WORKSPACE"] == ("true" if free else "false")
    assert ("GEMINI_SYSTEM_MD" in env) is not free


def test_a_persons_own_variables_stay() -> None:
    given = {"GOOGLE_GEMINI_BASE_URL": "http://mine", "NODE_OPTIONS": "--max-old-space-size=4096"}
    env = gemini.environment(Launch(Stage.RESEARCH, "m", folder="/a b%", given=given))
    assert env["GOOGLE_GEMINI_BASE_URL"] == "http://mine"
    assert env["NODE_OPTIONS"] == (
        "--max-old-space-size=4096 --import=file:///a%20b%25/gemini-preload.mjs"
    ), "at a space node takes it apart"
    (source,) = [
        text
        for name, text in gemini.files(Launch(Stage.RESEARCH, "m", given=given)).items()
        if name.endswith(".mjs")
    ]
    assert 'const GIVEN = "--max-old-space-size=4096";' in source


def test_who_pays() -> None:
    def payer(env: dict[str, str], **files: str) -> tuple[str, str]:
        places = {
            "/h/.gemini/oauth_creds.json": files.get("own", ""),
            "/r/.env": files.get("dotenv", ""),
        }
        found = gemini.payer(env, "/r", "/h", lambda place: places.get(place, ""))
        return found.who, found.warning

    assert payer({"GEMINI_API_KEY": "k"})[0] == "the key in GEMINI_API_KEY, by use"
    assert "subscription" in payer({}, own='{"refresh_token": "x"}')[0]
    assert "GEMINI_API_KEY" in payer({}, dotenv="GEMINI_API_KEY=x\n")[1]


def test_what_a_project_makes_it_start_is_told() -> None:
    settings = {"mcpServers": {"x": {"command": "sh"}}, "ui": {}}
    files = {".gemini/settings.json": json.dumps(settings).encode(), ".env": b"A=1\nexport B=2\n"}
    assert gemini.started(files) == [
        ".env sets for gemini: A, B",
        '.gemini/settings.json mcpServers: {"x": {"command": "sh"}}',
    ]
