"""A person's word on what a repository would have started, as a yes at the question leaves it."""

from pathlib import Path

from kern.pipeline import agents, preflight, trust
from kern.stages import prompts


def trust_all(folder: Path) -> None:
    found, _, parsed, settings = preflight.prepare(folder, empty=True)
    crew = agents.chosen(prompts.templates(found.root, settings).values())
    trust.agree(found, trust.started(found, settings, parsed, crew).lines)
