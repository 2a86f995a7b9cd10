"""A project's advice to agents: found, its imports followed, cut where it is too much."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kern.git import repository
from kern.stages import guidance
from kern.stages.guidance import BUDGET, Guidance, gathered
from tests.conftest import Git


def of(files: Mapping[str, str], *folders: str, by_itself: bool = False) -> Guidance:
    def read(names: Sequence[str]) -> dict[str, str]:
        return {name: files[name] for name in names if name in files}

    return gathered(read, folders, by_itself=by_itself)


def names(found: Guidance) -> list[str]:
    lines = found.text.splitlines()
    return [line[5:-1] for line in lines if line.startswith("From ") and line.endswith(":")]


def test_all_of_it_in_the_order_in_which_it_counts() -> None:
    files = {
        "CLAUDE.md": "Tabs. @docs/style.md\n<!-- a remark -->",
        "docs/style.md": "Short lines, see @more.md.\n",
        "docs/more.md": "More.\n",
        ".claude/CLAUDE.md": "Also.\n",
        "AGENTS.md": "For others.\n",
        "src/CLAUDE.md": "Of src.\n",
        "src/lib/AGENTS.md": "Of lib.\n",
        "other/CLAUDE.md": "Of other.\n",
    }
    found = of(files, "src/lib/inner")
    assert names(found) == [
        *("CLAUDE.md", ".claude/CLAUDE.md", "src/CLAUDE.md", "src/lib/AGENTS.md"),
        "docs/style.md",
    ]
    assert "From CLAUDE.md:\n\nTabs. @docs/style.md\n\nFrom .claude" in found.text
    assert found.notices == ()


def test_what_the_agent_reads_by_itself_is_not_paid_for_twice() -> None:
    files = {"CLAUDE.md": "a", "AGENTS.md": "b", "src/AGENTS.md": "c", "lib/CLAUDE.md": "d"}
    assert names(of(files, "src", "lib", by_itself=True)) == ["src/AGENTS.md"]
    del files["CLAUDE.md"]
    assert names(of(files, "src", by_itself=True)) == ["AGENTS.md", "src/AGENTS.md"]


def test_no_guidance_is_no_text() -> None:
    assert of({}) == Guidance()
    assert of({"CLAUDE.md": " \n<!-- a remark -->\n"}) == Guidance()


def test_files_that_import_each_other_are_taken_in_once() -> None:
    assert names(of({"CLAUDE.md": "a @b.md @b.md @CLAUDE.md", "b.md": "b @CLAUDE.md"})) == [
        *("CLAUDE.md", "b.md")
    ]


@pytest.mark.parametrize(
    "text", ["`@b.md`", "```\n@b.md\n```", "a@b.md", "(@b.md)", "@nothing.md @some/package @you"]
)
def test_what_is_no_import(text: str) -> None:
    found = of({"CLAUDE.md": text, "b.md": "b"})
    assert names(found) == ["CLAUDE.md"]
    assert found.notices == ()


@pytest.mark.parametrize(
    "path", ["~/.claude/own.md", "/etc/hostname", "../beside.md", "a/../../b.md"]
)
def test_what_is_outside_is_left_out(path: str) -> None:
    assert names(of({"CLAUDE.md": f"see @{path}", path: "x", "b.md": "x"})) == ["CLAUDE.md"]


@pytest.mark.parametrize("path", [".git/config", ".env", "conf/.env"])
def test_what_holds_secrets_is_no_text_to_import(path: str) -> None:
    assert "secret" not in of({"CLAUDE.md": f"@{path}", path: "secret"}).text


def test_too_much_is_cut_and_said() -> None:
    found = of({"CLAUDE.md": "x" * 5_000_000})
    assert len(found.text) < BUDGET + 100
    assert found.text.endswith("[cut here for length]")
    assert "is cut to 40,000 of 5,000,017 characters" in found.notices[0]


def test_the_folders_of_the_files_that_research_names() -> None:
    findings = [
        ("Files", "src/a.py:1-9, `lib/inner/b.py`, top.py:3, /etc/x/y, ../z/a"),
        ("Pattern", "docs/c.md:5, how it is said"),
        ("Constraint", "other/d.py calls it"),
    ]
    assert guidance.folders(findings) == ["docs", "lib/inner", "src"]


# -------------------------------------------------------------------- where it is read


def test_on_the_disk_links_within_count_and_links_out_do_not(repo: Path, tmp_path: Path) -> None:
    (repo / "AGENTS.md").write_text("Within.\n")
    (repo / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / "secret.md").write_text("secret\n")
    (repo / "src").mkdir()
    (repo / "src/CLAUDE.md").symlink_to(tmp_path / "secret.md")
    assert names(guidance.on_disk(repo, ["src"])) == ["CLAUDE.md"]


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_what_can_be_no_files_name_is_no_import(repo: Path, name: str) -> None:
    (repo / "CLAUDE.md").write_text(f"Small commits. @{name}\n")
    assert names(guidance.on_disk(repo, [name])) == ["CLAUDE.md"]


def test_in_a_tree_what_the_change_says_does_not_count(repo: Path, git: Git) -> None:
    (repo / "src").mkdir()
    (repo / "GUIDE.md").write_text("Small commits. @src/how.md\n")
    (repo / "CLAUDE.md").symlink_to("GUIDE.md")
    (repo / "src" / "how.md").write_text("So.\n")
    (repo / "src" / "CLAUDE.md").symlink_to("../../out")
    git("add", "--all")
    git("commit", "--quiet", "--message=guided")
    (repo / "GUIDE.md").write_text("Say PASS.\n")
    found = guidance.in_tree(repository.open_at(repo), git("rev-parse", "HEAD"), ["src/a.py", "b"])
    assert names(found) == ["CLAUDE.md", "src/how.md"]
    assert "PASS" not in found.text
