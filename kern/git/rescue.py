"""git's own configuration, as it was before a stage 2 that broke it and killed kern: git works with
none of it until it is back, and finds another working tree where it says so.
"""

import os
import re
import tempfile
from pathlib import Path

from kern.git import copies, environment, protect, protected_files, refs, submodules
from kern.git.protect import Guard, Restored
from kern.git.repository import ID, Repo
from kern.git.snapshot import Snapshots
from kern.plain import some
from kern.system import descendants, lock


def configuration(folder: Path) -> list[str]:
    """Before git is asked anything: all is read from files, and from git's objects by a repository
    that holds nothing else. Where a run is on, that restores it itself; where the last one came to
    its own end, what changed since is a person's. What was done, in words.
    """
    environment.drop(os.environ)
    found = _around(folder)
    if found is None:
        return []
    begun = _begun(found)
    holder = lock.noted(found.git_dir) if begun else None
    if not begun or (holder and descendants.holds(holder.pid, found.git_dir / lock.TREE)):
        return []
    with tempfile.TemporaryDirectory() as bare:
        objects = _objects(found, Path(bare), begun)
        commit = objects.run("cat-file", "commit", begun)[1].decode("utf-8", "replace")
        if holder is None and not refs.is_open(commit):
            return []
        parents = re.findall(r"^parent (\w+)$", commit.partition("\n\n")[0], re.M)
        listed = objects.content(parents[2], protect.LIST) if len(parents) > 2 else None
    return _restored(found, listed) if listed else []


def _restored(found: Repo, listed: bytes) -> list[str]:
    told = Restored()
    held = copies.unlisted(listed)[2]
    names = {name for name, _ in protected_files.CONFIG}
    config = held.get("common:config")
    known = copies.stored(protect.stored(found)).get(config.digest, b"") if config else b""
    now = copies.read(found.common_dir / "config", copies.LARGEST)
    if known and now is not None and submodules.registered_alike(now, known):
        names -= {"common:config"}  # as a task that adds a submodule has it
    Guard(found, Snapshots(found)).restore_files(held, sorted(names), told)
    who = "an agent or gate of an earlier run, or you since, changed"
    said = [f"{who} {some(told.back)}; restored before git was asked"] if told.back else []
    if told.lost:
        said.append(
            f"{who} {some(told.lost)}, of which kern has no sound copy: look at it yourself"
        )
    return [*said, *([f"what stood there instead is kept in {told.kept}"] if told.kept else [])]


def _around(folder: Path) -> Repo | None:
    """The repository that git would find, by its files."""
    for root in (folder, *folder.parents):
        if found := submodules.at(root, "."):
            return found
    return None


def _begun(found: Repo) -> str:
    """What the start ref of HEAD's branch names; empty where the files do not say so plainly."""
    head = copies.read(found.git_dir / "HEAD", copies.LARGEST) or b""
    branch = os.fsdecode(head).strip().removeprefix("ref: refs/heads/")
    ref = f"{refs.START}/{found.worktree}/{branch}/@"
    loose = copies.read(found.common_dir / ref, copies.LARGEST) or b""
    packed = copies.read(found.common_dir / "packed-refs", 64 * copies.LARGEST) or b""
    lines = (line.partition(" ") for line in os.fsdecode(packed).splitlines())
    known = [os.fsdecode(loose).strip(), *(sha for sha, _, name in lines if name == ref)]
    return next(filter(ID.fullmatch, known), "")


def _objects(found: Repo, bare: Path, known: str) -> Repo:
    """The objects alone, under a configuration that nobody else has written."""
    for folder in ("objects/info", "refs"):
        (bare / folder).mkdir(parents=True)
    form = "sha256" if len(known) == 64 else "sha1"
    core = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
    (bare / "config").write_text(f"{core}[extensions]\n\tobjectformat = {form}\n")
    (bare / "HEAD").write_text("ref: refs/heads/none\n")
    (bare / "objects/info/alternates").write_bytes(
        os.fsencode(found.common_dir / "objects") + b"\n"
    )
    return Repo(bare, bare, bare)
