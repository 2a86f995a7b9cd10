"""Snapshots hold raw bytes; this is what git would store of them: line ends, clean filters."""

import os
from collections.abc import Iterable, Mapping

from kern.repo import LINK, SUBMODULE, Change, Entry, GitFailed, Repo

_TRUE = (b"true", b"yes", b"on", b"1")  # as git reads a boolean


def cleaned(repo: Repo, changes: Mapping[str, Change]) -> dict[str, Change]:
    """A change between snapshots as `git add` would store it: filters applied."""
    if not changes:
        return {}
    asked = ("config", "-z", "--get-regexp", r"^core\.(autocrlf|filemode)$")
    code, out, err = repo.run(*asked)
    if code not in (0, 1):  # 1: neither is set
        raise GitFailed(asked, code, err)
    said = (record.partition(b"\n") for record in out.split(b"\0"))
    config = {name: value if equals else b"true" for name, equals, value in said}
    converts = config.get(b"core.autocrlf", b"").lower() in (*_TRUE, b"input")
    filtered = _filtered(repo, changes, converts=converts)
    clean = dict(changes)
    for path in filtered:
        old, new = changes[path]
        clean[path] = (_clean(repo, path, old), _clean(repo, path, new))
    if config.get(b"core.filemode", b"true").lower() in _TRUE:
        return clean
    stored = repo.entries(repo.head().commit)
    return {
        path: (_as_stored(stored, path, old), _as_stored(stored, path, new))
        for path, (old, new) in clean.items()
    }


def _as_stored(stored: Mapping[str, Entry], path: str, entry: Entry | None) -> Entry | None:
    """Where git does not trust the disk's modes, the one that HEAD has counts."""
    if entry is None or entry.mode in (LINK, SUBMODULE):
        return entry
    known = stored.get(path)
    mode = known.mode if known and known.mode.startswith("100") else "100644"
    return Entry(mode, entry.blob)


def _filtered(repo: Repo, paths: Iterable[str], *, converts: bool) -> set[str]:
    """Those that git would not store byte for byte; `converts`: line ends by configuration."""
    names = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")
    given = os.fsencode("\0".join(paths))
    fields = repo.git("check-attr", "-z", "--stdin", *names, given=given).split(b"\0")
    attributes: dict[str, dict[bytes, bytes]] = {}
    for raw, name, word in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        attributes.setdefault(os.fsdecode(raw), {})[name] = word
    found = set()
    for path, given_by in attributes.items():
        said = {k: v for k, v in given_by.items() if v not in (b"unspecified", b"unset")}
        guessed = said.get(b"text", b"auto") == b"auto" and not said.keys() - {b"text", b"eol"}
        if (said or (converts and given_by.get(b"text") != b"unset")) and not (
            guessed and _has_crlf(repo, path)
        ):
            found.add(path)
    return found


def _has_crlf(repo: Repo, path: str) -> bool:
    """Where git only guesses, it leaves a file alone that was stored with CRLF."""
    stored = repo.content("HEAD", path)
    return stored is not None and b"\r\n" in stored and b"\0" not in stored


def _clean(repo: Repo, path: str, entry: Entry | None) -> Entry | None:
    if entry is None or entry.mode in (LINK, SUBMODULE):
        return entry
    data = repo.git("cat-file", "blob", entry.blob)
    return Entry(entry.mode, repo.blob(data, path=path))
