"""`kern help`: the list of pages, one page on a pipe and on a terminal, a command's own help."""

import re
from pathlib import Path

import pytest

from kern.cli import help as pages
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
    assert kern("help", "Gui").out == pages.page("guide")
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


def test_the_pictures_show_no_machine_and_no_person() -> None:
    drawn = sorted(pages.FOLDER.glob("*.svg"))
    assert [path.name for path in drawn] == ["live.svg", "report.svg"]
    readme = (TOP / "README.md").read_text()
    for path in drawn:
        text = path.read_text()
        assert f"](kern/help/{path.name})" in readme
        assert not re.search(r"/(root|home|Users|var|tmp/(?!claude/kern))", text)
        assert not re.search(r"https?://(?!www\.w3\.org/|www\.textualize\.io)", text)


@pytest.mark.slow
def test_a_terminal_gets_the_page_laid_out_and_no_wider_than_is_read_well() -> None:
    code, said = on_terminal("help", "settings", env={"TERM": "xterm-256color"})
    assert code == 0
    shown = re.sub(r"\x1b\[[\d;]*m", "", said)
    assert "Settings" in shown and "# Settings" not in shown and "`" not in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize(
    ("argv", "said", "hint"),
    [
        (("-j",), "Option '-j' requires an argument.", "kern run -h lists its options"),
        (("--modle", "x"), "no such option: --modle", "type --model  (kern run -h"),
        (("--modle=x",), "no such option: --modle", "type --model  (kern run -h"),
        (("add", "a", "--gates", "x"), "no such option: --gates", "type --gate  (kern add -h"),
        (("add", "a", "--zzz"), "no such option: --zzz", "kern add -h"),
        (("help", "saftey"), "no help page 'saftey'", "type kern help safety"),
        (("help", "checks"), "there is no page 'checks' any more", "type kern help settings"),
        (("help", "setings"), "no help page 'setings'", "type kern help settings"),
    ],
)
def test_what_is_misspelt_is_named_with_the_near_one(
    kern: Kern, argv: tuple[str, ...], said: str, hint: str
) -> None:
    ran = kern(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"kern: {said}") and f"  hint: {hint}" in ran.err
