"""Where a run's commits land: on the branch in use, or on a new one, begun under the lock."""

from pathlib import Path

from tests.conftest import Fake, Inline, Kern


def test_a_run_says_first_where_it_lands(repo: Path, fake: Fake, kern: Kern) -> None:
    assert "commits go to main; nothing is pushed\n" in kern("-n").out
    assert "commits go to main; nothing is pushed\n" in kern("1", "0").out


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
