"""What of a person's submodules a room has."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from kern.git.repository import SUBMODULE, Repo
from kern.system import workspace

UNSEEN = "--ignore-submodules=dirty"  # else git obeys what lies in them: an agent's, perhaps


def listed(home: Repo) -> list[str]:
    """Their paths, by the index."""
    there = (home.root / ".gitmodules").exists()
    rows = home.paths("ls-files", "-z", "--stage") if there else []
    return [row.partition("\t")[2] for row in rows if row.startswith(SUBMODULE)]


def fill(paths: Iterable[str], home: Repo, tree: str, room: Path) -> tuple[list[str], list[str]]:
    """Of those that the person has as they are to be committed what lies there is to be mounted,
    with all that they ignore; of the second, which differ, there are the files of their commits.
    """
    same, differing = list[str](), list[str]()
    for path in paths:
        entry, theirs = home.entry(tree, path), home.root / path
        if not (entry and entry.is_submodule and _is_theirs(theirs / ".git", home, room)):
            continue
        how = ("--quiet", "--ignore-submodules=none", tree, "--", f":(top,literal){path}")
        if not home.run("diff-index", *how)[0]:
            same.append(path)
            continue
        differing.append(path)
        workspace.remove(place := room / path)
        place.mkdir(parents=True)
        env = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": str(room.with_name("submodule"))}
        home.run("-C", str(theirs), "read-tree", "--reset", "-u", entry.blob, env=env)
        if (theirs / ".git").is_file():
            shutil.copyfile(theirs / ".git", place / ".git")
    return same, differing


def _is_theirs(place: Path, home: Repo, room: Path) -> bool:
    """Whether git's folder of it is none that an agent has laid there, which git would obey."""
    if not place.is_file():
        return place.is_dir() and room != home.root
    with place.open("rb") as file:
        led = os.fsdecode(file.read(1 << 12)).removeprefix("gitdir:").strip().replace("\0", "")
    folder = os.path.realpath(place.parent / led)
    own = {os.path.realpath(one / "modules") for one in (home.common_dir, home.git_dir)}
    return any(folder.startswith(f"{one}{os.sep}") for one in own)
