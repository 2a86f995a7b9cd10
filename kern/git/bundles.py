"""Commits on their way from one repository to another: as the bytes of a git bundle, thin against
what the other has.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kern.errors import KernError
from kern.git.repository import Repo

_HEAD = re.compile(rb"# v([23]) git bundle\n")
_LINE = re.compile(rb"(?:@[^\n]*|(-?)([0-9a-f]{40}|[0-9a-f]{64})(?: ([^\n]*))?)\n")


class Lacking(KernError):
    """A bundle builds on commits that the repository has not."""


def pack(repo: Repo, refs: Mapping[str, str], there: Iterable[str] = ()) -> bytes:
    """A bundle of commits by the names that they are to have, without what is reached from `there`;
    what this repository does not know of that is left out. Empty where there is nothing to send.
    Raises KernError in a shallow clone, whose history no other repository could take.
    """
    if repo.text("rev-parse", "--is-shallow-repository") == "true":
        raise KernError(
            f"{repo.root} is a shallow clone: its history cannot be sent",
            hint="git fetch --unshallow",
        )
    wanted = sorted(set(refs.values()))
    there = known(repo, there)
    if not repo.text("rev-list", "--max-count=1", *wanted, "--not", *there) and there:
        return b""  # git makes no bundle of nothing; the names are of no use without commits
    limits = "".join(f"{one}\n" for one in (*wanted, *(f"^{one}" for one in there)))
    argv = ("pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
    packed = repo.git(*argv, given=limits.encode())
    head = "# v2 git bundle\n"
    if len(wanted[0]) == 64:
        head = "# v3 git bundle\n@object-format=sha256\n"
    lines = [*(f"-{one} \n" for one in there), *(f"{one} {name}\n" for name, one in refs.items())]
    return (head + "".join(lines)).encode("utf-8", "surrogateescape") + b"\n" + packed


def beside(repo: Repo, commit: str) -> str:
    """Why a bundle with the commit would not hold all of its files; empty where it does."""
    argv = ("grep", "--quiet", "-e", "filter=lfs", commit, "--", ":(glob)**/.gitattributes")
    code, _, _ = repo.run(*argv)
    return "" if code else "it has files in git LFS, whose contents are in no bundle"


def known(repo: Repo, commits: Iterable[str]) -> list[str]:
    """Those that the repository has, with their history."""
    asked = sorted(set(commits))
    if not asked:
        return []
    told = repo.git(
        "cat-file", "--batch-check", given="".join(f"{one}\n" for one in asked).encode()
    )
    rows = zip(asked, told.decode().splitlines(), strict=True)
    return [one for one, row in rows if row.split(" ")[1:2] == ["commit"]]


def has(repo: Repo, commits: Sequence[str]) -> bool:
    """Whether the repository has all of them."""
    return set(known(repo, commits)) == set(commits)


def head(data: bytes) -> tuple[dict[str, str], list[str]]:
    """The commits of a bundle by name, and those that it builds on. Raises KernError for what is
    none.
    """
    refs: dict[str, str] = {}
    needed: list[str] = []
    begun = _HEAD.match(data)
    at = begun.end() if begun else 0
    while at and (line := _LINE.match(data, at)):
        at = line.end()
        if line[1]:
            needed.append(line[2].decode())
        elif line[2]:
            refs[os.fsdecode(line[3] or b"")] = line[2].decode()
    if not refs or data[at : at + 5] != b"\nPACK":
        raise torn()
    return refs, needed


def unpack(repo: Repo, data: bytes, refs: Mapping[str, str]) -> None:
    """Take commits out of a bundle: `refs` names those that are wanted, and what each is to be
    called here. Where one fails, none is there. Raises Lacking, and KernError for a torn bundle or
    one without them.
    """
    there, needed = head(data)
    if missing := sorted(refs.keys() - there.keys()):
        raise KernError(f"the bundle lacks {missing[0]}", hint=_AGAIN)
    if lacked := set(needed) - set(known(repo, needed)):
        raise Lacking(f"{repo.root} lacks {', '.join(sorted(lacked))}", hint=_AGAIN)
    specs = [f"+{name}:{ours}" for name, ours in refs.items()]
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--atomic")
    alone = ("-c", "fetch.recurseSubmodules=false")
    with _spooled(data, repo.common_dir) as place:
        code, _, said = repo.run(*alone, "fetch", *quiet, str(place), *specs)
    if code:
        raise torn(said)


_AGAIN = "run kern again: it is sent anew"


def torn(said: str = "") -> KernError:
    last = said.strip().splitlines()[-1:]
    why = f": {last[0]}" if last else ""
    return KernError(f"a bundle of commits arrived torn, and was refused{why}", hint=_AGAIN)


@contextlib.contextmanager
def _spooled(data: bytes, folder: Path) -> Iterator[Path]:
    """git reads a bundle from a file alone."""
    with tempfile.NamedTemporaryFile(prefix=".kern-", suffix=".bundle", dir=folder) as file:
        file.write(data)
        file.flush()
        yield Path(file.name)
