"""What a child may write, see and reach: pure, every kind against every place."""

from dataclasses import replace
from pathlib import Path

import pytest

from kern.model import Needs
from kern.sandbox import means
from kern.sandbox.bounds import (
    Access,
    Bounds,
    Kind,
    Repository,
    Wishes,
    bounds,
    caches,
    too_wide,
    trimmed,
)

HOME = Path("/home/me")
ROOT = HOME / "project"
GIT = ROOT / ".git"
TREE = Repository(
    *(ROOT, GIT, GIT),
    guarded=(ROOT / ".kern",),
    documents=(ROOT / "SPEC.md",),
    saves=(HOME / ".cache/pre-commit",),
)
NEEDS = Needs(
    login=(f"{HOME}/.claude/.credentials.json",),
    settings=(f"{HOME}/.claude/settings.json",),
    variables=("ANTHROPIC_", "CLAUDE_"),
    hosts=("api.anthropic.com",),
)
NONE = Wishes()


def held(kind: Kind, wishes: Wishes = NONE, tree: Repository = TREE) -> Bounds:
    return bounds(kind, tree, HOME, wishes, needs=NEEDS, hidden=(Path("/var/kern"),))


@pytest.mark.parametrize(
    ("path", "reader", "worker", "check", "committer"),
    [
        (ROOT / "a.py", "read", "write", "write", "write"),
        (ROOT / "SPEC.md", "read", "read", "read", "write"),
        (ROOT / ".kern/prompts/judge.md", "read", "read", "read", "read"),
        (GIT / "objects/aa", "read", "read", "read", "write"),
        (GIT / "refs/heads/main", "read", "read", "read", "write"),
        (GIT / "hooks/pre-commit", "read", "read", "read", "read"),
        (GIT / "config", "read", "read", "read", "read"),
        (GIT / "info/x", "read", "read", "read", "read"),
        (GIT / "kern/events.jsonl", "read", "read", "read", "read"),
        (HOME / ".ssh/id", "hidden", "hidden", "hidden", "hidden"),
        (HOME / ".bashrc", "read", "read", "read", "read"),
        (HOME / ".cache/pre-commit/patch1", "read", "read", "read", "write"),
        (HOME / ".claude/projects/x", "write", "write", "read", "write"),
        (HOME / ".claude/settings.json", "read", "read", "read", "read"),
        (HOME / ".claude/.credentials.json", "write", "write", "read", "write"),
        (HOME / ".codex/auth.json", "hidden", "hidden", "hidden", "hidden"),
        (HOME / ".codex/config.toml", "read", "read", "read", "read"),
        (Path("/var/kern/project/main/stage2.json"), *["hidden"] * 4),
        (Path("/tmp/x"), *["private"] * 4),
        (Path("/usr/bin/git"), *["read"] * 4),
        (HOME / "other/.git/config", *["read"] * 4),
    ],
)
def test_who_may_what(path: Path, reader: str, worker: str, check: str, committer: str) -> None:
    expected = dict(zip(Kind, map(Access, (reader, worker, check, committer)), strict=True))
    assert {kind: held(kind).access(path) for kind in Kind} == expected


def test_where_hooks_save_edits_among_what_git_obeys_that_alone_is_kept() -> None:
    found = held(Kind.COMMITTER, tree=replace(TREE, saves=(GIT / "info",)))
    assert found.access(GIT / "info/lefthook-unstaged.patch") is Access.WRITE
    assert found.access(GIT / "info/attributes") is Access.READ


def test_a_worktree_writes_its_own_folder_of_git_and_no_other_one() -> None:
    common = HOME / "main/.git"
    tree = Repository(ROOT, common / "worktrees/this", common)
    found = held(Kind.COMMITTER, tree=tree)
    assert found.access(common / "worktrees/this/HEAD") is Access.WRITE
    assert found.access(common / "worktrees/that/HEAD") is Access.READ
    assert found.access(common / "objects/aa") is Access.WRITE
    assert held(Kind.WORKER, tree=tree).access(common / "worktrees/this/index") is Access.READ
    for kind in Kind:  # another one there names another repository to git
        assert held(kind, tree=tree).access(ROOT / ".git") is Access.READ


def test_the_outer_places_come_first() -> None:
    order = [path for path, _ in held(Kind.WORKER).ordered()]
    for at, path in enumerate(order):
        assert not any(path in later.parents for later in order[:at]), path


def test_a_home_or_a_program_in_a_folder_for_temporary_files_stays_visible() -> None:
    home = Path("/tmp/home")
    found = bounds(
        Kind.WORKER,
        TREE,
        home,
        NONE,
        needs=Needs(),
        programs=(Path("/tmp/venv"), ROOT / ".venv/bin"),
    )
    assert found.access(home / ".gitconfig") is Access.READ
    assert found.access(home / ".ssh/id") is Access.HIDDEN
    assert found.access(Path("/tmp/venv/bin/python")) is Access.READ
    assert found.access(ROOT / ".venv/bin/x") is Access.WRITE, "the project's own tools"


def test_a_list_of_hosts_closes_the_rest_and_agents_reach_their_own() -> None:
    wishes = Wishes(hosts=("pypi.org",))
    assert held(Kind.WORKER).hosts is None
    assert held(Kind.WORKER, wishes).hosts == ("pypi.org", "api.anthropic.com")
    assert held(Kind.CHECK, wishes).hosts == ("pypi.org",)


def test_what_is_opened_is_open_to_all_but_readers() -> None:
    wishes = Wishes(write=(HOME / ".cache/uv",), hide=(HOME / "diary",))
    for kind in Kind:
        found = held(kind, wishes)
        assert found.access(HOME / "diary/1") is Access.HIDDEN
        opened = Access.READ if kind is Kind.READER else Access.WRITE
        assert found.access(HOME / ".cache/uv/x") is opened


@pytest.mark.parametrize(
    "name",
    [
        *(
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "OPENAI_API_KEY",
            "SSH_AUTH_SOCK",
        ),
        *("XDG_RUNTIME_DIR", "npm_config__authToken", "DOCKER_HOST"),
    ],
)
def test_what_opens_other_doors_is_unset(name: str) -> None:
    assert trimmed({name: "x", "LANG": "C"}) == {"LANG": "C"}
    assert trimmed({name: "x"}, (name,)) == {name: "x"}


def test_an_agent_has_its_own_key_and_a_gate_has_not() -> None:
    env = {"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_OAUTH_TOKEN": "t", "PATH": "/bin"}
    assert trimmed(env, held(Kind.WORKER).keep) == env
    assert trimmed(env, held(Kind.CHECK).keep) == {"PATH": "/bin"}


def test_caches_are_the_projects_own_unless_the_person_opens_or_names_theirs() -> None:
    folder = Path("/home/me/.cache/kern/project")
    found = caches(folder, {"GOCACHE": "/mine"}, HOME, held(Kind.CHECK))
    assert found["UV_CACHE_DIR"] == f"{folder}/uv"
    assert found["npm_config_cache"] == f"{folder}/npm"
    assert "GOCACHE" not in found
    assert found["PRE_COMMIT_HOME"] == f"{folder}/pre-commit"
    opened = held(Kind.CHECK, Wishes(write=(HOME / ".cache/uv",)))
    assert "UV_CACHE_DIR" not in caches(folder, {}, HOME, opened)


def test_a_commits_hooks_have_the_persons_own_pre_commit() -> None:
    """A patch of unstaged edits must lie where a person finds it."""
    assert "PRE_COMMIT_HOME" not in caches(Path("/c"), {}, HOME, held(Kind.COMMITTER))


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/", True),
        ("/home", True),
        ("/home/me", True),
        ("/home/me/.ssh", True),
        ("/home/me/.config", True),
        ("/home/me/.config/kern", True),
        ("/etc", True),
        ("/home/me/project", True),
        ("/home/me/project/.git/hooks", True),
        ("/home/me/other/.git", True),
        ("/home/me/.claude", True),
        ("/home/me/.cache/uv", False),
        ("/home/me/project/build", False),
    ],
)
def test_a_repository_may_not_ask_for_everything(path: str, refused: bool) -> None:
    assert bool(too_wide(Path(path), HOME, ROOT)) is refused


def test_docker_hands_over_what_may_be_written_and_no_value_of_a_variable() -> None:
    argv = means.docker(
        "image",
        "kern-1",
        "1000:1000",
        held(Kind.WORKER, Wishes(hosts=())),
        {"ANTHROPIC_API_KEY": "sk-secret", "PATH": "/bin"},
        ROOT,
        lambda path: path != ROOT / "SPEC.md",
    )
    text = " ".join(argv)
    assert argv[-1] == "image" and "sk-secret" not in text and "PATH" not in argv
    assert f"--volume {ROOT}:{ROOT} " in text
    assert f"--volume {GIT}:{GIT}:ro" in text
    assert f"--volume {ROOT}/SPEC.md:{ROOT}/SPEC.md:ro" in text
    assert "--network none" in text and "/.ssh" not in text and "/var/kern" not in text
    assert text.index(f"{ROOT}:{ROOT} ") < text.index(f"{GIT}:{GIT}:ro"), "the inner one counts"


def test_docker_hands_over_gits_folders_of_a_worktree_that_lie_outside_of_it() -> None:
    tree, git, home = Path("/w/tree"), Path("/r/.git/worktrees/tree"), Path("/home/me")
    places = Bounds(dict.fromkeys((tree, git, home), Access.READ))
    text = " ".join(means.docker("image", "kern-1", "1:1", places, {}, tree, lambda _: True, {git}))
    assert f"--volume {git}:{git}:ro" in text
    assert f"--volume {tree}:{tree}:ro" in text
    assert str(home) not in text


def test_the_profile_of_macos_has_the_inner_rule_last() -> None:
    wishes = Wishes(hosts=(), hide=(Path('/odd "name"\\'),))
    rules = means.profile(held(Kind.WORKER, wishes)).splitlines()
    root = f'(allow file-read* file-write* (subpath "{ROOT}"))'
    git = f'(deny file-write* (subpath "{GIT}"))'
    assert rules.index(root) < rules.index(git)
    assert f'(deny file-read* file-write* (subpath "{HOME}/.ssh"))' in rules
    assert '(deny file-read* file-write* (subpath "/odd \\"name\\"\\\\"))' in rules
    assert rules[-1] == "(deny network*)"
