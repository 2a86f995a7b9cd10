"""What waits for what: faults with their lines, before a run; and the drawing of it."""

import random
import re
import time
from pathlib import Path

import pytest

from kern.model import Marker
from kern.spec import dependencies
from kern.spec.checklist import Spec, parse
from kern.spec.dependencies import blockers, select
from kern.views import graph
from tests.conftest import Fake, Git, Inline, Kern
from tests.spec.test_checklist import documents


def faults(text: str) -> list[tuple[int, str]]:
    return [(fault.line, fault.message) for fault in dependencies.faults(parse(text))]


A_B = "- [ ] a\n  > **After:** b\n- [ ] b\n  > **After:** a\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (A_B, 1, "waits for itself: a (line 1) -> b (line 3) -> a"),
        ("- [x] z\n- [ ] a\n  > **After:** A\n", 2, "waits for itself: a (line 2) -> a"),
        (
            "- [ ] c\n  > **After:** a\n- [ ] a\n  > **After:** b\n- [~] b\n  > **After:** c\n",
            1,
            "waits for itself: c (line 1) -> a (line 3) -> b (line 5) -> c",
        ),
        (
            "- [ ] p\n  - [ ] s\n    > **After:** p\n",
            1,
            "waits for itself: p (line 1) -> s (line 2) -> p; a task is done with its last subtask",
        ),
        (
            "- [ ] p\n  > **After:** s\n  - [ ] s\n",
            1,
            "waits for itself: p (line 1) -> s (line 3) -> p; a subtask waits with its parent",
        ),
        (
            "- [ ] p\n  > **After:** q\n  - [ ] s\n- [ ] q\n  > **After:** s\n",
            1,
            "waits for itself: p (line 1) -> q (line 4) -> s (line 3) -> p; "
            "a subtask waits with its parent",
        ),
        ("- [ ] a\n- [ ] a\n  > **After:** a\n", 2, "waits for itself: a (line 2) -> a"),
        ("- [ ] a\n  > **After:** nope\n", 2, "After names no task in SPEC.md: 'nope'"),
        ("- [ ] a\n  > **After:**\n", 2, "After names no task in SPEC.md: ''"),
        (
            "- [x] p\n  > **After:** gone\n  - [ ] s\n",
            2,
            "After names no task in SPEC.md: 'gone'",
        ),
    ],
)
def test_what_can_never_begin_is_told_with_its_lines(text: str, line: int, said: str) -> None:
    assert faults(text) == [(line, said)]


@pytest.mark.parametrize(
    "text",
    [
        "- [ ] a\n- [ ] b\n  > **After:** a\n  > **After:** A \n",
        "- [x] a\n  > **After:** b\n- [ ] b\n  > **After:** a\n",
        "- [x] a\n  > **After:** gone\n- [ ] b\n",
        "- [ ] p\n  - [ ] s\n  - [ ] t\n    > **After:** s\n",
        "- [ ] p\n  > **After:** q\n  - [ ] s\n    > **After:** q\n- [ ] q\n",
        "- [ ] a\n- [x] a\n- [ ] b\n  > **After:** a\n  > **Blocked:** x\n",
    ],
)
def test_what_will_be_met_one_day_is_no_fault(text: str) -> None:
    assert faults(text) == []


def test_of_two_circles_each_is_told_and_what_waits_behind_one_is_not() -> None:
    other = "- [ ] c\n  > **After:** d\n- [ ] d\n  > **After:** c\n"
    behind = "- [ ] e\n  > **After:** a\n"
    assert [line for line, _ in faults(behind + A_B + other)] == [3, 7]


def test_a_long_circle_names_its_first_tasks() -> None:
    text = "".join(f"- [ ] t{i}\n  > **After:** t{(i + 1) % 50}\n" for i in range(50))
    ((line, said),) = faults(text)
    assert line == 1
    assert "t19 (line 39) -> 30 more -> t0" in said


def carried_out(parsed: Spec) -> set[int]:
    """The tasks that end if each that is ready succeeds: by hand, with `blockers` alone."""
    tasks = list(parsed.tasks)
    while True:
        now = Spec(
            tuple(
                one._replace(
                    open_subtasks=any(
                        other.parent == index and other.marker is not Marker.DONE for other in tasks
                    )
                )
                for index, one in enumerate(tasks)
            ),
            (),
        )
        why = blockers(now)
        ready = [i for i, t in enumerate(now.tasks) if t.marker is not Marker.DONE and not why(t)]
        if not ready:
            return {i for i, t in enumerate(tasks) if t.marker is Marker.DONE}
        for index in ready:
            tasks[index] = tasks[index]._replace(marker=Marker.DONE)


def test_stuck_is_exactly_what_no_order_of_work_brings_to_an_end() -> None:
    """400 lists of up to 9 tasks, nested, with random notes."""
    for seed in range(400):
        chance = random.Random(seed)
        lines, depth = [], 0
        count = chance.randrange(1, 10)
        for i in range(count):
            depth = chance.randrange(min(depth + 1, 3) + 1) if i else 0
            lines.append(f"{'  ' * depth}- [{chance.choice('    x')}] t{i}")
            after = [chance.randrange(count) for _ in range(chance.choice((0, 0, 1, 2)))]
            lines += [f"{'  ' * depth}  > **After:** t{other}" for other in after]
        parsed = parse("\n".join(lines))
        ended = carried_out(parsed)
        assert dependencies.stuck(parsed) == set(range(len(parsed.tasks))) - ended, seed
        assert bool(dependencies.circles(parsed)) == bool(dependencies.stuck(parsed)), seed


def test_what_waits_has_its_reason_and_what_does_not_has_none() -> None:
    """The sorter says which tasks wait; the words come from their own notes and those above."""
    chance = random.Random(7)
    some = 0
    for _ in range(400):
        count = chance.randrange(1, 9)
        lines = []
        for number in range(count):
            deep = "  " if number and chance.random() < 0.4 else ""
            lines.append(f"{deep}- [{chance.choice(' x ')}] t{number}")
            if chance.random() < 0.5:
                lines.append(f"{deep}  > **After:** t{chance.randrange(count + 1)}")
        parsed = parse("\n".join(lines))
        late = dependencies.waiting(parsed)
        for index, task in enumerate(parsed.tasks):
            if task.marker is Marker.PENDING and not task.open_subtasks:
                why = blockers(parsed)(task)
                assert bool(why) == (index in late), lines
                assert "what comes before it" not in why, lines
                some += bool(why)
        chosen = select(parsed)
        assert chosen is None or parsed.tasks.index(chosen) not in late
    assert some > 300


def test_any_document_has_an_answer() -> None:
    for seed, _, parsed in documents():
        lines = {note.line for task in parsed.tasks for note in task.notes}
        lines |= {task.line for task in parsed.tasks}
        assert {fault.line for fault in dependencies.faults(parsed)} <= lines, seed


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "".join(f"- [ ] {i}\n  > **After:** {(i + 1) % 10_000}\n" for i in range(10_000)),
        "".join(f"- [ ] {i}\n  > **After:** {i + 1}\n" for i in range(10_000)),
        "- [ ] same\n  > **After:** same\n" * 10_000,
        "".join(f"{' ' * i}- [ ] {i}\n{' ' * i} > **After:** {i // 2}\n" for i in range(2_000)),
    ],
    ids=["circle", "chain", "twins", "nested"],
)
def test_long_lists_are_no_problem(text: str) -> None:
    parsed = parse(text)
    began = time.process_time()
    dependencies.faults(parsed)
    select(parsed)
    graph.mermaid(parsed)
    assert time.process_time() - began < 8


# ---------------------------------------------------------------- before a run


def test_no_run_begins_on_an_order_that_leads_nowhere(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    text = A_B + "- [ ] c\n  > **After:** an unknown one\n- [ ] d\n"
    (repo / "SPEC.md").write_text(text)

    for ran in (kern("1", "0"), kern("-n")):
        assert ran.code == 2
        assert "SPEC.md line 1: waits for itself: a (line 1) -> b (line 3) -> a" in ran.err
        assert "SPEC.md line 6: After names no task in SPEC.md: 'an unknown one'" in ran.err
    assert fake.calls == []
    assert (repo / "SPEC.md").read_text() == text
    shown = kern("status")
    assert shown.code == 0
    assert "line 6: After names no task" in shown.out
    assert "(waits for 2 (b))" in shown.out


@pytest.mark.parametrize("name", ["Lay the --floor [now]", "Ünïcode: 'x' \\ * + .", "a" * 300])
def test_a_task_that_was_done_and_then_deleted_holds_nothing_up(
    repo: Path, git: Git, fake: Fake, inline: Inline, kern: Kern, name: str
) -> None:
    (repo / "SPEC.md").write_text(f"- [ ] {name}\n- [ ] roof\n  > **After:** {name.upper()}\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    assert inline(1).code == 0
    (repo / "SPEC.md").write_text(f"- [ ] roof\n  > **After:** {name.upper()}\n- [ ] z\n")

    assert '"blocker": null' in kern("status", "--json").out
    assert inline(1).code == 0

    assert (repo / "SPEC.md").read_text().startswith("- [x] roof\n")


def test_a_task_that_was_deleted_while_open_is_unknown(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] floor\n- [x] flooring\n- [ ] the floor\n- [ ] roof\n")
    git("commit", "--quiet", "--all", "--message=tasks")
    (repo / "SPEC.md").write_text("- [ ] roof\n  > **After:** floor\n")

    ran = kern("1", "0")

    assert (ran.code, fake.calls) == (2, [])


# ---------------------------------------------------------------- drawn

_NODE = re.compile(r'  ([tm]\d+)\["((?:[\w .,/()\'-]|#\d+;)*)"\](?::::(\w+))?')
_EDGE = re.compile(r"  ([tm]\d+) (-->|-\.-) (t\d+)")
_CLASS = re.compile(r"  classDef (\w+) [\w#:,-]+")

Drawn = tuple[dict[str, tuple[str, str]], list[tuple[str, str, str]]]


def drawing(text: str) -> Drawn:
    """Nodes with text and class, and edges; no line is anything else."""
    head, *lines = text.split("\n")
    assert head == "graph TD"
    nodes: dict[str, tuple[str, str]] = {}
    edges, styles = [], set()
    for line in lines:
        if match := _NODE.fullmatch(line):
            shown = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), match[2])
            nodes[match[1]] = (shown, match[3] or "")
        elif match := _EDGE.fullmatch(line):
            edges.append((match[1], match[2], match[3]))
        elif match := _CLASS.fullmatch(line):
            styles.add(match[1])
        else:
            assert re.fullmatch(r"  %% [\w ]+", line), line
    assert {style for _, style in nodes.values() if style} <= styles
    assert {end for a, _, b in edges for end in (a, b)} <= nodes.keys()
    return nodes, edges


def test_the_drawing_shows_each_task_what_it_waits_for_and_its_parts() -> None:
    text = (
        "- [x] floor\n- [~] walls\n- [ ] roof\n  > **After:** Walls\n  > **After:** floor\n"
        "  - [ ] beams\n- [ ] garden\n  > **Blocked:** no\n- [ ] pond\n  > **After:** nowhere\n"
        "- [ ] free\n"
    )
    nodes, edges = drawing(graph.mermaid(parse(text)))
    assert nodes == {
        "t1": ("1 floor", "done"),
        "t2": ("2 walls", "active"),
        "t3": ("3 roof", "waiting"),
        "t4": ("4 beams", "waiting"),
        "t5": ("5 garden", "blocked"),
        "t6": ("6 pond", "blocked"),
        "t7": ("7 free", ""),
        "m1": ("nowhere?", "blocked"),
    }
    assert sorted(edges) == [
        ("m1", "-->", "t6"),
        ("t1", "-->", "t3"),
        ("t2", "-->", "t3"),
        ("t3", "-.-", "t4"),
    ]


def test_no_text_is_taken_for_mermaids_own() -> None:
    for text in (
        'a "b" [c] {d} (e) `f` <g> #35; %% %%{init: {}}%% ; & |',
        "--> x --- end style x:#y; classDef a:b; \\n @{ shape: y } é",
    ):
        after = f"- [ ] {text}\n- [ ] z\n  > **After:** {text}!\n"
        nodes, _ = drawing(graph.mermaid(parse(after)))
        assert nodes["t1"][0] == f"1 {text}"
    for seed, _, parsed in documents():
        nodes, _ = drawing(graph.mermaid(parsed))
        assert len([name for name in nodes if name[0] == "t"]) == len(parsed.tasks), seed


def test_of_a_long_list_what_is_done_is_left_out() -> None:
    done = "- [x] old\n  - [x] part\n    - [ ] bit\n" + "- [x] one\n" * 400
    drawn = graph.mermaid(parse(f"{done}- [ ] new\n  > **After:** one\n"))
    nodes, edges = drawing(drawn)
    assert {shown for shown, _ in nodes.values()} == {"2 part", "3 bit", "404 new"}
    assert edges == [("t2", "-.-", "t3")]
    assert "401 finished tasks" in drawn


def test_graph_prints_the_drawing(repo: Path, kern: Kern) -> None:
    (repo / "SPEC.md").write_text(A_B)
    ran = kern("graph")
    assert (ran.code, ran.err) == (0, "")
    assert drawing(ran.out.rstrip("\n"))[1] == [("t2", "-->", "t1"), ("t1", "-->", "t2")]
