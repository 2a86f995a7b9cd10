"""How an agent's process begins, and one that is started before its prompt is ready: it boots while
the stage before is at work, and until it has its prompt it asks nothing and costs nothing.
"""

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kern import gitconfig, process, starting
from kern.agents import claude
from kern.errors import KernError
from kern.events import Sink, Warned
from kern.pipeline import Role, Stage
from kern.starting import Started, Waiting
from kern.workspace import Scope

_GRACE_S = (0.0, 1.0)  # it has nothing to say: SIGTERM follows SIGINT at once


@dataclass(frozen=True, slots=True)
class Birth:
    """All that an agent's process has from its beginning."""

    stage: Role
    argv: Sequence[str]
    env: Mapping[str, str]
    read: int  # when the advice that it reads as it starts was last changed, in ns
    unsealed: bool  # the project's own settings are there, and count for it


class Early:
    """The agents that wait for their prompt, at most one for a stage."""

    def __init__(self) -> None:
        self._waiting: dict[Role, tuple[Birth, Waiting]] = {}

    def start(self, birth: Birth, cwd: Path, place: Path) -> None:
        """Not where the project's settings might run something before kern knows what the tree was.
        Where it cannot be started the stage itself will say why.
        """
        there = self._waiting.get(birth.stage)
        if there and there[0] == birth and there[1].alive():
            return
        self.end({birth.stage})
        if not birth.unsealed:
            with contextlib.suppress(KernError, OSError):
                waiting = starting.early(
                    birth.argv, cwd=cwd, env=birth.env, opening=claude.OPENING, place=place
                )
                if waiting:
                    self._waiting[birth.stage] = birth, waiting

    def told(self, birth: Birth, prompt: str, stdout: Path) -> Started | None:
        """The stage's agent, at work on the prompt, if one waits that began just so; any other is
        ended.
        """
        there = self._waiting.get(birth.stage)
        if there and there[0] == birth and there[1].give(prompt, stdout):
            del self._waiting[birth.stage]
            return there[1].started
        self.end({birth.stage})
        return None

    def clear(self, scope: Scope) -> None:
        """Remove what those of a killed kern left."""
        for stage in Stage:
            with contextlib.suppress(OSError):
                place(scope, stage).unlink()

    def end(self, stages: Collection[Role] = (*Stage,)) -> None:
        for stage in self._waiting.keys() & {*stages}:
            _, waiting = self._waiting.pop(stage)
            process.end_with_all(waiting.started.child, _GRACE_S)
            waiting.close()


def place(scope: Scope, stage: Stage) -> Path:
    """Where its output goes until it is the transcript; no sweep of stage files takes it."""
    return scope.folder / f"waiting{stage.number}.json"


def guidance(root: Path, sink: Sink) -> str:
    """The project's advice to agents, where it is the project's own and not too large."""
    for name in claude.GUIDANCE:
        place = Path(os.path.realpath(root / name))
        if place.is_relative_to(root) and place.is_file():
            if place.stat().st_size <= claude.GUIDANCE_LIMIT:
                return str(place)
            sink(Warned(f"{name} is too large to hand to research: left out"))
        elif place.is_file():
            sink(Warned(f"{name} is a link out of the repository: research goes without"))
    return ""


def environment(
    root: Path,
    stage: Role,
    env: Mapping[str, str],
    config: Sequence[tuple[str, str]],
    mark: tuple[str, str],
) -> dict[str, str]:
    given = process.surroundings()
    # What git would start in the background would outlive the stage, or be ended in mid-work by
    # the sweep.
    pairs = [
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        ("core.fsmonitor", "false"),
        *config,
    ]
    given |= gitconfig.added(given, pairs)
    marks = {"KERN_ROOT": str(root), mark[0]: mark[1]}
    return {**given, **claude.environment(stage), **marks, **env}
