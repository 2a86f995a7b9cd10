"""Where a run's commits land: on the branch in use, or on a new one, begun under the lock."""

from pathlib import Path

from tests.conftest import Fake, Git, Inline, Kern


def test_a_run_says_first_where_it_lands(repo: Path, git: Git, fake: Fake, kern: Kern) -> None:
    ran = kern("1", "0")
    assert "commits go to main, which follows no upstream; nothing is pushed\n" in ran.out
    git("init", "--bare", "--quiet", "../remote.git")
    git("remote", "add", "origin", "../remote.git")
    git("push", "--quiet", "--set-upstream", "origin", "main")
    assert "commits go to main, which follows origin/main; nothing is pushed" in kern("-n").out


def test_nothing_is_begun_after_the_time_of_until(repo: Path, fake: Fake, inline: Inline) -> None:
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    now = [1000.0]

    def clock() -> float:
        now[0] += 1 if len(fake.calls) < 3 else 10_000
        return now[0]

    ran = inline(2, until=9000.0, clock=clock)
    assert ran.code == 0 and fake.stages == ["research", "implement", "commit"]
    assert "until: no task and no stage is begun after " in ran.err
    assert "the time of --until has come; the next kern goes on with: the next task" in ran.err
