"""Which paths a transcript names: what is left may be a person's."""

import json
from pathlib import Path

import pytest

from kern.git.mentions import unnamed
from tests.conftest import Fake, Git, Inline, patience


def act(tool: str, **given: str) -> str:
    block = {"type": "tool_use", "name": tool, "input": given}
    return json.dumps({"type": "assistant", "message": {"content": [block]}})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", act("Edit", file_path="/home/me/project/src/a.py")),
        ("src/a.py", act("Bash", command="sed -i s/x/y/ src/a.py")),
        ("src/a.py", "I changed `a.py`."),
        ("src/a.py", "It is in src/a.py."),
        ("src/a.py", act("Bash", command="cp -r vendor ./src")),
        ("src/deep/a.py", act("Bash", command="rm -r src/")),
        ("src/a.py", act("Bash", command="black src/*.py")),
        ("src/a.py", act("Bash", command="touch src/*")),
        ("a.py", act("Bash", command="for f in ?.py; do x; done\ncat b")),
        ("new.txt", act("Bash", command="cat <<X >x\nX\nnew.txt")),
        ("new.txt", json.dumps({"result": act("Bash", command="x\nnew.txt\ny")})),
        ("\u00fcber.txt", act("Write", file_path="/p/\u00fcber.txt")),
        ("\U0001f600.txt", act("Write", file_path="/p/\U0001f600.txt")),
        ("my notes (1).txt", act("Write", file_path="/p/my notes (1).txt")),
        ('say "hi".txt', act("Write", file_path='/p/say "hi".txt')),
        ("Makefile", act("Bash", command="vi Makefile")),
    ],
)
def test_a_path_is_named_by_itself_its_name_a_pattern_or_a_folder(path: str, text: str) -> None:
    assert unnamed([path], [text]) == []
    assert unnamed([path], [text[:20], text[20:]]) == []  # wherever the pieces part


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("notes.md", ""),
        ("notes.md", act("Edit", file_path="/p/my-notes.md")),
        ("notes.md", act("Edit", file_path="/p/notes.mdx")),
        ("src/mine.py", act("Edit", file_path="/p/src/a.py")),
        ("src/mine.py", "the src is large"),
        ("src/mine.py", act("Bash", command="cat src/a*.py")),
        ("mine.py", "* one\n** two **\n? three"),
        ("src/mine.py", act("Glob", pattern="**/*.py")),
        ("src/mine.py", "I looked at src/*.py and src/*"),
        ("src/mined", act("Bash", command="cat <<X > a.c\nchar *d, *mined;\nX")),
        ("my notes (1).txt", act("Write", file_path="/p/notes.txt")),
    ],
)
def test_a_path_that_is_only_alike_is_not_named(path: str, text: str) -> None:
    assert unnamed([path], [text]) == [path]


def test_a_long_transcript_is_read_piece_by_piece() -> None:
    paths = [f"d{n}/{n}.txt" for n in range(2000)]
    pieces = (act("Write", file_path=f"/p/d{n}/{n}.txt") for n in range(2000) if n != 7)
    assert unnamed(paths, pieces) == ["d7/7.txt"]


@pytest.mark.slow
def test_patterns_without_end_take_no_time() -> None:
    paths = [f"d{n}/{n}.txt" for n in range(5000)]
    many = act("Bash", command=" ".join(f"x{n}*.py" for n in range(20_000)))
    with patience(10):
        assert unnamed(paths, [many]) == sorted(paths)


def test_what_you_save_while_an_agent_works_is_said_with_the_way_back(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "mine.txt").write_text("begun\n")
    git("add", "mine.txt")
    git("commit", "--quiet", "--message=mine")
    beside = "echo an hour of work > notes.md; echo more >> mine.txt"
    fake.script(
        implement=[
            {"run": ["echo x >> a.txt", beside], "result": "FAILED: a.txt resists"},
            {"run": ["echo y >> a.txt", "echo mine > diary.md"], "result": "a.txt.\n\nSUCCESS"},
        ]
    )
    ran = inline()
    assert ran.code == 0, ran.err
    ref = git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").removeprefix("refs/")
    lines = [line for line in ran.err.splitlines() if "transcript never names" in line]
    assert len(lines) == 4, "as it happens, and once more in the morning"
    assert "mine.txt, notes.md changed while the agent worked" in lines[0]
    assert lines[0].endswith(f"git checkout {ref} -- PATH")
    assert not (repo / "notes.md").exists()
    git("checkout", ref, "--", "notes.md", "mine.txt")
    assert (repo / "notes.md").read_text() == "an hour of work\n"
    assert (repo / "mine.txt").read_text() == "begun\nmore\n"
    short = git("rev-parse", "--short=7", "HEAD")
    assert "the commit also holds diary.md, which changed" in lines[1]
    assert lines[1].endswith(f"git show {short} -- PATH")


def test_an_agent_that_names_its_files_is_not_warned_of(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    fake.script(
        implement=[
            {"run": ["echo x >> a.txt"], "result": "FAILED: a.txt resists"},
            {"run": ["echo x > b.txt"], "result": "SUCCESS", "events": [{"ran": "echo x > b.txt"}]},
        ]
    )
    ran = inline()
    assert ran.code == 0, ran.err
    assert "transcript" not in ran.err
