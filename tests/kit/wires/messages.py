"""Anthropic's Messages API."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.kit.wires.wire import Answer, Asked, Said, as_events


def takes(path: str) -> bool:
    return path.endswith("/v1/messages")


def read(path: str, body: Mapping[str, Any]) -> Asked:
    messages = body.get("messages") or []
    system = body.get("system")
    blocks = system if isinstance(system, list) else []
    return Asked(
        prompt=_text(next((m.get("content") for m in messages if m.get("role") == "user"), "")),
        said=sum(1 for message in messages if message.get("role") == "assistant"),
        tools=tuple(str(tool.get("name", "")) for tool in body.get("tools") or []),
        system="\n".join(str(one.get("text", "")) for one in blocks),
        last=json.dumps(messages[-1:], ensure_ascii=False),
    )


def write(path: str, body: Mapping[str, Any], said: Said) -> Answer:
    message = _message(body, said)
    if body.get("stream"):
        return as_events([(event["type"], json.dumps(event)) for event in _events(message)])
    return Answer(json.dumps(message).encode(), headers={"Content-Type": "application/json"})


def error(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "api_error", "message": message}}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content or [])


def _message(body: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """The turn as the API's message object."""
    blocks: list[dict[str, Any]] = []
    if said.text is not None:
        blocks.append({"type": "text", "text": said.text})
    for at, call in enumerate(said.calls):
        name = f"toolu_{said.number:04d}_{at}"
        blocks.append({"type": "tool_use", "id": name, "name": call.name, "input": call.given})
    return {
        "id": f"msg_{said.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": blocks,
        "stop_reason": "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": said.tokens[0],
            "output_tokens": said.tokens[1],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The message as the API streams it, each block in one piece."""
    opening = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": opening}
    for at, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}
