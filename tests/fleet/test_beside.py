"""Workers in a repository whose files have their contents beside git: they are there in each
worktree, commits hold what git holds of them, and nothing is lost.
"""

import shutil
from pathlib import Path

import pytest

from kern.git import repository, submodules
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
    assert ran.out.count("verified by gate check") == 2  # the second on what had landed
    found = {"old.bin": "real contents\nmore\n", "new.bin": "new\n", "other.bin": "other\n"}
    for name, text in found.items():
        assert git("show", f"HEAD:{name}").splitlines()[0] == LFS
        assert (repo / name).read_text() == text
    assert git("status", "--porcelain") == ""
    assert "OK" in git("lfs", "fsck")


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_what_is_committed_in_a_submodule_is_there_when_its_worktree_is_gone(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path, known: bool
) -> None:
    """`known`: whether the person has it checked out. What they have not pushed is in the worktree
    as well.
    """
    git("config", "--global", "protocol.file.allow", "always")
    git("init", "--quiet", str(tmp_path / "library"))
    (tmp_path / "library/lib.txt").write_text("library\n")
    git("add", "--all", cwd=tmp_path / "library")
    git("commit", "--quiet", "--message=start", cwd=tmp_path / "library")
    git("submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    if known:
        (repo / "lib/lib.txt").write_text("library\nmine\n")
        git("commit", "--quiet", "--all", "--message=not pushed", cwd=repo / "lib")
    (repo / "kern.toml").write_text('[gates]\ncheck = "grep -q library lib/lib.txt"\n')
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=a library")
    if not known:
        git("submodule", "--quiet", "deinit", "--force", "lib")
        shutil.rmtree(repo / ".git/modules/lib")
    commit = "git -C lib -c user.name=a -c user.email=a@a commit -qam more"
    act = f"echo more >> lib/lib.txt && {commit}"
    did = "Did it.\n\nSUCCESS"
    fake.script(implement=[{"run": [act], "result": did}, {"run": ["touch two"], "result": did}])
    ran = kern("-j", "2")
    assert ran.code == 0, ran.said
    assert ran.out.count("verified by gate check") == 2
    assert git("worktree", "list").count("\n") == 0
    sha = git("rev-parse", "HEAD:lib")
    place = repo / "lib" if known else repo
    assert git("show", f"{sha}:lib.txt", cwd=place).splitlines()[-1] == "more"
    assert git("for-each-ref", "--format=%(objectname)", "refs/kern/inside", cwd=place) == sha


@pytest.mark.parametrize("shallow", [False, True])
def test_a_submodules_commit_is_kept_by_a_ref_however_it_is_set_up(
    repo: Path, git: Git, tmp_path: Path, shallow: bool
) -> None:
    library, made = tmp_path / "library", tmp_path / "made"
    git("config", "--global", "protocol.file.allow", "always")
    git("init", "--quiet", str(library))
    for name in ("one", "two"):
        (library / name).touch()
        git("add", "--all", cwd=library)
        git("commit", "--quiet", f"--message={name}", cwd=library)
    git("submodule", "--quiet", "add", library.as_uri(), "lib")
    if shallow:  # and not checked out by the person
        git("config", "--file", ".gitmodules", "submodule.lib.shallow", "true")
        git("submodule", "--quiet", "deinit", "--force", "lib")
        shutil.rmtree(repo / ".git/modules/lib")
    git("add", "--all")
    git("commit", "--quiet", "--message=a library")
    git("worktree", "add", "--quiet", "--detach", str(made))
    git("submodule", "--quiet", "update", "--init", cwd=made)
    assert git("rev-parse", "--is-shallow-repository", cwd=made / "lib") == str(shallow).lower()
    git("commit", "--quiet", "--allow-empty", "--message=more", cwd=made / "lib")
    if not shallow:
        git("config", "--global", "protocol.file.allow", "never")
    sha = git("rev-parse", "HEAD", cwd=made / "lib")
    for _ in range(2):
        assert not submodules.returned(repository.open_at(made), repository.open_at(repo))
    git("worktree", "remove", "--force", str(made))
    place = repo if shallow else repo / "lib"
    assert git("log", "--format=%s", f"refs/kern/inside/{sha}", cwd=place).split() == [
        *("more", "two", "one")
    ]
    assert git("rev-parse", "--is-shallow-repository") == "false"
