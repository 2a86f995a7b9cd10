"""The summary of a run, in the order in which it is read."""

from dataclasses import replace

from kern.events import AttemptNoted, RunEnded
from kern.model import Cost, Need
from kern.views import summary

BLOCKED = Need(6, 9, "publish", "no key", "kern show 6, edit the task, kern unblock 6")
ASKS = Need(2, 3, "store", "asks: which?", 'kern answer 2 "…"')
ENDED = RunEnded(
    done=(("flag", "1a2b3c4 Add --version", "verified by gate check"), ("docs", "5d6e7f8 Add", "")),
    concluded=(),
    decomposed=(("whole", True), ("other", False)),
    needs_help=(),
    stuck=(),
    open_tasks=5,
    seconds=3720,
    cost=Cost(1.5),
    interrupted="",
    exit_code=1,
    tokens=82_000,
    needs=(ASKS, BLOCKED),
)


def said(ended: RunEnded, *attempts: AttemptNoted) -> str:
    return "".join(f"{text}\n" for text, _ in summary.lines(ended, attempts))


def test_it_says_how_it_went_what_needs_you_what_was_done_and_what_failed() -> None:
    tried = AttemptNoted("publish", 1, "no way", "kern/attempts/publish-1/1")
    assert (
        said(ENDED, tried, replace(tried, number=2))
        == """\

2 done, 2 need you, 1 unverified, 5 open; $1.50 (API-equivalent), 82k tokens, 1 h 2 min

Needs you:
   2  store
      asks: which?
      kern answer 2 "…"
   6  publish
      no key
      kern show 6, edit the task, kern unblock 6

Done:
  flag  (1a2b3c4 Add --version)
      verified by gate check
  docs  (5d6e7f8 Add)
      UNVERIFIED: no gate passed for this commit
  whole  (a parent, by its subtasks)
  To verify such commits, name your checks under [gates] in kern.toml.

Split into subtasks:
  other

Failed attempts, with the work of each:
  publish
      1: no way
         git show kern/attempts/publish-1/1
      2: no way
         git show kern/attempts/publish-1/1

next: kern 3 takes the other open tasks
"""
    )


def test_only_what_a_gate_stands_behind_is_green() -> None:
    styles = {text.strip(): style for text, style in summary.lines(ENDED, ())}
    assert styles["flag  (1a2b3c4 Add --version)"] == "green"
    assert [text for text, style in styles.items() if "green" in style] == [
        "flag  (1a2b3c4 Add --version)"
    ]


def test_the_last_line_is_what_to_type_next() -> None:
    alone = replace(ENDED, open_tasks=1, needs=(BLOCKED,))
    assert summary.following(alone) == f"next: {BLOCKED.do}, then: kern"
    both = replace(ENDED, open_tasks=2)
    then = 'kern answer 2 "…", then the other task that needs you, then: kern'
    assert summary.following(both) == f"next: {then}"
    stopped = replace(ENDED, stopped="the next task")
    assert summary.following(stopped).startswith("stopped, as asked; the next kern goes on with")
    late = replace(stopped, until=True)
    assert summary.following(late).startswith("the time of --until has come; the next kern")
    assert summary.following(replace(ENDED, interrupted="no disk")) == ""
    done = replace(ENDED, open_tasks=0, needs=())
    assert summary.following(done) == "all tasks are done: git log shows them"


def test_of_a_long_section_the_rest_is_counted() -> None:
    many = tuple(BLOCKED._replace(number=n) for n in range(1, 31))
    told = said(replace(ENDED, needs=many))
    assert "  20  publish\n" in told and "  21  publish\n" not in told
    assert "  and 10 more: kern status\n" in told


def test_the_next_run_is_the_like_of_this_one() -> None:
    many = replace(ENDED, called="kern -j 4")
    assert summary.following(many) == "next: kern -j 4 3 takes the other open tasks"
    needy = replace(many, open_tasks=1, needs=(BLOCKED,))
    assert summary.following(needy).endswith(", then: kern -j 4")


def test_attempts_of_many_at_once_stand_by_their_tasks() -> None:
    one, other = (AttemptNoted(task, 1, "no way", "ref") for task in ("one", "other"))
    shown = said(ENDED, one, other, replace(one, number=2)).partition("Failed attempts")[2]
    assert shown.count("  one\n") == 1
    assert shown.index("      2: no way") < shown.index("  other\n")
