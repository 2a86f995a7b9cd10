"""`kern edit`: SPEC.md in the person's editor, on a copy; what they changed is applied under the
lock, also beside a run.
"""

import os
import shlex
import sys
from pathlib import Path

from kern import plain
from kern.cli.asking import difference
from kern.errors import KernError, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import SPEC
from kern.pipeline import place
from kern.spec.parse import Spec, parse
from kern.system import process, workspace

_COPY = "kern/SPEC.edited.md"  # in the git folder; it stays where the text could not be taken


def main(folder: Path) -> None:
    if os.environ.get("KERN_ROOT"):
        raise KernError("an agent cannot edit SPEC.md: a person does", hint="kern edit")
    found = repository.open_at(folder)
    papers = place.documents(found)
    base, copy = papers.spec_text(), found.git_dir / _COPY
    copy.parent.mkdir(exist_ok=True)
    workspace.replace(copy, plain.encode(base))
    _open(copy)
    data = workspace.read(copy)
    if data is None or data == plain.encode(base):
        copy.unlink(missing_ok=True)
        print(f"{SPEC} is unchanged")
        return
    edited = _text(data, base, copy)

    def change(now: str, _: Spec) -> tuple[str, str]:
        new = edited if now == base else _merged(found, copy, base, now)
        return new, difference(SPEC, now, new)

    print(papers.update(change))
    copy.unlink()
    for fault in parse(edited).diagnostics:
        print(f"note: {plain.line(fault.said)}", file=sys.stderr)


def _open(copy: Path) -> None:
    """Returns when the person has closed it."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = process.attended([*shlex.split(editor), str(copy)], sys.stdin, os.environ)
    except (OSError, ValueError) as exc:
        raise UsageError(
            f"cannot start the editor {plain.line(editor, 80)}: {exc}",
            hint="EDITOR=nano kern edit; or edit SPEC.md itself, which kern allows at any time",
        ) from None
    if code:
        raise UsageError(
            f"the editor {plain.line(editor, 80)} ended with {code}: {SPEC} is unchanged",
            hint=f"kern edit begins anew; what was saved there is in {copy}",
        )


def _text(data: bytes, base: str, copy: Path) -> str:
    """What the editor left, where it is a list of tasks still."""
    why = ""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text, why = "", "it is no UTF-8 text"
    if "\0" in text:
        why = "it is no text"
    parsed = parse(text)
    if parsed.unclosed:
        why = parsed.unclosed.said
    elif not why and parse(base).tasks and not parsed.tasks:
        why = "no task is left in it"
    if why:
        raise UsageError(
            f"what the editor left is not taken: {why}",
            hint=f"{SPEC} is unchanged; your text is in {copy}",
        )
    return text


def _merged(found: Repo, copy: Path, base: str, now: str) -> str:
    """The person's lines in the text as it is now: a run may have written there meanwhile."""
    before, there = copy.with_suffix(".base"), copy.with_suffix(".now")
    try:
        before.write_bytes(plain.encode(base))
        there.write_bytes(plain.encode(now))
        argv = ("merge-file", "-p", str(there), str(before), str(copy))
        code, out, _ = found.run(*argv)
    finally:
        before.unlink(missing_ok=True)
        there.unlink(missing_ok=True)
    if code:
        raise KernError(
            f"{SPEC} has changed meanwhile in the same lines, and is left as it is now",
            hint=f"kern edit once more; your text is in {copy}",
        )
    return plain.decode(out)
