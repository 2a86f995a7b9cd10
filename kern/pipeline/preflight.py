"""What must be right before a run begins, each fault with its remedy."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kern import person, plain
from kern.config import FILE, Gate, Settings
from kern.errors import KernError, UsageError
from kern.git import environment, history, refs, repository
from kern.git.repository import LINK, Repo, left_out
from kern.git.shadow import PROMPTS
from kern.model import LEARNINGS, SPEC
from kern.person import Person
from kern.pipeline import facts
from kern.spec import order
from kern.spec.file import Documents
from kern.spec.parse import EXAMPLE, Diagnostic, Spec
from kern.stages import prompts

_WITHIN = ("local", "worktree")  # git's folder


def prepare(folder: Path, *, empty: bool = False) -> tuple[Repo, Documents, Spec, Settings]:
    """The repository, its two documents, their tasks and the settings, all of them sound. `empty`:
    a SPEC.md without a task of one's own is fine.
    """
    repo = repository.open_at(folder)
    documents = facts.documents(repo)
    parsed = tasks(repo, documents, empty=empty)
    return repo, documents, parsed, settings(repo, documents)


def settings(repo: Repo, documents: Documents) -> Settings:
    """kern.toml, sound and seen by git; what it leaves open, or may not say, the person does."""
    project = documents.settings()
    if project.gates and repo.ignored(FILE):
        raise UsageError(
            f"git ignores {FILE}: an agent could change unseen what it is measured by",
            hint=f"take {FILE} out of .gitignore and commit it",
        )
    own = person_settings(repo.root)
    endpoint, hidden = project.agent or own.agent, _hidden(repo, own)
    return replace(project, agent=endpoint, notify=own.notify, hidden=hidden)


def _hidden(repo: Repo, own: Person) -> Gate | None:
    """By the top level; a worktree's is that of the repository."""
    tops = repo.root, repo.common_dir.parent
    by_top = {Path(os.path.realpath(os.path.expanduser(top))): top for top in own.hidden}
    return next((own.hidden[by_top[top]] for top in tops if top in by_top), None)


def person_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "kern" / "config.toml"


def person_settings(root: Path) -> Person:
    """What the person decided; none of it where a repository could have written it. Raises
    UsageError.
    """
    file = person_file()
    if Path(os.path.realpath(file)).is_relative_to(root):
        raise UsageError(
            f"{file} lies in the repository, which would decide for you",
            hint="set HOME, or XDG_CONFIG_HOME, to a folder outside of it",
        )
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return Person()
    except OSError as exc:
        raise UsageError(
            f"{file} cannot be read: {exc.strerror}", hint="make it readable, or remove it"
        ) from None
    return person.parse(data, str(file))


def tasks(repo: Repo, documents: Documents, *, empty: bool = False) -> Spec:
    """SPEC.md without a fault, and with at least one task unless it may be `empty`."""
    documents.read(LEARNINGS)
    for name in (one for one in (SPEC, LEARNINGS) if (documents.root / one).is_symlink()):
        entry = repo.entry(repo.head().commit, name)
        if entry and entry.mode == LINK:
            raise UsageError(
                f"{name} is a link in git: kern would commit it as a file",
                hint=f"git rm --cached {name}, then put the file itself there",
            )
    text, parsed = documents.spec()
    if parsed.diagnostics:
        raise _listed(parsed.diagnostics, "kern never guesses what a marker means: edit SPEC.md")
    if tangled := order.faults(parsed):
        raise _listed(
            tangled,
            "correct these After lines: each names another task by its whole text; kern status "
            "says what each waits for",
        )
    if not empty and prompts.is_example(text):
        raise UsageError(
            f"{SPEC} is still the example that kern init wrote",
            hint="put your own tasks in place of those, then: kern -n",
        )
    if not (empty or parsed.tasks):
        raise UsageError(
            f"no task line in {repo.root / SPEC}", hint=f"a task is a line like:  {EXAMPLE}"
        )
    return parsed


def _listed(faults: Sequence[Diagnostic], hint: str) -> UsageError:
    more = [f"and {len(faults) - 50} more"] * (len(faults) > 50)
    return UsageError("\n".join([*(fault.said for fault in faults[:50]), *more]), hint=hint)


# ---------------------------------------------------------------- what a run needs, one by one


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a run needs: how it is, or what a run would raise."""

    name: str
    detail: str
    fault: KernError | None = None
    advice: str = ""  # what to do about it where a run begins, but a person should know


def demand(checks: Iterable[Check]) -> None:
    """Raises the first fault."""
    for fault in filter(None, (check.fault for check in checks)):
        raise fault


def tried(name: str, attempt: Callable[[], str]) -> Check:
    try:
        return Check(name, attempt())
    except KernError as exc:
        return Check(name, str(exc), exc)


def of_repository(repo: Repo, *, commits: bool = True) -> Iterator[Check]:
    """git is in no state that a run would spoil, and knows who commits. What is committed on no
    branch is lost with the next switch.
    """

    def row(name: str, detail: str, fault: str, hint: str) -> Check:
        return Check(name, fault or detail, UsageError(fault, hint=hint) if fault else None)

    head, busy = repo.head(), history.under_way(repo)
    yield row(
        "state",
        "no merge or rebase under way",
        busy and f"{busy} in {repo.root}",
        "finish or abort it first: git status tells how",
    )
    if commits:
        yield row(
            "branch",
            head.name,
            "" if head.branch else f"HEAD is detached at {head.commit[:7]}, on no branch",
            "git switch -c NAME makes a branch of it; git switch BRANCH goes to one",
        )
    committer, why = history.committer(repo)
    yield row(
        "identity",
        committer,
        "" if committer else f"git does not know who commits: {why}",
        "git config --global user.name YOU; git config --global user.email YOU@EXAMPLE",
    )


def lands(repo: Repo, branch: str) -> str:
    """Where its commits go, which a run says first of it."""
    follows = repo.text("for-each-ref", "--format=%(upstream:short)", f"refs/heads/{branch}")
    how = f"follows {follows.strip()}" if follows.strip() else "follows no upstream"
    return f"commits go to {branch}, which {how}; nothing is pushed"


# ---------------------------------------------------------------- what is not committed


def yours(repo: Repo, *, apart: bool = True) -> str:
    """What a person should know of their uncommitted changes; empty where there are none. `apart`:
    tasks do not see them. Else raises UsageError, but in the middle of a task.
    """
    paths = uncommitted(repo)
    if paths and not (apart or refs.start(repo, repo.head().name)):
        raise UsageError(
            f"your tree has changes that are not committed: {plain.some(paths)}",
            hint="without rooms kern works in your tree, and puts it back where an attempt fails: "
            "commit or stash them, or give it a sandbox (kern help safety)",
        )
    paths = [path for path in paths if not path.startswith((FILE, f"{PROMPTS}/"))]  # kern's
    if not (apart and paths):
        return ""
    files = plain.count(len(paths), "file") + (" has" if len(paths) == 1 else " have")
    return (
        f"{files} uncommitted changes ({plain.some(paths)}): they stay yours; tasks begin with "
        f"{repo.head().commit[:7]} and do not see them: commit what a task needs"
    )


def uncommitted(repo: Repo) -> list[str]:
    """What a person has changed and not committed, but for what kern writes. No filter is run that
    git's folder names, which an archive can bring along.
    """
    scopes = repo.text("config", "-z", "--list", "--name-only", "--show-scope").split("\0")
    names = [key for scope, key in zip(scopes[::2], scopes[1::2], strict=False) if scope in _WITHIN]
    env = environment.unfiltered(key for key in names if key.startswith("filter."))
    # Beside a run too, and where nothing may be written: the index is not refreshed.
    argv = ("--no-optional-locks", "status", "--porcelain", "-z", "--no-renames")
    how = ("--untracked-files=all", "--ignore-submodules=dirty")
    rows = filter(None, repo.run(*argv, *how, env=env)[1].split(b"\0"))
    return [
        path for path in dict.fromkeys(os.fsdecode(row[3:]) for row in rows) if not left_out(path)
    ]
