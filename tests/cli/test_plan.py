"""`kern --until-done`, whose reviews come to an end."""

from pathlib import Path

from tests.conftest import Fake, Git, Inline


def test_reviews_are_bounded(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    (repo / "SPEC.md").write_text("# T\n\n> **Goal:** two files\n")
    git("commit", "--quiet", "--all", "--message=goal")
    listed = "The gap.\n\n## Tasks\n- [ ] Write {}.txt\n\nTASKS"
    fake.script(planner=[{"result": listed.format(number)} for number in range(9)])
    ran = inline(99, until_done=True)
    assert ran.code == 1
    assert "not done after 5 reviews" in ran.err
    assert fake.stages.count("planner") == 5
