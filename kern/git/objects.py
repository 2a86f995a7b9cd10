"""Whether git has all that a commit or a tree holds, since a collector beside a run may take some;
and how what nothing needs any more goes.
"""

import os
import re
import time

from kern.git.faults import GitFailed
from kern.git.repository import Repo

_CROWD = 27  # loose objects in one of 256 folders: there git's own `gc --auto` begins its work
_LEAST_AGE = 14 * 86400  # seconds; git's own default


def lacks(repo: Repo, base: str, *names: str) -> str:
    """What git lacks of commits that a ref names, or of trees that one holds, without what `base`
    holds; empty where nothing.
    """
    if not (asked := [name for name in names if name not in repo.whole]):
        return ""
    how = ("--objects", "--quiet", "--missing=allow-promisor")
    argv = ("rev-list", *how, *asked, "--not", base)
    code, _, err = repo.run(*argv)
    found = re.search(r"\b[0-9a-f]{40,64}\b", err) if code else None
    if code and found is None:
        raise GitFailed(argv, code, err)
    repo.whole.update(() if found else asked)
    return found[0] if found else ""


def _expiry(repo: Repo) -> int:
    """What no ref, reflog or index needs may go when it is older, in seconds since the epoch; 0
    where nothing may. A person can ask git for more patience, not for less.
    """
    default = int(time.time()) - _LEAST_AGE
    code, out, _ = repo.run("config", "--type=expiry-date", "--get", "gc.pruneExpire")
    return default if code else min(int(out), default)


def prune(repo: Repo) -> None:
    """Delete the loose objects that nothing needs and nobody wrote lately."""
    if before := _expiry(repo):
        repo.run("prune", f"--expire={_date(before)}")


def tidy(repo: Repo, left: int) -> int:
    """Have git pack the loose objects once they are more than it wants, and twice as many as were
    `left` the last time; how many are left now. Its own upkeep leaves those loose that nothing
    needs, and kern writes some with each task: they go into a pack for such, with their age.
    """
    there = _loose(repo)
    if there <= max(_CROWD, 2 * left):
        return left
    code, out, _ = repo.run("config", "--type=int", "--get", "gc.auto")
    most = _CROWD * 256 if code else int(out)
    if most and there * 256 > most:
        before = _expiry(repo)
        how = f"--prune={_date(before)}" if before else "--no-prune"
        repo.run("-c", "gc.autoDetach=false", "gc", "--auto", "--quiet", how)
        if _loose(repo) * 256 > most:
            repo.run("gc", "--quiet", "--cruft", how)
    return _loose(repo)


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime(seconds))


def _loose(repo: Repo) -> int:
    """In the folder by which git itself guesses."""
    try:
        return len(os.listdir(repo.common_dir / "objects" / "17"))
    except OSError:
        return 0
