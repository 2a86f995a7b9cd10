"""Finished tasks without an agent: a worktree, commands, a commit; and what lands them."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kern.config import Gate
from kern.fleet import land
from kern.fleet.work import Landing, Work, branch
from kern.git import repository
from kern.memory import changes
from kern.memory.changes import Taught
from kern.model import Key, Result
from kern.pipeline import site
from kern.pipeline.rooms import Rooms
from kern.pipeline.site import Site
from kern.spec.parse import parse
from kern.stages.call import Caller
from kern.system import workspace


def sh(folder: Path, *commands: str) -> str:
    told = subprocess.run(
        ["sh", "-ec", "\n".join(commands)], cwd=folder, capture_output=True, text=True
    )
    assert not told.returncode, told.stderr
    return told.stdout.strip()


@dataclass
class Yard:
    """One project, its workers' worktrees, and the landing."""

    root: Path
    events: list[Any] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)  # the trees that gates saw

    def __post_init__(self) -> None:
        self.found = repository.open_at(self.root)

    def site(self) -> Site:
        """As a run that begins anew would have it."""
        found = repository.open_at(self.root)
        scope = workspace.scope(self.root, found.head().branch)
        caller = Caller(self.root, scope, "0123456789abcdef", self.events.append)
        rooms = Rooms(found, held=False, mounted=False, lands=False)
        return site.prepared(found, caller, found, rooms)

    def work(self, text: str, *commands: str, base: str = "HEAD", learned: str = "") -> Work:
        """A task that a worker has finished, begun on `base` with the person's SPEC.md."""
        place = self.root.parent / f"worker-{len([*self.root.parent.glob('worker-*')])}"
        sh(self.root, f"git worktree add -q --detach '{place}' {base}")
        sha = sh(place, "git rev-parse HEAD")
        spec = (self.root / "SPEC.md").read_text()
        task = next(task for task in parse(spec).tasks if task.text == text)
        lines = spec.split("\n")
        lines[task.line - 1] = lines[task.line - 1].replace("[ ]", "[x]").replace("[~]", "[x]")
        (place / "SPEC.md").write_text("\n".join(lines))
        learnings = place / "LEARNINGS.md"
        if learned:
            there = learnings.read_text() if learnings.exists() else ""
            learnings.write_text(changes.succeeded(there, Taught(learned)).text)
        message = f"Do it: {text}\n\nKern-Task: {text}\n"
        sh(place, *commands, "git add -A")
        subprocess.run(["git", "commit", "-qF", "-"], cwd=place, input=message.encode(), check=True)
        commit = sh(place, "git rev-parse HEAD")
        name = branch("main", task.key)
        sh(self.root, f"git branch -f {name} {commit}")
        return Work(
            *(task.key, name, sha, commit, 1),
            spec=(place / "SPEC.md").read_text(),
            learnings=learnings.read_text() if learnings.exists() else None,
            proved="verified by gate check",
        )

    def land(
        self, *works: Work, red: Callable[[Path], bool] = lambda tree: False, at: Site | None = None
    ) -> list[Landing]:
        """`red`: whether a gate is, of the files of the merged tree."""

        def check(tree: str, head: str, gates: Sequence[Gate]) -> tuple[Result | None, str]:
            self.checked.append(tree)
            place = self.root.parent / f"check-{len(self.checked)}"
            place.mkdir()
            sh(self.root, f"git archive {tree} | tar -xC '{place}'")
            if red(place):
                return Result("gate check", 1, "it does not add up\n"), ""
            return None, "verified by gate check, merged"

        return [land.land(at or self.site(), one, check) for one in works]

    def spec(self, *titles: str, gates: str = "check = 'true'") -> None:
        text = "".join(f"- [ ] {title}\n" for title in titles)
        (self.root / "SPEC.md").write_text(text)
        (self.root / "kern.toml").write_text(f"[gates]\n{gates}\n")
        sh(self.root, "git add -A", "git commit -qm tasks")


def key(text: str) -> Key:
    return Key("", text)
