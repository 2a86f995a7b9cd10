"""A module for an agent CLI that nobody has: what a newcomer writes who follows CONTRIBUTING.md.

`pal` reads the prompt on stdin and prints lines: `did: TOOL`, `spent: DOLLARS`, `limit: EPOCH`,
`broken: WHY`; all other lines are its answer. With `--read` it changes nothing.
"""

from collections.abc import Iterable

from kern.agents import faults
from kern.agents.places import Place
from kern.agents.protocol import Agent, Answer, AtLimit, Call, Ended, Start, TryAgain
from kern.agents.transcript import Object
from kern.model import Act, Aide, Stage


def start(call: Call) -> Start:
    argv = [call.program, *(["--read"] if call.role is not Stage.IMPLEMENT else [])]
    argv += ["--model", call.model] if call.model else []
    return Start(argv, {"PAL_QUIET": "1"})


def watch(value: Object) -> Act | None:
    kind, _, tool = str(value.get("log", "")).partition(": ")
    return Act("", (tool,), {}) if kind == "did" else None


def read(seen: Iterable[Object], ended: Ended) -> Answer:
    texts, cost = [], None
    for value in seen:
        line = str(value.get("log", ""))
        kind, _, said = line.partition(": ")
        match kind:
            case "spent":
                cost = float(said)
            case "limit":
                raise AtLimit("pal is tired", resets_at=int(said))
            case "broken":
                raise TryAgain(said)
            case _ if kind != "did":
                texts.append(line)
    if not texts:
        raise faults.unanswered(AGENT, ended)
    return Answer("\n".join(texts).strip(), cost)


AGENT = Agent(
    name="pal",
    start=start,
    read=read,
    watch=watch,
    install="copy pal to a folder on PATH",
    login="pal needs no login",
    tools={Stage.IMPLEMENT: ("Read", "Write"), Aide.JUDGE: ("Read",)},
    obeys=(".pal.json",),
    places=(Place("~/.pal", login=("login.json",), variables=("PAL_",)),),
)
