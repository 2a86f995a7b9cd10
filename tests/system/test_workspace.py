"""Where a run keeps its files: paths, safe folders, whole files, history."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kern.errors import UsageError
from kern.model import Stage
from kern.system import workspace
from kern.system.workspace import Scope
from tests.conftest import HERE


@pytest.fixture
def where(tmp_path: Path) -> Scope:
    return workspace.scope(tmp_path / "project", "main")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def stage_file(task: str = "t", **more: Any) -> dict[str, Any]:
    return {"type": "result", "result": "text", "kern": {"task": task, **more}}


def test_a_branch_has_its_documented_place(tmp_path: Path) -> None:
    where = workspace.scope(tmp_path / "p", "feature/x")
    folder = tmp_path / "kern" / "p" / "feature" / "x"
    assert where.stage_file(Stage.IMPLEMENT) == folder / "stage2.json"
    assert not where.transcript(Stage.IMPLEMENT).match("stage*")


def test_run_files_may_lie_below_kern_s_own_folder_and_nowhere_else_in_a_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERN_DIR", str(tmp_path / ".kern" / "run"))
    assert workspace.scope(tmp_path, "main").base == tmp_path / ".kern" / "run"
    monkeypatch.setenv("KERN_DIR", str(tmp_path / "run"))
    with pytest.raises(UsageError, match="lies in the working tree"):
        workspace.scope(tmp_path, "main")


def test_a_file_of_a_person_s_keeps_its_mode_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch(mode=0o640)
    umask = os.umask(0o002)
    workspace.replace(old, b"", private=False)
    workspace.replace(new, b"", private=False)
    os.umask(umask)
    assert [mode(old), mode(new)] == [0o640, 0o664]


def test_repositories_of_the_same_name_do_not_share_a_folder(tmp_path: Path) -> None:
    first, second, third = (
        workspace.scope(tmp_path / parent / "same", "main") for parent in ("a", "b", "c")
    )
    assert first.project == "same"
    assert re.fullmatch("same-[0-9a-f]{6}", second.project)
    assert len({first.project, second.project, third.project}) == 3
    again = workspace.scope(tmp_path / "b" / "same", "other", create=False)
    assert again.project == second.project
    assert workspace.scope(tmp_path / "a" / "same", "main", create=False) == first


def test_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        where = workspace.scope(tmp_path / "project", "feature/x")
        workspace.save(where, Stage.RESEARCH, stage_file())
        workspace.save(where, Stage.IMPLEMENT, stage_file())
        workspace.retire(where, "1")
        workspace.save(where, Stage.IMPLEMENT, stage_file())
        workspace.sweep(where, "20200101T000000Z-t")
    finally:
        os.umask(old)
    found = [path for path in (tmp_path / "kern").rglob("*") if not path.is_symlink()]
    assert {mode(path) for path in found if path.is_dir()} == {0o700}
    assert {mode(path) for path in found if path.is_file()} == {0o600}
    assert mode(tmp_path / "kern") == 0o700


def spoil(folder: Path, how: str, tmp_path: Path) -> None:
    """Make of the folder what kern must not write into."""
    if "link" in how:
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / ("nowhere" if how == "dangling link" else "elsewhere"))
    elif how == "file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod({"writable by others": 0o777, "writable by the group": 0o770}.get(how, 0o700))
    if how == "foreign":
        if os.getuid():
            pytest.skip("only root can give a folder away")
        os.chown(folder, 65534, 65534)


HOW = ["link", "dangling link", "file", "writable by others", "writable by the group", "foreign"]


@pytest.mark.parametrize("how", HOW)
def test_an_unsafe_documented_folder_gives_way_to_one_of_the_user_s_own(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERN_DIR")
    (tmp_path / "tmp" / "claude").mkdir(parents=True)
    spoil(tmp_path / "tmp" / "claude" / "kern", how, tmp_path)
    where = workspace.scope(tmp_path / "p", "main", temporary=tmp_path / "tmp")
    own = tmp_path / "tmp" / f"claude-{os.getuid()}" / "kern"
    assert where.folder == own / "p" / "main"
    assert mode(own.parent) == mode(own) == 0o700
    assert str(own) in where.notice
    looked = workspace.scope(tmp_path / "p", "main", create=False, temporary=tmp_path / "tmp")
    assert looked.folder == where.folder


def test_a_write_that_fails_keeps_the_old_file_and_leaves_no_rest(where: Scope) -> None:
    path = where.stage_file(Stage.RESEARCH)
    workspace.replace(path, b"old")
    limited = (
        "import resource, sys, pathlib\n"
        "from kern.system import workspace\n"
        "from kern.errors import KernError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: workspace.replace(pathlib.Path(sys.argv[1]), b'x' * 5000)\n"
        "except KernError as exc: print(exc)"
    )
    argv, env = [sys.executable, "-c", limited, str(path)], {"PYTHONPATH": str(HERE.parent)}
    failing = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True)
    assert "File too large" in failing.stdout, failing.stderr
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in where.folder.iterdir()] == ["stage1.json"]


def test_a_lock_has_its_documented_place_and_each_branch_its_own(tmp_path: Path) -> None:
    base = tmp_path / "kern"
    assert workspace.scope(tmp_path / "p", "main").lock == base / "p-main.lock.d"
    one, other = (
        workspace.scope(tmp_path / "p", branch).lock for branch in ("feature/x", "feature-x")
    )
    assert one != other
