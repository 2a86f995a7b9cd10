"""What kern may not work in the middle of: a merge, a rebase, a cherry-pick, a revert; and what
no one may do beside it: a push.
"""

import re
import shutil

from kern.git import index
from kern.git.repository import Repo

_OPERATIONS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}


def begun(repo: Repo) -> str:
    """What git itself says is under way."""
    marks = (what for mark, what in _OPERATIONS.items() if (repo.git_dir / mark).exists())
    return next((f"{what} is under way" for what in marks), "")


def under_way(repo: Repo) -> str:
    """What kern may not work in the middle of; empty when there is nothing."""
    if what := begun(repo):
        return what
    if index.unmerged(repo):
        return "the index holds unmerged paths"
    return ""


def abort(repo: Repo) -> None:
    """Forget a merge, rebase, cherry-pick or revert under way; HEAD, index and files stay."""
    for mark in (*_OPERATIONS, "MERGE_MODE", "MERGE_MSG", "AUTO_MERGE", "sequencer"):
        place = repo.git_dir / mark
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def refuse_push(repo: Repo) -> list[tuple[str, str]]:
    """Settings under which git cannot push to this repository's remotes, from a script either:
    what is pushed cannot be undone. A remote with a push URL of its own is not covered.
    """
    told = repo.config().items()
    urls = [
        url for name, values in told if re.fullmatch(r"remote\..*\.url", name) for url in values
    ]
    return [("url.kern-refuses-push://.pushInsteadOf", url) for url in urls]
