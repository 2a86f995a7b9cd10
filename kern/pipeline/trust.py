"""All that a repository makes kern, the agent and git start, and whether the person trusts it."""

import contextlib
import hashlib
import json
import os
import secrets
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kern import plain
from kern.agents.protocol import Agent
from kern.config import Gate, Settings
from kern.errors import KernError, UsageError
from kern.git import shadow
from kern.git.repository import Repo
from kern.git.shadow import PROMPTS
from kern.spec import notes
from kern.spec.parse import Spec
from kern.system import workspace

Ask = Callable[[Sequence[str], bool], bool]  # the lines, and whether all of them are new
HINT = "kern in a terminal asks; kern --trust, or KERN_TRUST=1, for one run"
_HARMLESS = ("$schema", "permissions", "permission")
_MARK = "kern.trust"  # in git's folder


class Started(NamedTuple):
    """What a repository starts, a line each: whole, and what a terminal would act on or hide as an
    escape.
    """

    project: tuple[str, ...] = ()  # a sandbox holds it
    agents: tuple[str, ...] = ()  # by their settings: beside a login, which a sandbox leaves them

    @property
    def lines(self) -> tuple[str, ...]:
        return (*self.project, *self.agents)


def started(repo: Repo, settings: Settings, parsed: Spec, agents: Iterable[Agent]) -> Started:
    project = (
        *(f"gate {gate.shown}" for gate in settings.gates),
        *settings.worktree.asks,
        *(f"gate {gate.shown}" for gate in notes.open_gates(parsed)),
        *_told("prompt of the project:", sorted((repo.root / PROMPTS).glob("*.md")), repo.root),
        *of_hooks(repo),
    )
    theirs = (line for one in agents for line in (*one.asks, *_obeyed(one, repo.root)))
    return Started(*(tuple(dict.fromkeys(map(_shown, lines))) for lines in (project, theirs)))


def _shown(line: str) -> str:
    return plain.data(line, indent=None)[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def _told(what: str, files: Iterable[Path], root: Path) -> Iterator[str]:
    for path in files:
        contents = hashlib.sha256(workspace.read(path) or b"").hexdigest()[:12]
        yield f"{what} {path.relative_to(root)} ({contents})"


def of_hooks(repo: Repo) -> list[str]:
    """Those that the tree itself holds: the clone's own are the person's."""
    folder = shadow.hooks_in_tree(repo)
    there = sorted(folder.iterdir()) if folder and folder.is_dir() else []
    run = (path for path in there if path.is_file() and os.access(path, os.X_OK))
    return [*_told("git hook", run, repo.root)]


def _obeyed(agent: Agent, root: Path) -> Iterator[str]:
    """Of its files, and those below a folder that ends in a slash: each setting as it stands, of
    what is none what it holds. What is installed there counts by the file that asks for it.
    """
    for name in agent.obeys:
        below = sorted((root / name).rglob("*")) if name.endswith("/") else [root / name]
        for path in (one for one in below if one.is_file() and "node_modules" not in one.parts):
            settings = _settings(path.suffix, workspace.read(path) or b"")
            if settings is None:
                yield from _told(f"{agent.name} obeys", [path], root)
            for key, value in (settings or {}).items():
                text = json.dumps(value, ensure_ascii=False, default=str).strip('"')
                yield f"{path.relative_to(root)} {key}: {text}"


def _settings(suffix: str, data: bytes) -> dict[str, Any] | None:
    """But for what starts nothing; None where these are no settings that can be read."""
    try:
        settings = tomllib.loads(data.decode()) if suffix == ".toml" else json.loads(data)
    except (ValueError, RecursionError):
        return None
    if suffix not in (".toml", ".json", ".jsonc") or not isinstance(settings, dict):
        return None
    return {key: value for key, value in settings.items() if key not in _HARMLESS}


# ---------------------------------------------------------------- the record


def state(repo: Repo) -> Path:
    """Where kern remembers what is no repository's to say: never in its tree."""
    folder = Path(os.environ.get("XDG_STATE_HOME", "")).expanduser()
    if not folder.is_absolute() or Path(os.path.realpath(folder)).is_relative_to(repo.root):
        folder = Path("~/.local/state").expanduser()
    return folder / "kern"


def place(repo: Repo) -> Path:
    """Of this clone and its worktrees: it is known by a mark of kern's, which no other brings."""
    return state(repo) / "trust" / f"{hashlib.sha256(_mark(repo)).hexdigest()[:32]}.json"


def _mark(repo: Repo) -> bytes:
    with contextlib.suppress(KernError):
        return (workspace.read(repo.common_dir / _MARK) or b"")[:64]
    return b""


def known(record: Path) -> frozenset[str] | None:
    """The lines that the person has seen and trusts; None where they were never asked."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return frozenset(map(str, json.loads(record.read_bytes())["trusted"]))
    return None


def unseen(repo: Repo, lines: Iterable[str]) -> list[str]:
    """Those that the person has not agreed to, as they stand."""
    agreed = known(place(repo)) or ()
    return [line for line in lines if line not in agreed]


def agree(repo: Repo, lines: Iterable[str]) -> None:
    """A person's yes to these as well."""
    if not _mark(repo):
        workspace.replace(repo.common_dir / _MARK, secrets.token_hex(16).encode())
    record = place(repo)
    workspace.own_folder(record.parent, parents=True)
    lines = {*(known(record) or ()), *lines}
    value = {"repository": str(repo.common_dir), "trusted": sorted(lines)}
    workspace.replace(record, plain.data(value).encode())


def of_gates(gates: Iterable[Gate]) -> list[str]:
    return [_shown(f"gate {gate.shown}") for gate in gates]


# ---------------------------------------------------------------- the question


def settle(repo: Repo, lines: Started, ask: Ask, *, held: bool) -> str:
    """Make sure that the person trusts what would be started outside of a sandbox, and each new
    line of it. `held`: in a sandbox. What a first run says of the rest; empty later. Raises
    UsageError where they do not.
    """
    first = known(place(repo)) is None
    new = unseen(repo, lines.agents if held else lines.lines)
    if new and not ask(new, first):
        raise UsageError("nothing was started: this repository is not trusted", hint=HINT)
    known_lines = [line for line in lines.project if line not in new]
    if new or (first and known_lines):
        agree(repo, new)
    quote = plain.line("; ".join(known_lines), 300)
    return f"what this repository has run stays in the sandbox: {quote}" * (
        first and bool(known_lines)
    )
