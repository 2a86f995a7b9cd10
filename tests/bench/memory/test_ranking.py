"""The figures of the help page are those that are measured, and each arm's are told alike."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kern.memory import search, vectors
from kern.memory.entries import Entry
from kern.memory.select import select
from tests.bench.memory import bundled, ranking
from tests.bench.memory.bundled import Task
from tests.bench.memory.ranking import Arm, Ranked, Setting, figures, fitted

PAGE = Path(search.__file__).parents[1] / "help" / "memory.md"


def entry(name: str, text: str = "text") -> Entry:
    return Entry(name, "title", "", text, 1, "")


ENTRIES = [entry(f"L{n}") for n in range(1, 9)]


def one(order: str, belong: str, *relevance: float) -> Ranked:
    names = tuple(order.split())
    values = relevance or (1.0,) * len(names)
    task = Task("p", order, frozenset(belong.split()))
    return Ranked(task, ENTRIES, names, dict(zip(names, values, strict=True)))


def test_recall_and_gain_are_what_they_are_everywhere() -> None:
    found = one("L1 L2 L3 L4 L5 L6", "L1 L3 L6")
    assert found.recall() == pytest.approx(2 / 3)
    dcg = 1 + 1 / 2 + 1 / 2.807355
    assert found.gain() == pytest.approx(dcg / (1 + 1 / 1.584963 + 1 / 2), abs=1e-5)
    assert one("L1 L2", "L1 L2").gain() == pytest.approx(1)
    every = one(" ".join(f"L{n}" for n in range(1, 9)), " ".join(f"L{n}" for n in range(1, 9)))
    assert every.recall() == 1, "five of eight is all that five can hold"
    assert one("L1", "L2").recall() == one("L1", "L2").gain() == 0


def test_a_threshold_lets_no_wrong_one_through_and_is_no_higher() -> None:
    none = [one(f"L{n} L8", "", n / 10, 0.05) for n in range(1, 6)]
    assert fitted(none) == 0.51
    assert figures([*none, one("L1", "L1")], 0.51).wrong == 0
    assert figures([*none, one("L1", "L1")], 0.5).wrong == pytest.approx(0.2)
    assert fitted([one("L1", "L1", 0.9)]) == 0.0


def test_what_does_not_fit_is_not_told() -> None:
    long = replace(ENTRIES[0], text="word " * 2000)
    found = replace(one("L1 L2", "L2"), entries=[long, *ENTRIES[1:]])
    assert [told.id for told in found.told(0.0)] == ["L2"]


@pytest.mark.slow
def test_the_scored_arm_tells_what_a_stage_is_told() -> None:
    model = vectors.load()
    bundle = bundled.combined()
    for found in ranking.ranked([bundle], Arm.SCORED, model)[::9]:
        chosen = select(bundle.entries, found.relevance, ranking.BUDGET, least=0.05).chosen
        assert found.told(0.05) == [told.entry for told in chosen]
        told = search.of_learnings(None, bundle.learnings.encode(), found.task.text)
        assert told.by_id == found.relevance


@pytest.mark.slow
def test_the_help_page_has_what_is_measured() -> None:
    model = vectors.load()
    if model is None:
        pytest.skip("needs kern[semantic]")
    measured = ranking.table(model)
    rows = re.findall(r"^\| ([a-z`, ]+) \|" + r" ([\d.]+) \|" * 5 + "$", PAGE.read_text(), re.M)
    arms = [(setting, arm) for setting in (Setting.RESEARCH, Setting.IMPLEMENT) for arm in Arm]
    others = [(setting, Arm.SCORED) for setting in Setting if setting not in dict(arms)]
    names = [*(arm for _, arm in arms), *(setting for setting, _ in others)]
    assert [name for name, *_ in rows] == names
    for (_, *cells), what in zip(rows, (*arms, *others), strict=True):
        told = measured[what]
        exact = (told.recall, told.gain, told.tokens, told.reached, told.wrong)
        for cell, value, near in zip(cells, exact, (0.02, 0.02, 15, 0.02, 0.2), strict=True):
            assert float(cell) == pytest.approx(value, abs=near), what


@pytest.mark.slow
@pytest.mark.parametrize("setting", [Setting.ALL_RESEARCH, Setting.ALL_IMPLEMENT])
def test_the_thresholds_are_those_that_were_measured(setting: Setting) -> None:
    model = vectors.load()
    chosen, _ = ranking.halves()
    texts = [task.text for task in ranking.bundles(setting)[0].tasks]
    for arm, by in ((Arm.SCORED, model), (Arm.FTS, None)):
        if arm is Arm.FTS or model:
            least = ranking.threshold(setting, arm, by, chosen)
            assert {search.least(by, text) for text in texts} == {least}
