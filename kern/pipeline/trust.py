"""All that a repository makes kern, the agent and git start, and whether the person trusts it."""

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kern import plain
from kern.agents.protocol import Agent
from kern.config import Gate, Settings
from kern.errors import KernError, UsageError
from kern.git import protected_files
from kern.git.protected_files import PROMPTS
from kern.git.repository import Repo
from kern.obeyed import digest
from kern.spec import notes
from kern.spec.parse import Spec
from kern.system import workspace

Ask = Callable[[Sequence[str], bool], bool]  # the lines, and whether all of them are new
_LARGEST = 1 << 20  # bytes of a record
_MARK = "kern.trust"  # in git's folder


@dataclass(frozen=True, slots=True)
class Started:
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
        *(f"gate {gate.shown}" for gate in (*settings.gates, *settings.final)),
        *(f"probe {probe.shown}" for probe in settings.probes),
        *settings.fleet.asks,
        *(f"gate {gate.shown}" for gate in notes.open_gates(parsed)),
        *_prompts(repo.root),
        *_hooks(repo),
    )
    theirs = (line for one in agents for line in one.started(_files(one, repo.root)))
    return Started(*(tuple(dict.fromkeys(map(_shown, found))) for found in (project, theirs)))


def _shown(line: str) -> str:
    return plain.data(line, indent=None)[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def unseen(repo: Repo, lines: Iterable[str]) -> list[str]:
    """Those that the person has not agreed to, as they stand. Raises UsageError."""
    agreed = known(place(repo)) or ()
    return [line for line in lines if line not in agreed]


def questions(repo: Repo, found: Started, holds: Callable[[], bool]) -> list[str]:
    """What a run asks about before it starts it. `holds`: whether a sandbox does. Raises
    UsageError.
    """
    new = unseen(repo, found.lines)
    return [line for line in new if line in found.agents] if new and holds() else new


def _prompts(root: Path) -> list[str]:
    """By their contents: a prompt is what an agent is told to do."""
    found = []
    for path in sorted((root / PROMPTS).glob("*.md")):
        contents = digest(workspace.read(path) or b"")
        found.append(f"prompt of the project: {PROMPTS}/{path.name} ({contents})")
    return found


def _files(agent: Agent, root: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in (one for named in agent.FILES for one in _those(named, root)):
        with contextlib.suppress(KernError):  # no file: the agent reads none either
            data = workspace.read(root / name)
            found |= {name: data} if data is not None else {}
    return found


def _those(named: str, root: Path) -> list[str]:
    """The file, or those below the folder that ends in a slash. What is installed there counts by
    the file that asks for it.
    """
    if not named.endswith("/"):
        return [named]
    below = (root / named).rglob("*")
    files = (one.relative_to(root) for one in below if one.is_file())
    return sorted(str(one) for one in files if "node_modules" not in one.parts)


def of_hooks(repo: Repo) -> Started:
    return Started(tuple(_hooks(repo)))


def _hooks(repo: Repo) -> list[str]:
    """Those that the tree itself holds: the clone's own are the person's."""
    folder = protected_files.hooks_in_tree(repo)
    if folder is None:
        return []
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.is_file() and os.access(path, os.X_OK):
                contents = digest(path.read_bytes())
                found.append(f"git hook {path.relative_to(repo.root)} ({contents})")
    return found


# ---------------------------------------------------------------- the record


def place(repo: Repo) -> Path:
    """Worktrees share it; another repository at the same path has another one. One that was trusted
    before its first commit is known by a mark of kern's, which no clone brings along.
    """
    first = _mark(repo) or _root(repo)
    key = os.fsencode(os.path.realpath(repo.common_dir)) + b"\0" + first
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folder = Path(state).expanduser() / "kern" / "trust"
    if folder.resolve().is_relative_to(repo.root):
        raise UsageError(
            f"XDG_STATE_HOME={state} lies in the repository, which would trust itself",
            hint="unset it, or name a folder outside",
        )
    return folder / f"{hashlib.sha256(key).hexdigest()[:32]}.json"


def _root(repo: Repo) -> bytes:
    code, roots, _ = repo.run("rev-list", "--max-parents=0", "HEAD")
    return b"" if code else roots.split()[-1]


def _mark(repo: Repo) -> bytes:
    with contextlib.suppress(KernError):
        return (workspace.read(repo.common_dir / _MARK) or b"")[:64]
    return b""


def known(record: Path) -> frozenset[str] | None:
    """The lines that the person has seen and trusts; None where they were never asked. Raises
    UsageError where nobody can know who wrote it.
    """
    try:
        found = record.lstat()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise _damaged(record, exc.strerror or "it cannot be read") from None
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        raise _damaged(record, "it is no file that kern wrote")
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise _damaged(record, "another user could have written it")
    try:
        value = json.loads(record.read_bytes())
        return frozenset(str(line) for line in value["trusted"])
    except (OSError, ValueError, KeyError, TypeError):
        raise _damaged(record, "it is damaged") from None


def _damaged(record: Path, why: str) -> UsageError:
    return UsageError(
        f"the record of what you trust cannot be used: {record}: {why}",
        hint=f"rm {record}, then kern trust",
    )


def remember(repo: Repo, lines: Collection[str]) -> None:
    if not (_mark(repo) or _root(repo)):  # or its first commit would make another place of it
        workspace.replace(repo.common_dir / _MARK, secrets.token_hex(16).encode())
    record = place(repo)
    for folder in (record.parent.parent, record.parent):
        with workspace.reported(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        workspace.own_folder(folder)
    value = {"repository": str(repo.common_dir), "trusted": sorted(lines)}
    workspace.replace(record, plain.data(value).encode())


def agree(repo: Repo, lines: Iterable[str]) -> None:
    """A person's yes to these as well."""
    remember(repo, (*(known(place(repo)) or ()), *lines))


def agree_to_gates(repo: Repo, gates: Iterable[Gate]) -> None:
    """Those that a person typed, or let kern propose, which is their yes to them."""
    agree(repo, of_gates(gates).project)


def of_gates(gates: Iterable[Gate]) -> Started:
    return Started(tuple(_shown(f"gate {gate.shown}") for gate in gates))


def settle(repo: Repo, found: Started, ask: Ask, holds: Callable[[], bool]) -> str:
    """Make sure that the person trusts what would be started outside of a sandbox, and each new
    line of it. What a first run says of the rest; empty later. Raises UsageError where they do not.
    """
    first = known(place(repo)) is None
    new = questions(repo, found, holds)
    if new and not ask(new, first):
        raise UsageError("nothing was started: this repository is not trusted", hint=HINT)
    told = [line for line in found.project if line not in new]
    if new or (first and told):
        agree(repo, new)
    shown = plain.line("; ".join(told), 300)
    return f"what this repository has run stays in the sandbox: {shown}" * (first and bool(told))


HINT = "kern trust; or kern --trust, KERN_TRUST=1 for one run; kern --no-project-settings"
