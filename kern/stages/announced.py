"""What a person is told of a prompt: its size, what it holds of the learnings, its notices."""

from collections.abc import Iterator

from kern.events import Event, Recalled, Traced, Warned
from kern.memory.select import IRRELEVANT
from kern.stages.prompt import Prompt

_MOST_NAMED = 20  # of the entries that are left out


def events(prompt: Prompt, task: str) -> Iterator[Event]:
    said = f"prompt of {prompt.tokens} tokens, {prompt.injected} of them context"
    for what in (said, *(f"no room for {one}" for one in prompt.left_out)):
        yield Traced(f"{prompt.stage}: {what}")
    memory = prompt.memory
    if memory.chosen or memory.left_out:
        told = {one.entry.id: one.why for one in memory.chosen}
        named = {one.id: why for one, why in memory.left_out if not why.startswith(IRRELEVANT)}
        irrelevant = len(memory.left_out) - len(named)
        left = dict(list(named.items())[:_MOST_NAMED])
        yield Recalled(prompt.stage, task, told, left, irrelevant, memory.tokens)
    yield from map(Warned, prompt.notices)
    if memory.remark:
        yield Warned(memory.remark)
