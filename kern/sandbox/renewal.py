"""What of an agent's login is laid into a sandbox, and what of it comes back from there when the
agent has renewed it; texts in, text out.
"""

import json
from collections.abc import Collection, Mapping

_MOST = 1_000_000  # characters
# What a renewal changes, as the CLIs name it. Whatever else stands in such a file may name a
# command, a server or another account, which the person's next session would obey.
_RENEWED = frozenset(
    (
        *("accessToken", "refreshToken", "expiresAt", "scopes"),
        *("access_token", "refresh_token", "id_token", "expiry_date", "last_refresh"),
        *("access", "refresh", "expires"),
    )
)


def excerpt(text: str, keys: Collection[str]) -> str:
    """Of a JSON object the entries of these keys, as text; of anything else an empty object."""
    settings = _object(text)
    return json.dumps({key: settings[key] for key in keys if key in settings})


def renewed(before: str, after: str) -> str | None:
    """The login as it was, with the tokens as they are now; None where none has changed, or what is
    there now is no login.
    """
    old, new = _object(before), _object(after)
    merged = _renew(old, new)
    return json.dumps(merged, indent=2) if merged != old else None


def _renew(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    merged = dict(old)
    for key, value in old.items():
        now = new.get(key)
        if isinstance(value, dict) and isinstance(now, dict):
            merged[key] = _renew(value, now)
        elif key in _RENEWED and type(value) is type(now) and now:
            merged[key] = now
    return merged


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text) if len(text) <= _MOST else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
