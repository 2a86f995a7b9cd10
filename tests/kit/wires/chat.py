"""OpenAI's Chat Completions API, as it is and as others copy it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.kit.wires.wire import Answer, Asked, Said, as_events


def takes(path: str) -> bool:
    return path.endswith("/chat/completions")


def read(path: str, body: Mapping[str, Any]) -> Asked:
    messages = body.get("messages") or []
    by_role: dict[str, list[str]] = {"system": [], "developer": [], "user": []}
    for message in messages:
        by_role.setdefault(str(message.get("role")), []).append(_text(message.get("content")))
    return Asked(
        prompt="\n".join(by_role["user"]),
        said=sum(1 for message in messages if message.get("role") == "assistant"),
        tools=tuple(str(tool["function"]["name"]) for tool in body.get("tools") or []),
        system="\n".join((*by_role["system"], *by_role["developer"])),
        last=json.dumps(messages[-1:], ensure_ascii=False),
    )


def write(path: str, body: Mapping[str, Any], said: Said) -> Answer:
    about = {"id": f"chatcmpl-{said.number:04d}", "created": 1, "model": body.get("model")}
    asked, answered = said.tokens
    usage = {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }
    reason = "tool_calls" if said.calls else "stop"
    if body.get("stream"):
        chunks = [
            {**about, "object": "chat.completion.chunk", **chunk}
            for chunk in _chunks(said, reason, usage)
        ]
        return as_events([*(("", json.dumps(chunk)) for chunk in chunks), ("", "[DONE]")])
    message = {"role": "assistant", "content": said.text, "tool_calls": _calls(said) or None}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
    return Answer(json.dumps(whole).encode(), headers={"Content-Type": "application/json"})


def error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted", "param": None, "code": None}}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or [])


def _calls(said: Said) -> list[dict[str, Any]]:
    return [
        {
            "index": at,
            "id": f"call_{said.number:04d}_{at}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.given)},
        }
        for at, call in enumerate(said.calls)
    ]


def _chunks(said: Said, reason: str, usage: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """As the API streams it, the text in one piece and each call in one."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": said.text or ""}]
    deltas += [{"tool_calls": [call]} for call in _calls(said)]
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield {"choices": [], "usage": usage}
