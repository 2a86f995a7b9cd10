"""The values of secret-looking environment variables, hidden in text that kern passes on. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping

MASK = "***"
_SHORTEST = 6  # characters: anything shorter stands in other words as well
_SECRET = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|_PWD|_PASS)S?(?:_|\d|$)", re.I
)
# Where a secret is, not what it is; and names of git's settings.
_NONE = re.compile(r"_(?:DIR|FILE|HOME|PATH|SOCK)$|^GIT_CONFIG_KEY_", re.I)


def values(env: Mapping[str, str]) -> tuple[str, ...]:
    """What is to be hidden, the longest first. Of a key that spans lines each line counts."""
    lines = (
        line.strip()
        for name, value in env.items()
        if _SECRET.search(name) and not _NONE.search(name)
        for line in (value, *value.splitlines())
    )
    return tuple(sorted({one for one in lines if len(one) >= _SHORTEST}, key=len, reverse=True))


def masked(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def fields(value: object, secrets: Collection[str]) -> object:
    """The same for every text in a value that becomes JSON."""
    match value:
        case str():
            return masked(value, secrets)
        case dict():
            return {name: fields(one, secrets) for name, one in value.items()}
        case list() | tuple():
            return [fields(one, secrets) for one in value]
    return value
