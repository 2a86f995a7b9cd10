"""The kinds of projects that kern knows, as a table: which files tell of which command. Pure."""

import re
from dataclasses import dataclass

Mark = tuple[str, str]  # the name of a file, `*` for anything, and what its text matches


@dataclass(frozen=True, slots=True)
class Rule:
    """Any of the marks, and any of `also` where there are some, call for the command. Of a family
    the first rule for a purpose counts.
    """

    family: str
    kind: str
    purpose: str
    command: str  # {run}, {python}: see `RUNNERS`
    marks: tuple[Mark, ...]
    also: tuple[Mark, ...] = ()
    alone: bool = False  # not where a runner of the family manages its environment


@dataclass(frozen=True, slots=True)
class Runner:
    """What stands before the family's commands where any of the marks does."""

    family: str
    kind: str
    run: str
    marks: tuple[Mark, ...]
    manages: bool = True


def _any(*names: str, text: str = "") -> tuple[Mark, ...]:
    return tuple((name, text) for name in names)


def _table(name: str) -> str:
    """The beginning of a TOML or INI table, or of one within it."""
    return rf"^\[{re.escape(name)}[.\]]"


# What a project calls its checks, in the order in which one is taken.
NAMES = {
    "check": ("check",),
    "test": ("test", "tests"),
    "lint": ("lint",),
    "types": ("typecheck", "type-check", "check-types", "check:types", "types", "tsc", "mypy"),
    "format": ("format:check", "fmt:check", "format-check", "fmt-check", "check-format"),
    "build": ("build",),
}
_PROJECT = "pyproject.toml"
_TESTS = ("**/test_*.py", "**/*_test.py", "**/tests.py")
_UNITTEST = _any(*_TESTS, text=r"\bunittest\b")
_DISCOVER = "{python} -m unittest discover"
_PYTEST = (
    *_any("pytest.ini", ".pytest.ini"),
    *_any("setup.cfg", text=_table("tool:pytest")),
    *_any("tox.ini", text=_table("pytest")),
    *_any(_PROJECT, "requirements*.txt", "setup.py", "Pipfile", text=r"\bpytest\b"),
    *_any(*_TESTS, "tests/*.py", text=r"^(?:import pytest|from pytest|(?:async )?def test_)"),
)
_INSIDE = r"\n(?:(?!\[).*\n)*?"  # the lines of a table
_HATCH = r"^\[(?:tool\.hatch\.)?envs\.default\.scripts\]" + _INSIDE + "test *="
_TYPED = r"^\[(?:tool\.)?mypy\]" + _INSIDE + "(?:files|packages|modules) *="
_RUFF_FORMAT = r"ruff[ -]format|^\[(?:tool\.ruff\.)?format\]"
_CTEST = r"(?i)\b(?:enable_testing|add_test|gtest_discover_tests)\b|include *\( *ctest"
_CMAKE = "cmake -S . -B build && cmake --build build"
_RAKE = r"Rake::TestTask|Minitest::TestTask|^ *task[ (]*[:'\"]?test\b"
_DOTNET = ("*.sln", "*.slnx", "*.csproj", "*.fsproj", "*.vbproj")
_GOLANGCI = (".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json")
_GRADLE = ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
_DENO = ("deno.json", "deno.jsonc", "deno.lock")

# fmt: off
RUNNERS = (
    Runner("python", "uv", "uv run ", (*_any("uv.lock"), *_any(_PROJECT, text=_table("tool.uv")))),
    Runner("python", "poetry", "poetry run ",
            (*_any("poetry.lock"), *_any(_PROJECT, text=_table("tool.poetry")))),
    Runner("python", "pdm", "pdm run ",
            (*_any("pdm.lock"), *_any(_PROJECT, text=r"^\[tool\.pdm(?:\.scripts|\.dev-.*)?\]"))),
    Runner("python", "pipenv", "pipenv run ", _any("Pipfile")),
    Runner("python", "python", ".venv/bin/", _any(".venv/bin/python"), manages=False),
    Runner("python", "python", "venv/bin/", _any("venv/bin/python"), manages=False),
    Runner("ruby", "bundler", "bundle exec ", _any("Gemfile"), manages=False),
    Runner("node", "pnpm", "pnpm ", _any("pnpm-lock.yaml", "pnpm-workspace.yaml")),
    Runner("node", "yarn", "yarn ", _any("yarn.lock")),
    Runner("node", "bun", "bun ", _any("bun.lock", "bun.lockb", "bunfig.toml")),
    Runner("node", "npm", "npm ", _any("package-lock.json", "npm-shrinkwrap.json")),
    Runner("node", "pnpm", "pnpm ", _any("package.json", text=r'"packageManager" *: *"pnpm')),
    Runner("node", "yarn", "yarn ", _any("package.json", text=r'"packageManager" *: *"yarn')),
    Runner("node", "bun", "bun ", _any("package.json", text=r'"packageManager" *: *"bun')),
    Runner("node", "npm", "npm ", _any("package.json")),
)
RULES = (
    Rule("python", "hatch", "test", "hatch run test", _any(_PROJECT, "hatch.toml", text=_HATCH),
         alone=True),
    Rule("python", "hatch", "test", "hatch test",
         (*_any("hatch.toml"), *_any(_PROJECT, text=_table("tool.hatch.envs"))), alone=True),
    Rule("python", "tox", "test", "tox -q --skip-missing-interpreters true",
         (*_any("tox.toml"), *_any("tox.ini", text=r"^\[(?:tox|testenv)\b"),
          *_any(_PROJECT, text=_table("tool.tox"))), alone=True),
    Rule("python", "nox", "test", "nox -s tests", _any("noxfile.py", text=r"^def tests\("),
         alone=True),
    Rule("python", "nox", "test", "nox -s test", _any("noxfile.py", text=r"^def test\("),
         alone=True),
    Rule("python", "nox", "test", "nox", _any("noxfile.py"), alone=True),
    Rule("python", "pytest", "test", "{python} -m pytest -q", _PYTEST),
    Rule("python", "django", "test", "{python} manage.py test", _any("manage.py", text="django")),
    Rule("python", "unittest", "test", f"{_DISCOVER} -s tests -t .", _any("tests/__init__.py"),
         _UNITTEST),
    Rule("python", "unittest", "test", f"{_DISCOVER} -s tests",
         _any("tests/test*.py", text=r"\bunittest\b")),
    Rule("python", "unittest", "test", _DISCOVER, _UNITTEST),
    Rule("python", "ruff", "lint", "{run}ruff check .",
         (*_any("ruff.toml", ".ruff.toml"), *_any(_PROJECT, text=_table("tool.ruff")))),
    Rule("python", "flake8", "lint", "{run}flake8",
         (*_any(".flake8"), *_any("setup.cfg", "tox.ini", text=_table("flake8")))),
    Rule("python", "ruff", "format", "{run}ruff format --check .",
         _any(_PROJECT, "ruff.toml", ".ruff.toml", ".pre-commit-config.yaml", "tox.ini",
              text=_RUFF_FORMAT)),
    Rule("python", "black", "format", "{run}black --check .",
         _any(_PROJECT, text=_table("tool.black"))),
    Rule("python", "mypy", "types", "{run}mypy",
         _any(_PROJECT, "mypy.ini", ".mypy.ini", "setup.cfg", text=_TYPED)),
    Rule("python", "mypy", "types", "{run}mypy .",
         (*_any("mypy.ini", ".mypy.ini"), *_any("setup.cfg", text=_table("mypy")),
          *_any(_PROJECT, text=_table("tool.mypy")))),
    Rule("python", "pyright", "pyright", "{run}pyright",
         (*_any("pyrightconfig.json"), *_any(_PROJECT, text=_table("tool.pyright")))),
    Rule("node", "bun", "test", "bun test", _any("bun.lock", "bun.lockb", "bunfig.toml"),
         _any("**/*.test.*", "**/*_test.*")),
    Rule("deno", "deno", "test", "deno test", _any(*_DENO)),
    Rule("deno", "deno", "lint", "deno lint", _any(*_DENO)),
    Rule("deno", "deno", "format", "deno fmt --check", _any(*_DENO)),
    Rule("cargo", "cargo", "test", "cargo test", _any("Cargo.toml")),
    Rule("cargo", "cargo", "lint", "cargo clippy --all-targets -- -D warnings",
         _any("Cargo.toml")),
    Rule("cargo", "cargo", "format", "cargo fmt --all --check", _any("Cargo.toml")),
    Rule("go", "go", "test", "go test ./...", _any("go.mod")),
    Rule("go", "go", "vet", "go vet ./...", _any("go.mod")),
    Rule("go", "golangci-lint", "lint", "golangci-lint run", _any(*_GOLANGCI)),
    Rule("php", "phpunit", "test", "vendor/bin/phpunit", _any("phpunit.xml", "phpunit.xml.dist")),
    Rule("php", "phpstan", "types", "vendor/bin/phpstan analyse",
         _any("phpstan.neon", "phpstan.neon.dist")),
    Rule("ruby", "rspec", "test", "{run}rspec", _any(".rspec", "**/*_spec.rb")),
    Rule("ruby", "rake", "test", "{run}rake test", _any("Rakefile", text=_RAKE)),
    Rule("ruby", "rubocop", "lint", "{run}rubocop", _any(".rubocop.yml")),
    Rule("dotnet", "dotnet", "test", "dotnet test", _any(*_DOTNET)),
    Rule("cmake", "ctest", "test", f"{_CMAKE} && ctest --test-dir build --output-on-failure",
         _any("CMakeLists.txt", text=_CTEST)),
    Rule("cmake", "cmake", "test", _CMAKE, _any("CMakeLists.txt")),
    Rule("java", "gradle", "test", "./gradlew --no-daemon check", _any("gradlew")),
    Rule("java", "gradle", "test", "gradle --no-daemon check", _any(*_GRADLE)),
    Rule("java", "maven", "test", "./mvnw -B -q verify", _any("mvnw"), _any("pom.xml")),
    Rule("java", "maven", "test", "mvn -B -q verify", _any("pom.xml")),
    Rule("elixir", "mix", "test", "mix test", _any("mix.exs")),
    Rule("elixir", "mix", "format", "mix format --check-formatted", _any(".formatter.exs")),
    Rule("elixir", "mix", "lint", "mix credo", _any("mix.exs", text=r":credo\b")),
    Rule("hooks", "pre-commit", "hooks", "pre-commit run --all-files",
         _any(".pre-commit-config.yaml")),
)
# A target of one of these stands for what the tools below it would do.
TARGETS = (
    ("make", ("GNUmakefile", "makefile", "Makefile"),
     r"^(?:[\w.-]+ )*{name}(?: [\w.-]+)*[ \t]*::?(?![:=])"),
    ("just", ("justfile", "Justfile", ".justfile"),
     r"^@?{name}(?: [*+]?\w+(?:=[^:\n]*)?)*[ \t]*:(?!=)"),
    ("task", ("Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml"),
     r"^(?:  |    |\t)['\"]?{name}['\"]?:"),
)
# Scripts of a JSON file: family, file, key, the command.
SCRIPTS = (
    ("node", ("package.json",), "scripts", "{run}run {name}"),
    ("php", ("composer.json",), "scripts", "composer {name}"),
    ("deno", ("deno.json", "deno.jsonc"), "tasks", "deno task {name}"),
)
# fmt: on
APART = frozenset(("go",))  # families whose command at the top level leaves parts out
PLACEHOLDER = re.compile(r"no test specified")  # what `npm init` writes
# A program that has others work, outside: they see the working tree, whatever is mounted here.
DAEMON = re.compile(r"(?<![\w./-])(?:docker|podman)(?:-compose)?(?= )")
WATCHES = re.compile(r"--watch(?:All)?\b(?!=false)|(?<!-)\bwatch\b|\bnodemon\b")

PROJECT = (  # a folder with one of these is a part
    *(_PROJECT, "setup.py", "pytest.ini", "tox.ini", "noxfile.py", "manage.py", "package.json"),
    *("Cargo.toml", "go.mod", "composer.json", "Gemfile", "Rakefile", ".rspec", *_DOTNET),
    *("CMakeLists.txt", "pom.xml", *_GRADLE, "mix.exs", *_DENO[:2]),
    *(name for _, names, _ in TARGETS for name in names),
)
TELLING = tuple(
    dict.fromkeys(
        (
            *PROJECT,
            *(name for row in RUNNERS for name, _ in row.marks),
            *(name for rule in RULES for name, _ in (*rule.marks, *rule.also)),
            *(
                f"{bin}/{tool}"
                for bin in (".venv/bin", "venv/bin")
                for tool in ("python", "pytest", "ruff", "flake8", "black", "mypy", "pyright")
            ),
        )
    )
)  # all that is looked for, in a folder or below it
