"""Any command as an agent: the prompt on stdin, Markdown on stdout, an exit code.

Its last line may be a JSON object with `usage` (tokens by kind) and `total_cost_usd`.
"""

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import BinaryIO

from kern.agents import faults, transcript
from kern.agents.protocol import Agent, Answer, Call, Ended, Start
from kern.agents.transcript import Object
from kern.model import Aide

_TOKENS = {kind: f"{kind}_tokens" for kind in transcript.KINDS}


def agent(name: str, template: Sequence[str]) -> Agent:
    """By a template of its argv; `{model}`, `{effort}` and `{role}` stand for those of the call,
    for nothing where none is named.
    """

    def start(call: Call) -> Start:
        values = {"model": call.model, "effort": call.effort, "role": str(call.role)}
        fields = re.compile(r"\{(model|effort|role)\}")
        words = (fields.sub(lambda match: values[match[1]], word) for word in template[1:])
        return Start([call.program, *words])

    def read(objects: Iterable[Object], end: Ended) -> Answer:
        """Of what it prints nothing is known: it ended well where its exit code is 0."""
        text = "".join(str(one["text"]) for one in objects).replace("\r\n", "\n").strip()
        above, _, last = text.rpartition("\n")
        figures = transcript.parsed(last)
        told = isinstance(figures.get("usage"), dict)
        figures, text = (figures, above.rstrip()) if told else (Object(), text)
        cost, usage = figures.get("total_cost_usd"), transcript.part(figures, "usage")
        answer = Answer(text, transcript.number(cost), tokens=transcript.tokens([usage], _TOKENS))
        if text and not (end.code or end.overflow):
            return answer
        error = faults.unanswered(own, end)
        error.answer = answer if text or figures else None
        raise error

    own = Agent(
        name=name,
        program=template[0],
        variable=f"KERN_AGENT_{re.sub('[^A-Za-z0-9]', '_', name).upper()}",
        start=start,
        read=read,
        objects=whole,
        install="correct it under [commands] in kern.toml, or install it",
        login=f"run {shlex.join(template)} by hand to see what it needs",
        tools={Aide.JUDGE: ("whatever it has",)},
        unheld="a command has no limits that kern knows",
        asks=(f"agent {name}: {json.dumps([*template], ensure_ascii=False)}",),
    )
    return own


def whole(file: BinaryIO) -> Iterable[Object]:
    """All that it printed, as far as it can be one answer."""
    yield {"text": file.read(1 << 24).decode("utf-8", "replace")}
