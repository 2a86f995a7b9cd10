"""OpenAI's Responses API."""

import json
from collections.abc import Mapping
from typing import Any

from tests.kit.wires.wire import Answer, Asked, Said, as_events

_CALLS = ("function_call", "custom_tool_call")


def takes(path: str) -> bool:
    return path.endswith("/responses")


def read(path: str, body: Mapping[str, Any]) -> Asked:
    items = body.get("input") or []
    said = [item for item in items if isinstance(item, Mapping)]
    user = [_text(item) for item in said if item.get("role") == "user"]
    return Asked(
        prompt="\n".join(user),
        said=_turns(said),
        tools=tuple(str(tool.get("name") or tool.get("type")) for tool in body.get("tools") or []),
        system=str(body.get("instructions") or ""),
        last=json.dumps(said[-1:], ensure_ascii=False),
    )


def write(path: str, body: Mapping[str, Any], said: Said) -> Answer:
    name = f"resp_{said.number:04d}"
    items = _items(said)
    asked, answered = said.tokens
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + answered,
    }
    whole = {"id": name, "object": "response", "model": body.get("model", "scripted")}
    done = {**whole, "status": "completed", "output": items, "usage": usage}
    if not body.get("stream"):
        return Answer(json.dumps(done).encode(), headers={"Content-Type": "application/json"})
    events: list[dict[str, Any]] = [{"type": "response.created", "response": whole}]
    for at, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": done})
    return as_events([(event["type"], json.dumps(event)) for event in events])


def error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted", "code": None}}


def _text(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content or [])


def _turns(items: list[Mapping[str, Any]]) -> int:
    """Calls of one turn share its number; between turns stands a result or a user's word."""
    turns: set[str] = set()
    for at, item in enumerate(items):
        if item.get("type") in _CALLS:
            turns.add(str(item.get("call_id")).rpartition("_")[0])
        elif item.get("role") == "assistant":
            after = items[at + 1] if at + 1 < len(items) else {}
            if after.get("type") not in _CALLS:
                turns.add(f"message {at}")
    return len(turns)


def _items(said: Said) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if said.text is not None:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        about = {"id": f"msg_{said.number:04d}", "role": "assistant", "status": "completed"}
        items.append({"type": "message", **about, "content": content})
    for at, call in enumerate(said.calls):
        space, _, name = call.name.rpartition("/")  # a tool may stand in a namespace
        named = {"name": name, "call_id": f"call_{said.number:04d}_{at}"}
        named |= {"namespace": space} if space else {}
        if set(call.given) == {"input"}:  # a tool that takes a text and no object
            items.append({"type": "custom_tool_call", **named, "input": call.given["input"]})
        else:
            given = json.dumps(call.given)
            items.append({"type": "function_call", **named, "arguments": given})
    return items
