"""What an agent or a gate leaves in its tree for kern itself, which works outside."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Fake, Git, Kern, commit_all, executable, open_to_tests
from tests.sandbox.test_wall import needs_bwrap

pytestmark = needs_bwrap
IN = {"KERN_SANDBOX": "bwrap"}
PROGRAMS = ("env", "git", "mount", "sh", "unshare")


@pytest.fixture(autouse=True)
def project(repo: Path, git: Git, fake: Fake) -> None:
    open_to_tests(Path.home(), fake.folder)
    (repo / ".gitignore").write_text(".venv/\ntmp/\n")
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n- [ ] add another\n")
    (repo / "kern.toml").write_text('[gates]\ntest = "sh test.sh"\n')
    (repo / "test.sh").write_text("true\n")
    hook = repo / ".git/hooks/pre-commit"
    executable(hook, "#!/bin/sh\ntrue\n")
    for folder in (".venv/bin", "tmp"):
        (repo / folder).mkdir(parents=True)
        (repo / folder / "one").write_text("")
    commit_all(git, "begin")


@pytest.fixture
def short(repo: Path) -> Iterator[str]:
    """A folder of the tree by a path that has room for a socket's name."""
    link = Path(f"/tmp/kern-short-{os.getpid()}")
    link.symlink_to(repo / "tmp")
    yield str(link)
    link.unlink()


def does(fake: Fake, *lines: str) -> None:
    step = {"run": ["date +%N >> a.txt", *lines], "result": "Did it.\n\nSUCCESS"}
    fake.script(implement=[step, step])


@pytest.mark.parametrize(
    ("path", "before"),
    [
        ("{repo}/.venv/bin", "mv .venv tmp/old; mkdir -p .venv/bin"),  # its bin alone is held
        ("{repo}/tmp/bin", "mkdir tmp/bin"),
        ("tmp/bin", "mkdir tmp/bin"),
    ],
)
def test_no_program_of_the_tree_is_taken_for_the_systems(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path, path: str, before: str
) -> None:
    """In place: what lies in a room is in nobody's PATH."""
    settings = '[gates]\ntest = { run = "sh test.sh", room = false }\n'
    (repo / "kern.toml").write_text(settings)
    git("commit", "-qam", "in place")
    ran_outside, folder = tmp_path / "ran", path.removeprefix("{repo}/")
    ran_outside.mkdir()
    planted = '#!/bin/sh\ntouch {}/{} 2> /dev/null\nexec {} "$@"\n'
    for name in PROGRAMS:
        place = repo / "tmp" / name
        executable(place, planted.format(ran_outside, name, shutil.which(name)))
    does(fake, before, *(f"cp tmp/{name} {folder}/" for name in PROGRAMS))
    where = f"{path.format(repo=repo)}:{os.environ['PATH']}"
    ran = kern("1", "0", env={**IN, "PATH": where})
    assert "verified by test" in ran.out and (repo / folder / "git").exists(), ran.said
    assert not os.listdir(ran_outside)


def test_kerns_own_temporary_files_are_not_the_agents(
    repo: Path, fake: Fake, kern: Kern, tmp_path: Path, short: str
) -> None:
    ran_outside = tmp_path / "ran"
    script = "tmp/kern-tmp-*/relay-*/overlays-*"
    does(fake, f"for one in {script}; do sed -i '2i touch {ran_outside}' $one; done; true")
    ran = kern("1", "0", env={**IN, "TMPDIR": short})
    assert "verified by test" in ran.out, ran.said
    assert not ran_outside.exists() and os.listdir(repo / "tmp") == ["one"]


def test_what_a_gate_leaves_over_an_ignored_folder_is_gone_and_leads_nowhere(
    repo: Path, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("")
    theirs.chmod(0o644)
    link = f"mkdir -p .venv/work; ln -s {theirs} .venv/work/work"
    shut = "mkdir shut .venv/shut && touch shut/x .venv/shut/x; chmod 555 shut .venv/shut"
    does(fake, f"echo '{link} && {shut}' > test.sh")
    ran = kern("2", "0", env=IN)
    assert "all verified by test" in ran.out, ran.said
    assert theirs.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("room", ["true", "false"])
def test_no_hook_that_a_task_brings_writes_what_git_obeys_though_it_is_not_there(
    repo: Path, git: Git, fake: Fake, kern: Kern, room: str
) -> None:
    shutil.rmtree(repo / ".git/hooks")
    shutil.rmtree(repo / ".git/info")
    (repo / "kern.toml").write_text(f'[gates]\ntest = {{ run = "sh test.sh", room = {room} }}\n')
    (repo / ".husky").mkdir()
    executable((repo / ".husky/pre-commit"), "#!/bin/sh\n")
    git("config", "core.hooksPath", ".husky")
    commit_all(git, "a hook")
    planted = ("commondir", "config.worktree", "hooks/post-checkout", "info/attributes")
    plant = "mkdir -p .git/hooks .git/info"
    plant += "".join(f"; echo x > .git/{name}" for name in planted)
    does(fake, f"echo '{plant}; touch $FAKE_CLAUDE/ran; true' >> .husky/pre-commit")
    ran = kern("2", "0", env=IN)
    assert "all verified by test" in ran.out and (fake.folder / "ran").exists(), ran.said
    assert not [name for name in planted if (repo / ".git" / name).exists()]


@pytest.mark.parametrize("room", ["true", "false"])
def test_no_git_folder_that_an_agent_lays_for_a_submodule_is_obeyed(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path, room: str
) -> None:
    ran_outside = tmp_path / "ran"
    git("init", "-q", str(tmp_path / "lib"))
    (tmp_path / "lib/l.txt").write_text("l\n")
    git("add", "--all", cwd=tmp_path / "lib")
    git("commit", "-qm", "lib", cwd=tmp_path / "lib")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "lib"), "sub")
    (repo / "kern.toml").write_text(f'[gates]\ntest = {{ run = "sh test.sh", room = {room} }}\n')
    commit_all(git, "a submodule")
    settings = {"core.worktree": f"{repo}/sub", "filter.x.clean": f"touch {ran_outside}; cat"}
    lays = ["cp -r .git/modules/sub tmp/g", "mkdir -p tmp/g/info"]
    lays += [f'git config -f tmp/g/config {name} "{value}"' for name, value in settings.items()]
    lays += ["echo '* filter=x' > tmp/g/info/attributes", "echo x > sub/l.txt", "rm sub/.git"]
    lays += ["echo 'gitdir: ../tmp/g' > sub/.git", "touch $FAKE_CLAUDE/laid"]
    does(fake, " && ".join(lays))
    ran = kern("2", "0", env=IN)
    assert (fake.folder / "laid").exists(), ran.said
    assert not ran_outside.exists(), ran.said
