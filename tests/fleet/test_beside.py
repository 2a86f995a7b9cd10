"""Workers where the contents of files lie beside git: nothing of them is lost."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, commit_all


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("git-lfs"), reason="needs git-lfs: apt-get install git-lfs")
def test_what_lies_beside_git_is_there_in_each_worktree_and_stays_beside_it(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    git("config", "--global", "protocol.file.allow", "always")
    git("init", "--quiet", str(tmp_path / "library"))
    git("commit", "--quiet", "--allow-empty", "--message=start", cwd=tmp_path / "library")
    git("submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    git("lfs", "install", "--local")
    git("lfs", "track", "*.bin")
    (repo / "old.bin").write_text("real contents\n")
    gate = "test -e lib/.git && grep -q contents old.bin && ! grep -rq git-lfs --include=*.bin ."
    (repo / "kern.toml").write_text(f'[gates]\ncheck = "{gate}"\n')
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    commit_all(git, "large files")
    sha = git("rev-parse", "HEAD:lib")
    commit = "git -C lib -c user.name=a -c user.email=a@a commit --allow-empty -qm more"
    act, other = f"echo more >> old.bin; {commit}", "echo other > other.bin"
    did = "Did it.\n\nSUCCESS"
    fake.script(implement=[{"run": [act], "result": did}, {"run": [other], "result": did}])
    ran = kern("-j", "2")
    assert ran.code == 0, ran.said
    assert "all verified by check" in ran.out  # the second on what had landed
    found = {"old.bin": "real contents\nmore\n", "other.bin": "other\n"}
    for name, text in found.items():
        pointer = git("show", f"HEAD:{name}").splitlines()[0]
        assert pointer == "version https://git-lfs.github.com/spec/v1"
        assert (repo / name).read_text() == text
    assert git("rev-parse", "HEAD:lib") == sha and git("status", "--porcelain") == ""
    assert git("worktree", "list").count("\n") == 0
