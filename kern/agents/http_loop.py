"""The program that kern starts where an endpoint's model is the agent: it asks, runs the commands
in the fenced blocks of the message, and answers with their output, until a message has none.

It prints each message as a JSON object, and what went wrong on stderr. It is started in a
repository, by whatever Python there is, and imports that one's own library alone.
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
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

_MOST = 32_000_000  # bytes of an answer; the rest is not read
_SHOWN = 20_000  # bytes of what the commands of one message printed
_PRINTED = 100_000_000  # bytes at which they are ended
_SAME = 4  # times in a row
_SILENT_S = 600
_MOST_TURNS = 200  # of a stage
_WAITS_S = (2, 10, 30)  # before another try
_SHELL = shutil.which("bash") or "/bin/sh"
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}) *(?:bash|console|sh|shell|zsh)\b.*\n", re.M)
_THOUGHTS = re.compile(r"^\s*<think(?:ing)?>.*?(?:</think(?:ing)?>\s*|\Z)", re.S)
_UNDONE = re.compile(r"(?:\A|```|~~~|\}\]?|</\w+>)\s*\Z")  # the end of what is no answer
_NOTHING = "Nothing was run: commands stand in a block from ```sh to ```; no answer ends in one."
ENDED = "the agent was ended: "  # at a bound
Message = dict[str, Any]


class Trouble(SystemExit):
    """The endpoint's, which may pass: the end where nobody asks again."""


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # nobody else gets the key, or is believed
        return None


def ask(url: str, key: str, body: Message) -> tuple[str, Message]:
    """What the model says, and its tokens."""
    headers = {"Content-Type": "application/json", "User-Agent": "kern"}
    headers |= {"Authorization": f"Bearer {key.strip()}"} if key else {}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=_SILENT_S) as response:
            data = response.read(_MOST)
    except urllib.request.HTTPError as exc:
        to, after = (exc.headers.get(name, "") for name in ("Location", "Retry-After"))
        more = f"-> {to}" if to else f"(try again in {after} s)" if after.isdecimal() else ""
        said = f"{exc.read(1000).decode('utf-8', 'replace')!r} {more}".rstrip()
        raise Trouble(f"{exc.code} from {exc.url}: {said}") from None
    except (OSError, HTTPException) as exc:
        raise Trouble(f"{url}: {getattr(exc, 'reason', exc)}") from None
    try:
        reply = json.loads(data)
        choice, used = reply["choices"][0], reply.get("usage") or {}
        text = _THOUGHTS.sub("", choice["message"]["content"] or "")
        usage = {"input": used.get("prompt_tokens"), "output": used.get("completion_tokens")}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Trouble(f"{url} answers no chat completion: {data[:1000]!r}") from None
    if choice.get("finish_reason") in ("length", "content_filter"):
        sys.exit(f"{ENDED}the endpoint cut the answer: {choice['finish_reason']}")
    return text, usage


def insist(url: str, key: str, body: Message) -> tuple[str, Message]:
    """As `ask`, again and again where there is work to lose; else another try is kern's."""
    for wait in _WAITS_S if len(body["messages"]) > 2 else ():
        try:
            return ask(url, key, body)
        except Trouble as exc:
            for one in body["messages"][3:-4:2] if str(exc).startswith(("400", "413")) else ():
                one["content"] = "[left out to make room: run it again if you need it]"
        time.sleep(wait)
    return ask(url, key, body)


def commands(text: str) -> str:
    """Those of all blocks; none where one has no end. A fence within a block is its end only where
    the shell can read what is above it.
    """
    script = ""
    while begin := _FENCE.search(text):
        text = text[begin.end() :]
        ends = [*re.finditer(rf"^ {{0,3}}{begin[1]}{begin[1][0]}*[ \r]*$", text, re.M)][:20]
        if not ends:
            return ""
        last = next((one for one in ends if readable(text[: one.start()])), ends[0])
        script, text = script + text[: last.start()], text[last.end() :]
    return script


def readable(script: str) -> bool:
    data = script.encode("utf-8", "replace")
    return not subprocess.run([_SHELL, "-n"], input=data, capture_output=True, check=False).stderr


def run(script: str, seconds: float) -> str:
    """What it started ends with it."""
    null, until = subprocess.DEVNULL, time.monotonic() + seconds
    with tempfile.NamedTemporaryFile(buffering=0) as file, tempfile.TemporaryFile() as out:
        file.write(script.encode("utf-8", "replace"))
        argv = [_SHELL, file.name]
        child = subprocess.Popen(argv, stdin=null, stdout=out, stderr=out, start_new_session=True)
        while child.poll() is None and time.monotonic() < until and out.tell() < _PRINTED:
            time.sleep(0.02)
        why = "" if child.poll() is not None else f", ended after {seconds:g} s or 100 MB"
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        out.seek(0)
        text = out.read().replace(file.name.encode(), b"bash")
    if len(text) > _SHOWN:
        text = text[: _SHOWN // 2] + b"\n[left out]\n" + text[-_SHOWN // 2 :]
    return f"[exit {code}{why}]\n{text.decode('utf-8', 'replace')}"


def say(kind: str, text: str, **more: object) -> None:
    print(json.dumps({"type": kind, "text": text, **more}), flush=True)


def converse(request: Message, prompt: str) -> None:
    """The last message is the answer. `request`: see `start` in http.py."""
    key, form = os.environ.pop(request["key"], ""), Path(__file__).with_name("http.md").read_text()
    talk = [{"role": "system", "content": form}, {"role": "user", "content": prompt}]
    body, replies = {**request["body"], "messages": talk}, list[str]()
    for turn in range(1, _MOST_TURNS + 1):
        text, usage = insist(f"{request['url']}/chat/completions", key, body)
        script = commands(text)
        say("assistant", text, turn=turn, command=script, usage=usage)
        if not (script or _FENCE.search(text) or _UNDONE.search(text)):
            return
        replies.append(run(script, request["patience"]) if script else _NOTHING)
        say("output", replies[-1])
        if replies[-_SAME:] == _SAME * replies[-1:]:
            sys.exit(f"{ENDED}it goes in a circle: {_SAME} times in a row {replies[-1][:200]}")
        talk += {"role": "assistant", "content": text}, {"role": "user", "content": replies[-1]}
    sys.exit(f"{ENDED}it did not come to an end in {_MOST_TURNS} turns")


if __name__ == "__main__":
    converse(json.loads(sys.argv[1]), sys.stdin.buffer.read().decode("utf-8", "replace"))
