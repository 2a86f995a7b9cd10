"""Finished tasks without an agent: a worktree, commands, a commit; and what lands them."""

import subprocess
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kern.checks.gates import Gates
from kern.fleet.run import Fleet
from kern.fleet.work import Job, Work, branch
from kern.git import repository
from kern.git.room import Room
from kern.memory import changes
from kern.memory.changes import Taught
from kern.pipeline.facts import documents
from kern.pipeline.rooms import Rooms
from kern.pipeline.site import Leave, Options, Site
from kern.spec.parse import parse
from kern.stages.call import Caller
from kern.system import workspace
from kern.system.control import Steering

LANDED, BACK, DROPPED = "landed", "sent back", "dropped"


def sh(folder: Path, *commands: str) -> str:
    told = subprocess.run(
        ["sh", "-ec", "\n".join(commands)], cwd=folder, capture_output=True, text=True
    )
    assert not told.returncode, told.stderr
    return told.stdout.strip()


@dataclass
class Project:
    root: Path
    events: list[Any] = field(default_factory=list)

    @property
    def gates(self) -> list[bool]:
        """Those that were run on what lands: whether they were red."""
        return [one.record["red"] for one in self.events if "red" in one.record]

    def site(self, **chosen: Any) -> Site:
        """As a run that begins anew would have it."""
        options = Options(leave=Leave(trusted=True), **chosen)
        found = repository.open_at(self.root)
        scope = workspace.scope(self.root, found.head().branch)
        caller = Caller(self.root, scope, "0123456789abcdef", self.events.append)
        rooms = Rooms(found, Room(found, "room", found, ()), held=False, mounted=False)
        steered = Steering(found.git_dir, caller.run, caller.sink)
        gates = Gates(self.root, scope, caller.run, caller.tick)
        gates.furnish = lambda tree, mounted: rooms.for_proof(tree, found.head(), mounted=mounted)
        parts = documents(found), caller, gates, found.hooks_folder(), rooms, steered
        return Site(found, scope, *parts, options)

    def fleet(self, **chosen: Any) -> Fleet:
        made = Fleet(self.site(**chosen), 1, lambda record: None, None)
        made.take_up()
        made.there.clear()
        return made

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
            learnings.write_text(changes.of(there, Taught(learned)).text)
        message = f"Do it: {text}\n\nKern-Task: {text}\n"
        sh(place, *commands, "git add -A")
        subprocess.run(["git", "commit", "-qF", "-"], cwd=place, input=message.encode(), check=True)
        commit = sh(place, "git rev-parse HEAD")
        name = branch("main", task.key)
        sh(self.root, f"git branch -f {name} {commit}")
        files = (place / "SPEC.md", learnings)
        documents = [file.read_text() if file.exists() else "" for file in files]
        job, proved = Job(task.key, sha, name, 1), "verified by gate check"
        return Work(job, 0, commit, spec=documents[0], learnings=documents[1], proved=proved)

    def land(self, *works: Work, fleet: Fleet | None = None, **chosen: Any) -> list[str]:
        """Each as soon as the branch does not move meanwhile; what became of it."""
        own, ends = fleet or self.fleet(**chosen), list[str]()
        with nullcontext() if fleet else own.stack:
            for one in works:
                settled = len(own.settled)
                own.there = {one.job.key: one}
                while any(left.commit for left in own.there.values()):
                    own.land()
                end = LANDED if len(own.settled) > settled else BACK if own.there else DROPPED
                ends.append(end)
        return ends

    def spec(self, *titles: str, gates: str = "check = 'true'") -> None:
        text = "".join(f"- [ ] {title}\n" for title in titles)
        (self.root / "SPEC.md").write_text(text)
        (self.root / "kern.toml").write_text(f"[gates]\n{gates}\n")
        sh(self.root, "git add -A", "git commit -qm tasks")
