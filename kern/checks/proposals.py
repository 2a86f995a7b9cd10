"""A first kern.toml: what `kern init` found of a project's checks, and how each ended. Pure."""

import re
from collections.abc import Sequence

from kern import plain
from kern.checks import result
from kern.checks.detect import Guess
from kern.config import Settings
from kern.frozen import frozen
from kern.model import Result

_SHOWN = 100  # characters of why a command is no gate


@frozen
class Proposal:
    """A guess, and how it ended where it was run."""

    guess: Guess
    ended: Result | None = None

    @property
    def gate(self) -> bool:
        """Whether it is to be one: what was not tried is the person's to judge."""
        return self.ended is None or not self.ended.red

    @property
    def line(self) -> str:
        """As kern.toml has it: a comment where it does not pass here."""
        setting = f"{self.guess.name} = {_quoted(self.guess.command)}"
        return f"{'' if self.gate else '# '}{setting}{self._note}"

    @property
    def _note(self) -> str:
        if self.ended is None:
            return ""
        if not self.ended.red:
            return f"  # {plain.span(self.ended.seconds)}"
        said = result.first_failing(self.ended.output, _SHOWN)
        why = f": {said}" if said else ""
        return f"  # {result.outcome(self.ended)}{why}"


def text(example: str, found: Sequence[Proposal]) -> str:
    """The example with what was found in place of its gates."""
    lines = [one.line for one in found]
    head, table, rest = example.partition("[gates]\n")
    shown, _, rest = rest.partition("\n\n")
    return "\n".join((head + table.rstrip(), *(lines or [shown]), "", rest))


def missing(guesses: Sequence[Guess], settings: Settings) -> tuple[Guess, ...]:
    """Those whose command is none of the gates."""
    there = {" ".join(gate.command.split()) for gate in (*settings.gates, *settings.final)}
    return tuple(guess for guess in guesses if " ".join(guess.command.split()) not in there)


def _quoted(command: str) -> str:
    """A TOML string."""
    if '"' in command and not re.search(r"['\x00-\x1f\x7f]", command):
        return f"'{command}'"
    return plain.data(command, indent=None)
