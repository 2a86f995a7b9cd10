"""opencode, called as `opencode run`: rules that bind, and what it prints.

Facts measured with 1.18.33 against a scripted API.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kern.agents import faults, places, transcript
from kern.agents import result as results
from kern.agents.protocol import (
    Agent,
    AgentError,
    Answer,
    AtLimit,
    Call,
    Ended,
    Failed,
    Start,
    TryAgain,
    Unusable,
)
from kern.agents.transcript import Object
from kern.model import Act, Aide, Role, Stage

LOGIN = "run `opencode auth login`, or set a provider's key; then run kern again"
_READ = ("read", "grep", "glob", "list")
TOOLS: Mapping[Role, tuple[str, ...]] = {
    Stage.RESEARCH: (*_READ, "webfetch", "websearch"),
    Stage.IMPLEMENT: (
        *("bash", "read", "edit", "write", "grep", "glob", "list", "webfetch", "websearch"),
        "task",
    ),
    Aide.JUDGE: _READ,
}
_ROLE = "kern"  # one of its own: what a person allows their own roles does not count
# What would have to be asked is refused, and that ends the run: so nothing is left to ask.
_FREE = {"*": "allow", "question": "deny", "plan_enter": "deny", "plan_exit": "deny"}
_OFF = (
    *("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "TERMINAL_TITLE"),
    *("CLAUDE_CODE", "EXTERNAL_SKILLS", "EMBEDDED_WEB_UI"),
)
_LOGGED = re.compile(r'timestamp=(\S+) .*\berror(?:\.\w+)?="(?:\w*Error: )?((?:[^"\\]|\\.)*)"')


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
    theirs = results.parsed(call.given.get("OPENCODE_CONFIG_CONTENT", ""))
    patience = {"OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": str(round(1000 * call.patience))}
    env = {
        **{f"OPENCODE_DISABLE_{what}": "1" for what in _OFF},
        **({} if works else {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}),
        **(patience if call.patience else {}),
        "OPENCODE_CONFIG_CONTENT": json.dumps(theirs | config),
    }
    argv = [call.program, "run", "--format", "json", "--title", "kern", "--agent", _ROLE]
    argv += ["--print-logs", "--log-level", "ERROR"]
    argv += ["--model", call.model] if call.model else []
    argv += ["--variant", call.effort] if call.effort else []
    return Start(argv, env)


def watch(value: Object) -> Act | None:
    """A call is seen when it has ended, tokens when a step has. While it asks a failing API again,
    up to an hour where that says so, its log alone tells.
    """
    part, error = results.part(value, "part"), _logged(value)
    if isinstance(error, AtLimit | Unusable):  # of a full context it makes a summary
        raise error
    match value.get("type"):
        case "tool_use":
            given = results.part(results.part(part, "state"), "input")
            call = results.call(part.get("tool"), given)
            return Act(str(part.get("id")), (call,), {})
        case "step_finish":
            return Act(str(part.get("id")), (), _tokens(part))
    return None


def _logged(value: Object) -> AgentError | None:
    """A request that failed, by a line of the log."""
    logged = _LOGGED.search(str(value.get("log", "")))
    if not logged or "stream error" not in str(value["log"]):
        return None
    said, at = logged[2].replace('\\"', '"'), transcript.epoch(logged[1])
    return faults.of_api("opencode", said, login=LOGIN, at=at)


def read(seen: Iterable[Object], ended: Ended) -> Answer:
    """The texts of the last step are the answer."""
    session = log = ""
    texts: list[str] = []
    steps: list[Object] = []
    errors: list[Object] = []
    for value in seen:
        part, error = results.part(value, "part"), results.part(value, "error")
        session = session or str(value.get("sessionID") or "")
        match value.get("type"):
            case "step_start":
                texts.clear()
            case "text":
                texts.append(str(part.get("text")))
            case "step_finish":
                steps.append(part)
                errors.clear()
            case "error" if error:
                errors.append({**error, "at": results.number(value.get("timestamp")) / 1000})
            case None if _LOGGED.search(str(value.get("log", ""))):
                log = str(value["log"])
    if not steps and not errors:
        raise faults.unanswered("opencode", replace(ended, stderr=log), login=LOGIN)
    found = results.made(
        "\n".join(texts),
        # A model without prices costs 0 in its eyes.
        cost=sum(results.number(step.get("cost")) for step in steps) or None,
        turns=len(steps),
        session=session,
        tokens=results.added([_tokens(step) for step in steps]),
    )
    if errors:
        raise _error(errors[0], log, found)
    match steps[-1].get("reason"):
        case "length":
            raise Failed("the agent's answer was cut at its longest", answer=found)
        case "content-filter":
            raise Failed("the model refused to answer", answer=found)
        case "tool-calls":
            raise TryAgain("the agent was interrupted", answer=found)
    return found


def _error(error: Object, log: str, found: Answer) -> AgentError:
    """What it says of a model that it does not know is in its log alone."""
    data = results.part(error, "data")
    status, after = data.get("statusCode"), results.part(data, "responseHeaders").get("retry-after")
    said = str(data.get("message") or error.get("name"))
    logged = _LOGGED.search(log)
    if "Unexpected server error" in said and logged:
        said = logged[2].replace('\\"', '"')
    if error.get("name") == "ContextOverflowError":
        said = f"context window: {said}"
    return faults.of_api(
        "opencode",
        said,
        status=status if isinstance(status, int) else None,
        login=LOGIN,
        resets_at=round(error["at"]) + int(str(after)) if str(after).isdigit() else None,
        at=error["at"],
        answer=found,
    )


def _tokens(step: Object) -> dict[str, int]:
    counts = results.part(step, "tokens")
    cache = results.part(counts, "cache")
    return {
        "input": results.whole(counts.get("input")),
        "output": results.whole(counts.get("output")) + results.whole(counts.get("reasoning")),
        "cache_read_input": results.whole(cache.get("read")),
        "cache_creation_input": results.whole(cache.get("write")),
    }


AGENT = Agent(
    **places.facts("opencode"),
    start=start,
    read=read,
    watch=watch,
    objects=transcript.lines,
    login=LOGIN,
    tools=TOOLS,
    contract=True,
    joined=True,
)
