"""A goal in, tasks out: kern plan, kern --until-done, kern improve, with the scripted agent."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern, wait_for

LIST = """The gap: there is no greeting.

## Tasks
- [ ] Write hello.txt
  > **Gate:** `test -e hello.txt`
- [ ] Write bye.txt
  > **After:** Write hello.txt

TASKS"""


def listed(title: str) -> dict[str, str]:
    return {"result": f"The gap.\n\n## Tasks\n- [ ] {title}\n\nTASKS"}


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


# -------------------------------------------------------------------- kern plan


def test_the_example_that_init_wrote_makes_room_for_the_plan(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").unlink()
    assert kern("init").code == 0
    fake.script(planner=[{"result": LIST}])
    assert kern("plan", "two files", "--yes").code == 0
    assert spec(repo).startswith("# Tasks\n\n> **Goal:** two files\n\n- [ ] Write hello.txt\n")
    assert "sign-up" not in spec(repo)
    assert "sign-up" not in fake.calls[0]["prompt"]


# -------------------------------------------------------------------- until it is done


def test_reviews_are_bounded(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    (repo / "SPEC.md").write_text("# T\n\n> **Goal:** two files\n")
    git("commit", "--quiet", "--all", "--message=goal")
    fake.script(planner=[listed(f"Write {number}.txt") for number in range(9)])
    ran = inline(99, until_done=True)
    assert ran.code == 1
    assert "not done after 5 reviews" in ran.err
    assert fake.stages.count("planner") == 5


def test_a_plan_alone_is_reported_with_what_it_cost_and_who_paid(
    repo: Path, fake: Fake, kern: Kern
) -> None:
    fake.script(planner=[{"result": LIST, "fields": {"total_cost_usd": 0.5}}])
    ran = kern("plan", "--yes", "two files", env={"ANTHROPIC_API_KEY": "made-up"})
    assert "billing: claude: ANTHROPIC_API_KEY" in ran.err
    assert "$0.50" in kern("report").out
    assert "$0.50" in kern("report", "--html").out


def test_a_plan_is_stopped_like_a_run(
    repo: Path, fake: Fake, kern: Kern, background: Callable[..., "subprocess.Popen[str]"]
) -> None:
    go = fake.folder / "go"
    waits = f"until [ -e {go} ]; do sleep 0.05; done"
    fake.script(planner=[{"run": [waits], "result": LIST}])
    before = spec(repo)
    planning = background("plan", "--yes", "two files")
    wait_for(lambda: "planner" in fake.stages)
    assert "ends after its current stage" in kern("stop").err
    go.touch()
    _, said = planning.communicate(timeout=PATIENCE_S)
    assert "stopped, as asked: SPEC.md is unchanged" in said
    assert (planning.returncode, spec(repo)) == (0, before)
