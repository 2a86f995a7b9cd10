"""What git ignores, asked of git itself; also by given .gitignore files, where an agent may have
changed those on the disk.
"""

import os
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from kern.repo import Entry, Repo

_RULE_FILES = (":(glob).gitignore", ":(glob)**/.gitignore")


def untracked(repo: Repo) -> list[str]:
    """All files that git does not track, whatever hides them; no nested repositories."""
    paths = _listed(repo)
    return [path for path in paths if not path.endswith("/")]


def hidden_rule_files(repo: Repo) -> list[str]:
    """The .gitignore files that are ignored themselves."""
    return _listed(repo, "--ignored", "--exclude-standard", "--", *_RULE_FILES)


def _listed(repo: Repo, *how: str) -> list[str]:
    raw = repo.git("ls-files", "-z", "--others", *how)
    return [os.fsdecode(record) for record in raw.split(b"\0") if record]


def hidden_by(repo: Repo, rules: Mapping[str, Entry], paths: Collection[str]) -> set[str]:
    """Those of the untracked paths that these .gitignore files would hide."""
    if not paths:
        return set()
    with tempfile.TemporaryDirectory() as folder:
        contents = repo.contents({entry.blob for entry in rules.values()}) if rules else {}
        for path, entry in rules.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(contents[entry.blob])
        env = {"GIT_WORK_TREE": folder, "GIT_DIR": str(repo.git_dir)}
        _, out, _ = repo.run(
            *("check-ignore", "--no-index", "-z", "--stdin"),
            given=os.fsencode("\0".join(paths)),
            env=env,
            cwd=Path(folder),
        )
    return {os.fsdecode(path) for path in out.split(b"\0") if path}
