"""All that a repository makes kern, the agent and git start, and whether the person trusts it."""

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from kern import plain
from kern.agents.protocol import Agent
from kern.config import FILE, Gate, Settings
from kern.errors import KernError, UsageError
from kern.frozen import frozen
from kern.git import protected_files
from kern.git.protected_files import PROMPTS
from kern.git.repository import Repo
from kern.obeyed import digest
from kern.spec import required
from kern.spec.checklist import Spec
from kern.system import workspace

Ask = Callable[[Sequence[str], bool], bool]  # the lines, and whether all of them are new
_LARGEST = 1 << 20  # bytes of a record
_MARK = "kern.trust"  # in git's folder


def started(
    repo: Repo, settings: Settings, parsed: Spec, agents: Iterable[Agent]
) -> tuple[str, ...]:
    """A line each, whole, and what a terminal would act on or hide as an escape."""
    found = [
        *(f"gate {gate.shown}" for gate in (*settings.gates, *settings.final)),
        *(f"probe {probe.shown}" for probe in settings.probes),
        *settings.fleet.asks,
        *(f"gate {gate.shown}" for gate in required.open_gates(parsed)),
        *_prompts(repo.root),
        *(line for one in agents for line in one.started(_files(one, repo.root))),
        *_hooks(repo),
    ]
    return tuple(dict.fromkeys(map(_shown, found)))


def _shown(line: str) -> str:
    return plain.data(line, indent=None)[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def unseen(repo: Repo, agent: Agent) -> list[str]:
    """What its settings have the agent do, and the person has not seen. Raises UsageError."""
    seen = known(place(repo)) or ()
    return [line for line in map(_shown, agent.started({})) if line not in seen]


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


def typed(repo: Repo, lines: Collection[str], commands: Iterable[str]) -> None:
    """A person typed these gates themselves, which is their yes to them; where they were never
    asked here, only if the repository would start nothing else. `lines`: all that it would start.
    """
    own = {_shown(f"gate {Gate('', command, 0).shown}") for command in commands} & {*lines}
    before = known(place(repo))
    if own - (before or frozenset()) and (before is not None or own == {*lines}):
        remember(repo, (*(before or ()), *own))


def asks(repo: Repo, lines: Iterable[str], *, every: bool) -> bool:
    """Whether a run would ask before it starts these; `every`: as for `settle`."""
    before = known(place(repo))
    return (before is None or every) and not {*lines} <= (before or frozenset())


@frozen
class Consent:
    new: tuple[str, ...] = ()  # that a person who said yes once has not seen yet
    refused: tuple[str, ...] = ()  # what asks for more than they said yes to

    @property
    def said(self) -> tuple[str, ...]:
        """What a run says of it."""
        told = f"new since you trusted this repository: {'; '.join(self.new)}" if self.new else ""
        asks = "; ".join(self.refused)
        more = f"asks for more than you trust, and does not get it: {asks}: kern trust"
        return tuple(filter(None, (told, f"{FILE} {more}" if asks else "")))


def settle(
    repo: Repo,
    lines: Sequence[str],
    ask: Ask,
    *,
    asks: Collection[str] = (),
    every: bool = False,
    now: bool = False,
) -> Consent:
    """Make sure that the person trusts what would be started. `asks`: of the lines those that open
    the sandbox, which count only after a yes. `every`: they are asked about anything new; `now`:
    they have said yes for this run. Raises UsageError where they do not.
    """
    if now or not lines:
        return Consent()
    record = place(repo)
    before = known(record)
    new = [line for line in lines if line not in (before or ())]
    if not new:
        return Consent()
    if before is None or every:
        if not ask(new, before is None):
            raise UsageError("nothing was started: this repository is not trusted", hint=HINT)
        remember(repo, (*(before or ()), *new))
        return Consent()
    told = tuple(line for line in new if line not in asks)
    if told:
        remember(repo, (*before, *told))
    return Consent(told, tuple(line for line in new if line in asks))


HINT = "kern trust; or kern --trust, KERN_TRUST=1 for one run; kern --no-project-settings"
