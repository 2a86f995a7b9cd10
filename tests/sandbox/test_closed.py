"""What is said of a failed child's output: real tools' words, in a real sandbox."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kern.git.repository import open_at
from kern.person import Mode
from kern.pipeline import isolation
from kern.sandbox import closed
from kern.sandbox.confine import Sandbox, unheld
from kern.sandbox.wall import Kind
from tests.sandbox.test_wall import needs_bwrap

VARIABLE = 'DATABASE_URL is not passed on: [sandbox] env = ["DATABASE_URL"]'


def opened(key: str, what: str) -> str:
    return f'closed by the sandbox: {what} ([sandbox] {key} = ["{what}"] opens it)'


def sentences(held: Sandbox, command: str) -> list[str]:
    child = held.confine(Kind.CHECK, ["sh", "-c", f"exec 2>&1; {command}"], os.environ)
    done = subprocess.run(
        child.argv, env=dict(child.env), stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode, done.stdout
    return closed.sentences(done.stdout, child)


@pytest.fixture
def held(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    home = Path.home()
    for name in (".ssh/config", "data/in.csv", "src/tool.sh", ".cargo/bin/rustc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("#!/bin/sh\n")
        (home / name).chmod(0o755)
    (home / ".local/bin").mkdir(parents=True)  # empty, and no more is missing there
    (repo / "a.c").write_text(f'#include "{home}/data/in.csv"\n')
    monkeypatch.setenv("DATABASE_URL", "postgres://mine")
    monkeypatch.setenv(isolation.VARIABLE, Mode.BWRAP)
    plan = isolation.chosen(open_at(repo))
    with isolation.ready(plan, [], lambda event: None) as held:
        yield held


TOOLS = [  # a program, what it is asked, what is said
    ("cat", "cat ~/.ssh/config", opened("read", "~/.ssh/config")),
    ("sh", ". ~/.ssh/config", opened("read", "~/.ssh/config")),
    ("python3", "python3 -c \"open('$HOME/data/in.csv')\"", opened("read", "~/data/in.csv")),
    ("node", "node -e \"fs.readFileSync('$HOME/data/in.csv')\"", opened("read", "~/data/in.csv")),
    ("gcc", "gcc -c a.c", opened("read", "~/data/in.csv")),
    ("perl", "perl -e 'open(F, q(<), $ARGV[0]) or die qq($ARGV[0]: $!)' ~/data/in.csv",
     opened("read", "~/data/in.csv")),
    ("sh", "echo x > ~/data/new", opened("write", "~/data")),
    ("touch", "touch ~/data/new", opened("write", "~/data")),
    ("rm", "rm ~/.cargo/bin/rustc", opened("write", "~/.cargo/bin")),
    ("python3", "python3 -c \"import os; os.environ['DATABASE_URL']\"", VARIABLE),
    ("sh", 'sh -uc "echo \\$DATABASE_URL"', VARIABLE),
    ("node", "node -e \"throw Error('DATABASE_URL is required')\"", VARIABLE),
    ("ssh", "ssh git@db.example", "closed by the sandbox: db.example, but for programs"),
    ("curl", "curl -sS --noproxy '*' db.example", "closed by the sandbox: db.example, but for"),
    # Of what the tree lacks, or the machine, nothing is said.
    ("python3", "python3 -c \"import os; os.environ['NOBODYS_OWN']\"", ""),
    ("sh", "echo DATABASE_URL and all; exit 1", ""),
    ("cat", "cat gone.txt data/in.csv src/tool.sh", ""),
    ("cat", "cat ~/nothing/there /nothing", ""),
    ("sh", "echo x > ~/.local/bin/x/y || touch ~/.local/bin/z/y", ""),
    ("python3", "python3 -c \"open('gone.json')\"", ""),
    ("python3", "python3 -c 'import gone'", ""),
    ("git", "git log gone", ""),
    ("sh", "./gone.sh", ""),
    ("touch", "touch /tmp/gone/new gone/new", ""),
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
    ("panicked: DATABASE_URL_OLD must be given", ""),
    ("panicked: PATH must be given", ""),  # and is passed on
]


@needs_bwrap
def test_what_the_sandbox_closed_is_said_with_the_setting_and_nothing_else_is(
    held: Sandbox,
) -> None:
    """In one test: the sandbox is made once."""
    child = held.confine(Kind.CHECK, ["true"], os.environ)
    told = [(command, sentences(held, command), wanted)
            for program, command, wanted in TOOLS if shutil.which(program)]  # fmt: skip
    told += [(words, closed.sentences(words.replace("~", str(Path.home())), child), wanted)
             for words, wanted in WORDS]  # fmt: skip
    for command, said, wanted in told:
        assert said and said[0].startswith(wanted) if wanted else not said, (command, said)
    free = unheld(Kind.CHECK, ["true"], os.environ)
    assert closed.sentences("cat: ~/.ssh/config: No such file or directory", free) == []
