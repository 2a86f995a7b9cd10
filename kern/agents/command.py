"""Any command as an agent: the prompt on stdin, Markdown on stdout, an exit code.

Its last line may be a JSON object with `usage` (tokens by kind) and `total_cost_usd`.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from kern.agents import faults, protocol
from kern.agents import result as results
from kern.agents.protocol import Ended, Fault, Launch, Payer, Reply
from kern.agents.transcript import WHOLE_LIMIT
from kern.model import Act, Needs, Role, Stage

_NOT_IN_A_VARIABLE = r"(?a)\W"


class Command:
    """An `Agent` by a template of its argv; `{model}`, `{effort}` and `{role}` stand for those of
    the launch, for nothing where none is named.
    """

    OLDEST: tuple[int, ...] = ()  # it has no version
    FILES: tuple[str, ...] = ()
    STATUS: tuple[str, ...] = ()
    TAKES_CONTRACT = False
    RUNS_GATES = False
    READS_GUIDANCE = False
    INSTALL = "correct it under [commands] in kern.toml, or install it"

    def __init__(self, name: str, template: Sequence[str]) -> None:
        self.NAME, self.template, self.PROGRAM = name, template, template[0]
        self.VARIABLE = f"KERN_AGENT_{re.sub(_NOT_IN_A_VARIABLE, '_', self.NAME).upper()}"
        self.LOGIN = f"run {shlex.join(self.template)} by hand to see what it needs"

    def unheld(self, role: Role) -> str:
        return "" if role is Stage.IMPLEMENT else "a command has no limits that kern knows"

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {}

    def argv(self, launch: Launch) -> list[str]:
        given = {"model": launch.model, "effort": launch.effort, "role": str(launch.role)}
        known = re.compile(r"\{(model|effort|role)\}")
        return [known.sub(lambda match: given[match[1]], word) for word in self.template[1:]]

    def environment(self, launch: Launch) -> dict[str, str]:
        return {}

    def tools(self, role: Role) -> tuple[str, ...]:
        return ("whatever it has",)

    def objects(self, file: BinaryIO) -> Iterable[Mapping[str, Any]]:
        """All that it printed, as far as it can be one answer."""
        file.seek(0)
        yield {"text": file.read(WHOLE_LIMIT).decode("utf-8", "replace")}

    def read(self, seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
        text = "".join(str(one["text"]) for one in seen).replace("\r\n", "\n").strip()
        above, _, last = text.rpartition("\n")
        told = results.parsed(last.encode()) if last.startswith("{") else {}
        if isinstance(told.get("usage"), dict):
            text = above.strip()
        else:
            told = {}
        usage, cost = results.part(told, "usage"), results.known(told.get("total_cost_usd"))
        tokens = {kind: results.whole(usage.get(f"{kind}_tokens")) for kind in results.KINDS}
        made = results.made(text, cost=cost, tokens=tokens if told else {})
        return results.reply(made) if text else None

    def act(self, line: bytes) -> Act | None:
        return None

    def fault(self, reply: Reply | None, ended: Ended) -> Fault | None:
        """Of what it prints nothing is known: it ended well where its exit code is 0."""
        if reply and ended.code == 0 and not ended.overflow:
            return None
        return faults.unanswered(self.NAME, ended, login=self.LOGIN)

    def login(self, code: int, said: str) -> str | None:
        return None

    def payer(
        self, env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]
    ) -> Payer:
        return Payer("")

    def needs(self, env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
        return Needs()

    def started(self, files: Mapping[str, bytes]) -> list[str]:
        return [f"agent {self.NAME}: {json.dumps([*self.template], ensure_ascii=False)}"]

    unattended = staticmethod(protocol.anybody)
    refused = staticmethod(protocol.patient)
