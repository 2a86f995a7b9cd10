"""`kern add -`: tasks from standard input, shown as a change of SPEC.md and taken after a yes."""

import sys
from pathlib import Path

from kern import plain
from kern.cli.asking import difference, someone
from kern.errors import Exit, UsageError
from kern.git import repository
from kern.model import SPEC
from kern.pipeline import place
from kern.spec import edit, imports
from kern.spec.parse import parse
from kern.stages import prompts


def add(folder: Path, *, yes: bool, dry: bool) -> int:
    papers = place.documents(repository.open_at(folder))
    items = imports.read(sys.stdin.buffer.read(imports.MOST_BYTES + 1))
    there = papers.form(SPEC) is not None
    old = papers.spec_text() if there else ""

    def added(text: str) -> imports.Added:
        base = edit.NO_TASKS if not text or prompts.is_example(text) else text
        if unclosed := parse(base).unclosed:
            raise UsageError(unclosed.said, hint="close it first")
        return imports.added(base, items)

    plan = added(old)
    if plan.left_out:
        print(f"left out, done or in {SPEC} already: {plan.left_out}", file=sys.stderr)
    if not plan.new:
        print(f"nothing to add to {SPEC}")
        return Exit.OK
    print(difference(SPEC, old, plan.text), flush=True)
    if dry or not (yes or _asked(len(plan.new))):
        print(f"{SPEC} is unchanged")
        return Exit.OK
    if not there:
        papers.write(SPEC, edit.NO_TASKS)
    papers.edit(lambda text, _: added(text).text)
    print(f"added {plain.count(len(plan.new), 'task')} to {SPEC}; next: kern -n")
    return Exit.OK


def _asked(count: int) -> bool:
    what = "this task" if count == 1 else f"these {count} tasks"
    with someone("kern add - --yes adds them, -n only shows them") as person:
        print(f"Add {what} to {SPEC}? [y]es [n]o: ", end="", file=sys.stderr, flush=True)
        return person.readline().strip().lower().startswith("y")
