"""What the stories of a worker share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.stable import Server
from tests.scenarios.world import TOP, make_fresh


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    env = {**os.environ, "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": str(TOP)}
    made = Server("tests.scenarios.forked", env)
    yield made
    made.close()


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fresh(tmp_path_factory.mktemp("fresh"))
