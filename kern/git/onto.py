"""A git folder whose HEAD is on another branch, for the hooks of a worker: they see the branch that
its work lands on. What they move there is gone with it.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator

from kern import plain
from kern.git.repository import Repo
from kern.system import workspace

_SHARED = ("objects", "hooks", "info", "modules", "lfs")


@contextlib.contextmanager
def on(repo: Repo, branch: str) -> Iterator[dict[str, str]]:
    """The environment that names it: HEAD's commit is the branch's there."""
    place = repo.scratch / "shadow"
    head, name = repo.head().commit, f"refs/heads/{branch}"
    refs = repo.text("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    refs = [*(one for one in refs if one.partition(" ")[2] != name), f"{head} {name}"]
    # From there: a sandbox may have git's folder at another place.
    shared = os.path.relpath(repo.common_dir, place)
    kind = "sha256" if len(head) == 64 else "sha1"
    config = (
        f'[include]\n\tpath = "{shared}/config"\n'
        "[core]\n\trepositoryFormatVersion = 1\n\tbare = false\n"
        f"[extensions]\n\tobjectFormat = {kind}\n"
    )
    texts = {"HEAD": f"ref: {name}\n", "packed-refs": "\n".join([*refs, ""]), "config": config}
    try:
        with workspace.reported(place):
            shutil.rmtree(place, ignore_errors=True)
            (place / "refs").mkdir(parents=True)
            for one in _SHARED:
                if (repo.common_dir / one).exists():
                    (place / one).symlink_to(f"{shared}/{one}")
            for file, text in texts.items():
                (place / file).write_bytes(plain.encode(text))
        yield {"GIT_DIR": str(place), "GIT_WORK_TREE": str(repo.root)}
    finally:
        shutil.rmtree(place, ignore_errors=True)
