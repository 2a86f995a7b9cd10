"""Snapshot commands end to end: what they say reaches stages 1 and 2, and nothing else of them
stays.
"""

from pathlib import Path

import pytest

from kern.checks import result
from kern.model import Result
from tests.conftest import Fake, Git, Inline

STATE = "## How things stand now\n\n"


def toml(repo: Path, git: Git, text: str) -> None:
    (repo / "kern.toml").write_text(text)
    git("add", "kern.toml")
    git("commit", "--quiet", "--message=settings")


def state(call: dict[str, str]) -> str:
    """The section of a prompt, without its tag."""
    return call["prompt"].partition("<snapshot>\n")[2].partition("\n</snapshot>")[0]


def test_each_stage_is_told_how_things_stand_when_it_begins(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    table = "echo x >> ../count; wc -l < ../count; echo lines >&2"
    toml(repo, git, f"[probes]\nrows = '{table}'\nport = {{ run = 'echo 8080', timeout = 5 }}\n")

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert f"probe rows: {table}" in ran.err
    assert "probe port: echo 8080" in ran.err
    research, implement, commit = fake.calls
    said = "rows (`{}`): exit 0:\n{}\nlines\nport (`echo 8080`): exit 0:\n8080"
    assert state(research) == said.format(table, 1)
    assert state(implement) == said.format(table, 2)
    assert "8080" not in commit["prompt"]
    assert "warning" not in ran.err


def test_a_command_that_fails_is_said_once_a_stage_and_stops_nothing(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    toml(
        repo,
        git,
        "[probes]\nhealth = 'echo no connection; exit 7'\ngone = 'no-such-tool'\n"
        "slow = { run = 'echo begun; sleep 60', timeout = 0.3 }\nsilent = 'true'\n",
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    warned = "warning: probe health failed (exit 7): no connection; the stage is told so"
    assert ran.err.count(warned) == 2
    assert ran.err.count("probe gone failed (exit 127, command not found)") == 2
    assert ran.err.count("probe slow failed (ended): begun / ") == 2
    told = state(fake.calls[0])
    assert "health (`echo no connection; exit 7`): failed, exit 7:\nno connection" in told
    assert "gone (`no-such-tool`): failed, exit 127, command not found:" in told
    assert "silent (`true`): exit 0, nothing printed" in told


@pytest.mark.unheld
@pytest.mark.parametrize("stage", [1, 2])
def test_what_no_one_may_do_between_the_stages_a_snapshot_command_may_not_either(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path, stage: int
) -> None:
    """Commit, stage, tick, or write into the tree, before either stage."""
    count, head = tmp_path / "count", "echo x >> {c}; [ $(wc -l < {c}) = {n} ] || exit 0; "
    bad = (
        "echo mine > a.txt; touch stray; git add a.txt; git commit -qm planted; "
        "echo more >> own.txt; git add own.txt; sed -i s/~/x/ SPEC.md"
    )
    toml(repo, git, f"[probes]\nbad = '''{head.format(c=count, n=stage)}{bad}'''\n")
    before = git("rev-parse", "HEAD")

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert git("log", "--format=%s").splitlines() == ["do the task", "settings", "start"]
    assert git("diff", "--name-only", before, "HEAD").split() == ["SPEC.md", "work.txt"]
    assert git("status", "--porcelain") == ""
    assert not (repo / "stray").exists()
    assert "a probe committed by itself: the commit was undone" in ran.err
    assert "a.txt, own.txt, stray changed while kern worked in your tree: undone" in ran.err
    assert "marker [x] that kern did not set" in ran.err


def test_which_commands_run_an_agent_cannot_change_for_itself(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    """They count as the snapshot before the task has them; what it changes, from the next on."""
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    toml(repo, git, "[probes]\nsay = 'echo old'\n")
    rewrite = "printf '[probes]\nsay = \"echo new\"\n' > kern.toml"
    works = {"run": [rewrite], "result": "SUCCESS"}
    fails = {"run": [rewrite, "echo x > x"], "result": "FAILED: no"}
    fake.script(implement=[fails, works, {"run": ["echo work > work.txt"], "result": "SUCCESS"}])

    assert inline(2).code == 0
    said = [state(call).rpartition("\n")[2] for call in fake.calls if call["stage"] != "commit"]
    assert said == ["old", "old", "old", "new", "new"]


def test_an_output_is_bounded_and_harmless() -> None:
    long = result.state(Result("probe log", 0, "a" * 5000 + "\x1b[31mred\x07\n\n"), "tail\nlog")
    head, _, body = long.partition("\n")
    assert head == "log (`tail log`): exit 0:"
    assert body.startswith("…aaa") and body.endswith("aared") and len(body) == 1001
    ended = result.state(Result("probe log", None, "begun\nnot done after 20 s"), "x")
    assert ended == "log (`x`): failed, ended:\nbegun\nnot done after 20 s"
