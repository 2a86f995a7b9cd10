"""Which paths an agent's transcript names: what changed and is not among them may be a person's."""

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

_WORD = re.compile(r"[\w.+@%~*?/-]+")  # paths as they stand in commands and answers
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
    odd = [name for name in names if not _WORD.fullmatch(name)]
    left = set(paths)
    before = ""
    for piece in pieces:
        text = _plain(before + piece)
        before = piece[-_OVERLAP:]
        for word in set(_WORD.findall(text)):
            left -= _meant(word, names, folders)
        for name in odd:
            if name in text:
                left -= names[name]
        if not left:
            break
    return sorted(left)


def _meant(word: str, names: dict[str, set[str]], folders: dict[str, set[str]]) -> set[str]:
    rest, _, last = word.rstrip("/").rpartition("/")
    found = names.get(last, set()) | names.get(last.rstrip("."), set())
    if "*" in last or "?" in last:
        if re.search(r"\w", last):
            hits = [paths for name, paths in names.items() if fnmatchcase(name, last)]
            return found.union(*hits)
        last = rest.rpartition("/")[2]  # all of the folder
    return found | folders.get(last, set()) if "/" in word else found


def _plain(text: str) -> str:
    """JSON's escapes, also one within another, read roughly: a line's end parts two words."""
    text = re.sub(r"\\+[nrtbf]", " ", text)
    if "\\u" in text:
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\\", "")
