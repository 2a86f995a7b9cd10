"""Which paths an agent's transcript names: what changed and is not among them may be a person's."""

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

_WORD = r"[\w.+@%~*?/-]+"  # paths as they stand in commands and answers
# A pattern means files only in a command: elsewhere it was looked for, or is emphasis, or C.
_COMMAND = r'"command"\s*:\s*"((?:[^"\\]|\\.)*+)'
_PATTERN = re.compile(r"[*?][./]|[./][*?]")
_MOST_PATTERNS = 200  # in one transcript
_OVERLAP = 4096  # characters of two pieces, so that no name is cut in two


def unnamed(paths: Collection[str], pieces: Iterable[str]) -> list[str]:
    """Those of which neither the name nor a folder above is named, as a pattern at least. A folder
    is named as one, with a slash: `src/`, `./src`; `src/a.py` names a.py alone.
    """
    names: dict[str, set[str]] = {}
    folders: dict[str, set[str]] = {}
    for path in paths:
        *above, name = path.split("/")
        names.setdefault(name, set()).add(path)
        for folder in above:
            folders.setdefault(folder, set()).add(path)
    odd = [name for name in names if not re.fullmatch(_WORD, name)]
    left = set(paths)
    patterns: set[str] = set()
    before = ""
    for piece in pieces:
        whole = before + piece
        text = _plain(whole)
        before = piece[-_OVERLAP:]
        for word in set(re.findall(_WORD, text)):
            left -= _meant(word, names, folders)
        for command in re.findall(_COMMAND, whole):
            found = {*filter(_PATTERN.search, re.findall(_WORD, _plain(command)))} - patterns
            for word in sorted(found)[: _MOST_PATTERNS - len(patterns)]:
                patterns.add(word)
                left -= _matched(word, names, folders)
        for name in odd:
            if name in text:
                left -= names[name]
        if not left:
            break
    return sorted(left)


def _meant(word: str, names: dict[str, set[str]], folders: dict[str, set[str]]) -> set[str]:
    last = word.rstrip("/").rpartition("/")[2]
    found = names.get(last, set()) | names.get(last.rstrip("."), set())
    return found | folders.get(last, set()) if "/" in word else found


def _matched(word: str, names: dict[str, set[str]], folders: dict[str, set[str]]) -> set[str]:
    rest, _, last = word.rstrip("/").rpartition("/")
    if re.search(r"\w", last):
        hits = [paths for name, paths in names.items() if fnmatchcase(name, last)]
        return set().union(*hits)
    return folders.get(rest.rpartition("/")[2], set())  # all of the folder


def _plain(text: str) -> str:
    """JSON's escapes, also one within another, read roughly: a line's end parts two words."""
    text = re.sub(r"\\+[nrtbf]", " ", text)
    if "\\u" in text:
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\\", "")
