"""The program that kern starts where an endpoint's model is the agent: it asks, runs the commands
in the fenced blocks of the message, and answers with their output, until a message has none.

It prints a JSON object a line, the result last. It is started in a repository, by whatever Python
there is, and imports that one's own library alone.
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
_PRINTED = 100_000_000  # bytes at which a command is ended
_SAME = 4  # times in a row
_SILENT_S = 600
_WAITS_S = (2, 10, 30)  # before another try, where there is work to lose
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
    """`bound`: it is none of the endpoint's, but the end of what a stage may take."""

    def __init__(self, said: str, status: int = 0, after: int = 0, *, bound: bool = False) -> None:
        super().__init__(said)
        self.about = {"said": said, "status": status, "after": after, "bound": bound}
        self.passes = not bound and (status in (0, 400, 408, 413, 429) or status >= 500)


class Stay(urllib.request.HTTPRedirectHandler):
    """The key goes nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def ask(url: str, key: str, body: Message | None = None) -> Message:
    """The message; of a request without a body what comes."""
    headers = {"Content-Type": "application/json", "User-Agent": "kern"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=_SILENT_S) as came:
            return message(came) if body else json.loads(came.read(_MOST))
    except urllib.error.HTTPError as exc:
        said = f"{complaint(exc.read(_MOST))} {exc.headers.get('Location', '')}".strip()
        after = exc.headers.get("Retry-After", "")
        raise Trouble(said, exc.code, int(after) if after.isdecimal() else 0) from None
    except (OSError, HTTPException) as exc:
        raise Trouble(f"{url}: {getattr(exc, 'reason', exc)}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise Trouble(f"what {url} answers is no chat completion: {exc}") from None


def message(came: Any) -> Message:
    """In pieces, or in one although a stream was asked for."""
    lines, size = list[bytes](), 0
    while line := came.readline(_MOST):
        lines.append(line)
        size += len(line)
        if size >= _MOST:
            raise Trouble("the endpoint's answer does not end", bound=True)
        if len(lines) % 50 == 0:
            say("progress")
    body = b"".join(lines)
    data = [one[5:].strip() for one in body.splitlines() if one.startswith(b"data:")] or [body]
    chunks = [json.loads(one) for one in data if one.strip() not in (b"", b"[DONE]")]
    for error in (one["error"] for one in chunks if one.get("error")):
        raise Trouble(complaint(json.dumps(error).encode()))
    choices = [one for chunk in chunks for one in (chunk.get("choices") or [])[:1]]
    if not choices:
        raise ValueError(complaint(body) or "it is empty")
    said = [(one.get("delta") or one.get("message") or {}).get("content") for one in choices]
    finish = next(filter(None, (one.get("finish_reason") for one in choices)), "")
    if data[0] is not body and data[-1] != b"[DONE]" and not finish:
        raise Trouble("the answer broke off in its middle")
    # Halves of a letter may come apart, and many endpoints refuse half of one.
    text = "".join(filter(None, said)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    usage: Message = next((one["usage"] for one in reversed(chunks) if one.get("usage")), {})
    asked, answered = (usage.get(f"{name}_tokens") or 0 for name in ("prompt", "completion"))
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    counts = {"input": asked - cached, "output": 0 + answered, "cache_read_input": cached}
    about = {"usage": counts if usage else {}, "cost": usage.get("cost")}
    return {"text": _THOUGHTS.sub("", text), "finish": finish, **about}


def complaint(body: bytes) -> str:
    text = body[:4000].decode("utf-8", "replace")
    named = re.search(r'"(?:message|detail|error)"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
    return " ".join(re.sub(r"<[^>]*>", " ", named[1] if named else text).split())[:1000]


def commands(text: str) -> list[str]:
    """Those of each block; none where one has no end. A fence within a block is its end only where
    the shell can read what is above it.
    """
    found, at = list[str](), 0
    while begin := _FENCE.search(text, at):
        end = re.compile(rf"^ {{0,3}}{begin[1]}{begin[1][0]}*[ \r]*$", re.M)
        ends = [*end.finditer(text, begin.end())][:20]
        if not ends:
            return []
        last = next((one for one in ends if readable(text[begin.end() : one.start()])), ends[0])
        found.append(text[begin.end() : last.start()])
        at = last.end()
    return found[:20]


def readable(command: str) -> bool:
    done = subprocess.run([_BASH, "-n"], input=command.encode(), capture_output=True, check=False)
    return not done.stderr


def run(command: str, seconds: float, most: int) -> tuple[int, str]:
    """What it started ends with it."""
    with tempfile.TemporaryFile() as printed:
        streams: Message = {
            "stdin": subprocess.DEVNULL,
            "stdout": printed,
            "stderr": subprocess.STDOUT,
        }
        child = subprocess.Popen([_BASH, "-c", command], start_new_session=True, **streams)
        end, why = time.monotonic() + seconds, ""
        while child.poll() is None and not why:
            time.sleep(0.02)
            why = f", ended after {seconds:g} s" if time.monotonic() > end else ""
            why = ", ended for its output" if printed.tell() > _PRINTED else why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        code, size = child.wait(), os.fstat(printed.fileno()).st_size
        text = os.pread(printed.fileno(), most, 0)
        if size > most:
            rest = os.pread(printed.fileno(), most // 2, size - most // 2)
            text = text[: most // 2] + b"\n[left out]\n" + rest
    return code, f"[exit {code}{why}]\n{text.decode('utf-8', 'replace')}"


def say(kind: str, **more: object) -> None:
    print(json.dumps({"type": kind, **more}), flush=True)


def carry_out(found: list[str], seconds: float) -> str:
    replies = []
    for command in found:
        try:
            code, text = run(command, seconds, _SHOWN // len(found))
        except (OSError, ValueError) as exc:  # too long, or letters that no shell takes
            code, text = 1, f"[it cannot be run: {exc}]"
        say("output", text=text, failed=code != 0)
        replies.append(f"$ {command.strip()[:200]}\n{text}")
    return "\n".join(replies) or _NOTHING


def converse(given: Message, key: str, prompt: str, spent: Message) -> str:
    """The answer. `given`: see `start` in http.py. What it takes is added to `spent`."""
    contract = Path(given["contract"]).read_text("utf-8") if given["contract"] else ""
    form = Path(__file__).with_name("http.md").read_text("utf-8")
    begin = {"role": "system", "content": f"{contract}\n{form}{given['may']}"}
    talk, reply, same = [begin, {"role": "user", "content": prompt}], "", 0
    for turn in range(1, given["turns"] + 1):
        text = next_message(given, key, talk, turn, spent)
        found = commands(text)
        if not (found or _FENCE.search(text) or _UNDONE.search(text)):
            return text
        before, reply = reply, carry_out(found, given["patience"])
        same = same + 1 if reply == before else 1
        if same == _SAME:
            circle = f"it goes in a circle: {same} times in a row {reply[:200]}"
            raise Trouble(circle, bound=True)
        talk += {"role": "assistant", "content": text}, {"role": "user", "content": reply}
    raise Trouble(f"it did not come to an end in {given['turns']} turns", bound=True)


def next_message(given: Message, key: str, talk: list[Message], turn: int, spent: Message) -> str:
    """Where nothing is done yet, another try is kern's."""
    body = {"model": given["model"], "messages": talk, "stream": True}
    body |= {"stream_options": {"include_usage": True}}
    body |= {"reasoning_effort": given["effort"]} if given["effort"] else {}
    for wait in (*_WAITS_S, 0) if turn > 1 else (0,):
        try:
            found = ask(f"{given['url']}/chat/completions", key, body)
            break
        except Trouble as exc:
            if not (wait and exc.passes):
                raise
            for one in talk[3:-4:2] if exc.about["status"] in (400, 413) else ():
                one["content"] = "[left out to make room: run it again if you need it]"
            time.sleep(wait)
    say("assistant", turn=turn, commands=commands(found["text"]), **found)
    spent["turns"] = turn
    for kind, count in found["usage"].items():
        spent["usage"][kind] = spent["usage"].get(kind, 0) + count
    if isinstance(found["cost"], int | float):
        spent["cost"] = (spent["cost"] or 0) + found["cost"]
    if found["finish"] in ("length", "content_filter"):
        raise Trouble(f"the endpoint cut the answer: {found['finish']}", bound=True)
    return str(found["text"])


def main() -> int:
    """As kern starts it, with the prompt on standard input."""
    given = json.loads(sys.argv[1])
    key = os.environ.pop(given["key"], "").strip()
    spent: Message = {"turns": 0, "cost": None, "usage": {}}
    try:
        if sys.argv[2:]:  # which models there are
            print(*(one["id"] for one in ask(f"{given['url']}/models", key).get("data") or ()))
        else:
            prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
            say("result", result=converse(given, key, prompt, spent), **spent)
        return 0
    except Trouble as exc:
        say("result", result="", fault={**exc.about, "at": time.time()}, **spent)
        return 1


if __name__ == "__main__":
    sys.exit(main())
