"""What a project's files tell of its checks: the table of kinds, and what is near to them."""

import pytest

from kern import config
from kern.checks import detect
from kern.checks.detect import Folder, Guess
from kern.model import Result
from tests.kit.kinds import KINDS, NODE, Kind


def commands(files: dict[str, str], **parts: dict[str, str]) -> list[str]:
    """Of the top level, and of folders below it."""
    folders = [Folder("", files)]
    folders += [
        Folder(path.replace("__", "/"), given, frozenset(files)) for path, given in parts.items()
    ]
    return [guess.command for guess in detect.guesses(folders)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "monorepo"], ids=str)
def test_each_kind_gets_its_gates(kind: Kind) -> None:
    found = detect.guesses([Folder("", kind.files)])
    assert {guess.name: guess.command for guess in found} == {**kind.gates, **kind.more}
    assert all(guess.why in kind.files for guess in found)


PLACEHOLDER = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1", "lint": "x"}}'
PYTEST = "python3 -m pytest -q"
VENV = {".venv/bin/python": "", ".venv/bin/pytest": ""}
DENO = ["deno lint", "deno fmt --check --ignore=SPEC.md,LEARNINGS.md"]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, []),
        ({"Makefile": "test := 3\ncheck := 4\nlint ::= 5\n"}, []),
        ({"Makefile": "all:\n\ncheck: all\n\ttrue\ntest:\n", "go.mod": ""}, ["make check"]),
        ({"Makefile": "test :\n\ttrue\n", "go.mod": ""}, ["make test", "go vet ./..."]),
        ({"justfile": "@test *args:\n"}, ["just test"]),
        ({"Taskfile.yml": "vars:\n      test: x\n"}, []),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, []),
        ({"setup.cfg": "[tool:pytest]\n"}, [PYTEST]),
        ({"requirements-dev.txt": "pytest==8\n"}, [PYTEST]),
        ({"pytest.ini": "", **VENV}, [".venv/bin/python -m pytest -q"]),
        ({"pytest.ini": "", ".venv/bin/python": ""}, [PYTEST]),
        ({"ruff.toml": "", "uv.lock": ""}, ["uv run ruff check ."]),
        (
            {"tox.ini": "[testenv]\n", "uv.lock": "", "pytest.ini": ""},
            ["uv run python -m pytest -q"],
        ),
        ({"pyproject.toml": "[tool.hatch.build.targets.wheel]\npackages=['x']\n"}, []),
        ({"noxfile.py": "def docs(session):\n"}, ["nox"]),
        ({"package.json": PLACEHOLDER}, ["npm run lint"]),
        ({"package.json": '{"scripts": {"test": "jest --watch"}}'}, []),
        ({"package.json": '{"scripts": {"test \\"it\' $(x)": "a", "lint; rm": "b"}}'}, []),
        ({"package.json": '{"packageManager": "pnpm@9", "scripts": {"test": "x"}}'}, ["pnpm test"]),
        *(({"package.json": odd}, []) for odd in ("[]", '{"scripts": 3}', '{"a": ' + "[" * 50_000)),
        ({"package.json": "{}", "bun.lock": "", "src/a.test.ts": ""}, ["bun test"]),
        ({"deno.jsonc": '{\n// so\n"tasks": {"test": "deno test -A"}}'}, ["deno task test", *DENO]),
        ({".rspec": "", "Gemfile": ""}, ["bundle exec rspec"]),
        ({"mix.exs": "{:credo, '~> 1'}"}, ["mix test", "mix credo"]),
        ({"manage.py": "import django"}, ["python3 manage.py test"]),
        ({"pixi.toml": "[tasks]\na = 'x'\ntest = 'x'\n"}, ["pixi run test"]),
        ({"Package.swift": ".testTarget(name: 'x')"}, ["swift test"]),
        ({"Package.swift": ".target(name: 'x')"}, ["swift build"]),
        ({"build.sbt": ""}, ["sbt test"]),
        ({"MODULE.bazel": ""}, ["bazel test //..."]),
        ({"build.zig": 'b.step("test", "Run them")'}, ["zig build test"]),
        ({"tests/a.bats": "", "tests/more/b.bats": ""}, ["bats --recursive tests"]),
        ({"a.bats": ""}, ["bats ."]),
        ({"tests/a.py": "def testIt():\n", **VENV}, [".venv/bin/python -m pytest -q"]),
        ({"test_a.py": "class A:\n    def test_b(self):\n"}, []),
    ],
)
def test_near_to_a_kind(files: dict[str, str], found: list[str]) -> None:
    assert commands(files) == found


COMPOSE = '{"scripts": {"test": "docker compose run --rm tests", "lint": "eslint docker/ ."}}'


@pytest.mark.parametrize(
    ("files", "outside"),
    [
        ({"package.json": COMPOSE}, ["test"]),
        ({"Makefile": "test: lint\n\tpodman run x\n\nlint:\n\ttrue # docker\n"}, ["test"]),
        ({"Makefile": "test:\n\ttrue\nup:\n\tdocker-compose up\n"}, []),
        ({"justfile": "test:\n  @docker-compose run x\n"}, ["test"]),
        ({"Taskfile.yml": "tasks:\n  lint:\n    cmds: [a]\n  up:\n    cmds: [docker run]\n"}, []),
    ],
)
def test_what_a_daemon_outside_does_is_of_no_use_in_a_room(
    files: dict[str, str], outside: list[str]
) -> None:
    proposed = detect.guesses([Folder("", files)])
    gates = config.parse(detect.kern_toml("[gates]\n# x\n\n", proposed)).gates
    assert gates and [gate.name for gate in gates if not gate.room] == outside


def test_a_part_gets_what_nothing_above_it_does() -> None:
    cargo = {"Cargo.toml": ""}
    assert len(commands(cargo, inner=cargo)) == 3
    assert len(commands({"go.mod": ""}, inner={"go.mod": ""})) == 4  # ./... leaves it out
    assert commands({"Makefile": "check:\n"}, inner=cargo) == ["make check"]
    assert commands({"pnpm-lock.yaml": ""}, a__b={"package.json": NODE})[0] == "cd a/b && pnpm test"
    own = {"package.json": NODE, "yarn.lock": ""}
    assert commands({"pnpm-lock.yaml": ""}, a=own)[0] == "cd a && yarn test"
    assert commands({"Makefile": "test:\n"}, a={"Makefile": "test:\nlint:\n"}) == [
        "make test",
        "cd a && make lint",
    ]


def test_every_name_is_another_and_fit_for_kern_toml() -> None:
    both = {"package.json": NODE, "pytest.ini": "", "ruff.toml": "", "go.mod": ""}
    folders = [
        Folder("", both),
        *(Folder(name, {"go.mod": ""}) for name in ("a b", "a-b", "é", "ü")),
    ]
    guesses = detect.guesses(folders)
    names = [guess.name for guess in guesses]
    assert {"test", "pytest-test", "go-test", "lint", "ruff-lint", "build"} <= {*names}
    assert {"a-b-test", "a-b-go-test", "part-test", "part-go-test"} <= {*names}
    text = detect.kern_toml("[gates]\n# x\n\n", guesses)
    assert [gate.name for gate in config.parse(text).gates] == names
    assert [gate.command for gate in config.parse(text).gates] == [
        guess.command for guess in guesses
    ]


@pytest.mark.parametrize(
    "folder", ["it's", 'a "b"', "a\\b", "a\nb", "\x7f\x1b[31m", "a'\"b", "$(x) `y`"]
)
def test_no_name_of_a_folder_breaks_kern_toml(folder: str) -> None:
    (guess,) = detect.guesses([Folder(folder, {"pytest.ini": ""})])
    for ended in (None, Result("gate x", 1, "error in\n\x1b]2;" + folder, 1.0)):
        text = detect.kern_toml("[gates]\n# x\n\n", [guess._replace(ended=ended)])
        gates = config.parse(text).gates
        assert [gate.command for gate in gates] == ([] if ended else [guess.command])


def test_what_is_red_or_missing_is_a_comment_that_says_why() -> None:
    guess = Guess("test", "make test", "Makefile")
    for ended, line in (
        (None, 'test = "make test"'),
        (Result("gate test", 0, "", 3.24), 'test = "make test"  # 3 s'),
        (
            Result("gate test", 2, "b.c:1: error: no ;\nmake: *** [test] Error 1", 1),
            '# test = "make test"  # exit 2: b.c:1: error: no ; / make: *** [test] Error 1',
        ),
        (
            Result("gate test", 127, "sh: 1: make: not found", 0),
            '# test = "make test"  # exit 127, command not found: sh: 1: make: not found',
        ),
        (
            Result("gate test", None, "not done after 3 min", 180),
            '# test = "make test"  # ended: not done after 3 min',
        ),
    ):
        assert guess._replace(ended=ended).line == line
