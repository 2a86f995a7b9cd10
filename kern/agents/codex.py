"""Codex, called as `codex exec --json`: its sandbox as the limits of a role, and its output.

Facts measured with 0.171.0 against a scripted Responses API.
"""

import json
from collections.abc import Iterable

from kern.agents import faults, protocol, transcript
from kern.agents.protocol import Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Act, Aide, Stage

# Without these flags a person's own settings could ask questions that nobody answers, and rules of
# the project or the person could let a command run outside of the sandbox. What a person's servers
# offer beside tools that only read is refused wherever a sandbox holds.
_COMMON = (
    *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--ignore-rules"),
    *("-c", 'approval_policy="never"', "-c", "project_doc_max_bytes=0"),
    *("-c", "features.goals=false"),
)
_SEALED = ("-c", "skills.include_instructions=false")
_TOKENS = {"input": "input_tokens", "output": "output_tokens"}  # with what came from the cache
_LEAN = ("-c", "features.multi_agent=false", "-c", 'web_search="disabled"')


def start(call: Call) -> Start:
    """Implement has all that kern's sandbox leaves it, and so has a role that reads where a sandbox
    of its own cannot be within kern's.
    """
    sealed = call.role is not Stage.IMPLEMENT
    level = {"max": "xhigh"}.get(call.effort, call.effort)
    # As a project that the person does not trust: neither its settings nor its hooks and servers
    # count, while the person's own provider and login do.
    root = json.dumps(call.root, ensure_ascii=False)
    strange = ("-c", f'projects={{{root}={{trust_level="untrusted"}}}}')
    argv = [call.program, *_COMMON]
    argv += ["-m", call.model] if call.model else []
    argv += ["-c", f'model_reasoning_effort="{level}"'] if level else []
    argv += ["-s", "read-only" if sealed and call.nests else "danger-full-access"]
    argv += (*strange, *_SEALED) if sealed else ()
    argv += _LEAN if call.role in (Stage.COMMIT, Aide.JUDGE) else ()
    return Start(argv)


def watch(value: Object) -> Act | None:
    """A change of files is seen when it has ended."""
    item = transcript.part(value, "item")
    match value.get("type"), item.get("type"):
        case "turn.completed", _:
            return Act("turn", (), transcript.tokens([transcript.part(value, "usage")], _TOKENS))
        case "item.completed", "file_change":
            call = transcript.call("file_change", *transcript.parts(item, "changes")[:1])
        case "item.started", str(kind) if kind != "file_change":
            call = transcript.call(kind, item)
        case _:
            return None
    return Act(str(item.get("id")), (call,), {})


def read(objects: Iterable[Object], end: Ended) -> Answer:
    """Its last message is the answer. It names no cost, and the tokens of the main thread alone."""
    text = failed = ""
    tokens: dict[str, int] | None = None
    for value in objects:
        match value:
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                pass
            case {"type": "turn.completed"}:
                failed, tokens = "", transcript.tokens([transcript.part(value, "usage")], _TOKENS)
            case {"type": "turn.failed"}:
                failed = str(transcript.part(value, "error").get("message") or "no reason given")
    if failed:
        # The API's JSON is passed on where the API will not take the request; no words of codex's
        # own have a status.
        inner = transcript.part(transcript.parsed(failed), "error").get("message")
        raise faults.of_api(AGENT, str(inner or failed), status=400 if inner else None)
    if tokens is None:
        raise faults.unanswered(AGENT, end)
    return Answer(text, tokens=tokens)


AGENT = protocol.brought("codex", start, read, watch)
