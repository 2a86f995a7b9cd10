"""The rows of kinds.toml."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    name: str
    files: dict[str, str]
    gates: dict[str, str]  # by name
    tools: tuple[str, ...] = ()
    made: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
KINDS = [Kind(name, **row) for name, row in ROWS.items()]
NODE = ROWS["npm"]["files"]["package.json"]
