"""`kern help parallel` against the code: its settings are read, its table is the simulation's."""

import re
from pathlib import Path

import pytest

from kern import config, person
from kern.fleet import work
from tests.bench import simulation

PAGE = (Path(__file__).parents[2] / "kern/help/parallel.md").read_text()
WORDS = " ".join(PAGE.split())


def test_its_settings_are_read_as_it_says() -> None:
    worktree, cluster = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    found = config.parse(worktree).fleet
    assert (found.jobs, found.copy, found.link) == (
        "4",
        (".env", "config/local.yml"),
        ("node_modules",),
    )
    assert found.setup == "uv sync --frozen"
    scheduler, remote = person.parse(cluster).cluster
    assert scheduler == "tcp://host:8786" and remote.startswith("git@")
    assert f"`{work.BRANCHES}…`" in PAGE


@pytest.mark.slow
def test_its_table_is_what_the_simulation_says() -> None:
    assert "\n".join(simulation.table()) in PAGE
    world = simulation.World()
    told = f"{world.tasks:,} tasks of {world.task / 60:.0f} minutes each, with gates of"
    assert (
        f"{told} {world.gates:.0f} seconds and {world.collides:.0%} of".replace("%", " %") in WORDS
    )
    shown = re.search(
        r"keeps up with (\d+) workers; in trains, as kern lands them, with (\d+)\. If git saw each "
        r"collision, it would be (\d+); if only gates saw them, (\d+)\.",
        WORDS,
    )
    assert shown
    for count, one in zip(map(int, shown.groups()), simulation.WORLDS.values(), strict=True):
        assert simulation.keeps_up(one, count) and not simulation.keeps_up(one, count + 1)
