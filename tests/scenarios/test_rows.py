"""A row that is none is red, with its name."""

from pathlib import Path

import pytest

from tests.scenarios.test_scenarios import check, read_tables

BAD = {
    "a key that is not known": '["a story"]\ncolour = "red"\nthen.exit = 0\n',
    "an end that is not known": '["a story"]\nthen.exit = 0\nthen.colour = "red"\n',
    "a need that is not known": '["a story"]\nneeds = "luck"\nthen.exit = 0\n',
    "a mode that is not known": '["a story"]\nmode = "docker"\nthen.exit = 0\n',
    "no end": '["a story"]\nspec = ""\n',
}


@pytest.mark.parametrize("what", BAD)
def test_it_is_red_with_its_name(what: str, tmp_path: Path) -> None:
    (tmp_path / "table.toml").write_text(BAD[what])
    ((name, row),) = read_tables(tmp_path).items()
    with pytest.raises(AssertionError, match="a story: "):
        check(name, row)


def test_two_of_one_name_are_red(tmp_path: Path) -> None:
    for table in ("a.toml", "b.toml"):
        (tmp_path / table).write_text('["a story"]\nthen.exit = 0\n')
    with pytest.raises(AssertionError, match=r"b.toml: a story"):
        read_tables(tmp_path)


def test_nothing_is_blessed_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="a story: no --bless"):
        check("a story", {"then": {"exit": 0}}, bless=True)
