"""What each tool does in a real tree, and what a call of one must give."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kern.agents import http_tools
from kern.agents.http_talk import Call
from kern.agents.http_tools import Tools
from kern.agents.http_tree import Refused, Tree
from kern.model import Aide, Stage
from kern.system.process import marked
from tests.conftest import wait_for


@pytest.fixture
def tools(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tools]:
    monkeypatch.setenv("GW_KEY", "k3y")
    monkeypatch.setenv("GW_KEY_2", "k3y")
    tree = Tree(str(repo))
    yield Tools(tree, patience=20, secret="GW_KEY")


def refused(tools: Tools, name: str, **given: object) -> str:
    with pytest.raises(Refused) as raised:
        tools.use(name, given)
    return str(raised.value)


def test_lines_are_read_with_their_numbers(tools: Tools, repo: Path) -> None:
    assert tools.use("read", {"path": "a.txt", "first": 2, "lines": 2}) == (
        "2\ttwo\n3\tthree\n[7 lines in all; to go on: first = 4]"
    )
    (repo / "crlf").write_bytes("a\r\n\u2028b\u00fc".encode())
    assert tools.use("read", {"path": "crlf"}) == "1\ta\n2\t\u2028b\u00fc"
    (repo / "empty").touch()
    assert tools.use("read", {"path": "empty"}) == "[the file is empty]"
    assert tools.use("read", {"path": "a.txt", "first": 99}) == "[the file is empty]"
    (repo / "binary").write_bytes(b"a\0b")
    assert "no text: 3 bytes" in refused(tools, "read", path="binary")


def test_a_long_file_says_how_to_go_on(tools: Tools, repo: Path) -> None:
    (repo / "long").write_text("".join(f"line {n}\n" for n in range(5000)))
    assert "to go on: first = 1001]" in tools.use("read", {"path": "long"})
    (repo / "wide").write_text("x" * 90_000 + "\nend\n")
    said = tools.use("read", {"path": "wide"})
    assert len(said) < 31_000
    assert "to go on: first = 2]" in said


def test_folders_are_listed_and_names_found(tools: Tools, repo: Path) -> None:
    for name in ("src/a/test_x.py", "src/test_y.py", "src/y.py"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).touch()
    assert tools.use("list", {}).splitlines() == ["SPEC.md", "a.txt", "own.txt", "src/"]
    assert tools.use("list", {"pattern": "test_*.py"}).split() == [
        *("src/test_y.py", "src/a/test_x.py")
    ]
    assert tools.use("list", {"pattern": "src/**/test_*.py"}).split() == [
        *("src/test_y.py", "src/a/test_x.py")
    ]
    assert tools.use("list", {"path": "src", "pattern": "src/*.rs"}) == "[nothing]"
    assert "is not there" in refused(tools, "list", path="nowhere")
    for n in range(600):
        (repo / f"src/{n}.txt").touch()
    assert "[103 more]" in tools.use("list", {"path": "src"})


def test_contents_are_searched(tools: Tools, repo: Path) -> None:
    assert tools.use("search", {"pattern": "^t.o$"}) == "a.txt:2: two"
    assert tools.use("search", {"pattern": "two", "files": "*.md"}) == "[nothing found]"
    assert tools.use("search", {"pattern": "mine", "path": "own.txt"}) == "own.txt:1: mine"
    assert "no regular expression" in refused(tools, "search", pattern="(")
    (repo / "many").write_text("hit\n" * 1000)
    assert len(tools.use("search", {"pattern": "hit"}).splitlines()) == 201


def test_a_search_without_an_end_is_ended(
    tools: Tools, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_tools, "_LOOK_S", 0.5)
    (repo / "evil").write_text("a" * 60 + "!\n")
    began = time.monotonic()
    assert "more than 0.5 seconds" in refused(tools, "search", pattern="(a+)+$", path="evil")
    assert time.monotonic() - began < 20


def test_a_text_is_replaced_where_it_is_there_once(tools: Tools, repo: Path) -> None:
    assert tools.use("edit", {"path": "a.txt", "old": "two\nthree", "new": "2\n3"})
    assert (repo / "a.txt").read_text().startswith("one\n2\n3\nfour")
    assert "not in a.txt" in refused(tools, "edit", path="a.txt", old="two", new="")
    (repo / "b").write_bytes(b"x y x\r\nz\r\n")
    assert "2 times in b" in refused(tools, "edit", path="b", old="x", new="")
    assert tools.use("edit", {"path": "b", "old": "x", "new": "", "all": True}).endswith("2 places")
    tools.use("edit", {"path": "b", "old": "y \nz", "new": "1\n2"})
    assert (repo / "b").read_bytes() == b" 1\r\n2\r\n", "its line ends stay"
    assert "is empty" in refused(tools, "edit", path="b", old="", new="x")
    assert "may be read" in refused(tools, "edit", path="SPEC.md", old="[ ]", new="[x]")


def test_files_are_written(tools: Tools, repo: Path) -> None:
    assert tools.use("write", {"path": "n/a.txt", "content": "\u00fc\ud800\r\n"}) == "made n/a.txt"
    assert (repo / "n/a.txt").read_bytes() == b"\xc3\xbc?\r\n"
    assert tools.use("write", {"path": "n/a.txt", "content": ""}) == "wrote n/a.txt"
    assert "is no file" in refused(tools, "write", path="n", content="")
    assert "Not a directory" in refused(tools, "write", path="n/a.txt/b", content="")


def test_commands_run_at_the_top_without_the_key(tools: Tools, repo: Path) -> None:
    said = tools.use("run", {"command": "pwd; echo no >&2; env | grep -c k3y; exit 3"})
    assert said == f"{repo}\nno\n0\n[exit 3]"
    assert http_tools.failed("run", said)
    assert not http_tools.failed("run", tools.use("run", {"command": "cat"}))
    assert "cannot take that" in refused(tools, "run", command="a\0b")


def test_a_command_that_hangs_is_ended_with_what_it_started(
    tools: Tools,
) -> None:
    mark = f"http-tools-{os.getpid()}"
    tools._env["KERN_MARK"] = mark
    began = time.monotonic()
    said = tools.use("run", {"command": "echo a; sleep 301 & sleep 302", "seconds": 1})
    assert said == "a\n[ended: not done after 1 seconds]"
    tools.use("run", {"command": "sleep 303 & echo b"})
    assert time.monotonic() - began < 15
    wait_for(lambda: not marked(("KERN_MARK", mark)), 10)


def test_of_long_output_the_ends_are_told(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tools.use("run", {"command": "echo first; seq 1000000; echo last"})
    assert len(said) < 31_000
    assert said.startswith("first\n1\n")
    assert said.endswith("last\n[exit 0]")
    monkeypatch.setattr(http_tools, "_PRINTED", 1_000_000)
    assert "ended: it printed more than 1 MB" in tools.use("run", {"command": "yes"})


def test_a_long_result_loses_its_middle() -> None:
    text = http_tools.clipped("a" * 20_000 + "b" * 20_000 + "c" * 20_000)
    assert len(text) < http_tools.MOST_RESULT + 100
    assert text.startswith("a" * 10_000)
    assert "30000 characters left out" in text
    assert text.endswith("c" * 20_000)
    assert http_tools.clipped("abc") == "abc"


# -------------------------------------------------------------------- calls


def read(name: str, arguments: str, role: Stage | Aide = Stage.IMPLEMENT) -> tuple[Any, str]:
    return http_tools.read(Call("c", name, arguments), role)


def test_only_implement_may_change_and_run_anything() -> None:
    assert http_tools.offered(Stage.IMPLEMENT) == ("read", "list", "search", "edit", "write", "run")
    for role in (Stage.RESEARCH, Stage.COMMIT, *Aide):
        assert http_tools.offered(role) == ("read", "list", "search")
        names = [one["function"]["name"] for one in http_tools.schemas(role)]
        assert names == ["read", "list", "search"]
        for name in ("edit", "write", "run"):
            assert "there is no tool" in read(name, "{}", role)[1]


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("fetch", "{}", "there is no tool 'fetch' here; there are read, list"),
        ("", "{}", "there is no tool ''"),
        ("read", '{"path": ', "the arguments of read are no JSON: "),
        ("read", "[" * 100_000, "the arguments of read are no JSON: "),
        ("read", '["a"]', "the arguments of read are no JSON object"),
        ("read", "{}", "read needs 'path'"),
        ("read", '{"path": null}', "read needs 'path'"),
        ("read", '{"path": 3}', "'path' of read must be a text"),
        ("read", '{"path": "a", "first": "x"}', "'first' of read must be a whole number"),
        ("read", '{"path": "a", "first": true}', "'first' of read must be a whole number"),
        ("edit", '{"path": "a", "old": "b"}', "edit needs 'new'"),
        ("edit", '{"path": "a", "old": "b", "new": "", "all": 1}', "must be true or false"),
    ],
)
def test_a_call_that_is_none_says_why(name: str, arguments: str, why: str) -> None:
    assert why in read(name, arguments)[1]


def test_what_is_left_out_or_written_as_a_text_is_understood() -> None:
    given, why = read("read", '{"path": "a", "first": "12", "lines": 3.0, "other": 1}')
    assert (given["first"], given["lines"], why) == (12, 3, "")
    assert read("list", "") == ({}, "")
    assert read("list", '{"path": null}') == ({}, "")


@pytest.mark.parametrize(
    ("command", "free"),
    [
        ("git commit -m x", False),
        ("true && git -C . commit -m x", False),
        ("cd a; /usr/bin/git push", False),
        ("git -c a=b push origin", False),
        ("git status && git diff HEAD", True),
        ("grep -rn 'git commit' .", True),
        ("make commit-log", True),
    ],
)
def test_what_kern_does_no_command_does(command: str, free: bool) -> None:
    assert (read("run", json.dumps({"command": command}))[1] == "") is free
