"""`kern help`: the list of pages, one page on a pipe and on a terminal, a command's own help."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kern.cli import help as pages
from kern.pipeline.table import Do
from tests.conftest import Kern
from tests.kit.terminal import on_terminal

TOP = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def anywhere(tmp_path: Path) -> None:
    """No repository is needed."""
    (tmp_path / "project").mkdir()


def test_the_pages_are_listed_with_one_line_each(kern: Kern) -> None:
    ran = kern("help")
    assert (ran.code, ran.err) == (0, "")
    rows = re.findall(r"^  (\w+) +(\S.*\.)$", ran.out, re.M)
    assert [topic for topic, _ in rows] == list(pages.TOPICS)
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == {*pages.TOPICS}
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("topic", pages.TOPICS)
def test_a_page_comes_as_it_is_written_where_no_terminal_is(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (TOP / "kern" / "help" / f"{topic}.md").read_text()
    pages.show(topic)
    assert capsys.readouterr().out == text
    assert re.match(r"# \S.*\n\n\S.*\.\n\n", text)


def test_the_beginning_of_a_topic_is_enough_if_only_one_begins_so(kern: Kern) -> None:
    assert kern("help", "Fail").out == pages.page("failures")
    several = kern("help", "s")
    assert (several.code, several.out) == (2, "")
    assert "'s' begins more than one help page" in several.err
    for word in ("nothing", "../help/spec", "spec.md", "spec\x1b[31m"):
        unknown = kern("help", word)
        assert (unknown.code, unknown.out) == (2, "")
        assert "no help page" in unknown.err and "\x1b" not in unknown.err
        assert all(re.search(rf"^ +{topic} ", unknown.err, re.M) for topic in pages.TOPICS)


def test_for_a_command_its_options_are_shown(kern: Kern) -> None:
    for name in ("plan", "help", "run"):
        assert kern("help", name).out == kern(name, "--help").out
    assert not {*pages.COMMANDS} & {*pages.TOPICS}


def test_the_pictures_show_no_machine_and_no_person() -> None:
    drawn = sorted(pages.FOLDER.glob("*.svg"))
    assert [path.name for path in drawn] == ["live.svg", "report.svg"]
    readme = (TOP / "README.md").read_text()
    for path in drawn:
        text = path.read_text()
        assert f"](kern/help/{path.name})" in readme
        assert not re.search(r"/(root|home|Users|var|tmp/(?!claude/kern))", text)
        assert not re.search(r"https?://(?!www\.w3\.org/|www\.textualize\.io)", text)


def test_the_man_page_has_every_command_and_is_sound_roff(kern: Kern, tmp_path: Path) -> None:
    said = kern("help", "--man").out
    for name, sentence in pages.COMMANDS.items():
        assert f"\n.B kern {name}" in said
        for text in (sentence, *pages.EXAMPLES[name]):
            assert text.replace("-", r"\-").replace("`", "") in said.replace(r"\e", "\\"), text
    sections = re.findall(r"^\.SH (.*)", said, re.M)
    first = ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS"]
    assert sections == [*first, "OPTIONS", "EXIT CODES", "ENVIRONMENT", "SEE ALSO"]
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    checked = ["groff", "-man", "-Tutf8", "-wall", "-z", "-"]
    done = subprocess.run(checked, input=said, capture_output=True, text=True, check=True)
    assert done.stderr == ""


METAVARS = {
    *(
        "TASK",
        "FILE",
        "NAME",
        "TIME",
        "WORDS",
        "COMMAND",
        "GOAL",
        "WHERE",
        "COUNT",
        "N",
        "DOLLARS",
        "MODE",
    ),
    *("TOPIC", "SHELL", "ITERATIONS", "DELAY", "LEVEL"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", pages.COMMANDS)
def test_each_command_is_told_in_the_same_words_with_an_example(name: str, kern: Kern) -> None:
    said = kern(name, "--help").out
    usage, sentence = said.split("\n")[0], said.split("\n")[2]
    assert usage.startswith(f"Usage: kern {name} ") and sentence.endswith(".")
    shown = re.findall(r"^  (?:-\w, )?--[\w-]+(?: (\S+))?(?:  |$)", said, re.M)
    shown += re.findall(r"^  ([A-Z]+)  ", said, re.M)
    assert {*shown} - {""} <= METAVARS
    assert not re.search(r"<|\b(INTEGER|TEXT|PATH|FLOAT|BOOLEAN)\b", said)
    examples = said.partition("\nExamples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples and all(re.search(rf"\bkern ({name}\b|[\d-])", line) for line in examples)
    assert max(map(len, said.splitlines())) <= 80


def test_what_other_tools_call_it_leads_to_a_command_that_is_there() -> None:
    assert not {*pages.MEANT} & {*pages.COMMANDS}
    for told in pages.MEANT.values():
        word = told.removeprefix("kern ").split()[0].rstrip(",")
        assert not told.startswith("kern ") or word in pages.COMMANDS or word[0] in "-1", told
    assert pages.instead("statsu") == "kern status"
    assert pages.instead("dask") == "kern help parallel"
    assert pages.instead("memory") == "kern help memory"
    assert pages.instead("xyz") == pages.instead("five") == pages.instead("zstatus") == ""


@pytest.mark.slow
def test_a_terminal_gets_the_page_laid_out_and_no_wider_than_is_read_well() -> None:
    code, said = on_terminal("help", "checks", env={"TERM": "xterm-256color"})
    assert code == 0
    shown = re.sub(r"\x1b\[[\d;]*m", "", said)
    assert "Checks" in shown and "# Checks" not in shown and "`" not in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_the_page_on_design_has_the_resume_table_as_it_is() -> None:
    rows = re.findall(r"^\| ([a-n]) \| `(\w+)` \|", pages.page("design"), re.M)
    assert sorted({*rows}) == sorted((do.value[0], do.name) for do in Do)


@pytest.mark.parametrize(
    ("argv", "said", "hint"),
    [
        (("-j", "1", "--branch"), "--branch needs a value", "kern 10 30s"),
        (("-j",), "-j needs a value", "kern -j 4 10"),
        (("--brnch", "x"), "no such option: --brnch", "type --branch  (kern run -h"),
        (("--brnch=x",), "no such option: --brnch", "type --branch  (kern run -h"),
        (("add", "a", "--gates", "x"), "no such option: --gates", "type --gate  (kern add -h"),
        (("add", "a", "--zzz"), "no such option: --zzz", "kern add "),
        (("help", "chekcs"), "no help page 'chekcs'", "type kern help check"),
        (("help", "setings"), "no help page 'setings'", "type kern help settings"),
    ],
)
def test_what_is_misspelt_is_named_with_the_near_one(
    kern: Kern, argv: tuple[str, ...], said: str, hint: str
) -> None:
    ran = kern(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"kern: {said}") and f"  hint: {hint}" in ran.err
    assert "--yes" not in ran.err and "--after" not in ran.err.replace("kern add", "")


def test_a_topic_is_found_by_what_it_is_about(kern: Kern) -> None:
    for word in ("worktree", "dask", "jobs"):
        assert pages.meant(word) == "parallel"
    for pointed in pages.MEANT.values():
        page = pointed.partition("kern help ")[2]
        assert not page or pages.meant(page) == page
    assert kern("fleet", "--help").out.endswith("\n\nMore: kern help parallel\n")
    assert {*pages.MORE} <= {*pages.COMMANDS} and {*pages.MORE.values()} <= {*pages.TOPICS}
