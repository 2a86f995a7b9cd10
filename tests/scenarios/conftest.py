"""What the stories of a worker share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.world import Server, make_fresh


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.end()


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fresh(tmp_path_factory.mktemp("fresh"))
