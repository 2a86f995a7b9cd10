"""What the stories of a worker share."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import stand_in
from tests.kit.stable import Server
from tests.scenarios.world import TOP, World


@pytest.fixture(scope="session")
def server(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {**os.environ, "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": str(TOP)}
    made = Server("tests.scenarios.forked", env)
    first = World(tmp_path_factory.mktemp("warm") / "w", {"kern": "1 0"}, made)
    first.furnish(fresh)
    first.kern("1 0", what="warm")
    yield made
    made.close()


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fresh(tmp_path_factory.mktemp("fresh"))


def make_fresh(top: Path) -> Path:
    """One committed repository and one agent; every story begins with a copy."""
    here = Path(__file__).parent
    shutil.copytree(here / "fresh", top, dirs_exist_ok=True)
    world = World(top, {}, Server(""))
    stand_in.settle(top / "fake")
    world.write({"x:../fake/bin/kern": f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n'})
    world.shell("git init -q --template=; mkdir .git/hooks .git/info ../tmp; git add -A")
    world.shell("git commit -qm start")
    return top
