"""What a model's API answers, as kern's classes of faults: for CLIs that pass its words on.

By the status where the CLI tells it, else by the words that the large vendors use.
"""

import re

from kern.agents.protocol import Ended, Fault, Grade

_CALLER = range(400, 500)
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_LOGIN_STATUS = frozenset({401, 403})
_LIMIT = r"(?i)usage limit|hit your .{0,20}limit|\bquota\b|limit will reset"
_UNPAID = r"(?i)credit balance|insufficient (?:credit|balance|funds)|payment required"
_LOGIN = (
    r"(?i)(?:invalid|incorrect|missing|no|valid) (?:\w+ )?(?:api|access)[ _-]?key|"
    r"api key not valid|unauthorized|unauthenticated|not logged in|"
    r"authentication (?:failed|error)|/login"
)
_MODEL = (
    r"(?i)model\b.{0,80}(?:not found|does not exist|not supported|is not available)|"
    r"(?:unknown|no such|invalid) model|models?/\S+ is not found"
)
_FULL = (
    r"(?i)context[ _](?:length|window)|prompt is too long|too many tokens|input is too long|"
    r"(?:maximum|exceeds?|limit).{0,40}\btokens\b|request (?:entity )?too large"
)
_AWAY = (
    r"(?i)connect|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|E(?:HOST|NET)UNREACH|EPIPE|getaddrinfo|socket|"
    r"network|fetch failed|tim(?:ed|e)[ -]?out|resol|terminated|overloaded|unavailable|"
    r"high demand|at capacity|bad gateway|internal server error|rate.?limit|too many requests"
)
_UNTRUSTED = r"(?i)certificate|self[- _]signed"
_SPAN = r"(?i)(?:in|after)\s+~?((?:\d+(?:\.\d+)?\s*(?:d|h|m|s)[a-z]*[\s,]*(?:and\s)?)+)"
_PIECE = r"(?i)(\d+(?:\.\d+)?)\s*([dhms])"
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_CERTIFICATE = "see to the proxy, or to the certificates that this machine knows"
SOON = 120  # seconds; what opens again so soon is no limit that a person would call one


def of_api(
    name: str,
    said: str,
    *,
    status: int | None = None,
    login: str,
    resets_at: int | None = None,
    at: float | None = None,
) -> Fault:
    """`name`: the CLI's. `login`: what a person does who is not logged in. `at`: when it was said,
    in seconds of the epoch. Limits come before logins: some vendors answer 403 to both.
    """
    said = said.strip() or (f"the API answers {status}" if status else "no reason given")
    status = status or _status(said)
    resets_at = resets_at or resets(said, at)
    if status == 402 or re.search(_UNPAID, said):
        return Fault(Grade.PERMANENT, f"the account cannot pay: {said}", "pay, then run kern again")
    far = resets_at is not None and (at is None or resets_at - at > SOON)
    if far or (re.search(_LIMIT, said) and "per minute" not in said.lower()):
        return Fault(Grade.LIMIT, said, resets_at=resets_at)
    if status == 413 or (status in (None, 400) and re.search(_FULL, said)):
        return Fault(Grade.FAILED, f"the agent's context is full: {said}")
    if status in _LOGIN_STATUS or (status in (None, 400) and re.search(_LOGIN, said)):
        return Fault(Grade.PERMANENT, f"{name} is not logged in: {said}", login)
    if status == 404 or (status in (None, 400) and re.search(_MODEL, said)):
        hint = f"name one that {name} knows: `model` of the stage, in kern.toml or .kern/prompts/"
        return Fault(Grade.PERMANENT, f"{name} does not know the model: {said}", hint)
    if status in _CALLER and status not in _TRANSIENT_STATUS:
        said = f"the API refused the request: {said}"
        return Fault(Grade.PERMANENT, said, "kern doctor checks the agent")
    return passing(said, status)


def passing(said: str, status: int | None = None) -> Fault:
    """What is nobody's to settle, but for a certificate that nobody vouches for."""
    if status is None and re.search(_UNTRUSTED, said):
        return Fault(Grade.PERMANENT, f"the API cannot be trusted: {said}", _CERTIFICATE)
    away = status is not None or bool(re.search(_AWAY, said))
    return Fault(Grade.TRANSIENT, said, away=away)


def unanswered(name: str, ended: Ended, *, login: str) -> Fault:
    """It ended and printed nothing that tells how; `ended.stderr` may."""
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    if ended.overflow:
        size = ended.overflow // 1_000_000
        kept = "the beginning of it is kept in the transcript file"
        return Fault(Grade.FAILED, f"the agent printed more than {size} MB and was ended", kept)
    if ended.code < 0:
        return Fault(Grade.TRANSIENT, f"{name} was ended by signal {-ended.code}")
    told = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
    if told:
        found = of_api(name, told, login=login)
        if found.grade is not Grade.TRANSIENT:
            return found
        how = f"{name} exited {ended.code} without an answer: {told}"
        return Fault(Grade.TRANSIENT, how, away=found.away)
    return Fault(Grade.TRANSIENT, f"{name} exited {ended.code} without an answer")


def resets(said: str, at: float | None) -> int | None:
    """`try again in ~47 min`, `will reset after 18h32m10s`: when that is."""
    found = re.search(_SPAN, said)
    if at is None or not found:
        return None
    return round(
        at + sum(float(n) * _SECONDS[unit.lower()] for n, unit in re.findall(_PIECE, found[1]))
    )


def _status(said: str) -> int | None:
    """Where the words begin with it."""
    found = re.match(r"(?:\w+ ?error:? |error:? )?(?:status )?([45]\d\d)\b", said, re.I)
    return int(found[1]) if found else None
