"""What one child of kern may write, see and reach: one value for every means of holding it."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path

from kern import obeyed, plain
from kern.frozen import frozen
from kern.model import Needs


class Access(StrEnum):
    """What a child has of a place and what lies below, up to the next one; the strictest first."""

    HIDDEN = "hidden"  # an empty folder or file stands there instead
    PRIVATE = "private"  # an empty folder of its own, gone when it ends
    READ = "read"
    WRITE = "write"


class Kind(StrEnum):
    READER = "reader"  # research, the judge, the planner
    WORKER = "worker"  # implement
    CHECK = "check"  # gates and probes: what the worker wrote runs there
    COMMITTER = "committer"  # stage 3, and git with its hooks


AGENTS = (Kind.READER, Kind.WORKER, Kind.COMMITTER)

# Below the home folder: keys, logins, and what was typed.
SECRETS = (
    *(".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc"),
    *(".git-credentials", ".config/git/credentials", ".config/gh", ".config/gcloud", ".config/op"),
    *(".config/hub", ".config/glab-cli", ".config/rclone", ".config/containers", ".config/sops"),
    *(".terraform.d", ".terraformrc", ".vault-token", ".password-store", ".local/share/keyrings"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml"),
    *(".pgpass", ".my.cnf", ".mozilla", ".config/google-chrome", ".config/chromium"),
    *(".bash_history", ".zsh_history", ".python_history", ".node_repl_history"),
    *(".psql_history", ".mysql_history", ".sqlite_history", ".local/share/fish/fish_history"),
    *(".config/kern", ".local/state/kern"),  # by these kern itself goes
)
# Where tools keep what they fetch and build: a variable, and the usual place in the home folder.
CACHES = {
    **{"GOCACHE": ".cache/go-build", "GOLANGCI_LINT_CACHE": ".cache/golangci-lint"},
    **{"UV_CACHE_DIR": ".cache/uv", "PIP_CACHE_DIR": ".cache/pip"},
    **{"npm_config_cache": ".npm", "YARN_CACHE_FOLDER": ".cache/yarn", "DENO_DIR": ".cache/deno"},
    **{"BUN_INSTALL_CACHE_DIR": ".bun/install/cache", "COMPOSER_CACHE_DIR": ".cache/composer"},
    **{"CCACHE_DIR": ".cache/ccache", "ZIG_GLOBAL_CACHE_DIR": ".cache/zig"},
    # These cannot even begin where they cannot write.
    **{"PRE_COMMIT_HOME": ".cache/pre-commit", "GRADLE_USER_HOME": ".gradle"},
}
_PRIVATE = ("/tmp", "/var/tmp", "/run", "/dev/shm")
# What git obeys or kern remembers, of a repository that stage 3 may otherwise write.
_KEPT_IN_GIT = (
    *("hooks", "config", "config.worktree", "info", "kern", "worktrees", "modules"),
    *("info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout"),  # of `saves`
)
_OBEYED = {".git", ".kern", obeyed.HOME, *obeyed.FOLDERS}
_AGENT_SOCKETS = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS"),
    *("XDG_RUNTIME_DIR", "DOCKER_HOST", "WAYLAND_DISPLAY", "DISPLAY", "TMUX", "GIT_ASKPASS"),
    *("SSH_ASKPASS", "VSCODE_GIT_IPC_HANDLE", "VSCODE_IPC_HOOK_CLI"),
)


@frozen
class Repository:
    root: Path
    git_dir: Path
    common_dir: Path
    guarded: tuple[Path, ...] = ()  # what kern restores after a stage
    documents: tuple[Path, ...] = ()  # SPEC.md and LEARNINGS.md, which a hook may format or stash
    saves: tuple[Path, ...] = ()  # where hooks save what a person has not staged while they run


@frozen
class Wishes:
    """What a person, or a repository that they trust, opens and closes."""

    write: tuple[Path, ...] = ()
    hide: tuple[Path, ...] = ()
    hosts: tuple[str, ...] | None = None  # None: the network is open
    env: tuple[str, ...] = ()  # names that are let through


@frozen
class Bounds:
    places: Mapping[Path, Access]  # absolute; the deepest one counts
    hosts: tuple[str, ...] | None = None
    keep: tuple[str, ...] = field(default=())  # beginnings of names of variables

    def and_write(self, *paths: Path) -> "Bounds":
        return replace(self, places={**self.places, **dict.fromkeys(paths, Access.WRITE)})

    def and_read(self, *paths: Path) -> "Bounds":
        return replace(self, places={**self.places, **dict.fromkeys(paths, Access.READ)})

    def resolved(self) -> "Bounds":
        """By where links lead: nothing can be bound at a link. The stricter counts. What is out of
        sight and a link stands in its own place as well. What is in sight and is kept read-only
        opens nothing, nor does what lies where all can be written: a repository may hold it as a
        link to a key, an agent may have made it one.
        """
        found: dict[Path, Access] = {}
        kept: list[Path] = []
        for path, access in self.ordered():
            real = Path(os.path.realpath(path))
            around = self.access(path.parent)
            unseen = around in (Access.HIDDEN, Access.PRIVATE)
            if access is Access.WRITE and around is Access.WRITE:
                continue
            if access is Access.READ and not unseen:
                kept.append(real)
                continue
            for place in {real, path} if unseen else {real}:
                found[place] = min(access, found.get(place, access), key=[*Access].index)
        writable = replace(self, places=found)
        closed = [real for real in kept if writable.access(real) is Access.WRITE]
        return writable.and_read(*closed)

    def ordered(self) -> list[tuple[Path, Access]]:
        """The outer ones first, so that what comes later lies within."""
        return sorted(self.places.items(), key=lambda item: (len(item[0].parts), item[0]))

    def writable(self) -> list[Path]:
        return [path for path, access in self.ordered() if access is Access.WRITE]

    def access(self, path: Path) -> Access:
        for one in (path, *path.parents):
            if one in self.places:
                return self.places[one]
        return Access.READ


def bounds(
    kind: Kind,
    repository: Repository,
    home: Path,
    wishes: Wishes,
    *,
    needs: Needs,
    hidden: Collection[Path] = (),
    programs: Iterable[Path] = (),
) -> Bounds:
    """`hidden`: kern's own files. `programs`: what must be readable although it lies in a place
    that is private or hidden.
    """
    tree = repository
    places = dict.fromkeys(map(Path, _PRIVATE), Access.PRIVATE)
    secrets = [home / name for name in SECRETS]
    theirs = folders(needs)  # of the agents of this run
    logins = [home / name for name in obeyed.LOGINS]
    secrets += [one for one in logins if not any(map(one.is_relative_to, theirs))]
    places |= dict.fromkeys((*secrets, *wishes.hide, *hidden), Access.HIDDEN)
    out_of_sight = Bounds(places)
    for path in (home, *programs):
        if out_of_sight.access(path) is not Access.READ:
            places[path] = Access.READ
    places[tree.root] = Access.READ if kind is Kind.READER else Access.WRITE
    if kind is Kind.COMMITTER:
        places |= dict.fromkeys((tree.common_dir, tree.git_dir), Access.WRITE)
        for folder in (tree.common_dir, tree.git_dir):
            places |= {folder / name: Access.READ for name in _KEPT_IN_GIT}
        places[tree.git_dir] = Access.WRITE  # it may be one of the worktrees'
        places |= dict.fromkeys(tree.saves, Access.WRITE)
    else:
        places |= dict.fromkeys((tree.common_dir, tree.git_dir), Access.READ)
    places |= dict.fromkeys(tree.guarded, Access.READ)
    if tree.git_dir != tree.root / ".git":  # a file there names git's folder
        places[tree.root / ".git"] = Access.READ
    if kind is not Kind.COMMITTER:
        places |= dict.fromkeys(tree.documents, Access.READ)
    agents = kind in AGENTS
    if agents:
        places |= dict.fromkeys(folders(needs), Access.WRITE)
        places |= dict.fromkeys(map(Path, (*needs.settings, *needs.excerpts)), Access.READ)
    if kind is not Kind.READER:
        places |= dict.fromkeys(wishes.write, Access.WRITE)
    hosts = wishes.hosts
    if hosts is not None and agents:
        hosts = tuple(dict.fromkeys((*hosts, *needs.hosts)))
    return Bounds(places, hosts, (*wishes.env, *(needs.variables if agents else ())))


def folders(needs: Needs) -> list[Path]:
    """Where an agent keeps its login and what else it writes."""
    found = [Path(one) if Path(one).is_dir() else Path(one).parent for one in needs.login]
    shares = [one for one in found if one.parent.name == "share"]
    local = [one.parents[1] / "state" / one.name for one in shares]
    caches = [one.parents[2] / ".cache" / one.name for one in shares]
    configs = [one.parents[2] / ".config" / one.name for one in shares]
    return [*found, *local, *caches, *configs]


def trimmed(env: Mapping[str, str], keep: Collection[str] = ()) -> dict[str, str]:
    """The environment without what opens other doors; `keep`: beginnings of names."""
    return {
        name: value
        for name, value in env.items()
        if name.startswith(tuple(keep))
        or not (name.upper() in _AGENT_SOCKETS or plain.names_a_secret(name.upper()))
    }


def caches(folder: Path, env: Mapping[str, str], home: Path, held: Bounds) -> dict[str, str]:
    """Variables that lead tools to caches below `folder`. A person's own cannot be written: what is
    planted there would run outside, later.
    """
    return {
        name: str(folder / Path(usual).name.lstrip("."))
        for name, usual in CACHES.items()
        if name not in env and held.access(home / usual) is not Access.WRITE
    }


def too_wide(path: Path, home: Path, root: Path) -> str:
    """Why a repository may not ask to write there; empty where it may."""
    real = Path(os.path.realpath(path))
    if home.is_relative_to(real) or root.is_relative_to(real):
        return "it holds the home folder, or the repository itself"
    if any(
        real.is_relative_to(home / name) or (home / name).is_relative_to(real) for name in SECRETS
    ):
        return "keys and logins lie there"
    if _OBEYED & {*real.parts}:
        return "git, agents or kern obey what lies there"
    if not real.is_relative_to(home):
        return "it lies outside of the home folder"
    return ""
