"""Any command as an agent: the prompt on stdin, Markdown on stdout, an exit code.

Its last line may be a JSON object with `usage` (tokens by kind) and `total_cost_usd`.
"""

import json
import re
import shlex
from collections.abc import Iterable, Sequence

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
        lines = [*objects]
        while lines and lines[-1] == {"log": ""}:
            lines.pop()
        figures = lines.pop() if lines and transcript.part(lines[-1], "usage") else Object()
        text = "\n".join(map(_text, lines)).strip()
        if end.code or end.overflow or not text:
            raise faults.unanswered(own, end)
        cost, usage = figures.get("total_cost_usd"), transcript.part(figures, "usage")
        return Answer(text, transcript.number(cost), tokens=transcript.tokens([usage], _TOKENS))

    own = Agent(
        name=name,
        program=template[0],
        variable=f"KERN_AGENT_{re.sub('[^A-Za-z0-9]', '_', name).upper()}",
        start=start,
        read=read,
        install="correct it under [commands] in kern.toml, or install it",
        login=f"run {shlex.join(template)} by hand to see what it needs",
        tools={Aide.JUDGE: ("whatever it has",)},
        unheld="a command has no limits that kern knows",
        asks=(f"agent {name}: {json.dumps([*template], ensure_ascii=False)}",),
    )
    return own


def _text(value: Object) -> str:
    return str(value["log"]) if "log" in value else json.dumps(value, ensure_ascii=False)
