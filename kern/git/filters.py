"""Snapshots hold raw bytes; this is what git would store of them: line ends, clean filters."""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from kern.git import index
from kern.git.faults import GitFailed
from kern.git.repository import LINK, SUBMODULE, Change, Entry, Repo


def cleaned(repo: Repo, changes: Mapping[str, Change]) -> dict[str, Change]:
    """A change between snapshots as `git add` would store it: filters applied."""
    if not changes:
        return {}
    converts = repo.is_set("core.autocrlf") or repo.setting("core.autocrlf").lower() == "input"
    attributes = _attributes(repo, changes)
    clean = dict(changes)
    many: tuple[dict[str, Entry], dict[str, Entry]] = {}, {}
    for path in sorted(_filtered(repo, attributes, converts=converts)):
        old, new = changes[path]
        if _alone(path, attributes[path]):
            clean[path] = (_clean(repo, path, old), _clean(repo, path, new))
            continue
        for side, entry in zip(many, (old, new), strict=True):
            if entry is not None and entry.mode not in (LINK, SUBMODULE):
                side[path] = entry
    before, after = (_together(repo, side) for side in many)
    for path in before.keys() | after.keys():
        old, new = clean[path]
        clean[path] = before.get(path, old), after.get(path, new)
    if repo.is_set("core.filemode", otherwise=True):
        return clean
    head = repo.head().commit
    stored = {path: repo.entry(head, path) for path in clean}
    return {
        path: (_as_stored(stored, path, old), _as_stored(stored, path, new))
        for path, (old, new) in clean.items()
    }


def _alone(path: str, given_by: Mapping[bytes, bytes]) -> bool:
    """A project's own filter may need its working tree around it; and a .gitattributes file would
    stand in for the one that counts.
    """
    driver = given_by.get(b"filter", b"unspecified")
    own = driver not in (b"unspecified", b"unset", b"lfs")
    return own or path.rpartition("/")[2] == ".gitattributes"


def _as_stored(stored: Mapping[str, Entry | None], path: str, entry: Entry | None) -> Entry | None:
    """Where git does not trust the disk's modes, the one that HEAD has counts."""
    if entry is None or entry.mode in (LINK, SUBMODULE):
        return entry
    known = stored.get(path)
    mode = known.mode if known and known.mode.startswith("100") else "100644"
    return Entry(mode, entry.blob)


def _attributes(repo: Repo, paths: Iterable[str]) -> dict[str, dict[bytes, bytes]]:
    """What .gitattributes files and the like say of the paths."""
    names = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")
    given = os.fsencode("\0".join(paths))
    fields = repo.git("check-attr", "-z", "--stdin", *names, given=given).split(b"\0")
    found: dict[str, dict[bytes, bytes]] = {}
    for raw, name, word in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        found.setdefault(os.fsdecode(raw), {})[name] = word
    return found


def _filtered(
    repo: Repo, attributes: Mapping[str, Mapping[bytes, bytes]], *, converts: bool
) -> set[str]:
    """Those that git would not store byte for byte; `converts`: line ends by configuration."""
    found, guesses = set(), set()
    for path, given_by in attributes.items():
        said = {k: v for k, v in given_by.items() if v not in (b"unspecified", b"unset")}
        if said or (converts and given_by.get(b"text") != b"unset"):
            found.add(path)
            if said.get(b"text", b"auto") == b"auto" and not said.keys() - {b"text", b"eol"}:
                guesses.add(path)
    return found - _stored_with_crlf(repo, guesses) if guesses else found


def _stored_with_crlf(repo: Repo, paths: Collection[str]) -> set[str]:
    """Where git only guesses, it leaves a file alone that was stored with CRLF."""
    head = repo.head().commit
    known = {path: repo.entry(head, path) for path in paths}
    stored = {p: Entry("100644", e.blob) for p, e in known.items() if e and e.mode != SUBMODULE}
    with index.apart(repo) as (_, env):
        index.update(repo, stored, env)
        ends = repo.git("ls-files", "--eol", "-z", env=env).split(b"\0")
    found = (record.partition(b"\t") for record in ends if record)
    crlf = (b"i/crlf", b"i/mixed")
    return {os.fsdecode(path) for told, _, path in found if told.split()[0] in crlf}


def _together(repo: Repo, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """What git would store of these files, all by one process. They lie in a working tree of their
    own, with the .gitattributes files of the real one.
    """
    if not entries:
        return {}
    with index.apart(repo) as (folder, env):
        index.update(repo, {p: Entry("100644", e.blob) for p, e in entries.items()}, env)
        repo.git("checkout-index", "--all", "--quiet", env=env)
        for above in {parent for path in entries for parent in Path(path).parents}:
            rules = repo.root / above / ".gitattributes"
            if rules.is_file() and not rules.is_symlink():
                shutil.copyfile(rules, folder / above / ".gitattributes")
        env = {"GIT_DIR": str(repo.git_dir), "GIT_WORK_TREE": str(folder)}
        given = b"".join(_quoted(path) for path in entries)
        # core.safecrlf guards a person's `git add`; here the bytes are kept in refs anyway.
        argv = ("-c", "core.safecrlf=false", "hash-object", "-w", "--stdin-paths")
        code, out, err = repo.run(*argv, given=given, env=env, cwd=folder)
        if code:
            raise GitFailed(argv, code, err)
    blobs = out.decode().split()
    pairs = zip(entries.items(), blobs, strict=True)
    return {path: Entry(entry.mode, blob) for (path, entry), blob in pairs}


def _quoted(path: str) -> bytes:
    """As git reads one line of names, whatever the name holds."""
    return b'"' + b"".join(b"\\%03o" % byte for byte in os.fsencode(path)) + b'"\n'


def _clean(repo: Repo, path: str, entry: Entry | None) -> Entry | None:
    if entry is None or entry.mode in (LINK, SUBMODULE):
        return entry
    data = repo.data(entry.blob)
    return Entry(entry.mode, repo.blob(data, path=path))
