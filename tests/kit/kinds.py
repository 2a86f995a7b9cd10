"""A small project of each kind that `kern init` knows, and the gates that it gets."""

from dataclasses import dataclass, field

_PY_TEST = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n"
_PROJECT = '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.9"\n'
NODE = (
    '{"name": "x", "version": "1.0.0", "scripts": {"test": "node -e 1", "lint": "node -e 2", '
    '"typecheck": "node -e 3", "build": "node -e 4", "start": "node"}}\n'
)
_HOOK = """\
repos:
  - repo: local
    hooks: [{id: a, name: a, entry: "true", language: system, always_run: true}]
"""
_NOX = """\
import nox


@nox.session(venv_backend="none")
def tests(session):
    session.run("true", external=True)
"""
_TASKS = """\
version: '3'

tasks:
  test:
    cmds: ['true']
  lint:
    cmds: ['true']
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(x NONE)
enable_testing()
add_test(NAME a COMMAND ${CMAKE_COMMAND} -E true)
"""
_ELIXIR_TEST = """\
defmodule ATest do
  use ExUnit.Case
  test("a", do: assert(true))
end
"""
_MIX = """\
defmodule X.MixProject do
  use Mix.Project

  def project do
    [app: :x, version: "1.0.0"]
  end
end
"""


@dataclass(frozen=True)
class Kind:
    number: int
    name: str
    files: dict[str, str]
    gates: dict[str, str]  # by name
    tools: tuple[str, ...] = ()  # that the gates need; none: the commands are compared alone
    made: str = ""  # a command that makes what else a developer has
    more: dict[str, str] = field(default_factory=dict)  # gates whose tool may be absent

    def __str__(self) -> str:
        return f"{self.number}-{self.name}"


def _node(manager: str, lock: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    gates = {
        "test": f"{manager} run test" if manager == "bun" else f"{manager} test",
        "lint": f"{manager} run lint",
        "types": f"{manager} run typecheck",
        "build": f"{manager} run build",
    }
    return {"package.json": NODE, **lock}, gates


_NPM_LOCK = (
    '{"name": "x", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": '
    '{"": {"name": "x", "version": "1.0.0"}}}\n'
)
_UV_LOCK = """\
version = 1
requires-python = ">=3.9"

[[package]]
name = "x"
version = "1"
source = { virtual = "." }
"""

KINDS = (
    Kind(
        *(1, "uv"),
        {"pyproject.toml": _PROJECT, "uv.lock": _UV_LOCK, "tests/test_a.py": _PY_TEST},
        {"test": "uv run python -m unittest discover -s tests"},
        ("uv",),
    ),
    Kind(
        *(2, "poetry"),
        {
            "pyproject.toml": f"{_PROJECT}[tool.poetry]\npackage-mode = false\n",
            "tests/test_a.py": _PY_TEST,
        },
        {"test": "poetry run python -m unittest discover -s tests"},
        ("poetry",),
        made="poetry env use python3",  # in the home folder, which a sandbox keeps read-only
    ),
    Kind(
        *(3, "pdm"),
        {"pyproject.toml": _PROJECT, "pdm.lock": "", "tests/test_a.py": _PY_TEST},
        {"test": "pdm run python -m unittest discover -s tests"},
        ("pdm",),
    ),
    Kind(
        *(4, "hatch"),
        {
            "pyproject.toml": f"{_PROJECT}[tool.hatch.envs.default]\nskip-install = true\n"
            '[tool.hatch.envs.default.scripts]\ncov = "x"\ntest = "python -m unittest discover"\n',
            "test_a.py": _PY_TEST,
        },
        {"test": "hatch run test"},
        ("hatch",),
        made="hatch env create",
    ),
    Kind(
        *(5, "tox"),
        {
            "tox.ini": "[tox]\nenvlist = py\nskipsdist = true\n[testenv]\nskip_install = true\n"
            "commands = python -m unittest discover\n",
            "test_a.py": _PY_TEST,
        },
        {"test": "tox -q --skip-missing-interpreters true"},
        ("tox",),
    ),
    Kind(*(6, "nox"), {"noxfile.py": _NOX}, {"test": "nox -s tests"}, ("nox",)),
    Kind(
        *(7, "pytest"),
        {
            "a.py": "x = 1\n",
            "tests/test_a.py": "from a import x\n\n\ndef test_a():\n    assert x\n",
        },
        {"test": "python3 -m pytest -q"},
        ("python3 -m pytest",),
    ),
    Kind(
        *(8, "unittest"),
        {
            "setup.py": "",
            "a.py": "",
            "tests/__init__.py": "",
            "tests/test_a.py": f"import a\n{_PY_TEST}",
        },
        {"test": "python3 -m unittest discover -s tests -t ."},
        ("python3",),
    ),
    Kind(
        *(9, "ruff"),
        {
            "pyproject.toml": "[tool.ruff]\nline-length = 90\n[tool.ruff.format]\n",
            "a.py": "x = 1\n",
        },
        {"lint": "ruff check .", "format": "ruff format --check ."},
        ("ruff",),
    ),
    Kind(
        *(10, "mypy"),
        {"mypy.ini": "[mypy]\nstrict = true\nfiles = a.py\n", "a.py": "x = 1\n"},
        {"types": "mypy"},
        ("mypy",),
    ),
    Kind(
        *(11, "pyright"),
        {"pyrightconfig.json": "{}", "a.py": "x = 1\n"},
        {"pyright": "pyright"},
        ("pyright",),
    ),
    Kind(*(12, "npm"), *_node("npm", {"package-lock.json": _NPM_LOCK}), ("npm", "node")),
    Kind(
        *(13, "pnpm"),
        *_node("pnpm", {"pnpm-lock.yaml": "lockfileVersion: '9.0'\n\nimporters:\n\n  .: {}\n"}),
        ("pnpm", "node"),
    ),
    Kind(*(14, "yarn"), *_node("yarn", {"yarn.lock": "# yarn lockfile v1\n"}), ("yarn", "node")),
    Kind(
        *(15, "bun"),
        *_node("bun", {"bun.lock": '{"lockfileVersion": 1, "workspaces": {"": {"name": "x"}}}\n'}),
        ("bun", "node"),
    ),
    Kind(
        *(16, "cargo"),
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "1.0.0"\nedition = "2021"\n',
            "src/lib.rs": "#[test]\nfn a() {}\n",
            ".gitignore": "target\n",
        },
        {
            "test": "cargo test",
            "lint": "cargo clippy --all-targets -- -D warnings",
            "format": "cargo fmt --all --check",
        },
        ("cargo", "cargo-clippy", "cargo-fmt"),
    ),
    Kind(
        *(17, "go"),
        {
            "go.mod": "module x\n\ngo 1.19\n",
            "a_test.go": 'package x\n\nimport "testing"\n\nfunc TestA(t *testing.T) {}\n',
            ".golangci.yml": "version: '2'\n",
        },
        {"test": "go test ./...", "vet": "go vet ./..."},
        ("go",),
        more={"lint": "golangci-lint run"},
    ),
    Kind(
        *(18, "make"),
        {"Makefile": ".PHONY: test lint\ntest: lint\n\ttrue\nlint:\n\ttrue\n"},
        {"test": "make test", "lint": "make lint"},
        ("make",),
    ),
    Kind(
        *(19, "just"),
        {"justfile": "check:\n  true\ntest:\n  true\n"},
        {"check": "just check"},
        ("just",),
    ),
    Kind(
        *(20, "Taskfile"),
        {"Taskfile.yml": _TASKS},
        {"test": "task test", "lint": "task lint"},
        ("task",),
    ),
    Kind(
        *(21, "pre-commit"),
        {".pre-commit-config.yaml": _HOOK},
        {"hooks": "pre-commit run --all-files"},
        ("pre-commit",),
    ),
    Kind(
        *(22, "composer"),
        {"composer.json": '{"name": "x/x", "scripts": {"test": "php -v", "lint": ["php -v"]}}'},
        {"test": "composer test", "lint": "composer lint"},
        ("composer",),
    ),
    Kind(
        *(23, "rspec"),
        {"spec/a_spec.rb": "describe('a') { it('is') {} }\n", "Rakefile": "task :test\n"},
        {"test": "rspec"},
        ("rspec",),
    ),
    Kind(
        *(24, "rake"),
        {"Rakefile": "task :test do\n  puts 1\nend\n"},
        {"test": "rake test"},
        ("rake",),
    ),
    Kind(
        *(25, "dotnet"),
        {"x.sln": "", "src/x.csproj": "<Project Sdk='Microsoft.NET.Sdk' />"},
        {"test": "dotnet test"},
    ),
    Kind(
        *(26, "CMake"),
        {"CMakeLists.txt": _CMAKE},
        {
            "test": "cmake -S . -B build && cmake --build build && "
            "ctest --test-dir build --output-on-failure"
        },
        ("cmake", "ctest", "make"),
    ),
    Kind(
        *(27, "gradle"),
        {
            "build.gradle": "task check { doLast { println 1 } }\n",
            "lib/build.gradle": "",
            ".gitignore": ".gradle\n",
        },
        {"test": "gradle --no-daemon check"},
        ("gradle",),
    ),
    Kind(
        *(28, "maven"),
        {
            "pom.xml": "<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId>"
            "<artifactId>x</artifactId><version>1</version><packaging>pom</packaging></project>"
        },
        {"test": "mvn -B -q verify"},
        ("mvn",),
    ),
    Kind(
        *(29, "mix"),
        {
            "mix.exs": _MIX,
            ".formatter.exs": '[inputs: ["*.exs"]]\n',
            "test/test_helper.exs": "ExUnit.start()\n",
            "test/a_test.exs": _ELIXIR_TEST,
        },
        {"test": "mix test", "format": "mix format --check-formatted"},
        ("mix",),
    ),
    Kind(
        *(30, "deno"),
        {"deno.json": "{}\n", "a_test.ts": 'Deno.test("a", () => {});\n'},
        {
            "test": "deno test",
            "lint": "deno lint",
            "format": "deno fmt --check --ignore=SPEC.md,LEARNINGS.md",  # kern's notes are lines
        },
        ("deno",),
    ),
    Kind(
        *(31, "monorepo"),
        {
            "web app/package.json": NODE,
            "services/api/setup.py": "",
            "services/api/test_a.py": _PY_TEST,
            "web app/node_modules/x/package.json": NODE,
            "tests/fixtures/go.mod": "module x\n",
        },
        {
            "web-app-test": "cd 'web app' && npm test",
            "web-app-lint": "cd 'web app' && npm run lint",
            "web-app-types": "cd 'web app' && npm run typecheck",
            "web-app-build": "cd 'web app' && npm run build",
            "services-api-test": "cd services/api && python3 -m unittest discover",
        },
        ("npm", "node", "python3"),
    ),
)
