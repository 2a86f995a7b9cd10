"""`kern help agents` against the agents: its three tables are made here, of the modules and of the
cases that each CLI passes. `python -m tests.agents.test_help_page` prints them.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kern.agents import protocol
from kern.model import Aide, Role, Stage
from kern.pipeline.isolation import allowed
from tests.agents.conformance import CLIS, Cli

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "kern/help/agents.md"


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def promises() -> str:
    """What each role is held to, by each agent that kern brings."""
    roles: Sequence[Role] = (Stage.RESEARCH, Stage.IMPLEMENT, Stage.COMMIT, Aide.JUDGE)
    head = row(["agent", "research, planner", "implement", "commit", "judge"])
    rows = [
        [f"`{name}`", *(allowed(protocol.find(name), role) for role in roles)]
        for name in protocol.AGENTS
    ]
    return "".join([head, row(["---"] * 5), *map(row, rows)])


def needed() -> str:
    """Of a person's login and settings, what each CLI works with."""
    lines = [row(["agent", "login, which it may renew", "settings, read-only"]), row(["---"] * 3)]
    for name in CLIS:
        needs = protocol.find(name).needs({}, "~", lambda path: "")
        keys = [f"{', '.join(keys)} of `{path}`" for path, keys in needs.excerpts.items()]
        folders: dict[str, list[str]] = {}
        for path in needs.settings:
            folder, _, file = path.rpartition("/")
            folders.setdefault(folder, []).append(file)
        settings = [f"`{folder}`: {', '.join(files)}" for folder, files in folders.items()]
        login = [*(f"`{path}`" for path in needs.login), *keys]
        if login:
            lines.append(row([f"`{name}`", "; ".join(login), "; ".join(settings)]))
    return "".join(lines)


# Each case of the suite as a sentence, and where a CLI does something else, what.
CASES: Mapping[str, tuple[str, Callable[[Cli], str]]] = {
    "research_reads_and_answers": ("research reads, and its answer and tokens come back", str),
    "implement_changes_files_and_runs_commands": ("implement writes, edits, runs commands", str),
    "a_role_that_may_only_read_changes_nothing": (
        "a role that may only read writes and commits nothing",
        str,
    ),
    "a_role_that_reads_sees_the_working_tree_alone": (
        "a role that reads sees the working tree alone",
        lambda cli: "reads the whole disk" if cli.reads_outside else "",
    ),
    "what_is_kern_s_stays_so_in_implement": (
        "implement can neither commit nor edit SPEC.md",
        lambda cli: "" if cli.keeps else "kern restores its lines",
    ),
    "a_repository_runs_nothing_where_limits_are_promised": (
        "a repository's own configuration of the CLI counts in implement alone",
        lambda cli: "" if cli.obeys else "it has none",
    ),
    "a_key_that_is_refused_says_how_to_log_in": ("a key that is refused: how to log in", str),
    "a_model_that_is_not_there_is_named": ("a model that is not there is named", str),
    "a_limit_ends_the_call_at_once": ("a usage limit ends the call at once", str),
    "a_server_that_fails_is_worth_another_try": ("a failing server is a retry", str),
    "a_full_context_is_no_outage": (
        "a full context is a failed attempt",
        lambda cli: "it sums up and goes on" if cli.compacts else "",
    ),
    "an_answer_that_is_none_is_worth_another_try": (
        "garbage, or half an answer, is a retry",
        str,
    ),
    "silence_is_ended_by_kern": ("silence is ended by kern", str),
    "a_command_that_hangs_is_ended_with_all_that_it_started": (
        "a command that hangs is ended with all that it started",
        str,
    ),
    "a_person_who_interrupts_leaves_nothing_behind": ("Ctrl-C leaves nothing behind", str),
    "one_that_is_killed_leaves_nothing_behind": ("a CLI that is killed leaves nothing behind", str),
    "a_long_prompt_with_any_letters_comes_through": (
        "a long prompt with CRLF and emoji comes through, and `/` and `@` do nothing",
        lambda cli: "`@` reads files of the tree" if cli.inlines else "",
    ),
    "a_command_that_prints_100_mb_is_no_fault": ("a command that prints 100 MB is no fault", str),
}


def passed() -> str:
    lines = [row(["case", *(f"`{name}`" for name in CLIS)]), row(["---"] * (1 + len(CLIS)))]
    for sentence, other in CASES.values():
        cells = ["yes" if other is str else other(cli) or "yes" for cli in CLIS.values()]
        lines.append(row([sentence, *cells]))
    return "".join(lines)


def test_the_table_has_every_case_of_the_suite() -> None:
    tree = ast.parse((HERE / "test_conformance.py").read_text())
    names = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    tests = [name.removeprefix("test_") for name in names if name.startswith("test_")]
    assert tests == [*CASES]


def test_the_page_says_what_each_role_is_held_to() -> None:
    assert promises() in PAGE.read_text()


def test_the_page_says_what_each_cli_has_of_a_person_s() -> None:
    assert needed() in PAGE.read_text()


def test_the_page_says_what_each_cli_passes() -> None:
    assert passed() in PAGE.read_text()


def test_each_cli_has_a_section_that_names_its_version() -> None:
    text = PAGE.read_text()
    for name in CLIS:
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert f"KERN_{name.upper()}" in section, name
        oldest = protocol.find(name).OLDEST
        assert f"kern needs {'.'.join(map(str, oldest))}" in section


if __name__ == "__main__":
    print(promises(), needed(), passed(), sep="\n")
