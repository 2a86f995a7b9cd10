"""opencode, called as `opencode run`: rules that bind, and what it prints.

Facts measured with 1.18.33 against a scripted API.
"""

import json
import re
from collections.abc import Iterable

from kern.agents import faults, protocol, transcript
from kern.agents.protocol import AgentError, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Act, Stage

_PATIENCE = "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS"
_ROLE = "kern"  # one of its own: what a person allows their own roles does not count
# What would have to be asked is refused, and that ends the run: so nothing is left to ask.
_FREE = {"*": "allow", "question": "deny", "plan_enter": "deny", "plan_exit": "deny"}
_TOKENS = {"input": "input", "output": "output", "reasoning": "reasoning"}
_TOKENS |= {"cache_read_input": "read", "cache_creation_input": "write"}
_LOGGED = re.compile(r'timestamp=\S+ .*\berror(?:\.\w+)?="(?:\w*Error: )?((?:[^"\\]|\\.)*)"')


def start(call: Call) -> Start:
    """With a title it needs not ask a model for one. The rules stand at the top as well: to a role
    that it does not find it prefers another.
    """
    works = call.role is Stage.IMPLEMENT
    rules = _FREE if works else {"*": "deny", **dict.fromkeys(AGENT.offers(call.role), "allow")}
    config = {
        **{"snapshot": False, "share": "disabled", "autoupdate": False, "permission": rules},
        "instructions": [call.contract] if call.contract else [],
        "agent": {_ROLE: {"mode": "primary", "description": "kern", "permission": rules}},
    }
    theirs = transcript.parsed(call.given.get("OPENCODE_CONFIG_CONTENT", ""))
    env = {**AGENT.env, "OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
    env |= _project(call) if works else {}
    env |= {_PATIENCE: str(round(1000 * call.patience))} if call.patience else {}
    env |= {"OPENCODE_CONFIG_CONTENT": json.dumps(theirs | config)}
    argv = [call.program, "run", "--format", "json", "--title", "kern", "--agent", _ROLE]
    argv += ["--print-logs", "--log-level", "ERROR"]
    argv += ["--model", call.model] if call.model else []
    argv += ["--variant", call.effort] if call.effort else []
    return Start(argv, env)


def _project(call: Call) -> dict[str, str]:
    """The project's settings by name, without AGENTS.md: what that says to its agents kern hands
    on. A person's own variables come first.
    """
    file = next((name for name in call.obeyed if ".json" in name), "")
    folder = next((name for name in call.obeyed if name.endswith("/")), "")  # else it makes one
    named = {"OPENCODE_CONFIG_DIR": folder, "OPENCODE_CONFIG": file}
    there = {key: f"{call.root}/{name}" for key, name in named.items() if name}
    return there | {key: call.given[key] for key in there.keys() & call.given.keys()}


def watch(value: Object) -> Act | None:
    """A call is seen when it has ended, tokens when a step has. While it asks a failing API again,
    up to an hour where that says so, its log alone tells.
    """
    if "stream error" in str(value.get("log", "")):
        error = faults.of_api(AGENT, _logged(value))  # of a full context it makes a summary
        if isinstance(error, protocol.AtLimit | protocol.Unusable):
            raise error
    match value:
        case {"type": "tool_use", "part": dict(part)}:
            details = transcript.part(transcript.part(part, "state"), "input")
            return Act(str(part.get("id")), (transcript.call(part.get("tool"), details),), {})
        case {"type": "step_finish", "part": dict(part)}:
            return Act(str(part.get("id")), (), _tokens([part]))
    return None


def _logged(value: Object) -> str:
    """The error that a line of the log tells."""
    error = _LOGGED.search(str(value.get("log", "")))
    return error[1].replace('\\"', '"') if error else ""


def read(objects: Iterable[Object], end: Ended) -> Answer:
    """The texts of the last step are the answer."""
    log, texts, steps, errors = "", list[str](), list[Object](), list[Object]()
    for value in objects:
        log = _logged(value) or log
        match value:
            case {"type": "step_start"}:
                texts.clear()
            case {"type": "text", "part": {"text": str(text)}}:
                texts.append(text)
            case {"type": "step_finish", "part": dict(step)}:
                steps.append(step)
                errors.clear()
            case {"type": "error", "error": dict(error)} if error:
                errors.append(error)
    if not steps and not errors:
        raise faults.unanswered(AGENT, end._replace(stderr=log))
    cost = transcript.total(step.get("cost") for step in steps)
    answer = Answer("\n".join(texts), cost, len(steps), _tokens(steps))
    if errors:
        raise _error(errors[0], log, answer)
    if (reason := steps[-1].get("reason")) in ("length", "content-filter", "tool-calls"):
        raise faults.unfinished(reason, answer)
    return answer


def _error(error: Object, log: str, answer: Answer) -> AgentError:
    """What it says of a model that it does not know is in its log alone."""
    data = transcript.part(error, "data")
    message = f"{error.get('name')}: {data.get('message') or 'no message'}"
    message = log if log and "Unexpected server error" in message else message
    status = transcript.whole(data.get("statusCode")) or None
    return faults.of_api(AGENT, message, status=status, answer=answer)


def _tokens(steps: Iterable[Object]) -> dict[str, int]:
    counts = [transcript.part(step, "tokens") for step in steps]
    return transcript.tokens([one | transcript.part(one, "cache") for one in counts], _TOKENS)


AGENT = protocol.brought("opencode", start, read, watch)
