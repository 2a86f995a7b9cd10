"""What is played: a task in a small repository, and what tells whether it was carried out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Files = Mapping[str, str]
Change = Mapping[str, str | None]  # None: the file goes
_TEST_FILE = re.compile(r"(^|/)tests?(/|_|\.)|[_.]test\.|[._]spec\.")


@dataclass(frozen=True, slots=True)
class Task:
    """All texts are whole files; `solution` and `wrong` are laid over the first commit."""

    name: str  # repository/task
    aim: str  # the failure that it is aimed at
    files: Files  # of the first commit, beside SPEC.md and kern.toml
    spec: str  # SPEC.md
    settings: str  # kern.toml: the visible gates
    check: str  # the command that runs the hidden tests, at the top level
    hidden: Files  # laid over what is graded; no agent sees them
    solution: Change  # a reference; empty where the right thing is to change nothing
    wrong: Change = field(default_factory=dict)  # passes the visible gates and no hidden test
    ends: tuple[str, ...] = ("done",)  # how kern may end with it
    red: tuple[str, ...] = ()  # the visible gates that are red before the task, as meant
    needs: tuple[str, ...] = ()  # programs beside git, sh and Python
    iterations: int = 4  # of kern: a task that is split takes several

    @property
    def tree(self) -> Files:
        """kern is strict with tests that were there, but where the task is to change one."""
        strict = "" if {*self.tests} & {*self.solution} else "strict_tests = true\n"
        return {**self.files, "SPEC.md": self.spec, "kern.toml": strict + self.settings}

    @property
    def tests(self) -> tuple[str, ...]:
        """Files of the visible ones."""
        return tuple(name for name in self.files if _TEST_FILE.search(name))

    @property
    def acts(self) -> bool:
        """Whether the right end is a change."""
        return "done" in self.ends
