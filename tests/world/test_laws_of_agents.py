"""Laws of the agents: whatever one prints, or an endpoint answers, comes to one of the endings; and
whatever is asked of one, who may only read is held to it.
"""

import contextlib
import io
import json
import random
import re
import urllib.request
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings

from kern.agents import claude_stop_hook, http, http_loop, places, protocol
from kern.agents.protocol import AgentError, Answer, Call, Ended
from kern.errors import KernError, UsageError
from kern.model import Aide, Role, Stage
from kern.models import Endpoint
from kern.plain import decode
from kern.stages import output
from tests.agents.test_agent_needs import needs, passes
from tests.agents.test_recorded import FOLDER, cases
from tests.world.test_laws import damaged, even_law, said

# What vendors say, each of another class.
WORDS = [
    *("Your credit balance is too low", "You've hit your usage limit", "try again in 3 h"),
    *("API Error: 401 expired", "slow down: try again in 5 s", "model 'x' not found", "ENOTFOUND"),
    *("status: 413", "maximum context length is 9", "500 boom", "422", "Overloaded", "length"),
    *("certificate verify failed", "max_output_tokens", "refusal", "rejected", "tool-calls"),
    *("error", "error_max_budget_usd", "error_max_turns", "aborted", "success", "blocking_limit"),
    *("turn.failed", "file_change", "message_end", "tool_use", "step_start"),
    "UnknownError: Unexpected server error",
    '{"error": {"message": "no", "code": 400}}',
    '[API Error: {"error": {"message": "no", "code": 503}}]',
    "Attempt 3 failed with status 503. ApiError: boom",
    'timestamp=1 stream error error.message="Error: Not logged in"',
]
ODD: tuple[Any, ...] = (
    *WORDS,
    *WORDS,
    401,
    429,
    503,
    2,
    1.7e9,
    None,
    {},
    [],
    "\0",
    2**70,
    1e300,
    "\ud800",
    True,
)
TALKS = {
    path.name.partition("-")[0]: [([*head["ended"]], objects) for head, objects in cases(path)]
    for path in sorted(FOLDER.glob("*.jsonl"))
}
LOOP = {"type": "assistant", "text": "SUCCESS", "turn": 1, "command": "ls", "usage": {"input": 1}}
TALKS["http"] = [([0], [LOOP]), ([1, "the agent was ended: in a circle"], [LOOP])]
# By what each holds a role that only reads.
HELD = {
    **{"claude": "--strict-mcp-config", "codex": '="untrusted"', "gemini": "--admin-policy"},
    **{"opencode": '"permission": {"*": "deny"', "pi": "mcp__none"},
}


def twisted(value: Any, chance: random.Random) -> Any:
    """Something else at one place in it."""
    match value:
        case dict() if value and chance.randrange(9):
            key = chance.choice([*value])
            return {**value, key: twisted(value[key], chance)}
        case list() if value and chance.randrange(9):
            at = chance.randrange(len(value))
            return [*value[:at], twisted(value[at], chance), *value[at + 1 :]]
    return chance.choice(ODD)


@even_law
def test_whatever_an_agent_prints_is_an_answer_or_one_of_the_endings(
    tmp_path: Path, chance: random.Random
) -> None:
    for name, talks in TALKS.items():
        agent = protocol.find(name)
        (code, *_), objects = chance.choice(talks)
        rows = [*objects, *objects[-1:]][: chance.choice((2, 99, 99))] or [{}]
        for at in {-1, chance.randrange(len(rows))}:
            rows[at] = twisted(rows[at], chance)
        data = b"".join(json.dumps(one).encode() + b"\n" for one in rows)
        data = damaged(data, chance, [data]) if chance.random() < 0.3 else data
        ended = Ended(
            chance.choice((code, 0, 1, 41, -9)), chance.choice((*WORDS, "", said(chance)))
        )
        ended = ended._replace(overflow=chance.choice((0, 0, 0, 9_000_000)))
        read = [*agent.objects(io.BytesIO(data))]
        for one in read:
            with contextlib.suppress(AgentError):
                act = agent.watch(one)
                assert not act or all(isinstance(text, str) for text in (act.message, *act.calls))
        try:
            answer = agent.read(read, ended)
        except AgentError as error:
            assert error.message and isinstance(
                output.error(Stage.COMMIT, error, tmp_path), KernError
            )
            assert error.hint or not isinstance(error, protocol.Unusable)
            continue
        assert isinstance(json.dumps(answer.result), str) and isinstance(answer, Answer)


@even_law
def test_whatever_is_asked_who_may_only_read_is_held_to_it(chance: random.Random) -> None:
    roles: tuple[Role, ...] = (*Stage, *Aide)
    gates = [("gate test", "true", chance.choice((0.0, 9.0)), None)]
    for name in (*HELD, "http"):
        role, model, effort = (
            chance.choice(roles),
            chance.choice(("", "m-1")),
            chance.choice(("", "low", "max")),
        )
        asked = Call("x", role, model, effort, chance.choice(("", "/c.md")), "/f")
        asked = asked._replace(
            budget=chance.choice((0, 2.5)),
            patience=chance.choice((0, 60)),
            nests=chance.random() < 0.5,
            gates=gates if chance.random() < 0.5 else [],
            obeyed=chance.choice(((), ("opencode.json", ".opencode/"))),
            given=chance.choice(({}, {"OPENCODE_CONFIG": "/own", "OPENCODE_CONFIG_CONTENT": "{"})),
            root="/r",
        )
        agent = protocol.find(name)
        if name == "http":
            agent = http.agent(Endpoint(chance.choice(("", "http://localhost/v1")), ""))
        try:
            begun = agent.start(asked)
        except UsageError as exc:
            assert name == "http" and exc.hint
            continue
        told = "\n".join((*begun.argv, *begun.env.values()))
        assert model in told and all(isinstance(one, str) for one in begun.argv)
        assert name == "http" or (HELD[name] in told) is (role is not Stage.IMPLEMENT)
        if name != "http":
            assert all(passes(one, needs(name).variables) for one in begun.env), "it comes through"
            if role is Stage.COMMIT:  # what holds the one with the real CLI holds the other
                assert agent.start(asked._replace(role=Aide.JUDGE)) == begun


# -------------------------------------------------------------------- the loop of an endpoint

SAYS = [
    *("SUCCESS", "", "<think>I must", "```json\n{}\n```", "```sh\ntouch x\n", "[" * 9999),
    *("```sh\necho [$KEY]\n```", "```sh\nexit 3\n```", "~~~bash\nyes | head -c 30000\n~~~\nx"),
    *("```sh\ncat <<E\n```\nx\n```\nE\n```\nSo.", "```sh\nsleep 9 & echo \ud83d\n```"),
]


class Endless:
    """An endpoint that answers whatever comes to it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.asked = chance, 0

    def open(self, request: urllib.request.Request, timeout: float) -> io.BytesIO:
        self.asked += 1
        url, chance = request.full_url, self.chance
        heads = Message()
        heads[chance.choice(("Location", "Retry-After", "X"))] = chance.choice(("7", "http://x"))
        code, text = chance.choice((400, 413, 503, 302)), io.BytesIO(b"no\xff")
        reply = {"message": {"content": chance.choice(SAYS)}, "finish_reason": "stop"}
        body: object = {"choices": [reply], "usage": {"prompt_tokens": 1}}
        match chance.randrange(9):
            case 0:
                raise urllib.request.HTTPError(url, code, "no", heads, text)
            case 1:
                raise chance.choice((IncompleteRead(b""), OSError("gone")))
            case 2:
                body = twisted(body, chance)
        return io.BytesIO(json.dumps(body).encode())


@settings(max_examples=50)
@even_law
def test_whatever_an_endpoint_answers_the_loop_ends_with_an_answer_or_a_reason(
    tmp_path: Path, chance: random.Random
) -> None:
    endpoint, out, why = Endless(chance), io.StringIO(), None
    asked = {"url": "http://x/v1", "key": "KEY", "body": {"model": "m"}, "patience": 0.05}
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(tmp_path)
        patch.setenv("KEY", "secret")
        patch.setattr(urllib.request, "build_opener", lambda *handlers: endpoint)
        patch.setattr(http_loop, "_WAITS_S", (0, 0))
        patch.setattr(http_loop, "_MOST_TURNS", 6)
        try:
            http_loop.converse(asked, "Do it.")
        except SystemExit as exc:
            why = exc.code
    assert why is None or (isinstance(why, str) and why)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert "secret" not in out.getvalue() and endpoint.asked <= 6 * 3
    assert why or (told[-1]["text"] and not told[-1]["command"]), "its last message is the answer"
    assert not (tmp_path / "x").exists(), "of a block without an end nothing runs"


# -------------------------------------------------------------------- the Stop hook


@settings(max_examples=30)
@even_law
def test_an_agent_is_sent_back_where_it_claims_what_a_gate_denies_and_twice_at_most(
    tmp_path: Path, chance: random.Random
) -> None:
    claim = chance.choice(("SUCCESS", "**SUCCESS**", "FAILED: no", "SUCCESS" + "\nx" * 9))
    command, red = chance.choice((("true", 0), ("echo no; false", 1), ("sleep 9", 1)))
    gates = [("test", command, 0.05 if "sleep" in command else 0.0, chance.choice((None, 0, 1)))]
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr("tempfile.tempdir", stack.enter_context(TemporaryDirectory(dir=tmp_path)))
        for number in (1, 2, 3):
            asked = {"session_id": "s", "last_assistant_message": f"Did it.\n{claim}"}
            back = claude_stop_hook.feedback(asked, gates)
            claims = claim in ("SUCCESS", "**SUCCESS**")
            assert bool(back) is bool(claims and red and number <= claude_stop_hook.ROUNDS)
            assert not back or f"round {number} of 2" in back


# -------------------------------------------------------------------- what is a person's


@even_law
def test_whatever_a_persons_settings_say_a_need_is_a_path_a_name_or_a_host(
    chance: random.Random,
) -> None:
    texts = [
        '{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:4141"}, "apiKeyHelper": "pass k"}',
        '[model_providers.a]\nbase_url = "http://[::1]:1/v1"\nenv_key = "OWN_KEY"\n',
        '{"baseUrl": "http://10.0.0.7:8000/v1", "apiKey": "OWN_KEY", "b": "{env:OTHER}"}',
        '{"base_url": "http://[::1", "apiKeyHelper": "\\u00e9"}',
    ]
    found = decode(damaged(chance.choice(texts).encode(), chance))
    for name in TALKS:
        tables = protocol.find(name).places
        named = [one for place in tables for one in (place.variable, place.when, *place.files)]
        env = {one: "/own" for one in filter(None, named) if chance.random() < 0.5}
        env |= {"OWN_KEY": "k", "ANTHROPIC_BASE_URL": chance.choice(("", "http://h:9/v1", "//["))}
        needs = places.needs(tables, env, "/h", lambda _: found)
        assert all(path.startswith(("/h/", "/own")) for path in (*needs.login, *needs.settings))
        assert not {*needs.login} & {*needs.settings}, "what it renews would be read-only"
        assert not re.search(
            "history|projects|sessions|scripts|shots", f"{needs.login} {needs.settings}"
        )
        own = [one for one in needs.hosts if one not in {h for t in tables for h in t.hosts}]
        assert not any("/" in one for one in own)
        assert places.own_endpoint(needs, tables) in ("", *own)
