"""Text and data from outside made harmless for a terminal or a note: control characters and secrets
hidden. Lengths of time and numbers of things in words. Decides nothing about their meaning.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

# C0 and C1 controls but tab and newline, and the characters that reorder or hide text.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


def block(text: str) -> str:
    """Lines stay lines; escape sequences and control characters go."""
    return UNSAFE.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n")))


def line(text: str, limit: int = 300) -> str:
    """One line of at most `limit` characters."""
    flat = " ".join(block(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def last(text: str) -> str:
    """Its last line that says anything."""
    return (text.strip().splitlines() or [""])[-1].strip()


def data(value: object, indent: int | None = 1) -> str:
    """JSON in which what a terminal would act on stands as an escape."""
    return visible(json.dumps(value, indent=indent, ensure_ascii=False))


def visible(text: str) -> str:
    """With escapes for what a terminal would act on."""
    return UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def span(seconds: float) -> str:
    """`4 min 7 s`, `2 h 5 min`, `0.3 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    words = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(words[:2]) or f"{round(seconds, 1):g} s"


_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})"
_PART = rf"{_NUMBER} ?([dhms])(?:(?<=m)in)? ?"
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def seconds(text: str, unit: str = "s") -> float | None:
    """What `span` writes, read back: `30s`, `2h`, `1h30m`, `2 h 5 min`; a plain number is of `unit`
    (d, h, m or s). None for anything else.
    """
    text = text.strip()
    whole = f"{text}{unit}" if re.fullmatch(_NUMBER, text) else text
    parts = re.findall(_PART, whole) if re.fullmatch(rf"(?:{_PART})+", whole) else ()
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else None


def count(number: int, what: str) -> str:
    many = "es" if what.endswith("s") else "s"
    return f"{number} {what}{'' if number == 1 else many}"


def some(names: Sequence[str]) -> str:
    """A few names for a message."""
    text = ", ".join(line(name, 80) for name in names[:5])
    return text if len(names) <= 5 else f"{text} and {len(names) - 5} more"


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_MENTION = r"@\w[\w-]*|#\d+|\bGH-\d+"  # as code it calls nobody, and closes no issue
_SPECIAL = r"[\\`*\[\]<>&~|]|(?<!\w)_|_(?!\w)|(?<=^)[#+=-]"
_ACTIVE = f"(?i)({_MENTION})|({_SPECIAL})"


def escaped(text: str) -> str:
    """A line as plain text of Markdown: no image, link, tag, fence or mention comes of it."""
    return re.sub(_ACTIVE, lambda match: f"`{match[1]}`" if match[1] else f"\\{match[2]}", text)


# ---------------------------------------------------------------- secrets

_MASK = "***"
_SHORTEST = 6  # characters: anything shorter stands in other words as well
_SECRET = r"(?i)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|_PWD|_PASS)S?(?:_|\d|$)"
# Where a secret is, not what it is; and names of git's settings.
_NONE = r"(?i)_(?:DIR|FILE|HOME|PATH|SOCK)$|^GIT_CONFIG_KEY_"


def secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables whose names say that they hold one, the longest first. Of a key that
    spans lines each line counts.
    """
    names = [name for name in env if re.search(_SECRET, name) and not re.search(_NONE, name)]
    lines = {line.strip() for name in names for line in (env[name], *env[name].splitlines())}
    return tuple(sorted((one for one in lines if len(one) >= _SHORTEST), key=len, reverse=True))


def masked(text: str, hidden: Iterable[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, _MASK)
    return text


def masked_data(value: object, hidden: Collection[str]) -> object:
    """The same for every text in a value that becomes JSON."""
    if isinstance(value, dict):
        return {name: masked_data(one, hidden) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked_data(one, hidden) for one in value]
    return masked(value, hidden) if isinstance(value, str) else value


def slug(text: str) -> str:
    """Its first words in letters that a ref or a folder may bear."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "task"
