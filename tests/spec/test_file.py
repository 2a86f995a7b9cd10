"""SPEC.md on the disk: another process may hold the lock, and what stood there may be gone."""

import fcntl
import os
from pathlib import Path

import pytest

from kern.model import SPEC
from kern.spec.file import Documents


def test_a_lock_that_is_never_let_go_stops_no_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERN_TEST_WAITS", "0.01")
    (tmp_path / SPEC).write_text("- [ ] a\n")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        Documents(tmp_path).edit(lambda text, _: text + "- [ ] b\n")
    finally:
        os.close(folder)
    assert (tmp_path / SPEC).read_text() == "- [ ] a\n- [ ] b\n"
