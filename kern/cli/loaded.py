"""kern with what a task's first calls need of it: `system.nursery` makes copies of that."""

import importlib
from pathlib import Path

from kern.cli.app import command
from kern.cli.main import main as main
from kern.pipeline import agents
from kern.stages import prompts

_LATE = "kern.cli.run", "kern.sandbox.proxy", "filelock", "git", "tenacity"  # see there

for name in _LATE:
    importlib.import_module(name)
forms = prompts.templates(Path("/")).values()
agents.chosen(forms)
for form in forms:
    prompts.compiled(form.contract)
    prompts.compiled(form.text)
command().commands["run"].make_context("run", ["1", "0", "--task", "1"])
