"""What is said of a failed child's output: real tools' words, in a real sandbox."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kern.events import Event
from kern.git.repository import open_at
from kern.person import Holding, Mode, Person
from kern.pipeline import isolation
from kern.sandbox import closed, wall
from kern.sandbox.confine import Sandbox
from kern.sandbox.wall import Access, Kind, Mount, Wall
from kern.system import workspace
from tests.conftest import Git
from tests.sandbox.test_wall import needs_bwrap

VARIABLE = 'DATABASE_URL is not passed on: [sandbox] env = ["DATABASE_URL"]'


def opened(key: str, what: str) -> str:
    return f'closed by the sandbox: {what} ([sandbox] {key} = ["{what}"] opens it)'


@dataclass
class Child:
    """What commands are started in the sandbox of."""

    held: Sandbox
    port: int  # something of the person's listens there

    def sentences(self, command: str, kind: Kind = Kind.CHECK) -> list[str]:
        command = command.replace("PORT", str(self.port))
        held = self.held.confine(kind, ["sh", "-c", command], os.environ)
        argv, env, root = held.argv, dict(held.env), self.held.tree.root
        joined = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(argv, env=env, cwd=root, text=True, check=False, **joined)  # type: ignore[call-overload]
        assert done.returncode, done.stdout
        return closed.sentences(done.stdout, held.wall)


@pytest.fixture
def child(repo: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    home = Path.home()
    for name in (".ssh/config", "data/in.csv", "src/tool.sh", ".cargo/bin/rustc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("#!/bin/sh\n")
        (home / name).chmod(0o755)
    (home / ".local/bin").mkdir(parents=True)  # empty, and no more is missing there
    (home / "bin").mkdir()
    (home / "bin/tool").symlink_to(home / "src/tool.sh")
    (repo / "a.c").write_text(f'#include "{home}/data/in.csv"\n')
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("DATABASE_URL", "postgres://mine")
    scope = workspace.scope(repo, "main")
    own = Person(holding=Holding(network=("pypi.org",)))
    wanted = isolation.wanted(open_at(repo), scope, [], own)
    events: list[Event] = []
    with socket.socket() as listening, isolation.ready(wanted, Mode.BWRAP, events.append) as held:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield Child(held, listening.getsockname()[1])


PROXIES = "closed by the sandbox: {}, but for programs that use a proxy"
TOOLS = [  # a program, what it is asked, what is said
    ("cat", "cat ~/.ssh/config", opened("read", "~/.ssh/config")),
    ("sh", ". ~/.ssh/config", opened("read", "~/.ssh/config")),
    ("python3", "python3 -c \"open('$HOME/data/in.csv')\"", opened("read", "~/data/in.csv")),
    ("node", "node -e \"fs.readFileSync('$HOME/data/in.csv')\"", opened("read", "~/data/in.csv")),
    ("gcc", "gcc -c a.c", opened("read", "~/data/in.csv")),
    ("perl", "perl -e 'open(F, q(<), $ARGV[0]) or die qq($ARGV[0]: $!)' ~/data/in.csv",
     opened("read", "~/data/in.csv")),
    ("sh", "tool", opened("read", "~/src/tool.sh")),
    ("sh", "echo x > ~/data/new", opened("write", "~/data")),
    ("touch", "touch ~/data/new", opened("write", "~/data")),
    ("rm", "rm ~/.cargo/bin/rustc", opened("write", "~/.cargo/bin")),
    ("git", "git add a.c", "closed by the sandbox: .git cannot be written there"),
    ("sh", "echo x > SPEC.md", "closed by the sandbox: SPEC.md cannot be written there"),
    ("python3", "python3 -c \"import os; os.environ['DATABASE_URL']\"", VARIABLE),
    ("sh", 'sh -uc "echo \\$DATABASE_URL"', VARIABLE),
    ("node", "node -e \"throw Error('DATABASE_URL is required')\"", VARIABLE),
    ("curl", "curl -sS localhost:PORT", opened("network", "localhost:PORT")),
    ("node", "node -e \"net.connect(PORT, '127.0.0.1')\"", opened("network", "localhost:PORT")),
    ("psql", "psql -h localhost -p PORT x", opened("network", "localhost:PORT")),
    ("psql", "psql -h db.example x", PROXIES.format("db.example")),
    ("ssh", "ssh git@db.example", PROXIES.format("db.example")),
    ("git", "git clone git@db.example:x y", PROXIES.format("db.example")),
    ("curl", "curl -sS --noproxy '*' db.example", PROXIES.format("db.example")),
    ("python3", "python3 -c \"import socket; socket.create_connection(('10.9.9.9', 1))\"",
     PROXIES.format("the network")),
    ("git", "git clone https://db.example/x y", opened("network", "db.example")),
    ("npm", "npm view x --registry https://db.example", opened("network", "db.example")),
    # Of what the tree lacks, or the machine, nothing is said.
    ("cat", "cat gone.txt data/in.csv src/tool.sh", ""),
    ("cat", "cat ~/nothing/there /nothing", ""),
    ("cat", "cat ~/.local/bin/gone; ls ~/.local/bin/gone ~/.local/bin/", ""),
    ("sh", "echo x > ~/.local/bin/x/y || touch ~/.local/bin/z/y", ""),
    ("python3", "python3 -c \"open('gone.json')\"", ""),
    ("python3", "python3 -c 'import gone'", ""),
    ("python3", "python3 -c \"import os; os.environ['NOBODYS_OWN']\"", ""),
    ("python3", "python3 -c \"import socket; socket.create_connection(('localhost', 1))\"", ""),
    ("pytest", "python3 -m pytest gone.py", ""),
    ("node", "node gone.js", ""),
    ("npm", "npm test", ""),
    ("gcc", "gcc -c gone.c", ""),
    ("java", "java Gone", ""),
    ("cargo", "cargo build", ""),
    ("go", "go test ./...", ""),
    ("git", "git log gone", ""),
    ("sh", "./gone.sh", ""),
    ("sh", "no-such-program", ""),
    ("touch", "touch /tmp/gone/new gone/new", ""),
    ("make", "make gone", ""),
    ("sh", "echo DATABASE_URL and all; exit 1", ""),
]  # fmt: skip


@needs_bwrap
def test_what_the_sandbox_closed_is_said_with_the_setting_and_nothing_else_is(
    child: Child,
) -> None:
    """In one test: the sandbox is made once."""
    wrong = []
    for program, command, wanted in TOOLS:
        if shutil.which(program):
            said = child.sentences(command)
            wanted = wanted.replace("PORT", str(child.port))
            if not (said and said[0].startswith(wanted) if wanted else not said):
                wrong.append((command, said))
    assert wrong == []


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wall:
    home = tmp_path / "home"
    for name in ("go/pkg/mod", ".cargo/registry", "project"):
        (home / name).mkdir(parents=True)
    for name in (".netrc", ".npm/there", ".npm/both"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).touch()
    (tmp_path / "own/.npm").mkdir(parents=True)
    (tmp_path / "own/.npm/both").touch()
    root = home / "project"
    mounts = [Mount(Access.READ, Path("/usr"), Path("/usr"))]
    mounts += [Mount(Access.EMPTY, home), Mount(Access.WRITE, root, root)]
    mounts += [Mount(Access.WRITE, wall.KEPT, tmp_path / "own")]
    mounts += [Mount(Access.LINK, home / ".npm", wall.KEPT / ".npm")]
    monkeypatch.setenv("API_MODE", "x")
    return Wall(mounts, root, home)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("open {0}/.netrc: no such file or directory", opened("read", "~/.netrc")),
        ("java.nio.file.NoSuchFileException: {0}/.netrc", opened("read", "~/.netrc")),
        (
            "mkdir {0}/go/pkg/mod/cache: no such file or directory",
            opened("write", "~/go/pkg/mod"),
        ),
        (
            "error: failed to create directory `{0}/.cargo/registry/x`\n\nCaused by:\n"
            "  No such file or directory (os error 2)",
            "",  # no line says both: it may have been a read
        ),
        ("npm ERR! code ENOENT\nnpm ERR! path {0}/.netrc", opened("read", "~/.netrc")),
        ("{0}/project/a.txt: No such file or directory", ""),
        ("see https://example.com{0}/.netrc: No such file or directory", ""),
        ("{0}/.netrc is fine", ""),
        ("cannot open '/dev/null' for reading: Permission denied", ""),
        ("cannot touch {0}/.npm/there: Permission denied", opened("read", "~/.npm/there")),
        ("cannot read {0}/.npm/both: Permission denied", ""),
        ("No such file or directory: '{0}/.netrc\0'", ""),
        (
            "panicked: API_MODE must be given",
            'API_MODE is not passed on: [sandbox] env = ["API_MODE"]',
        ),
        ("panicked: API_MODE_OLD must be given", ""),
    ],
)
def test_words_of_tools_that_may_not_be_here(seen: Wall, output: str, said: str) -> None:
    found = closed.sentences(output.format(seen.home), seen)
    assert found == ([said] if said else [])
    assert closed.sentences(output, None) == []
