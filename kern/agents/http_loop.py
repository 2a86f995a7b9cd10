"""The program that kern starts where an endpoint's model is the agent: it asks, runs the commands
in the fenced blocks of the message, and answers with their output, until a message has none.

It prints a JSON object a line. It is started in a repository, by whatever Python there is, and
imports that one's own library alone.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

_MOST = 32_000_000  # bytes of one message, as they come
_SHOWN = 20_000  # bytes of what the commands of one message printed
_PRINTED = 100_000_000  # bytes at which they are ended
_SAME = 4  # times in a row
_SILENT_S = 600
_WAITS_S = (2, 10, 30)  # before another try
_BOUND = -1  # in the place of a status: the end of what a stage may take
_FOR_GOOD = (_BOUND, 401, 402, 403, 404, 405)
_BASH = shutil.which("bash") or "/bin/sh"
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}) *(?:bash|console|sh|shell|zsh)\b.*\n", re.M)
_THOUGHTS = re.compile(r"^\s*<think(?:ing)?>.*?(?:</think(?:ing)?>\s*|\Z)", re.S)
_UNDONE = re.compile(r"(?:\A|```|~~~|\}\]?|</\w+>)\s*\Z")  # the end of what is no answer
_NOTHING = (
    "Nothing was run. Commands stand in a block, from ```sh to ```: there is no tool. "
    "If that was your answer, say it with no block at its end."
)
Message = dict[str, Any]


class Trouble(Exception):
    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.text, self.status = text, status


class Stay(urllib.request.HTTPRedirectHandler):
    """The key goes nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def ask(url: str, key: str, body: Message) -> tuple[str, Message]:
    """What the model says, and its tokens."""
    headers = {"Content-Type": "application/json", "User-Agent": "kern"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=_SILENT_S) as response:
            data = response.read(_MOST + 1)
    except urllib.error.HTTPError as exc:
        to, after = (exc.headers.get(name, "") for name in ("Location", "Retry-After"))
        later = f"(try again in {after} s)" if after.isdecimal() else ""
        said = f"{url} answers {exc.code}: {complaint(exc.read(4000))} {to} {later}".rstrip()
        raise Trouble(said, max(exc.code, 400)) from None
    except (OSError, HTTPException) as exc:
        raise Trouble(f"{url}: {getattr(exc, 'reason', exc)}") from None
    if len(data) > _MOST:
        raise Trouble("the endpoint's answer does not end", _BOUND)
    try:
        reply = json.loads(data)
        choice, used = reply["choices"][0], reply.get("usage") or {}
        text = _THOUGHTS.sub("", choice["message"]["content"] or "")
        usage = {"input": used.get("prompt_tokens"), "output": used.get("completion_tokens")}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        said = complaint(data)
        raise Trouble(said if b'"error"' in data else f"it is no chat completion: {said}") from None
    if choice.get("finish_reason") in ("length", "content_filter"):
        raise Trouble(f"the endpoint cut the answer: {choice['finish_reason']}", _BOUND)
    return text, usage


def insist(url: str, key: str, body: Message) -> tuple[str, Message]:
    """As `ask`, where there is work to lose."""
    for wait in _WAITS_S:
        try:
            return ask(url, key, body)
        except Trouble as exc:
            if exc.status in _FOR_GOOD:
                raise
            for one in body["messages"][3:-4:2] if exc.status in (400, 413) else ():
                one["content"] = "[left out to make room: run it again if you need it]"
        time.sleep(wait)
    return ask(url, key, body)


def complaint(body: bytes) -> str:
    text = body[:4000].decode("utf-8", "replace")
    match = re.search(r'"(?:message|detail|error)"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
    return " ".join((match[1] if match else text).split())[:1000]


def commands(text: str) -> str:
    """Those of all blocks; none where one has no end. A fence within a block is its end only where
    the shell can read what is above it.
    """
    script, at = "", 0
    while begin := _FENCE.search(text, at):
        end = re.compile(rf"^ {{0,3}}{begin[1]}{begin[1][0]}*[ \r]*$", re.M)
        ends = [*end.finditer(text, begin.end())][:20]
        if not ends:
            return ""
        last = next((one for one in ends if readable(text[begin.end() : one.start()])), ends[0])
        script += text[begin.end() : last.start()]
        at = last.end()
    return script


def readable(script: str) -> bool:
    data = script.encode("utf-8", "replace")
    return not subprocess.run([_BASH, "-n"], input=data, capture_output=True, check=False).stderr


def run(script: str, seconds: float) -> str:
    """What it started ends with it."""
    argv, null, end = [_BASH, "-c", script], subprocess.DEVNULL, time.monotonic() + seconds
    with tempfile.TemporaryFile() as out:
        try:
            child = subprocess.Popen(
                argv, stdin=null, stdout=out, stderr=out, start_new_session=True
            )
        except (OSError, ValueError) as exc:  # too long, or letters that no shell takes
            return f"[it cannot be run: {exc}]"
        while child.poll() is None and time.monotonic() < end and out.tell() < _PRINTED:
            time.sleep(0.02)
        why = "" if child.poll() is not None else f", ended after {seconds:g} s or 100 MB"
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        out.seek(0)
        text = out.read()
    if len(text) > _SHOWN:
        text = text[: _SHOWN // 2] + b"\n[left out]\n" + text[-_SHOWN // 2 :]
    return f"[exit {code}{why}]\n{text.decode('utf-8', 'replace')}"


def say(kind: str, text: str, **more: object) -> None:
    print(json.dumps({"type": kind, "text": text, **more}), flush=True)


def converse(request: Message, key: str, prompt: str) -> None:
    """The last message is the answer. `request`: see `start` in http.py."""
    contract = Path(request["contract"]).read_text("utf-8") if request["contract"] else ""
    form = Path(__file__).with_name("http.md").read_text("utf-8")
    begin = {"role": "system", "content": f"{contract}\n{form}{request['may']}"}
    talk, reply, same = [begin, {"role": "user", "content": prompt}], "", 0
    body = {"model": request["model"], "messages": talk}
    body |= {"reasoning_effort": request["effort"]} if request["effort"] else {}
    for turn in range(1, request["turns"] + 1):
        asked = insist if turn > 1 else ask  # before the first message another try is kern's
        text, usage = asked(f"{request['url']}/chat/completions", key, body)
        script = commands(text)
        say("assistant", text, turn=turn, command=script, usage=usage)
        if not (script or _FENCE.search(text) or _UNDONE.search(text)):
            return
        before, reply = reply, run(script, request["patience"]) if script else _NOTHING
        say("output", reply)
        same = same + 1 if reply == before else 1
        if same == _SAME:
            raise Trouble(f"it goes in a circle: {same} times in a row {reply[:200]}", _BOUND)
        talk += {"role": "assistant", "content": text}, {"role": "user", "content": reply}
    raise Trouble(f"it did not come to an end in {request['turns']} turns", _BOUND)


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    key = os.environ.pop(request["key"], "").strip()
    try:
        converse(request, key, sys.stdin.buffer.read().decode("utf-8", "replace"))
    except Trouble as exc:
        say("error", exc.text, status=exc.status)
        sys.exit(1)
