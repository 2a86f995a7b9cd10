"""What is said of a failed child's output: real tools' words, in a real sandbox."""

import os
import shlex
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
from kern.sandbox import closed
from kern.sandbox.confine import Sandbox, unheld
from kern.sandbox.wall import Kind
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
        return closed.sentences(done.stdout, held)


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
WORDS = [  # of tools that may not be here
    ("java.nio.file.NoSuchFileException: ~/data/in.csv", opened("read", "~/data/in.csv")),
    ("mkdir ~/data/cache: no such file or directory", opened("write", "~/data")),
    ("failed to create `~/.ssh/x/y`\n\nCaused by:\n  No such file (os error 2)", ""),
    ("npm ERR! code ENOENT\nnpm ERR! path ~/data/in.csv", opened("read", "~/data/in.csv")),
    ("~/project/a.txt: No such file or directory", ""),
    ("see https://example.com~/data/in.csv: No such file or directory", ""),
    ("~/data/in.csv is fine", ""),
    ("cannot open '/dev/null' for reading: Permission denied", ""),
    ("panicked: DATABASE_URL must be given", VARIABLE),
    ("panicked: DATABASE_URL_OLD must be given", ""),
]


@needs_bwrap
def test_what_the_sandbox_closed_is_said_with_the_setting_and_nothing_else_is(
    child: Child,
) -> None:
    """In one test: the sandbox is made once."""
    wrong = []
    prints = ((f"printf %s {shlex.quote(words)}; exit 1", wanted) for words, wanted in WORDS)
    home = str(Path.home())
    said_by = [("sh", command.replace("~", home), wanted) for command, wanted in prints]
    for program, command, wanted in (*TOOLS, *said_by):
        if shutil.which(program):
            said = child.sentences(command)
            wanted = wanted.replace("PORT", str(child.port))
            if not (said and said[0].startswith(wanted) if wanted else not said):
                wrong.append((command, said))
    assert wrong == []
    free = unheld(Kind.CHECK, ["true"], os.environ)
    assert closed.sentences("cat: ~/.ssh/config: No such file or directory", free) == []
