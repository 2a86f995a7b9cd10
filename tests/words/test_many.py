"""Settings of many at once."""

import pytest

from kern import config, many
from kern.errors import UsageError
from kern.many import Many


def test_every_setting_of_many_at_once_is_read() -> None:
    found = config.parse(
        '[worktree]\ncopy = [".env", "config/local.yml"]\n'
        'setup = { run = " uv sync ", timeout = "2m" }\n'
    )
    paths = (".env", "config/local.yml")
    assert found.fleet == Many(paths, "uv sync", 120)
    assert found.fleet.asks == ("worktree setup: uv sync",)
    assert config.parse('[worktree]\nsetup = "make"\n').fleet.setup_s == 600
    assert Many().asks == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[worktree]\ncopies = []", "unknown setting worktree.copies"),
        (
            '[worktree]\ncopy = ["../x"]',
            "copy must be a list of paths within the repository",
        ),
        ('[worktree]\nlink = ["deps"]', "there is no worktree.link any more"),
        ('[worktree]\ncopy = ["a/.git/b"]', "worktree.copy"),
        ("[worktree]\nsetup = 3", "worktree.setup must be a command"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        config.parse(text)
    assert said in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("jobs", "cores", "memory", "tasks", "count"),
    [
        ("4", 2, 100, 9, 4),  # asked for is asked for
        ("4", 2, 100, 2, 4),
        ("auto", 2, 64_000, 99, 8),
        ("auto", 64, 4_000, 99, 10),
        ("auto", 1, 100, 99, 1),
        ("auto", 8, 64_000, 0, 1),
    ],
)
def test_so_many_work_at_once(jobs: str, cores: int, memory: float, tasks: int, count: int) -> None:
    assert many.workers(jobs, cores, memory, tasks) == count
