"""The figures of the help page are those that are measured."""

import re
from pathlib import Path

import pytest

from kern.memory import recall, search
from tests.bench.memory import bundled, ranking
from tests.bench.memory.ranking import LEAST, Arm, Setting

PAGE = Path(search.__file__).parents[1] / "help" / "spec.md"


@pytest.mark.slow
def test_the_help_page_has_what_is_measured() -> None:
    if search.vectors() is None:
        pytest.skip("needs kern[semantic]")
    measured = ranking.table()
    bare = [measured[one, Arm.WORDS].reached for one in Setting if "without" in one]
    assert "Without `when` words reach {:.2f} and {:.2f}.".format(*bare) in PAGE.read_text()
    rows = re.findall(
        r"^\| ([a-z]+) \| ([a-z ]+) \|" + r" ([\d.]+) \|" * 3 + "$", PAGE.read_text(), re.M
    )
    assert [(name, arm) for name, arm, *_ in rows] == [
        (setting, arm) for setting in (Setting.RESEARCH, Setting.IMPLEMENT) for arm in Arm
    ]
    for setting, arm, *cells in rows:
        told = measured[Setting(setting), Arm(arm)]
        exact = (told.reached, told.tokens, told.irrelevant)
        for cell, value, near in zip(cells, exact, (0.02, 15, 15), strict=True):
            assert float(cell) == pytest.approx(value, abs=near), (setting, arm)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [Setting.RESEARCH, Setting.IMPLEMENT])
def test_what_belongs_is_told_by_words_alone(setting: Setting) -> None:
    found = ranking.figures(setting, Arm.WORDS, recall.BUDGET)
    assert found.reached >= LEAST[setting]


def test_what_is_measured_is_what_a_stage_is_told() -> None:
    arm = Arm.BOTH if search.vectors() else Arm.WORDS
    bundle = bundled.combined()
    for task in bundle.tasks[::9]:
        chosen = [entry for entry, _ in recall.told(bundle.entries, task.text).chosen]
        assert ranking.told(bundle.entries, task, arm, recall.BUDGET) == chosen
