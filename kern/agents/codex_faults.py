"""What went wrong in a call of Codex: it tells in words alone, and none of them has a status.

Facts measured with 0.169.0 against a scripted Responses API.
"""

import json
import re
from datetime import datetime, timedelta

from kern.agents import faults
from kern.agents.protocol import Ended, Fault, Grade, Reply

OLDEST: tuple[int, ...] = (0, 160, 0)
INSTALL = "npm install -g @openai/codex"
LOGIN = "run `codex login`, or name a provider in ~/.codex/config.toml; then run kern again"
_LIMIT = re.compile(r"hit your usage limit|usage limit has been reached|quota exceeded", re.I)
_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})", re.I)
# In its own words, where the API's are not passed on.
_NO_KEY = re.compile(r"not logged in|missing environment variable|(?:access|refresh) token", re.I)
_UNPAID = re.compile(r"to use codex with your", re.I)
_FULL = re.compile(r"out of room in the model's context", re.I)
_PASSES = re.compile(r"high demand|at capacity|stream disconnected", re.I)
_CLOCK = re.compile(
    r"try again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th),? (\d{4}),? )?"
    r"(\d{1,2}):(\d\d) ([AP])M"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def fault(reply: Reply | None, ended: Ended) -> Fault | None:
    """Classify what went wrong, None for a sound reply."""
    if reply is None:
        return _no_reply(ended)
    if reply.errors:
        return Fault(
            Grade.PERMANENT,
            f"codex's own sandbox does not work here: {_last(reply.complaint)}",
            "install bubblewrap, allow user namespaces, and keep CODEX_HOME out of /tmp",
        )
    if not reply.result.get("is_error"):
        return None
    said = plain_words(reply.text)
    if _LIMIT.search(said):
        return Fault(Grade.LIMIT, said, resets_at=reply.resets_at)
    if _PASSES.search(said):
        return Fault(Grade.TRANSIENT, said)
    if _NO_KEY.search(said):
        return Fault(Grade.PERMANENT, f"codex is not logged in: {said}", LOGIN)
    if _UNPAID.search(said):
        hint = "see to the account, then run kern again"
        return Fault(Grade.PERMANENT, f"the account cannot pay: {said}", hint)
    if _FULL.search(said):
        return Fault(Grade.FAILED, f"the agent's context is full: {said}")
    told = _STATUS.search(said)
    # The API's JSON is passed on where the API will not take the request.
    status = int(told[1]) if told else 400 if said != reply.text.strip() else None
    return faults.of_api("codex", said, status=status, login=LOGIN)


def plain_words(message: str) -> str:
    """The message within the API's JSON, where it is that."""
    try:
        value = json.loads(message)
        return str(value["error"]["message"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return message.strip()


def resets_at(said: str, began: datetime) -> int | None:
    """Epoch seconds of `try again at 7:56 PM`, or with a date before it: the end of that minute.
    `began`: when the agent was started, in the time zone that it speaks in.
    """
    match = _CLOCK.search(said)
    if not match or match[1] not in (None, *_MONTHS):
        return None
    month, day, year, hour, minute, half = match.groups()
    try:
        at = began.replace(
            hour=int(hour) % 12 + 12 * (half == "P"), minute=int(minute), second=0, microsecond=0
        ) + timedelta(minutes=1)
        if month:
            at = at.replace(year=int(year), month=_MONTHS.index(month) + 1, day=int(day))
        elif at <= began:
            at += timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    return int(at.timestamp())


def began(session: str) -> datetime | None:
    """When a session began: its id is a UUID of version 7, which has the time in it."""
    digits = session.replace("-", "")
    if not re.fullmatch(r"[0-9a-f]{12}7[0-9a-f]{19}", digits):
        return None
    try:
        return datetime.fromtimestamp(int(digits[:12], 16) / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _no_reply(ended: Ended) -> Fault:
    told = next((one for one in ended.stderr.splitlines() if one.lower().startswith("error")), "")
    if "unexpected argument" in told or "unrecognized subcommand" in told:
        oldest = ".".join(map(str, OLDEST))
        said = f"kern needs codex {oldest} or newer: {INSTALL}"
        return Fault(Grade.PERMANENT, f"this codex does not know what kern asks: {told}", said)
    if "exceeds the maximum length" in told:
        return Fault(Grade.FAILED, f"the prompt is too long for codex: {told}")
    if told and ended.code > 0 and not ended.overflow:
        return Fault(Grade.PERMANENT, f"codex refused to start: {told}", "kern doctor")
    return faults.unanswered("codex", ended, login=LOGIN)


def _last(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "")
