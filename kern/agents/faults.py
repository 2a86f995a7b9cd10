"""What a model's API answers, as one of the errors of an agent: by the status where the CLI tells
it, else by the words that the large vendors use.
"""

import re

from kern.agents import protocol
from kern.agents.protocol import Agent, AgentError, Answer, Ended, Failed, TryAgain, Unusable

_WORDS = {name: "(?i)" + "|".join(words) for name, words in protocol.facts()["words"].items()}
_SPAN = r"(?i)(?:in|after)\s+~?((?:\d+(?:\.\d+)?\s*(?:d|h|m|s)[a-z]*[\s,]*(?:and\s)?)+)"
_PIECE = r"(?i)(\d+(?:\.\d+)?)\s*([dhms])"
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
SOON = 120  # seconds; what opens again so soon is no limit that a person would call one
_STATUS = r"(?i)(?:^(?:\w+ ?error:? |error:? )?|\bstatus:? )(?:status )?([345]\d\d)\b"
_REQUEST = (None, 400)  # statuses that do not say more than the words do


def _says(what: str, message: str) -> bool:
    return bool(re.search(_WORDS[what], message))


def of_api(
    agent: Agent, message: str, *, status: int | None = None, answer: Answer | None = None
) -> AgentError:
    """Limits come before logins: some vendors answer 403 to both."""
    message = message.strip() or (f"the API answers {status}" if status else "no reason given")
    if status is None and (match := re.search(_STATUS, message)):
        status = int(match[1])
    after = wait(message)
    if status == 402 or _says("unpaid", message):
        return Unusable(f"the account cannot pay: {message}", "pay, then run kern again", answer)
    if after > SOON or (_says("limit", message) and "per minute" not in message.lower()):
        return protocol.AtLimit(message, "", answer, after=after)
    if status == 413 or (status in _REQUEST and _says("full", message)):
        return Failed(f"the agent's context is full: {message}", answer=answer)
    if status in (401, 403) or (status in _REQUEST and _says("login", message)):
        return Unusable(f"{agent.name} is not logged in: {message}", agent.login, answer)
    if status == 404 or (status in _REQUEST and _says("model", message)):
        hint = f"name one that {agent.name} knows: `model` of the stage, in kern.toml or its prompt"
        return Unusable(f"{agent.name} does not know the model: {message}", hint, answer)
    if status and 300 <= status < 500 and status not in (408, 409, 425, 429):
        text = f"the API refused the request: {message}"
        return Unusable(text, "kern doctor checks the agent", answer)
    return passing(message, status, answer)


def passing(message: str, status: int | None = None, answer: Answer | None = None) -> AgentError:
    """What is nobody's to settle, but for a certificate that nobody vouches for."""
    if status is None and _says("untrusted", message):
        hint = "see to the proxy, or to the certificates that this machine knows"
        return Unusable(f"the API cannot be trusted: {message}", hint, answer)
    away = status is not None or _says("away", message)
    return TryAgain(message, answer=answer, away=away)


def unfinished(reason: object, answer: Answer) -> AgentError:
    """Why a model's last message is no answer, by the word that most CLIs have for it."""
    if reason in ("length", "content-filter"):
        return Failed(f"the agent's answer was cut: {reason}", answer=answer)
    return TryAgain("the agent was interrupted", answer=answer)


def unanswered(agent: Agent, end: Ended) -> AgentError:
    """It ended and printed nothing that tells how; `ended.stderr` may."""
    if end.overflow:
        hint = "the beginning of it is kept in the transcript file"
        return Failed(f"the agent printed more than {end.overflow // 10**6} MB and was ended", hint)
    if end.code < 0:
        return TryAgain(f"{agent.name} was ended by signal {-end.code}")
    lines = [line for line in end.stderr.splitlines() if line.strip()]
    complaint = next((line for line in lines if "error" in line.lower()), "".join(lines[-1:]))
    fault = of_api(agent, complaint)
    if complaint and (fault.away or not isinstance(fault, TryAgain)):
        return fault
    return TryAgain(f"{agent.name} exited {end.code} without an answer: {complaint or 'no word'}")


def wait(message: str) -> float:
    """The seconds of `try again in ~47 min`, `will reset after 18h32m10s`."""
    match = re.search(_SPAN, message)
    spans = re.findall(_PIECE, match[1]) if match else []
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in spans)
