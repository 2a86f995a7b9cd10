"""What a change is measured by, by path and content."""

import json

import pytest

from kern.checks import measures
from kern.journal import totals


@pytest.mark.parametrize(
    ("path", "counts"),  # a change, a new one
    [
        ("tests/data/x.json", (True, False)),
        ("pkg/a_test.go", (True, False)),
        ("src/FooTest.java", (True, False)),
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
    ("path", "old", "new", "said"),
    [
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}, "v": 2}',
         '{"v": 2, "scripts": {"test": "jest"}}'),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"b": "c", "test": "jest"}}',
         None),
        ("web/package.json", "{}", '{"jest": {"testPathIgnorePatterns": ["a"]}}', "{}"),
        ("package.json", '{"v": 1}', '{"v": 2}', None),
        ("package.json", '{"v": 1}', "{", '{"v": 1}'),
        ("package.json", '{"scripts": {}}', '{"scripts": 1}', '{"scripts": {}}'),
        ("pyproject.toml", f"[project]\nv = 1\n{PYTEST}", f"[project]\nv = 2\n\n{PYTEST}", None),
        ("pyproject.toml", f"[project]\nv = 1\n{PYTEST}", "[project]\nv = 2\n",
         f"[project]\nv = 2\n\n{PYTEST}"),
        ("pyproject.toml", "[project]\n", f"[project]\n\n{PYTEST}", "[project]\n"),
        ("setup.cfg", "[flake8]\na = 1\n", "[flake8]\na = 2\n", "[flake8]\na = 1\n"),
        ("a.py", "1", "2", None),
    ],
)  # fmt: skip
def test_of_some_files_a_part_counts(path: str, old: str, new: str, said: str | None) -> None:
    found = measures.part(path, old.encode(), new.encode())
    if said is None or not path.endswith(".json"):
        assert found == (said and said.encode())
    else:
        assert found and json.loads(found) == json.loads(said)


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
