"""What went wrong in a call of Codex: it tells in words alone, and none of them has a status.

Facts measured with 0.169.0 against a scripted Responses API.
"""

import json
import re
from datetime import datetime, timedelta

from kern.agents.protocol import Ended, Fault, Grade, Reply

OLDEST: tuple[int, ...] = (0, 160, 0)
INSTALL = "npm install -g @openai/codex"
LOGIN = "run `codex login`, or name a provider in ~/.codex/config.toml; then run kern again"
_MODEL = "name one that codex knows: --model ROLE=NAME, or [stages] in kern.toml"
_PAY = "see to the account, then run kern again"

_LIMIT = re.compile(r"hit your usage limit|usage limit has been reached|quota exceeded", re.I)
# The first that fits counts.
_KNOWN: tuple[tuple[str, Grade, str, str], ...] = (
    (
        r"40[13] (?:unauthorized|forbidden)|not logged in|missing environment variable|"
        r"(?:access|refresh) token",
        *(Grade.PERMANENT, "codex is not logged in: ", LOGIN),
    ),
    (
        r"model .{0,200}(?:does not exist|is not supported|not found)|404 not found",
        *(Grade.PERMANENT, "codex does not know the model: ", _MODEL),
    ),
    (
        r"to use codex with your|402 payment",
        *(Grade.PERMANENT, "the account cannot pay: ", _PAY),
    ),
    (
        r"out of room in the model's context|413 payload|exceeds the maximum length",
        *(Grade.FAILED, "the agent's context is full: ", ""),
    ),
    (
        r"high demand|at capacity|status:? (?:5\d\d|429|408|409)|stream disconnected|"
        r"reconnecting|timed? ?out|error sending request|network error|connection",
        *(Grade.TRANSIENT, "", ""),
    ),
    (r"content.?policy|flagged|safety|refus", Grade.FAILED, "the model refused: ", ""),
)
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
    for sign, grade, what, hint in _KNOWN:
        if re.search(sign, said, re.I | re.S):
            return Fault(grade, f"{what}{said}", hint)
    if reply.text.lstrip().startswith("{"):  # what the API said of a request that it will not take
        return Fault(Grade.PERMANENT, f"the API refused the request: {said}", "kern doctor")
    return Fault(Grade.TRANSIENT, said)


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
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    told = next((line for line in lines if line.lower().startswith("error")), "")
    if ended.overflow:
        size = ended.overflow // 1_000_000
        return Fault(
            *(Grade.FAILED, f"the agent printed more than {size} MB and was ended"),
            "the beginning of it is kept in the transcript file",
        )
    if "unexpected argument" in told or "unrecognized subcommand" in told:
        oldest = ".".join(map(str, OLDEST))
        said = f"kern needs codex {oldest} or newer: {INSTALL}"
        return Fault(Grade.PERMANENT, f"this codex does not know what kern asks: {told}", said)
    if "exceeds the maximum length" in told:
        return Fault(Grade.FAILED, f"the prompt is too long for codex: {told}")
    if told and ended.code > 0:
        return Fault(Grade.PERMANENT, f"codex refused to start: {told}", "kern doctor")
    how = f"was ended by signal {-ended.code}" if ended.code < 0 else f"exited {ended.code}"
    last = f": {lines[-1]}" if lines else ""
    hint = "run `codex exec --json hello` by hand to see why"
    return Fault(Grade.TRANSIENT, f"codex {how} without a result{last}", hint)


def _last(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "")
