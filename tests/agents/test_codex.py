"""What kern makes of codex's words: its flags, its output, its faults. The CLI itself is in
`test_conformance.py`.
"""

import io
import itertools
import json
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from kern.agents import codex
from kern.agents.protocol import SUBSCRIPTION, Agent, Ended, Fault, Grade, Launch, Payer, Reply
from kern.model import Aide, Role, Stage

AGENT: Agent = codex  # the type checker holds it
HIT = "You\N{RIGHT SINGLE QUOTATION MARK}ve hit your usage limit"
SEALED: tuple[Role, ...] = (Stage.RESEARCH, Stage.COMMIT, Aide.JUDGE, Aide.PLANNER)
SESSION = "01a204a6-6ab7-7e81-bc56-b0db9895ef80"  # begun on 22 November 2026 at 19:05:44 UTC
BEGAN = datetime(2026, 11, 22, 19, 5, 44, tzinfo=UTC)


def given(argv: list[str]) -> dict[str, Any]:
    """What `-c` sets, as codex reads it."""
    found: dict[str, Any] = {}
    for flag, value in itertools.pairwise(argv):
        if flag == "-c":
            key, _, text = value.partition("=")
            found[key] = tomllib.loads(f"value={text}")["value"]
    return found


def sandbox(argv: list[str]) -> str:
    return argv[argv.index("-s") + 1] if "-s" in argv else ""


# -------------------------------------------------------------------- flags


@pytest.mark.parametrize("role", SEALED)
def test_all_but_implement_read_only_and_take_the_project_for_a_stranger(role: Role) -> None:
    argv = codex.argv(Launch(role, "gpt-x", root='/a "b"/ü.x'))
    assert sandbox(argv) == "read-only"
    settings = given(argv)
    assert settings["approval_policy"] == "never"
    assert settings["projects"] == {'/a "b"/ü.x': {"trust_level": "untrusted"}}
    assert settings["project_doc_max_bytes"] == 0
    assert {"--ignore-rules", "--ephemeral", "--json"} <= {*argv}
    assert "--ignore-user-config" not in argv, "a person's provider stands there"


def test_implement_has_what_the_sandbox_of_kern_leaves_it() -> None:
    argv = codex.argv(Launch(Stage.IMPLEMENT, "gpt-x", root="/a"))
    assert sandbox(argv) == "danger-full-access"
    assert "projects" not in given(argv)


def test_where_it_can_make_no_sandbox_the_one_around_it_holds_it() -> None:
    argv = codex.argv(Launch(Stage.RESEARCH, "gpt-x", root="/a", nests=False))
    assert sandbox(argv) == "danger-full-access"


@pytest.mark.parametrize(
    ("effort", "level"), [("", None), ("low", "low"), ("xhigh", "xhigh"), ("max", "xhigh")]
)
def test_model_and_effort_are_named_where_a_person_named_them(
    effort: str, level: str | None
) -> None:
    argv = codex.argv(Launch(Stage.RESEARCH, "", effort=effort))
    assert "-m" not in argv
    assert given(argv).get("model_reasoning_effort") == level
    assert codex.argv(Launch(Stage.RESEARCH, "gpt-x"))[-20:].count("gpt-x") == 1


# -------------------------------------------------------------------- output


def line(kind: str, **more: object) -> dict[str, Any]:
    return {"type": kind, **more}


def item(kind: str, at: str = "item.completed", **more: object) -> dict[str, Any]:
    return line(at, item={"id": "item_1", "type": kind, **more})


def ran(command: str, code: int, said: str = "") -> dict[str, Any]:
    return item("command_execution", command=command, exit_code=code, aggregated_output=said)


def read(*lines: dict[str, Any]) -> Reply | None:
    data = "".join(json.dumps(one) + "\n" for one in lines).encode()
    return codex.read(codex.objects(io.BytesIO(data)), Stage.RESEARCH)


USAGE = {
    **{"input_tokens": 100, "cached_input_tokens": 30, "cache_write_input_tokens": 10},
    **{"output_tokens": 7, "reasoning_output_tokens": 5},
}
DONE = line("turn.completed", usage=USAGE)


def test_the_last_message_is_the_answer() -> None:
    reply = read(
        line("thread.started", thread_id=SESSION),
        item("error", message="Model metadata not found"),
        item("agent_message", text="I look."),
        ran("ls", 0),
        item("agent_message", text="- a\n\nREADY"),
        DONE,
    )
    assert reply
    assert (reply.text, reply.session, reply.cost_usd) == ("- a\n\nREADY", SESSION, None)
    assert reply.tokens == {
        **{"input": 60, "output": 7},
        **{"cache_creation_input": 10, "cache_read_input": 30},
    }
    assert reply.result["type"] == "result"
    assert reply.result["result"] == "- a\n\nREADY"
    assert reply.result["total_cost_usd"] is None
    assert reply.result["usage"]["input_tokens"] == 60
    assert codex.fault(reply, Ended(0)) is None


def test_without_an_end_there_is_no_reply() -> None:
    assert read(line("turn.started"), item("agent_message", text="I look.")) is None
    assert read() is None


def test_what_failed_last_is_told() -> None:
    reply = read(ran("ls", 0), ran("make", 2, "no rule"), DONE)
    assert reply
    assert (reply.complaint, reply.errors) == ("no rule", ())


NO_SANDBOX = "bwrap: execvp codex-linux-sandbox: No such file or directory\n"


def test_a_sandbox_that_does_not_work_is_for_a_person() -> None:
    fault = codex.fault(read(ran("ls", 1, NO_SANDBOX), DONE), Ended(0))
    assert fault and fault.grade is Grade.PERMANENT
    assert "sandbox does not work here: bwrap: execvp" in fault.message
    assert codex.fault(read(ran("ls", 1, NO_SANDBOX), ran("ls", 0), DONE), Ended(0)) is None


@pytest.mark.parametrize(
    ("value", "calls"),
    [
        (item("command_execution", "item.started", command="/bin/bash -lc 'ls a'"), ["shell ls a"]),
        (item("command_execution", "item.started", command="it's"), ["shell it's"]),
        (
            item("file_change", "item.completed", changes=[{"path": "/a"}, {"path": "/b"}]),
            ["apply_patch /a /b"],
        ),
        (item("web_search", "item.started", query="cats"), ["web_search cats"]),
        (item("mcp_tool_call", "item.started", tool="look"), ["mcp_tool_call look"]),
        (DONE, []),
        (ran("ls", 0), None),
        (item("agent_message", text="x"), None),
        (line("turn.started"), None),
    ],
)
def test_the_live_view_shows_what_is_begun(value: dict[str, Any], calls: list[str] | None) -> None:
    act = codex.act(json.dumps(value).encode())
    assert (None if act is None else [*act.calls]) == calls


@pytest.mark.parametrize(
    "torn", [b"", b"{", b"[]", b"null", b'{"item": 3, "type": "item.started"}']
)
def test_a_line_that_is_none_shows_nothing(torn: bytes) -> None:
    assert codex.act(torn) is None


@pytest.mark.parametrize(
    "value", [{"item": []}, {"usage": 3}, {"error": "x"}, {"item": {"text": 3}}]
)
def test_lines_of_another_shape_do_no_harm(value: dict[str, Any]) -> None:
    for kind in ("item.completed", "turn.completed", "turn.failed", "thread.started", "x"):
        read({"type": kind, **value})


# -------------------------------------------------------------------- faults


def failed(message: str) -> Fault:
    reply = read(
        line("thread.started", thread_id=SESSION), line("turn.failed", error={"message": message})
    )
    found = codex.fault(reply, Ended(1))
    assert found
    return found


def api(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"}})


@pytest.mark.parametrize(
    ("message", "grade", "said"),
    [
        (
            "unexpected status 401 Unauthorized: Incorrect API key, url: http://x/responses",
            *(Grade.PERMANENT, "codex is not logged in: unexpected status 401"),
        ),
        ("Missing environment variable: `X_KEY`.", Grade.PERMANENT, "codex is not logged in"),
        (
            "The model `gpt-9` does not exist or you do not have access to it.",
            *(Grade.PERMANENT, "codex does not know the model: The model `gpt-9`"),
        ),
        (
            api("The 'gpt-9' model is not supported when using Codex with a ChatGPT account."),
            *(Grade.PERMANENT, "codex does not know the model: The 'gpt-9' model"),
        ),
        (f"{HIT}. Try again later.", Grade.LIMIT, HIT),
        ("Quota exceeded. Check your plan and billing details.", Grade.LIMIT, "Quota exceeded"),
        (
            "To use Codex with your ChatGPT plan, upgrade to Plus: https://x.",
            *(Grade.PERMANENT, "the account cannot pay"),
        ),
        (
            "Codex ran out of room in the model's context window. Start a new thread.",
            *(Grade.FAILED, "the agent's context is full: Codex ran out of room"),
        ),
        (
            "We are currently experiencing high demand, which may cause errors.",
            *(Grade.TRANSIENT, "We are currently"),
        ),
        ("Selected model is at capacity. Please try a different model.", Grade.TRANSIENT, ""),
        ("exceeded retry limit, last status: 429 Too Many Requests", Grade.TRANSIENT, ""),
        ("unexpected status 529 <unknown status code>: x, url: http://x", Grade.TRANSIENT, ""),
        ("stream disconnected before completion: stream closed", Grade.TRANSIENT, ""),
        ("something new", Grade.TRANSIENT, "something new"),
        (api("bad thing"), Grade.PERMANENT, "the API refused the request: bad thing"),
    ],
)
def test_faults_by_codex_s_own_words(message: str, grade: Grade, said: str) -> None:
    found = failed(message)
    assert found.grade is grade
    assert found.message.startswith(said)
    assert found.grade is not Grade.PERMANENT or found.hint


@pytest.mark.parametrize(
    ("ended", "grade", "said"),
    [
        (Ended(2, "error: unexpected argument '--json' found\n\nUsage: codex"), 1, "does not know"),
        (Ended(1, "Error loading config.toml: invalid type"), 1, "refused to start"),
        (
            Ended(1, "Error: turn/start failed: Input exceeds the maximum length of 9"),
            3,
            "too long",
        ),
        (Ended(-9, "Reading prompt from stdin..."), 0, "ended by signal 9"),
        (Ended(0, ""), 0, "exited 0 without an answer"),
        (Ended(-9, "", overflow=70_000_000), 3, "more than 70 MB"),
    ],
)
def test_an_end_without_a_result(ended: Ended, grade: int, said: str) -> None:
    found = codex.fault(None, ended)
    assert found
    assert found.grade is [*Grade][grade]
    assert said in found.message


# -------------------------------------------------------------------- when a limit ends

EAST = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    ("said", "began", "at"),
    [
        ("or try again at 7:56 PM.", BEGAN, datetime(2026, 11, 22, 19, 57, tzinfo=UTC)),
        ("or try again at 7:05 PM.", BEGAN, datetime(2026, 11, 22, 19, 6, tzinfo=UTC)),
        ("or try again at 7:04 PM.", BEGAN, datetime(2026, 11, 23, 19, 5, tzinfo=UTC)),
        ("or try again at 12:00 AM.", BEGAN, datetime(2026, 11, 23, 0, 1, tzinfo=UTC)),
        ("or try again at 12:30 PM.", BEGAN, datetime(2026, 11, 23, 12, 31, tzinfo=UTC)),
        (
            *("try again at Nov 25th, 2026 7:03 PM.", BEGAN),
            datetime(2026, 11, 25, 19, 4, tzinfo=UTC),
        ),
        (
            *("try again at 7:56 AM.", BEGAN.astimezone(EAST)),
            datetime(2026, 11, 23, 7, 57, tzinfo=EAST),
        ),
    ],
)
def test_the_reset_is_the_next_time_of_that_clock(said: str, began: datetime, at: datetime) -> None:
    assert codex.resets_at(said, began) == int(at.timestamp())


@pytest.mark.parametrize(
    "said",
    [
        *("", "Try again later.", "try again at 27:99 PM.", "try again at Foo 1st, 2026 1:00 PM."),
        *("try again at Feb 31st, 2026 1:00 PM.", "try again at Nov 1st, 0000 1:00 PM."),
    ],
)
def test_a_reset_that_is_not_told_is_not_known(said: str) -> None:
    assert codex.resets_at(said, BEGAN) is None


def test_a_session_says_when_it_began() -> None:
    found = codex.began(SESSION)
    assert found and found.utctimetuple()[:6] == BEGAN.utctimetuple()[:6]
    for other in ("", "x", "01a204a6-6ab7-4e81-bc56-b0db9895ef80"):
        assert codex.began(other) is None


def test_a_limit_says_its_reset() -> None:
    found = failed(f"{HIT}. Upgrade to Pro or try again at 11:59 PM.")
    assert found.grade is Grade.LIMIT
    assert found.resets_at and 0 < found.resets_at - BEGAN.timestamp() <= 24 * 3600
    assert found.resets_at % 60 == 0


# -------------------------------------------------------------------- settings


def texts(**files: str) -> Callable[[str], str]:
    named = {f"/h/.codex/{name.replace('_', '.')}": text for name, text in files.items()}
    return lambda place: named.get(place, "")


@pytest.mark.parametrize(
    ("env", "files", "who"),
    [
        ({}, {}, ""),
        ({"CODEX_API_KEY": "k"}, {}, "the key in CODEX_API_KEY, by use"),
        (
            *({}, {"auth_json": '{"auth_mode": "chatgpt", "tokens": {"access_token": "t"}}'}),
            f"{SUBSCRIPTION} that codex is logged in to",
        ),
        ({}, {"auth_json": '{"auth_mode": "apikey", "OPENAI_API_KEY": "s"}'}, "an API key"),
        ({}, {"auth_json": "["}, ""),
        ({}, {"config_toml": "= broken"}, ""),
        (
            *({"CODEX_API_KEY": "k"}, {"config_toml": 'model_provider = "mine"'}),
            "the provider mine of /h/.codex/config.toml",
        ),
    ],
)
def test_who_pays(env: dict[str, str], files: dict[str, str], who: str) -> None:
    assert codex.payer(env, "/p", "/h", texts(**files)) == Payer(who)


@pytest.mark.parametrize(
    ("code", "said", "how"),
    [
        (1, "Not logged in\n", ""),
        (0, "Logged in using ChatGPT\n", "ChatGPT"),
        (0, "API key configured - sk-x***\n", "an API key"),
        (2, "error: unrecognized subcommand", None),
    ],
)
def test_the_login_by_its_own_words(code: int, said: str, how: str | None) -> None:
    assert codex.login(code, said) == how


def test_what_a_project_makes_it_start_is_named() -> None:
    config = b'notify = ["sh", "a"]\n[mcp_servers.x]\ncommand = "evil"\nargs = ["-c", "b"]\n'
    hooks = b'{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "worse"}]}]}}'
    found = codex.started({".codex/config.toml": config, ".codex/hooks.json": hooks})
    assert [one.split(":")[0] for one in found] == [
        *(".codex/config.toml server x", ".codex/config.toml notify"),
        ".codex/hooks.json hook Stop",
    ]
    assert "evil" in found[0] and "worse" in found[2]
    assert "cannot be read" in codex.started({".codex/config.toml": b"\xff"})[0]
    assert codex.started({}) == []
