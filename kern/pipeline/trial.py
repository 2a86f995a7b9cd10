"""Commands tried once on the tree as it is, before there is any task: held as in a run, and what
they change of a person's files put back.
"""

import contextlib
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence

from kern import plain
from kern.checks.gates import Gates
from kern.config import Gate, Settings
from kern.errors import UsageError
from kern.events import GateEnded, GateStarted, Sink, Warned
from kern.git import checkout, index
from kern.git.repository import Repo
from kern.git.snapshot import Snapshots
from kern.model import LEARNINGS, SPEC, Result
from kern.pipeline import isolation, place, preflight
from kern.sandbox.confine import Means, unheld
from kern.spec.documents import Documents
from kern.system import lock, process, steering, workspace

_LARGE = Settings().large_file * (1 << 20)


def run(
    found: Repo, gates: Sequence[Gate], sandbox: str, sink: Sink, tick: process.Tick
) -> list[Result]:
    """How each ended. `sandbox`: see `isolation.mode`. Raises KernError, and Interrupted, with the
    tree as it was.
    """
    own = preflight.person_settings(found.root)
    branch = found.branch() or found.head().name  # no commit is needed
    scope = workspace.scope(found.root, branch)
    run_id = secrets.token_hex(8)
    wanted = isolation.wanted(found, scope, (), own)
    results: list[Result] = []
    with (
        isolation.ready(wanted, isolation.mode(sandbox, own), sink) as held,
        steering.signals(),
        lock.hold(scope, found.git_dir),
        contextlib.closing(found.store),
        _unchanged(found, sink),
    ):
        if told := isolation.lacking(held):
            sink(Warned(told))
        hold = unheld if held.means is Means.NONE else held.confine
        runner = Gates(found.root, scope, run_id, ("KERN_RUN_ID", run_id), tick, hold)
        for gate in gates:
            sink(GateStarted(gate.label, gate.command, before=True))
            results.append(runner.run(gate, "", before=True))
            sink(GateEnded(results[-1], before=True))
    return results


@contextlib.contextmanager
def _unchanged(found: Repo, sink: Sink) -> Iterator[None]:
    """What was there is again afterwards; what is new stays, and is named."""
    snapshots = Snapshots(found) if _committed(found) else None
    before = snapshots.take() if snapshots else _unborn(found)
    papers = place.documents(found)
    texts = {name: papers.read(name) for name in (SPEC, LEARNINGS)} if snapshots else {}
    stood, staged = _stands(found), workspace.read(found.git_dir / "index")
    try:
        yield
    finally:
        after = snapshots.take(before) if snapshots else _unborn(found)
        changed = found.changed(before, after)
        back = {path: old for path, (old, _) in changed.items() if old}
        checkout.put_back(found, back)
        written = [name for name, text in texts.items() if _rewritten(papers, name, text)]
        if restored := sorted([*back, *written]):
            sink(Warned(f"restored, since a check changed it: {plain.some(restored)}"))
        _heads(found, stood, staged, sink)
        made = [path for path, (old, _) in changed.items() if not old]
        if made := _folded(made, _folders_of(found, before) if made else ()):
            sink(
                Warned(
                    f"the checks left {plain.some(made)}: add to .gitignore what should not be "
                    "committed"
                )
            )


def _rewritten(papers: Documents, name: str, text: str | None) -> bool:
    """Whether one of the two documents, which no snapshot holds, had to be restored."""
    if text is None or papers.read(name) == text:
        return False
    papers.write(name, text)
    return True


def _stands(found: Repo) -> tuple[str, str, str]:
    """What HEAD names, the commit there, and the index as a tree, where it can be one."""
    name = found.run("symbolic-ref", "--quiet", "HEAD")[1].decode("utf-8", "replace").strip()
    commit = found.run("rev-parse", "--quiet", "--verify", "HEAD")[1].decode().strip()
    with index.private(found, copy=True) as env:
        tree = found.run("write-tree", "--missing-ok", env=env)[1].decode().strip()
    return name.removeprefix("refs/heads/"), commit, tree


def _heads(found: Repo, stood: tuple[str, str, str], staged: bytes | None, sink: Sink) -> None:
    """The index goes back; commits and branches stay as a check left them, and that is said."""
    now = _stands(found)
    if now[:2] != stood[:2]:
        was, is_ = (
            f"{name or 'detached'} at {commit[:7] or 'no commit'}"
            for name, commit, _ in (stood, now)
        )
        sink(Warned(f"a check moved HEAD, which stays so: it was {was}, and is {is_}"))
    elif now[2] != stood[2]:
        if staged is None:
            (found.git_dir / "index").unlink(missing_ok=True)
        else:
            workspace.replace(found.git_dir / "index", staged, mode=0o644)
        found.run("update-index", "-q", "--refresh")
        sink(Warned("a check staged or unstaged something: the index is as it was"))


def _unborn(found: Repo) -> str:
    """The visible files as a tree, where git has no commit yet; large ones are left alone."""
    with index.private(found) as env:
        listed = found.paths("ls-files", "-z", "--others", "--exclude-standard", env=env)
        paths = [path for path in listed if path[-1] != "/"]
        small = [path for path in paths if os.lstat(found.root / path).st_size <= _LARGE]
        given = os.fsencode("\0".join(small))
        found.git("update-index", "--add", "-z", "--stdin", given=given, env=env)
        return found.text("write-tree", env=env)


def _committed(found: Repo) -> bool:
    try:
        return bool(found.head())
    except UsageError:
        return False


def _folders_of(found: Repo, tree: str) -> Collection[str]:
    return {*found.paths("ls-tree", "-r", "-d", "-z", "--name-only", tree)}


def _folded(paths: Iterable[str], known: Collection[str]) -> list[str]:
    """Files of a new folder as that folder: a build makes hundreds."""
    inside: dict[str, int] = {}
    for path in sorted(paths):
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        new = next((folder for folder in above if folder not in known), "")
        name = f"{new}/" if new else path
        inside[name] = inside.get(name, 0) + 1
    return [
        f"{name} ({plain.count(number, 'file')})" if number > 1 else name
        for name, number in inside.items()
    ]
