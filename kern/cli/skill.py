"""`kern init --agents`: how agents that a person talks to hand kern work."""

import re
from pathlib import Path

from kern import plain
from kern.errors import UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.obeyed import COMMON, OURS, SKILL
from kern.spec.file import real
from kern.system import workspace

OFFERED = Path(__file__).with_name("offered")


def init(folder: Path) -> None:
    """A skill, and a paragraph at the end of AGENTS.md; never over what is there."""
    repo = repository.open_at(folder)
    skill, common = place(repo, SKILL), place(repo, COMMON)
    there = plain.decode(workspace.read(common) or b"")
    files = []
    if workspace.read(skill) is None:
        skill.parent.mkdir(parents=True, exist_ok=True)
        workspace.replace(skill, OFFERED.joinpath("SKILL.md").read_bytes(), mode=0o644)
        files.append(SKILL)
    if not re.search(OURS, plain.lf(there)):
        with workspace.reported(common), common.open("ab") as file:
            text = OFFERED.joinpath(COMMON).read_text("utf-8")
            file.write((f"\n\n{text}" if there else text).encode())
        files.append(COMMON)
    for name in (SKILL, COMMON):
        print(f"{'written' if name in files else 'kept':8} {plain.line(str(repo.root / name))}")
    if files:
        print(f'next: git add {" ".join(files)} && git commit -m "Tell agents of kern"')


def place(repo: Repo, name: str) -> Path:
    """Of a file in the tree, whatever links lie on the way to it."""
    target = real(repo.root, name)
    if repo.git_dir in target.parents:
        what = f"{name} is a link out of the working tree: {target}"
        raise UsageError(what, hint="put a file in its place")
    return target
