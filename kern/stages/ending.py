"""What the end of an agent's process means for the run."""

import time
from collections.abc import Callable
from pathlib import Path

from kern.agents import protocol
from kern.agents.protocol import Agent, Ended, Fault, Grade, Reply
from kern.errors import KernError, LimitReached, TransientFault
from kern.model import Role, Stage

_LONGER = "[timeouts] in kern.toml sets how long a stage may take"


def new_enough(agent: Agent, version: str) -> None:
    if () < protocol.version(version) < agent.OLDEST:
        oldest = ".".join(map(str, agent.OLDEST))
        raise KernError(
            f"{agent.NAME} {version} is too old: kern needs {oldest} or newer", hint=agent.INSTALL
        )


def timed_out(stage: Role, ended: Ended) -> Fault | None:
    """Half a change is an attempt; a stage that changes nothing can simply run again."""
    grade = Grade.FAILED if stage is Stage.IMPLEMENT else Grade.TRANSIENT
    return Fault(grade, f"timed out: {ended.timed_out}", _LONGER) if ended.timed_out else None


def error(stage: Role, fault: Fault, transcript: Path) -> KernError:
    said = f"{stage} stage: {fault.message}"
    if fault.grade is Grade.TRANSIENT:
        again = f"run kern again: it goes on at this stage; the transcript: {transcript}"
        return TransientFault(said, hint=fault.hint or again)
    if fault.grade is Grade.LIMIT:
        when = ""
        if fault.resets_at:
            when = time.strftime(
                " (resets %Y-%m-%d %H:%M local time)", time.localtime(fault.resets_at)
            )
        return LimitReached(
            f"usage limit: {fault.message}{when}",
            hint="run kern again then: it resumes",
            resets_at=fault.resets_at,
        )
    return KernError(said, hint=fault.hint or f"the transcript: {transcript}")


def may_not_write(who: str) -> Callable[[Reply], None]:
    """What settles a reply of an agent that has no tool to write with."""

    def settle(reply: Reply) -> None:
        if reply.wrote:
            raise TransientFault(f"{who}: the agent used {', '.join(reply.wrote)}")

    return settle
