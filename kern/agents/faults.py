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
_STATUS = r"(?i)(?:^(?:\w+ ?error:? |error:? )?|\bstatus:? )(?:status )?([45]\d\d)\b"
_REQUEST = (None, 400)  # statuses that do not say more than the words do


def _says(what: str, said: str) -> bool:
    return bool(re.search(_WORDS[what], said))


def of_api(
    agent: Agent,
    said: str,
    *,
    status: int | None = None,
    after: float = 0,
    answer: Answer | None = None,
) -> AgentError:
    """`after`: in how many seconds it may be asked again, where it tells beside its words. Limits
    come before logins: some vendors answer 403 to both.
    """
    name = agent.name
    said = said.strip() or (f"the API answers {status}" if status else "no reason given")
    if status is None and (found := re.search(_STATUS, said)):
        status = int(found[1])
    after = after or wait(said)
    if status == 402 or _says("unpaid", said):
        return Unusable(f"the account cannot pay: {said}", "pay, then run kern again", answer)
    if after > SOON or (_says("limit", said) and "per minute" not in said.lower()):
        return protocol.AtLimit(said, "", answer, after=after)
    if status == 413 or (status in _REQUEST and _says("full", said)):
        return Failed(f"the agent's context is full: {said}", answer=answer)
    if status in (401, 403) or (status in _REQUEST and _says("login", said)):
        return Unusable(f"{name} is not logged in: {said}", agent.login, answer)
    if status == 404 or (status in _REQUEST and _says("model", said)):
        hint = f"name one that {name} knows: `model` of the stage, in kern.toml or .kern/prompts/"
        return Unusable(f"{name} does not know the model: {said}", hint, answer)
    if status and 400 <= status < 500 and status not in (408, 409, 425, 429):
        told = f"the API refused the request: {said}"
        return Unusable(told, "kern doctor checks the agent", answer)
    return passing(said, status, answer)


def passing(said: str, status: int | None = None, answer: Answer | None = None) -> AgentError:
    """What is nobody's to settle, but for a certificate that nobody vouches for."""
    if status is None and _says("untrusted", said):
        hint = "see to the proxy, or to the certificates that this machine knows"
        return Unusable(f"the API cannot be trusted: {said}", hint, answer)
    away = status is not None or _says("away", said)
    return TryAgain(said, answer=answer, away=away)


def unfinished(reason: object, answer: Answer) -> AgentError:
    """Why a model's last message is no answer, by the word that most CLIs have for it."""
    if reason in ("length", "content-filter"):
        return Failed(f"the agent's answer was cut: {reason}", answer=answer)
    return TryAgain("the agent was interrupted", answer=answer)


def unanswered(agent: Agent, ended: Ended) -> AgentError:
    """It ended and printed nothing that tells how; `ended.stderr` may."""
    if ended.overflow:
        size = ended.overflow // 1_000_000
        kept = "the beginning of it is kept in the transcript file"
        return Failed(f"the agent printed more than {size} MB and was ended", kept)
    if ended.code < 0:
        return TryAgain(f"{agent.name} was ended by signal {-ended.code}")
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    told = next((line for line in lines if "error" in line.lower()), "".join(lines[-1:]))
    found = of_api(agent, told)
    if told and not isinstance(found, TryAgain):
        return found
    how = f"{agent.name} exited {ended.code} without an answer{f': {told}' if told else ''}"
    return TryAgain(how, away=bool(told) and found.away)


def wait(said: str) -> float:
    """The seconds of `try again in ~47 min`, `will reset after 18h32m10s`."""
    found = re.search(_SPAN, said)
    spans = re.findall(_PIECE, found[1]) if found else []
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in spans)
