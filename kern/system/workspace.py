"""Where a run keeps its files: the scope's folder, whole files, stage files, history."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kern.errors import KernError, UsageError
from kern.model import Role, Stage

FLEET = ".fleet"  # below a scope's folder: workers' worktrees and their run files
_ELSEWHERE = "set KERN_DIR to a folder of your own"
_UNSAFE = "is no folder of yours alone, or others can write there"
_FILES = "[as]t*[0-9].json"  # of stages and attempts: what resuming needs


@dataclass(frozen=True, slots=True)
class Scope:
    """Project and branch: what stage files and the lock belong to."""

    base: Path  # …/claude/kern
    project: str
    branch: str
    notice: str = ""  # why another folder than the documented one is used
    copies: Path | None = None  # in git's folder, of what resuming needs: a reboot empties /tmp

    @property
    def folder(self) -> Path:
        return self.base / self.project / self.branch

    @property
    def lock(self) -> Path:
        flat = self.branch.replace("/", "-")
        if flat != self.branch:  # `feature/x` and `feature-x` are two branches
            flat = f"{flat[:40]}-{_digest(self.branch)}"
        return self.base / f"{self.project}-{flat}.lock.d"

    def stage_file(self, stage: Stage, attempt: int = 0) -> Path:  # stage 2's of an earlier one
        return self.folder / (f"attempt{attempt}.json" if attempt else f"stage{stage.number}.json")

    def transcript(self, role: Role) -> Path:
        name = role.number if isinstance(role, Stage) else f"-{role}"
        return self.folder / f"transcript{name}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:6]


def scope(root: Path, branch: str, *, create: bool = True, temporary: Path = Path("/tmp")) -> Scope:
    """The scope of a working tree and branch. With `create` its folders exist and are safe
    afterwards; without, not one byte is written.
    """
    base, notice = _base(root, temporary.resolve())  # behind a link on macOS
    if not os.environ.get("KERN_DIR"):
        own_folder(base.parent, loose=base.parent.name == "claude", create=create)
    own_folder(base, parents=True, create=create)
    project = _project(base, root, create=create)
    folder = base
    for part in (project, *branch.split("/")):
        folder /= part
        own_folder(folder, create=create)
    return Scope(base, project, branch, notice)


def _base(root: Path, temporary: Path) -> tuple[Path, str]:
    if root.parent.name == FLEET:
        return root.parent / "runs", ""
    if not (moved := os.environ.get("KERN_DIR")):
        base, own = (temporary / name / "kern" for name in ("claude", f"claude-{os.getuid()}"))
        if _is_safe(base.parent, loose=True) and _is_safe(base):
            return base, ""
        return own, f"{base.parent} {_UNSAFE}: using {own} instead"
    base = Path(moved).expanduser().absolute()
    real = Path(os.path.realpath(base))
    if real.is_relative_to(root) and not real.is_relative_to(root / ".kern"):
        what = f"KERN_DIR={base} lies in the working tree, where run files would look like work"
        raise UsageError(what, hint=f"set it to a folder outside {root}, or below {root / '.kern'}")
    return base, ""


def _is_safe(folder: Path, *, loose: bool = False) -> bool:
    """Whether files of ours may go there, or it does not exist yet."""
    try:
        status = folder.lstat()
    except OSError as exc:
        return isinstance(exc, FileNotFoundError)
    others = status.st_mode & 0o022 and not (loose and status.st_mode & stat.S_ISVTX)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others


def own_folder(
    folder: Path, *, loose: bool = False, parents: bool = False, create: bool = True
) -> None:
    try:
        with contextlib.suppress(FileExistsError):
            if create:
                folder.mkdir(mode=0o700, parents=parents, exist_ok=True)
    except OSError as exc:
        what = f"the output folder {folder} cannot be made: {exc.strerror}"
        raise UsageError(what, hint=f"free some space there, or {_ELSEWHERE}") from exc
    if not _is_safe(folder, loose=loose):
        what = f"the output folder {folder} {_UNSAFE}"
        raise UsageError(what, hint=f"remove it, or {_ELSEWHERE}")


def _project(base: Path, root: Path, *, create: bool) -> str:
    """The top level's basename; with 6 hex of the path where another repository has the name."""
    plain, path = re.sub(r"[\x00-\x1f]", "_", root.name) or "root", os.fsencode(root)
    for name in (plain, f"{plain}-{_digest(str(root))}"):
        claim = base / name / ".root"
        if create:
            own_folder(base / name)
            with reported(claim), contextlib.suppress(FileExistsError):  # two may claim it at once
                descriptor = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb", 0) as file:
                    file.write(path)
        if read(claim) in (None, path):
            return name
    raise KernError(f"{base} knows another repository under both names of {root}")


# ---------------------------------------------------------------- files


@contextlib.contextmanager
def reported(path: Path) -> Iterator[None]:
    """What cannot be written is said; that it is there, or held, is the caller's to judge."""
    try:
        yield
    except (FileExistsError, TimeoutError):
        raise
    except OSError as exc:
        hint = f"free some space, or make it writable, or {_ELSEWHERE}; then run kern again"
        raise KernError(f"cannot write {path}: {exc.strerror}", hint=hint) from exc


def replace(path: Path, data: bytes, *, private: bool = True, scratch: Path | None = None) -> None:
    """Write a whole file or nothing, and onto the disk before it takes the old one's place, whose
    mode one that is not `private` has. `scratch`: where the half-written file goes if one beside
    the old would be in a person's way.
    """
    with reported(path):
        beside = path.parent
        if scratch and scratch.is_dir() and scratch.stat().st_dev == beside.stat().st_dev:
            beside = scratch
        temporary = beside / f".{path.name}.{secrets.token_hex(4)}"
        mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666
        try:
            with os.fdopen(os.open(temporary, *mode), "wb") as file:
                file.write(data)
                file.flush()
                if not private and path.exists():
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """An overlay leaves a folder that its owner must open before it can go, tools leave read-only
    ones. A gate may have left links: none is followed.
    """
    for above, names, _ in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                if not os.path.islink(place := os.path.join(above, name)):
                    os.chmod(place, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def read(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device may never end
            what = f"cannot read {path}: it is not a file"
            raise UsageError(what, hint="put a file in its place")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}", hint="make it readable") from exc


# ---------------------------------------------------------------- stage files


def save(where: Scope, stage: Stage, value: dict[str, Any]) -> None:
    with _copied(where):
        replace(where.stage_file(stage), json.dumps(value, indent=1).encode())


@contextlib.contextmanager
def _copied(where: Scope) -> Iterator[None]:
    """After each change, so that no copy is ahead."""
    with reported(where.folder):
        yield
    if where.copies:
        _mirror(where.folder, where.copies)


def restore(where: Scope) -> None:
    """From the copies, where nothing of them is left."""
    if where.copies and not any(where.folder.glob("*.json")):
        _mirror(where.copies, where.folder)


def _mirror(folder: Path, other: Path) -> None:
    other.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in sorted({one.name for where in (folder, other) for one in where.glob(_FILES)}):
        source, target = folder / name, other / name
        data = None if source.is_symlink() else read(source)
        if data is None:
            target.unlink(missing_ok=True)
        elif data != read(target):
            replace(target, data)


def forget(where: Scope, stage: Stage) -> None:
    """The stage is done anew; its transcript stays until then."""
    with _copied(where):
        where.stage_file(stage).unlink(missing_ok=True)


def retire(where: Scope, attempt: str) -> None:
    """Make room for the next stage 2: the last one is kept under its own name."""
    with _copied(where):
        logs = where.folder.glob("gate-*.log") if attempt.isdigit() else ()
        moved = {log: f"attempt{attempt}-{log.name}" for log in logs}
        moved[where.stage_file(Stage.IMPLEMENT)] = f"attempt{attempt}.json"
        moved[where.transcript(Stage.IMPLEMENT)] = f"attempt{attempt}-transcript.json"
        for old, new in moved.items():
            if old.exists():
                os.replace(old, where.folder / new)
        for file in (where.stage_file(Stage.COMMIT), where.transcript(Stage.COMMIT)):
            file.unlink(missing_ok=True)


def sweep(where: Scope, name: str) -> None:
    """Move what a finished walk left into `history/<name>/`; `last` points there. Repeatable."""
    with _copied(where):
        for rest in where.folder.glob(".*.*"):  # half-written, of a killed kern
            rest.unlink()
        files = [one for one in where.folder.glob("*") if one.is_file() and not one.is_symlink()]
        stale = [one for one in files if re.match("(stage|transcript|attempt|gate)", one.name)]
        if not stale:
            return
        target = where.folder / "history" / name
        for folder in (target.parent, target):  # of a worker the first is a link
            folder.mkdir(mode=0o700, exist_ok=True)
        # stage1.json goes last: its time names the folder, so a killed sweep goes on into the same
        # one.
        for file in sorted(stale, key=lambda file: file.name == "stage1.json"):
            os.replace(file, target / file.name)
        link = where.folder / ".last"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("history") / name)
        os.replace(link, where.folder / "last")
