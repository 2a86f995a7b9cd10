"""What is said to an endpoint and what is read from it, without one."""

import json
from typing import Any

import pytest

from kern.agents import http_talk as talk
from kern.agents.http_talk import Answer, Bounds, Call


def chunk(finish: str = "", **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish or None}]}


def call(arguments: object, index: int | None = 0, **more: Any) -> dict[str, Any]:
    name = more.pop("name", "read")
    numbered = {} if index is None else {"index": index}
    return {**numbered, "function": {"name": name, "arguments": arguments}, **more}


def taken(*chunks: dict[str, Any]) -> Answer:
    answer = Answer()
    for one in chunks:
        answer.take(one)
    return answer


def calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one.id, one.name, one.arguments) for one in taken(*chunks).calls]


def test_a_stream_is_put_together() -> None:
    answer = taken(
        chunk(role="assistant", content="Do"),
        chunk(content="ne"),
        chunk("stop", content=None),
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}, "model": "m-1"},
    )
    assert (answer.text, answer.finish, answer.model) == ("Done", "stop", "m-1")
    assert (answer.tokens["input"], answer.tokens["output"]) == (9, 2)
    assert answer.cost is None
    assert answer.message(1) == {"role": "assistant", "content": "Done"}


def test_an_answer_in_one_piece_is_one_too() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call("{}", None, id="x")]}
    whole = taken({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert whole.known
    assert [one.id for one in whole.calls] == ["x"]


@pytest.mark.parametrize(
    "chunks",
    [
        # As OpenAI does it: the name first, the arguments in pieces.
        [
            call("", 0, id="a"),
            call('{"pa', 0, name=None),
            call('th": 1}', 0, name=None),
            call("{}", 1, id="b", name="list"),
        ],
        # All of them numbered 0, as some gateways do.
        [call('{"path": 1}', 0, id="a"), call("{}", 0, id="b", name="list")],
        # Without numbers.
        [call('{"path": 1}', None, id="a"), call("{}", None, id="b", name="list")],
        # The arguments as an object.
        [call({"path": 1}, 0, id="a"), call({}, 1, id="b", name="list")],
        # The id and the name with each piece.
        [call('{"path"', 0, id="a"), call(": 1}", 0, id="a"), call("{}", 1, id="b", name="list")],
    ],
)
def test_calls_come_in_many_shapes(chunks: list[dict[str, Any]]) -> None:
    found = calls(*(chunk(tool_calls=[one]) for one in chunks))
    assert [(one, name) for one, name, _ in found] == [("a", "read"), ("b", "list")]
    assert json.loads(found[0][2]) == {"path": 1}
    assert json.loads(found[1][2] or "{}") == {}


def test_a_call_without_an_id_gets_one_that_no_other_has() -> None:
    answer = taken(chunk(tool_calls=[call("{}", 0), call("{}", 1)]))
    said = answer.message(3)
    assert [one["id"] for one in said["tool_calls"]] == ["call_3_0", "call_3_1"]


def test_arguments_that_are_none_are_said_back_as_an_empty_object() -> None:
    said = taken(chunk(tool_calls=[call('{"path": ', 0, id="a")])).message(1)
    assert said["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"choices": None},
        {"choices": ["x", 3]},
        {"choices": [{"delta": {"tool_calls": ["x", {"function": 3}]}}]},
        {"choices": [{"delta": {"content": [{"text": "a"}, 3]}}], "usage": {"prompt_tokens": "x"}},
        {"choices": [{"delta": {"content": 5}}], "usage": []},
        {"candidates": [{"content": {"parts": [{"text": "Gemini's own"}]}}]},
    ],
)
def test_what_others_send_does_no_harm(strange: dict[str, Any]) -> None:
    answer = taken(strange)
    assert isinstance(answer.message(1), dict)
    assert isinstance(answer.tokens, dict)


def test_what_came_from_the_cache_is_counted_once_and_a_cost_where_it_is_told() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "cost": 0.25}
    answer = taken({"usage": {**usage, "prompt_tokens_details": {"cached_tokens": 4}}})
    assert answer.tokens == {
        **{"input": 6, "output": 1},
        **{"cache_creation_input": 0, "cache_read_input": 4},
    }
    assert answer.cost == 0.25
    assert taken({"usage": {"cost": True}}).cost is None


def test_thoughts_before_an_answer_are_none_of_it() -> None:
    assert taken(chunk(content="<think>\nWell.\n</think>\n\nDone\n\nREADY")).said == "Done\n\nREADY"
    assert taken(chunk(content="Say <think>x</think>")).said == "Say <think>x</think>"


def test_half_of_a_surrogate_pair_is_not_said_back() -> None:
    json.dumps(taken(chunk(content="a\ud83d")).message(1), ensure_ascii=False).encode()


# -------------------------------------------------------------------- bounds


def test_turns_have_an_end() -> None:
    bounds = Bounds(2)
    assert [bounds.turn() for _ in range(3)] == ["", "", "it did not come to an end in 2 turns"]


def test_the_same_call_again_and_again_is_refused_and_then_the_end() -> None:
    bounds = Bounds(99)
    one, other = Call("", "read", "{}"), Call("", "list", "{}")
    said = [bounds.call(one) for _ in range(3)]
    assert (said, bounds.call(other), bounds.end) == (["", "", ""], "", "")
    said = [bounds.call(one) for _ in range(7)]
    assert said[:3] == ["", "", ""]
    assert all("this very call" in text for text in said[3:])
    assert bounds.end == ""
    bounds.call(one)
    assert bounds.end == "it goes in a circle: 8 times the same call of read"


def test_calls_that_are_none_have_an_end() -> None:
    bounds = Bounds(99)
    for sound in (*[False] * 9, True, *[False] * 9):
        bounds.called(sound=sound)
        assert bounds.end == ""
    bounds.called(sound=False)
    assert "10 calls of tools in a row" in bounds.end


def test_room_is_made_of_old_results_alone() -> None:
    texts = [str(n) * 1000 for n in range(6)]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "u" * 1000}]
    messages += [{"role": "tool", "content": text} for text in texts]
    assert talk.make_room(messages)
    assert messages[0]["content"] == "u" * 1000
    assert ["left out" in one["content"] for one in messages[1:]] == [True, True, *[False] * 4]
    assert not talk.make_room(messages)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error": {"message": "no", "code": 3}}', "no"),
        ('{"error": "model \'x\' not found"}', "model 'x' not found"),
        ('{"object": "error", "message": "too long"}', "too long"),
        ('{"detail": "Not Found"}', "Not Found"),
        ('[{"error": {"message": "quota"}}]', "quota"),
        ("<html><body><h1>502</h1> Bad Gateway</body></html>", "502 Bad Gateway"),
        ("", ""),
        ("[]", "[]"),
        ('{"detail": [{"msg": "x"}]}', '[{"msg": "x"}]'),
    ],
)
def test_an_error_says_what_it_says_in_any_shape(body: str, said: str) -> None:
    assert talk.complaint(body) == said
