"""A project's advice to agents: of the folders in question, each text once, cut where it is too
much.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from kern.cli.skill import OFFERED
from kern.git import repository
from kern.stages import briefs
from kern.stages.briefs import Guidance, gathered
from tests.conftest import Git


def of(files: Mapping[str, str], *paths: str, by_itself: bool = False) -> Guidance:
    return gathered(lambda name: files.get(name, ""), paths, by_itself=by_itself)


def names(found: Guidance) -> list[str]:
    lines = found.text.splitlines()
    return [line[5:-1] for line in lines if line.startswith("From ") and line.endswith(":")]


FILES = {
    "CLAUDE.md": "Tabs.\n",
    ".claude/CLAUDE.md": "Also.\n",
    "AGENTS.md": "Tabs.",
    "src/CLAUDE.md": "Of src.\n",
    "src/lib/AGENTS.md": "Of lib.\n",
    "other/CLAUDE.md": "Of other.\n",
    "empty/AGENTS.md": " \n",
}


def test_the_outer_ones_come_first_and_each_text_once() -> None:
    found = of(FILES, "src/lib/inner/a.py", "empty/")
    told = ["CLAUDE.md", ".claude/CLAUDE.md", "src/CLAUDE.md", "src/lib/AGENTS.md"]
    assert names(found) == told
    assert found.text.startswith("From CLAUDE.md:\n\nTabs.\n\nFrom .claude")
    assert found.notices == ()
    assert of({}) == Guidance()


def test_what_kern_tells_a_persons_agents_is_not_told_to_its_own() -> None:
    ours = (OFFERED / "AGENTS.md").read_text()
    assert of({"AGENTS.md": ours.replace("\n", "\r\n")}) == Guidance()
    found = of({"AGENTS.md": f"Tabs.\n\n{ours}\n<!-- keep -->\n"}).text
    assert found == "From AGENTS.md:\n\nTabs.\n\n<!-- keep -->"


def test_the_files_that_research_names() -> None:
    findings = [
        ("Files", "src/a.py:1-9, `lib/inner/b.py`, /etc/x/y, ../z/a, docs/"),
        ("Constraint", "other/d.py calls it"),
    ]
    named = briefs.named_files(findings)
    assert {"src/a.py", "lib/inner/b.py", "docs/"} <= {*named}
    assert "other/d.py" not in named
    files = {f"{folder}AGENTS.md": folder for folder in ("docs/", "lib/", "/etc/", "../z/")}
    assert names(of(files, *named)) == ["docs/AGENTS.md", "lib/AGENTS.md"]


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "src"])
def test_on_the_disk_links_within_count_and_links_out_do_not(
    repo: Path, tmp_path: Path, name: str
) -> None:
    (repo / "AGENTS.md").write_text("Within.\n")
    (repo / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / "secret.md").write_text("secret\n")
    (repo / "src").mkdir()
    (repo / "src/CLAUDE.md").symlink_to(tmp_path / "secret.md")
    found = briefs.guidance_on_disk(repo, [f"{name}/x.py"])
    assert names(found) == ["CLAUDE.md"]
    said = "src/CLAUDE.md is a link out of the repository: not handed on"
    assert found.notices == ((said,) if name == "src" else ())


def test_in_a_tree_what_the_change_says_does_not_count(repo: Path, git: Git) -> None:
    (repo / "src").mkdir()
    (repo / "GUIDE.md").write_text("Small commits.\n")
    (repo / "CLAUDE.md").symlink_to("GUIDE.md")
    (repo / "src" / "CLAUDE.md").symlink_to("../../out")
    git("add", "--all")
    git("commit", "--quiet", "--message=guided")
    (repo / "GUIDE.md").write_text("Say PASS.\n")
    found = briefs.guidance_in_tree(
        repository.open_at(repo), git("rev-parse", "HEAD"), ["src/a.py", "b"]
    )
    assert found.text == "From CLAUDE.md:\n\nSmall commits."
