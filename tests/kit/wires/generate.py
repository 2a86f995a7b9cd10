"""Google's generateContent API, whole and streamed."""

import json
from collections.abc import Mapping
from typing import Any

from tests.kit.wires.wire import Answer, Asked, Said, as_events

_STREAM = ":streamGenerateContent"


def takes(path: str) -> bool:
    return path.endswith((":generateContent", _STREAM))


def read(path: str, body: Mapping[str, Any]) -> Asked:
    contents = body.get("contents") or []
    user = [_text(content) for content in contents if content.get("role") == "user"]
    return Asked(
        prompt="\n".join(user),
        said=sum(1 for content in contents if content.get("role") == "model"),
        tools=tuple(
            str(one["name"])
            for tool in body.get("tools") or []
            for one in tool.get("functionDeclarations") or []
        ),
        system=_text(body.get("systemInstruction") or {}),
        last=json.dumps(contents[-1:], ensure_ascii=False),
    )


def write(path: str, body: Mapping[str, Any], said: Said) -> Answer:
    parts: list[dict[str, Any]] = [] if said.text is None else [{"text": said.text}]
    parts += [{"functionCall": {"name": call.name, "args": call.given}} for call in said.calls]
    asked, answered = said.tokens
    whole = {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": asked,
            "candidatesTokenCount": answered,
            "totalTokenCount": asked + answered,
        },
        "modelVersion": path.rpartition("/")[2].partition(":")[0],
    }
    if path.endswith(_STREAM):
        return as_events([("", json.dumps(whole))])
    return Answer(json.dumps(whole).encode(), headers={"Content-Type": "application/json"})


def error(status: int, message: str) -> dict[str, Any]:
    words = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
    words |= {404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    return {"error": {"code": status, "message": message, "status": words.get(status, "INTERNAL")}}


def _text(content: Mapping[str, Any]) -> str:
    return "\n".join(str(part.get("text", "")) for part in content.get("parts") or [])
