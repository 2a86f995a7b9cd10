"""Workers in a repository whose files have their contents beside git: they are there in each
worktree, commits hold what git holds of them, and nothing is lost.
"""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern

LFS = "version https://git-lfs.github.com/spec/v1"
GATE = (
    '[gates]\ncheck = "grep -q contents old.bin && ! grep -rq git-lfs.github --include=*.bin ."\n'
)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("git-lfs"), reason="needs git-lfs: apt-get install git-lfs")
def test_what_git_lfs_holds_is_real_in_each_worktree_and_a_pointer_in_each_commit(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    git("lfs", "install", "--local")
    git("lfs", "track", "*.bin")
    (repo / "old.bin").write_text("real contents\n")
    (repo / "kern.toml").write_text(GATE)
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=large files")
    act = "grep -q 'real contents' old.bin && echo more >> old.bin && echo new > new.bin"
    other = "grep -q 'real contents' old.bin && echo other > other.bin"
    did = "Did it.\n\nSUCCESS"
    fake.script(implement=[{"run": [act], "result": did}, {"run": [other], "result": did}])
    ran = kern("-j", "2")
    assert ran.code == 0, ran.said
    assert "all verified by check" in ran.out  # the second on what had landed
    found = {"old.bin": "real contents\nmore\n", "new.bin": "new\n", "other.bin": "other\n"}
    for name, text in found.items():
        assert git("show", f"HEAD:{name}").splitlines()[0] == LFS
        assert (repo / name).read_text() == text
    assert git("status", "--porcelain") == ""
    assert "OK" in git("lfs", "fsck")


@pytest.mark.slow
def test_a_worker_sees_a_submodule_and_changes_none(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    git("config", "--global", "protocol.file.allow", "always")
    git("init", "--quiet", str(tmp_path / "library"))
    (tmp_path / "library/lib.txt").write_text("library\n")
    git("add", "--all", cwd=tmp_path / "library")
    git("commit", "--quiet", "--message=start", cwd=tmp_path / "library")
    git("submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    (repo / "kern.toml").write_text('[gates]\ncheck = "grep -q library lib/lib.txt"\n')
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=a library")
    sha = git("rev-parse", "HEAD:lib")
    commit = "git -C lib -c user.name=a -c user.email=a@a commit -qam more"
    act = f"echo more >> lib/lib.txt && {commit}; echo new > new.txt"
    did = "Did it.\n\nSUCCESS"
    fake.script(implement=[{"run": [act], "result": did}, {"run": ["touch two"], "result": did}])
    ran = kern("-j", "2")
    assert ran.code == 0, ran.said
    assert "all verified by check" in ran.out
    assert git("worktree", "list").count("\n") == 0
    assert git("rev-parse", "HEAD:lib") == sha
    assert {"new.txt", "two"} <= {*git("ls-files").split()}
