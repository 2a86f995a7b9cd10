"""The wall itself: real namespaces, a real home of the children's, real links."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest

from kern.errors import UsageError
from kern.model import Needs
from kern.person import Holding, Mode
from kern.sandbox import confine, means
from kern.sandbox.confine import Sandbox, chosen
from kern.sandbox.means import Means
from kern.sandbox.wall import Access, Kind, Mount, Tree
from tests.conftest import executable

needs_bwrap = pytest.mark.skipif(
    not shutil.which(means.BWRAP), reason="bubblewrap is not installed"
)
HOME = (
    *(".ssh/id", ".netrc", ".npmrc", "other/.env", ".cache/uv/x", ".bash_history", "bin/tool"),
    *(".claude/settings.json", ".claude/.credentials.json", ".claude/history.jsonl"),
    *(".codex/auth.json", ".cargo/bin/rustc", ".fly/bin/fly", ".fly/config.yml", "jdk/bin/java"),
    "jdk/lib/x",
)


@dataclass
class World:
    wanted: Sandbox
    home: Path
    root: Path

    @cached_property
    def held(self) -> Sandbox:
        return chosen(Mode.BWRAP, self.wanted)

    def sh(
        self,
        kind: Kind,
        command: str,
        agent: str = "",
        env: Mapping[str, str] | None = None,
        **change: object,
    ) -> "subprocess.CompletedProcess[str]":
        held = replace(self.held, **change)  # type: ignore[arg-type]
        given = {**os.environ, **(env or {})}
        confined = held.confine(kind, ["sh", "-c", command], given, agent=agent)
        return subprocess.run(
            confined.argv, env=dict(confined.env), capture_output=True, text=True, check=False
        )


@pytest.fixture
def world(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    home = tmp_path / "home"
    for name in HOME:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        executable((home / name), "secret")
    folders = [home / name for name in (".cargo/bin", ".fly/bin", "bin", "jdk/bin")]
    monkeypatch.setenv("PATH", ":".join(map(str, [*folders, os.environ["PATH"]])))
    confine.homes(tmp_path / "own")
    folder = home / ".claude"
    needs = {
        "claude": Needs(
            (f"{folder}/.credentials.json",),
            (f"{folder}/settings.json", f"{folder}/skills", f"{folder}/settings.local.json"),
            variables=("ANTHROPIC_",),
        ),
        "codex": Needs((f"{home}/.codex/auth.json",), variables=("OPENAI_API_KEY",)),
    }
    tree = Tree(repo, repo / ".git", repo / ".git", documents=(repo / "SPEC.md",))
    programs = confine.programs(home, sys.executable)
    return World(Sandbox(tree, home, tmp_path / "own", needs=needs, programs=programs), home, repo)


CAN = [
    (Kind.WORKER, "echo x > new.txt && rm new.txt", True),
    (Kind.WORKER, "git status --porcelain && git diff && git log -1", True),
    (Kind.WORKER, "git commit --allow-empty -m x", False),
    (Kind.WORKER, "git config core.fsmonitor evil", False),
    (Kind.WORKER, "echo x > .git/hooks/pre-commit", False),
    (Kind.WORKER, "echo x >> SPEC.md", False),
    (Kind.WORKER, "touch /etc/x || touch /x || touch /usr/x", False),
    (Kind.WORKER, "touch /tmp/x /dev/shm/x ~/x && mkdir -p ~/.local/share/pnpm", True),
    (Kind.WORKER, "umount /proc/sys || mount -o remount,bind,rw /etc || chroot /", False),
    (Kind.WORKER, "grep -q 'CapEff:.0000000000000000' /proc/self/status", True),
    (Kind.WORKER, "grep -q 'CapBnd:.0000000000000000' /proc/self/status", True),
    (Kind.WORKER, "cd /proc/sys/kernel; read -r x <core_pattern; echo $x >core_pattern", False),
    (Kind.WORKER, "ls ~/.ssh || ls ~/.npmrc || ls ~/other || ls ~/.bash_history", False),
    (Kind.WORKER, "ls ~/.fly/config.yml", False),
    (Kind.WORKER, "ls ~/.cargo/bin/rustc ~/bin/tool ~/.fly/bin/fly ~/jdk/lib/x", True),
    (Kind.WORKER, "echo x >> ~/.cargo/bin/rustc", False),
    (Kind.WORKER, "test -d /data || test -d /mnt || test -d /srv", False),
    (Kind.CHECK, "echo x > new.txt && rm new.txt && touch ~/x", True),
    (Kind.CHECK, "cat ~/.npmrc 2>&1 | grep 'No such file'", True),  # yarn and Maven go on
    (Kind.CHECK, "git commit --allow-empty -m x", False),
    (Kind.CHECK, "git config --global user.name", True),
    (Kind.CHECK, "env | grep HUSKY=0", True),
    (Kind.CHECK, "grep -q ' /[.][.]' /proc/self/mountinfo", False),  # the JVM reads it
    (Kind.COMMITTER, "env | grep HUSKY", False),
    (Kind.READER, "echo x > new.txt", False),
    (Kind.READER, "git log -1", True),
    (Kind.COMMITTER, "git commit --allow-empty -m x", True),
    (Kind.COMMITTER, "echo x > .git/hooks/pre-commit", False),
    (Kind.COMMITTER, "git config core.fsmonitor evil", False),
]


@needs_bwrap
@pytest.mark.parametrize("kind", Kind)
def test_what_a_child_can_do(world: World, kind: Kind) -> None:
    for of, command, works in CAN:
        if of is kind:
            done = world.sh(kind, command)
            assert (done.returncode == 0) is works, command + done.stdout + done.stderr


@needs_bwrap
def test_caches_are_kept_and_nobody_finds_what_implement_left_but_implement(world: World) -> None:
    world.sh(Kind.WORKER, "mkdir -p ~/.cache/uv && echo warm > ~/.cache/uv/x")
    assert world.sh(Kind.WORKER, "cat ~/.cache/uv/x").stdout == "warm\n"
    for kind in (Kind.READER, Kind.CHECK, Kind.COMMITTER):
        assert world.sh(kind, "cat ~/.cache/uv/x").returncode, kind
    assert (world.home / ".cache/uv/x").read_text() == "secret", "the person's own"


@needs_bwrap
@pytest.mark.parametrize("kind", [Kind.CHECK, Kind.WORKER, Kind.READER])
def test_nothing_else_is_left_in_a_home_for_the_next(world: World, kind: Kind) -> None:
    """What a red change's gate leaves there, no later gate may run, import or obey."""
    (world.home / ".local/bin").mkdir(parents=True)
    places = "~/.local/bin/x ~/.local/lib/p/x ~/.bashrc ~/.config/pip/x ~/.m2/x ~/.cargo/x"
    leaves = f"for x in {places}; do mkdir -p $(dirname $x); echo x > $x || exit; done"
    done = world.sh(kind, leaves)
    assert done.returncode == 0, done.stderr
    assert world.sh(kind, f"ls -d {places}").stdout == ""


@needs_bwrap
def test_no_link_for_a_cache_is_made_in_what_the_person_opened(world: World) -> None:
    opened = Holding(write=(f"{world.home}/.cache",), read=(f"{world.home}/.cargo",))
    done = world.sh(Kind.CHECK, "cat ~/.cache/uv/x && echo y > ~/.cache/uv/y", grants=opened)
    assert (done.returncode, done.stdout) == (0, "secret")
    assert [path.name for path in (world.home / ".cache").iterdir()] == ["uv"]
    assert [path.name for path in (world.home / ".cargo").iterdir()] == ["bin"]


@needs_bwrap
def test_an_agent_has_its_own_login_and_settings_and_no_command_any(world: World) -> None:
    login = {"claude": "~/.claude/.credentials.json", "codex": "~/.codex/auth.json"}
    for agent in login:
        for other, place in login.items():
            done = world.sh(Kind.WORKER, f"cat {place}", agent)
            assert (done.returncode == 0) is (agent == other), (agent, other)
    for kind in (Kind.CHECK, Kind.COMMITTER):
        assert not any(world.sh(kind, f"cat {one}").stdout for one in login.values())
    assert world.sh(Kind.WORKER, "ls ~/.claude/history.jsonl", "claude").returncode
    assert world.sh(Kind.WORKER, "cat ~/.claude/settings.json", "claude").stdout == "secret"
    for place in ("settings.json", "settings.local.json", "skills/x"):  # two are not there
        done = world.sh(Kind.WORKER, f"echo evil > ~/.claude/{place}", "claude")
        assert done.returncode, place
    empty = world.sh(Kind.WORKER, "cat ~/.claude/settings.local.json", "claude").stdout
    assert json.loads(empty) == {}
    assert not (world.home / ".claude/settings.local.json").exists()


@needs_bwrap
def test_variables_are_a_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"DATABASE_URL": "p", "GH_PAT": "p", "OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    for agent, seen in (("", ""), ("claude", "ANTHROPIC_API_KEY"), ("codex", "OPENAI_API_KEY")):
        out = world.sh(Kind.WORKER, "env", agent, env={"GIT_INDEX_FILE": "of kern"}).stdout
        names = {line.partition("=")[0] for line in out.splitlines()}
        assert names & {*theirs} == ({seen} if seen else set())
        assert {"PATH", "HOME", "GIT_INDEX_FILE", "TMPDIR"} <= names
    opened = world.sh(Kind.CHECK, "env", grants=Holding(env=("DATABASE_URL",))).stdout
    assert "DATABASE_URL=p" in opened


@needs_bwrap
@pytest.mark.parametrize(
    "harm",
    [
        "cd /run/kern/kept; rm -rf .npm .cache-uv; ln -s /proc .npm; echo x > .cache-uv",
        "cd ~/.claude; ln -s ../../../../elsewhere skills; echo x > agents; mkfifo hooks",
        "cd ~/.claude; ln -s /oldroot/tmp/made keys",
        "cd ~/.claude; mkdir keys; ln -s /nowhere keys/of; echo x > keys/y",
    ],
)
def test_what_a_child_leaves_in_what_is_kept_keeps_no_other_from_starting(
    world: World, harm: str
) -> None:
    login = f"{world.home}/.claude/.credentials.json"
    bare = replace(world.wanted, needs={"claude": Needs((login,))})
    done = replace(world, wanted=bare).sh(Kind.WORKER, harm, "claude")
    assert done.returncode == 0, done.stderr
    for name in ("skills", "agents", "hooks"):
        (world.home / ".claude" / name).mkdir()
    (world.home / ".claude/keys/of").mkdir(parents=True)
    (world.home / ".claude/keys/of/a.json").write_text("{}")
    names = ("skills", "agents", "hooks", "keys/of/a.json")
    settings = tuple(f"{world.home}/.claude/{name}" for name in names)
    needs = {"claude": Needs((login,), settings)}
    confine.homes(world.wanted.own)
    looks = f"cd ~/.claude && ls {' '.join(names)} && echo x > ~/.npm/x && echo x > ~/.cache/uv/x"
    found = world.sh(Kind.WORKER, looks, "claude", needs=needs)
    assert found.returncode == 0, found.stderr


def test_nobody_else_looks_into_the_homes(tmp_path: Path) -> None:
    """Nor where an earlier kern made the folder for all."""
    for name in ("new/own", "old"):
        folder = tmp_path / name
        (tmp_path / "old").mkdir(mode=0o755, exist_ok=True)
        confine.homes(folder)
        assert folder.stat().st_mode & 0o77 == 0


@needs_bwrap
def test_what_the_person_opens_is_open(world: World, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_text("x")
    place = f"{tmp_path}/data/x"
    for grants, reads, writes in (
        (Holding(), False, False),
        (Holding(read=(f"{tmp_path}/data",)), True, False),
        (Holding(write=(f"{tmp_path}/data",)), True, True),
    ):
        assert (world.sh(Kind.CHECK, f"cat {place}", grants=grants).returncode == 0) is reads
        done = world.sh(Kind.CHECK, f"echo y >> {place}", grants=grants)
        assert (done.returncode == 0) is writes
    for opened in (
        Holding(devices=("/dev/zero",), read=(f"{tmp_path}/nowhere",)),
        Holding(write=("/dev/zero",)),
    ):
        done = world.sh(Kind.CHECK, "head -c 4 /dev/zero | wc -c", grants=opened)
        assert done.stdout.strip() == "4"


@needs_bwrap
@pytest.mark.parametrize(
    "target", [".kern", "nowhere", "../home/.ssh/id", "/", "/proc", "/proc/self/environ", "/tmp"]
)
def test_a_link_in_the_repository_opens_nothing_and_costs_nobody_the_sandbox(
    world: World, target: str
) -> None:
    for name in (".kern", ".venv", "keys"):
        (world.root / name).symlink_to(target)
    tree = replace(world.wanted.tree, kept=(world.root / ".kern",))
    looks = "! grep -r secret ../home/.ssh keys/../.ssh; ls /proc | grep -c '^[0-9]'"
    said = world.sh(Kind.WORKER, looks, tree=tree).stdout
    assert "secret" not in said and int(said) < 8


@needs_bwrap
@pytest.mark.parametrize("folder", ["", "/../", "/..//home/"])
def test_a_path_that_names_the_home_opens_none(
    world: World, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("PATH", f"/:{world.home}{folder}:{os.environ['PATH']}")
    assert "secret" not in world.sh(Kind.CHECK, "cat ~/.ssh/id ~/.netrc").stdout


@needs_bwrap
@pytest.mark.parametrize("target", [".ssh/bin/python", "bin/python", ".ssh/python"])
def test_a_python_that_the_repository_names_opens_no_home(world: World, target: str) -> None:
    (world.root / ".venv/bin").mkdir(parents=True)
    (world.root / ".venv/pyvenv.cfg").touch()
    (world.root / ".venv/bin/python").symlink_to(world.home / target)
    done = world.sh(Kind.CHECK, "cat ~/.ssh/id ~/.netrc")
    assert done.returncode and "secret" not in done.stdout


@needs_bwrap
def test_a_virtual_environment_elsewhere_is_there(world: World, tmp_path: Path) -> None:
    for name in ("pyvenv.cfg", "lib/x"):
        (tmp_path / "venvs/p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "venvs/p" / name).write_text("x")
    (world.root / ".venv").symlink_to(tmp_path / "venvs/p")
    assert world.sh(Kind.CHECK, "cat .venv/lib/x").stdout == "x"
    assert world.sh(Kind.CHECK, "echo y > .venv/lib/x").returncode


@needs_bwrap
def test_a_child_adds_programs_to_the_persons_and_changes_none(world: World) -> None:
    scripts = {name: f"#!/bin/sh\necho {name}\n" for name in ("plain", "linked", "npm")}
    venv = world.home / ".local/share/uv/tools/x/bin"
    library = world.home / ".npm-global/lib/node_modules/npm"
    for folder, name in ((world.home / ".local/bin", "plain"), (venv, "linked"), (library, "npm")):
        folder.mkdir(parents=True)
        executable((folder / name), scripts[name])
    (world.home / ".local/bin/linked").symlink_to("../share/uv/tools/x/bin/linked")
    (world.home / ".npm-global/bin").mkdir()
    (world.home / ".npm-global/bin/npm").symlink_to("../lib/node_modules/npm/npm")
    path = f"{world.home}/.npm-global/bin:{os.environ['PATH']}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        own = "cp ~/.local/bin/plain ~/.local/bin/mine && mkdir ~/.local/share/uv/tools/y"
        assert world.sh(Kind.CHECK, f"{own} && ~/.local/bin/mine").stdout == "plain\n"
        evil = "cd ~/.local/bin && cp plain mine && rm linked plain && cp mine plain"
        assert world.sh(Kind.CHECK, f"{evil} && mkdir linked").returncode == 0
        assert world.sh(Kind.CHECK, "echo x >> ~/.local/share/uv/tools/x/bin/linked").returncode
        programs = "~/.local/bin/linked; ~/.local/bin/plain; ~/.npm-global/bin/npm"
        done = world.sh(Kind.CHECK, f"{programs}; ls ~/.local/share/uv/tools")
    assert done.stdout.split() == ["linked", "plain", "npm", "x"], done.stderr
    assert sorted(os.listdir(world.home / ".local/bin")) == ["linked", "plain"]


_KEYRING = """
import ctypes, platform, sys
add, ask = {"x86_64": (248, 249), "aarch64": (217, 218)}[platform.machine()]
call = ctypes.CDLL(None, use_errno=True).syscall
if sys.argv[1:]:  # into the keyring of this session, which children have
    assert call(add, b"user", b"kern-test", b"secret", 6, -3) > 0, "skip"
    import subprocess
    sys.exit(subprocess.run(sys.argv[1:]).returncode)
sys.exit(call(ask, b"user", b"kern-test", None, 0) > 0)
"""


@needs_bwrap
@pytest.mark.parametrize("network", [None, ("*",)])
def test_the_keys_of_the_persons_session_stay_there(
    world: World, tmp_path: Path, network: tuple[str, ...] | None
) -> None:
    script = world.root / "keys.py"
    script.write_text(_KEYRING)
    ask = (sys.executable, str(script))
    seen = subprocess.run([*ask, *ask], capture_output=True, text=True, check=False)
    if "skip" in seen.stderr or "KeyError" in seen.stderr:
        pytest.skip("this machine keeps no keys")
    assert seen.returncode == 1, "without a sandbox they are there"
    held = chosen(Mode.BWRAP, replace(world.wanted, grants=Holding(network=network)))
    confined = held.confine(Kind.WORKER, ask, os.environ)
    argv = (*ask, *confined.argv)
    assert subprocess.run(argv, env=dict(confined.env), check=False).returncode == 0


@needs_bwrap
def test_a_home_that_is_a_link_is_another_all_the_same(world: World, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(world.home)
    both = f"ls {tmp_path}/link/.ssh; ls {world.home}/.ssh; echo x > $HOME/y; cat {world.home}/y"
    done = world.sh(Kind.WORKER, both, home=tmp_path / "link")
    assert done.stdout == "x\n"
    assert not (world.home / "y").exists()


@pytest.mark.parametrize(
    ("home", "program", "why"),
    [
        ("/", "/usr/bin/bwrap", "your home folder is /"),
        ("ROOT", "/usr/bin/bwrap", "home folder is the repository"),
        ("ROOT/home", "/usr/bin/bwrap", "or lies in it"),
        ("/h", "ROOT/bwrap", "a file of this repository"),
        ("/h", "LINK/bwrap", "a file of this repository"),
        ("/h", "", "bubblewrap is not installed"),
    ],
)
def test_where_nothing_can_hold_there_is_no_sandbox(
    world: World, home: str, program: str, why: str
) -> None:
    (world.root / "bwrap").symlink_to("/usr/bin/bwrap")
    link = world.root.with_name("link")
    link.symlink_to(world.root)
    program = program.replace("LINK", str(link))
    home, program = (one.replace("ROOT", str(world.root)) for one in (home, program))
    wanted = replace(world.wanted, home=Path(home))
    held = chosen(Mode.AUTO, wanted, lambda name: program)
    assert held.means is Means.NONE and why in held.why
    with pytest.raises(UsageError, match=why):
        chosen(Mode.BWRAP, wanted, lambda name: program)


@pytest.mark.parametrize(
    ("complaint", "why"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        (
            "bwrap: Creating new namespace failed: Operation not permitted",
            "user namespaces are off",
        ),
        ("bwrap: No permissions to create new namespace, likely …", "user namespaces are off"),
        ("bwrap: Creating new namespace failed: No space left on device", "used up"),
        (
            "bwrap: Creating new namespace failed: nesting depth or "
            "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            "allowed to nobody",
        ),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "/proc"),
        ("bwrap: Unknown option --unshare-cgroup-try", "too old"),
        ("bwrap: Can't bind mount /x on /newroot/x: Input/output error", "Can't bind mount /x"),
    ],
)
def test_why_it_cannot_work_here_is_known(
    world: World, tmp_path: Path, complaint: str, why: str
) -> None:
    broken = tmp_path / "bin" / "bwrap"
    broken.parent.mkdir()
    executable(broken, f'#!/bin/sh\nprintf "%s\\n" "{complaint}" >&2\nexit 1\n')

    def find(name: str) -> str | None:
        return str(broken) if name == means.BWRAP else None

    with pytest.raises(UsageError, match="KERN_SANDBOX=bwrap cannot be") as raised:
        chosen(Mode.BWRAP, world.wanted, find)
    assert why in str(raised.value) and raised.value.hint
    assert why in chosen(Mode.AUTO, world.wanted, find).why, "auto goes on, with a word"


def test_the_profile_of_macos_closes_the_home_and_opens_what_is_listed(tmp_path: Path) -> None:
    """By its text alone: there is no such system here."""
    home, own = tmp_path / "home", tmp_path / "own"
    tool = home / ".cargo/bin"
    tool.mkdir(parents=True)
    mounts = [Mount(Access.EMPTY, home), Mount(Access.READ, tool), Mount(Access.WRITE, tmp_path)]
    *_, profile = means.seatbelt(mounts, home, own, online=False)
    assert (own / ".cargo/bin").resolve() == tool
    lines = profile.splitlines()
    closed = lines.index(f'(deny file-read* (subpath "{home}"))')
    assert next(i for i, line in enumerate(lines) if f'"{tool}"' in line) > closed
    assert (
        f'(allow file-read* (subpath "{tmp_path}"))(allow file-write* (subpath "{tmp_path}"))'
        in lines
    )
