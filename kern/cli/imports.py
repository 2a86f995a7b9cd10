"""`kern add --from`: tasks of a file, of issues or of beads, shown as a change of SPEC.md and taken
after a yes.
"""

import os
import re
import shutil
import stat
import sys
from pathlib import Path

from kern import plain
from kern.cli.asking import difference, someone
from kern.errors import Exit, UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.model import SPEC
from kern.pipeline import place
from kern.spec import edit, imports
from kern.spec.imports import Item
from kern.spec.parse import parse
from kern.stages import prompts
from kern.system import process

_GH = re.compile(r"gh(?::(?P<place>[\w.-]+/[\w.-]+)?(?:#(?P<number>\d{1,9}))?)?", re.A)
_FIELDS = "number,title,body,state,url"
_MOST_ISSUES = 200
_PATIENCE_S = 60.0


def add(folder: Path, source: str, label: str, *, yes: bool, dry: bool) -> int:
    found = repository.open_at(folder)
    papers = place.documents(found)
    if label and not _GH.fullmatch(source):
        raise UsageError("--label goes with --from gh", hint=f"kern add --from gh --label {label}")
    items = _items(found, folder, source, label)
    old = papers.read(SPEC) if papers.form(SPEC) is not None else None
    begun = papers.spec_text() if old is not None else edit.NO_TASKS
    base = edit.NO_TASKS if prompts.is_example(begun) else begun
    if unclosed := parse(base).unclosed:
        raise UsageError(unclosed.said, hint="close it first")
    plan, new = imports.planned(base, items), imports.added(base, items)
    left = [f"{plan.known} already in {SPEC}"] * bool(plan.known)
    left += [f"{plan.done} done there"] * bool(plan.done)
    if left:
        print(f"left out: {', '.join(left)}", file=sys.stderr)
    if not plan.new:
        print(f"nothing to add to {SPEC}")
        return Exit.OK
    print(difference(SPEC, "" if old is None else begun, new), flush=True)
    if dry or not (yes or _asked(len(plan.new))):
        print(f"{SPEC} is unchanged")
        return Exit.OK
    if old is None:
        papers.write(SPEC, edit.NO_TASKS)

    def apply(text: str, _: object) -> str:
        return imports.added(edit.NO_TASKS if prompts.is_example(text) else text, items)

    papers.edit(apply)
    print(f"added {plain.count(len(plan.new), 'task')} to {SPEC}; next: kern -n")
    return Exit.OK


def _asked(count: int) -> bool:
    what = "this task" if count == 1 else f"these {count} tasks"
    with someone("kern add --from … --yes adds them, -n only shows them") as person:
        print(f"Add {what} to {SPEC}? [y]es [n]o: ", end="", file=sys.stderr, flush=True)
        return person.readline().strip().lower().startswith("y")


# ---------------------------------------------------------------- where they come from


def _items(found: Repo, folder: Path, source: str, label: str) -> list[Item]:
    if (source in ("gh", "bd") and not (folder / source).exists()) or source.startswith("gh:"):
        return _of_program(found, source, label)
    if not source.strip():
        raise UsageError("--from names nothing", hint="kern add --from TODO.md, or --from gh")
    origin = "standard input" if source == "-" else source
    return imports.read(_file(folder, source), origin, _own(found))


def _file(folder: Path, name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(imports.MOST_BYTES + 1)
    path = folder / Path(name).expanduser()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{name} is not a file", hint="kern add --from - reads a pipe")
            return file.read(imports.MOST_BYTES + 1)
    except OSError as exc:
        raise UsageError(
            f"cannot read {name}: {exc.strerror}",
            hint="a file, - for standard input, gh, gh:OWNER/REPO#12, or bd",
        ) from None


def _of_program(found: Repo, source: str, label: str) -> list[Item]:
    if source == "bd":
        data = _output(found, ["bd", "ready", "--json"], "bd")
        return [] if data.strip() in (b"", b"[]", b"null") else imports.read(data, "bd ready")
    match = _GH.fullmatch(source)
    if match is None or (match["number"] and label):
        raise UsageError(
            f"{plain.line(source, 80)} names no issues",
            hint="kern add --from gh --label kern, or kern add --from gh:OWNER/REPO#12",
        )
    where = ["--repo", match["place"]] if match["place"] else []
    if match["number"]:
        argv = ["gh", "issue", "view", match["number"], *where]
    else:
        argv = ["gh", "issue", "list", *where, "--state", "open", "--limit", str(_MOST_ISSUES)]
        argv += ["--label", label] if label else []
    data = _output(found, [*argv, "--json", _FIELDS], "gh")
    if data.strip() in (b"", b"[]"):
        return []
    # Without a name gh asks for the issues of this repository, whatever it is called.
    own = (_own(found) or "?") if match["place"] else ""
    return imports.read(data, "gh", own, most=_MOST_ISSUES * imports.MOST_BYTES // 10)


def _own(found: Repo) -> str:
    """`owner/name` of the remote, as far as its address tells."""
    code, out, _ = found.run("config", "--get", "remote.origin.url")
    match = re.search(
        r"[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", out.decode("utf-8", "replace").strip()
    )
    return match[1] if match and not code else ""


_SAVED = {
    "gh": "gh issue list --json number,title,body,url > x.json, then kern add --from x.json",
    "bd": "bd ready --json > x.json, then kern add --from x.json",
}
_HOME = {"gh": "https://cli.github.com", "bd": "https://github.com/steveyegge/beads"}


def _output(found: Repo, argv: list[str], name: str) -> bytes:
    program = shutil.which(name)
    if program is None:
        raise UsageError(
            f"{name} is not installed, or not on PATH",
            hint=f"{_HOME[name]}; or where it is: {_SAVED[name]}",
        )
    if Path(program).resolve().is_relative_to(found.root):
        raise UsageError(
            f"{name} is a file of this repository, which an agent could change: {program}",
            hint="take its folder off PATH",
        )
    code, out, told = process.heard([program, *argv[1:]], _PATIENCE_S, str(found.root))
    if code == 0:
        return out
    if name == "gh" and (code == 4 or "gh auth login" in told):
        raise UsageError("gh is not logged in", hint="gh auth login, then the same again")
    rows = [row for row in told.splitlines() if row.strip()]
    why = rows[0] if rows else "it took too long" if code == 124 else f"exit code {code}"
    raise UsageError(
        f"{' '.join(argv[:3])} failed: {plain.line(why, 200)}",
        hint="nothing was added; by hand: " + " ".join(argv[:4]),
    )
