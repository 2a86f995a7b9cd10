"""What a change is measured by, by path and content."""

import pytest

from kern.checks import measures
from kern.journal import totals


@pytest.mark.parametrize(
    ("path", "counts"),  # a change, a new one
    [
        ("tests/data/x.json", (True, False)),
        ("src/__tests__/a.tsx", (True, False)),
        ("pkg/a_test.go", (True, False)),
        ("src/FooTest.java", (True, False)),
        ("tests/conftest.py", (True, True)),
        ("jest.config.ts", (True, True)),
        ("web/Makefile", (True, True)),
        (".config/nextest.toml", (True, True)),
        ("bench/run/a", (True, True)),  # kept
        ("golden.txt", (True, True)),
        ("benches/a", (False, False)),
        ("ci/check", (True, False)),  # named
        ("ci/other", (False, False)),
        ("README.md", (False, False)),  # named, and no script
        ("src/latest.py", (False, False)),
        ("src/contest.py", (False, False)),
    ],
)
def test_a_path_counts_by_its_kind(path: str, counts: tuple[bool, bool]) -> None:
    keep, named = ("bench/", "golden.txt"), {"ci/check", "README.md"}
    found = [measures.counts(path, keep, named, new=new) for new in (False, True)]
    assert found == [*counts]


PYTEST = "[tool.pytest.ini_options]\nx = 1\n"


@pytest.mark.parametrize(
    ("path", "old", "new", "counts"),
    [
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', True),
        ("package.json", '{"scripts": {"a": "b"}}', '{"scripts": {"c": "d", "a": "b"}}', False),
        ("web/package.json", "{}", '{"jest": {"testPathIgnorePatterns": ["a"]}}', True),
        ("package.json", '{"v": 1}', '{"v": 2}', False),
        ("package.json", '{"v": 1}', "{", True),
        ("package.json", '{"scripts": {"a": "b"}}', '{"scripts": 1}', True),
        ("pyproject.toml", f"[project]\nv = 1\n{PYTEST}", f"[project]\nv = 2\n\n{PYTEST}", False),
        ("pyproject.toml", f"[project]\nv = 1\n{PYTEST}", "[project]\nv = 2\n", True),
        ("setup.cfg", "[flake8]\na = 1\n", "[flake8]\na = 2\n", True),
        ("a.py", "1", "2", False),
    ],
)
def test_of_some_files_a_part_counts(path: str, old: str, new: str, counts: bool) -> None:
    assert measures.differs(path, old.encode(), new.encode()) is counts


def test_what_is_to_be_looked_at_is_ranked_by_risk() -> None:
    rising = [
        ("flaky gate a: red at first", ""),
        ("judge of 'x': the judges disagree, so the change passes", ""),
        ("many files: 21", ""),
        ("dependencies: uv.lock", ""),
        ("the task changes .mcp.json: it runs unasked; review it", ""),
        ("settings of its gates: Makefile", ""),
        ("the task changed a.sh, named by a gate", ""),
        ("tests: tests/a.py: deleted", "verified by gate `a`"),
        ("tests: tests/a.py: deleted", "verified by gate a"),
        ("UNVERIFIED: no gate passed for this commit", "unverified"),
        ("gate a: green only with its own changes of tests/a.py", ""),
    ]
    ranks = [totals.risk(*one) for one in rising]
    assert ranks == sorted(ranks, reverse=True) and len({*ranks}) == len(ranks)
