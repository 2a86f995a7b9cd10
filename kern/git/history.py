"""HEAD: the commits since a base, what they changed, who made them; and moving it back."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from kern import plain
from kern.git import faults
from kern.git.repository import Change, Head, Repo

SIGNING_S = 60.0  # for one signature
MOST_RECENT = 10  # commits


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    parents: tuple[str, ...]
    tree: str
    message: str
    seconds: int  # when it was committed, since the epoch

    @property
    def subject(self) -> str:
        first = re.split(r"\n[ \t]*\n", self.message)[0]
        return " ".join(line.rstrip() for line in first.splitlines())

    @property
    def trailer(self) -> str:
        """The text behind `Kern-Task:`, empty without. Read by kern itself: git's own reading obeys
        trailer.separators, core.commentChar and the like.
        """
        found = re.findall(r"^Kern-Task:[ \t]*(.*)$", self.message, re.M)
        return found[-1].strip() if found else ""


def commit(repo: Repo, revision: str) -> Commit:
    sha = repo.commit_id(revision)
    header, _, message = (repo.store.read(sha, "commit") or b"").partition(b"\n\n")
    fields = re.findall(r"^(\w+) (.*)$", header.decode("utf-8", "surrogateescape"), re.M)
    encoding = dict(fields).get("encoding", "")
    try:
        text = message.decode(encoding or "utf-8", "surrogateescape")
    except LookupError:
        text = message.decode("utf-8", "surrogateescape")
    seconds = re.search(r"> (\d{1,18}) ", dict(fields)["committer"])
    parents = tuple(value for name, value in fields if name == "parent")
    return Commit(
        sha, parents, dict(fields)["tree"], text.strip("\n"), int(seconds[1]) if seconds else 0
    )


def recent(repo: Repo, count: int) -> list[Commit]:
    """The newest, oldest first."""
    head = repo.head().commit
    newest = repo.once("recent", head, lambda: _log(repo, f"-{MOST_RECENT}", head))
    return newest[:count][::-1]


def since(repo: Repo, base: str, head: str) -> tuple[Commit, ...] | None:
    """The commits on top of base, oldest first; None where base is not an ancestor."""
    if base == head:
        return ()
    if (tip := commit(repo, head)).parents == (base,):
        return (tip,)
    if not is_within(repo, base, head):
        return None
    return (*_log(repo, "--reverse", "--topo-order", f"{base}..{head}"),)


def is_within(repo: Repo, base: str, head: str) -> bool:
    """Whether the commit is of that history."""
    return base == head or not repo.run("merge-base", "--is-ancestor", base, head)[0]


_MOST_ASKED = 20  # names; each may read all of the file's history


def finished(repo: Repo, file: str) -> Callable[[Sequence[str]], list[str]]:
    """Which of the tasks named so the file once showed ticked, in HEAD's history."""

    @cache
    def ticked(name: str) -> bool:
        return bool(_log(repo, "-1", *_ticked(name), "HEAD", "--", file))

    return lambda names: [name for name in names[:_MOST_ASKED] if ticked(name)]


def _ticked(name: str) -> tuple[str, ...]:
    """What git looks for: a line that shows the task ticked."""
    # git's regular expressions depend on the locale: what is not plain may be anything
    words = "[[:space:]]+".join(re.sub(r"[^a-zA-Z0-9]+", ".+", word) for word in name.split())
    line = rf"^[[:space:]]*[-*+0-9.)]+[[:space:]]+\[[xX]\][[:space:]]+{words}[[:space:]]*$"
    return "--text", "--no-textconv", "--regexp-ignore-case", f"-G{line}"


def naming(repo: Repo, task: str) -> Commit | None:
    """The newest commit of HEAD whose trailer names the task."""
    words = f"--grep=Kern-Task: {task}"
    named = _log(repo, f"-{_MOST_ASKED}", "--fixed-strings", words, "HEAD")
    return next((one for one in named if one.trailer == task and len(one.parents) == 1), None)


def patch(repo: Repo, commit: str) -> str:
    """What it changes, the same after a rebase; empty where git has it no more."""
    if not repo.store.id(f"{commit}^{{commit}}"):
        return ""
    diff = repo.git("diff-tree", "--patch", "--no-ext-diff", "--no-textconv", commit)
    return repo.git("patch-id", "--stable", given=diff).decode().partition(" ")[0]


def changed_by(repo: Repo, commit: Commit) -> dict[str, Change]:
    return repo.changed(commit.parents[0], commit.sha) if commit.parents else {}


def moved_by(repo: Repo, head: Head, base: str, word: str) -> bool:
    """Whether every move of the branch since it stood at `base` was one of kern's agents', or
    kern's own: commits, amends, resets, merges. A branch's own reflog leaves out switches.
    """
    for sha, said in _moves(repo, f"refs/heads/{head.branch}" if head.branch else "HEAD"):
        if sha == base:
            return True
        if not re.match(rf"kern(?: [0-9a-f]+ {word}\b|: )", said):
            return False
    return False


def marked(repo: Repo, word: str) -> frozenset[str]:
    """The commits to which HEAD's reflog says kern's agents moved it: lines `kern <run>
    <word>`.
    """
    pattern = re.compile(rf"kern [0-9a-f]+ {word}\b")
    return frozenset(sha for sha, said in _moves(repo, "HEAD") if pattern.match(said))


def _moves(repo: Repo, ref: str) -> list[tuple[str, str]]:
    """The reflog's lines, the newest first: the commit and what is said of the move."""
    argv = ("--no-show-signature", "--walk-reflogs", "-200", "--format=%H%x00%gs", ref)
    code, out, _ = repo.run("log", *argv)
    rows = (row.partition("\0") for row in out.decode("utf-8", "replace").splitlines())
    return [] if code else [(sha, said) for sha, _, said in rows]


# ---------------------------------------------------------------- the person's commits


def signs(repo: Repo) -> bool:
    return repo.signs and repo.is_set("commit.gpgsign")


def create(
    repo: Repo,
    tree: str,
    parent: str,
    message: str | bytes,
    timeout: float,
    *,
    author: str = "",
    encoding: str = "UTF-8",
) -> str:
    """The person's commit, signed where they sign; no ref names it yet. `author`: somebody else, as
    a commit has it. Raises KernError where git makes none, or their program that signs waits for
    somebody.
    """
    given = message.encode("utf-8", "surrogateescape") if isinstance(message, str) else message
    above = ("-p", parent) if parent else ()
    sign = "-S" if signs(repo) else "--no-gpg-sign"
    argv = ("-c", f"i18n.commitEncoding={encoding}", "commit-tree", sign, tree, *above)
    most = min(timeout or SIGNING_S, SIGNING_S)
    try:
        code, out, told = repo.run(*argv, given=given, env=_author(author), timeout=most)
    except TimeoutError:
        told = f"the program that signs has not ended after {plain.span(most)}: does it ask?"
        raise faults.no_commit(told) from None
    if code:
        raise faults.no_commit(told)
    return out.decode().strip()


def transplanted(repo: Repo, commit: str, tree: str, parent: str, timeout: float = 0) -> str:
    """A commit made anew with another tree on another parent: what it says and who wrote it stay.
    The person commits it now; no hook runs: the old commit's have.
    """
    header, _, message = repo.git("cat-file", "commit", commit).partition(b"\n\n")
    fields = dict(re.findall(r"^(\w+) (.*)$", header.decode("utf-8", "surrogateescape"), re.M))
    encoding = fields.get("encoding", "UTF-8")
    who = fields["author"]
    return create(repo, tree, parent, message, timeout, author=who, encoding=encoding)


def _author(line: str) -> dict[str, str]:
    """The variables that say it, of a commit's `name <address> seconds zone`."""
    if not line:
        return {}
    name, _, rest = line.partition(" <")
    address, _, date = rest.rpartition("> ")
    values = {"NAME": name, "EMAIL": address, "DATE": f"@{date}"}
    return {f"GIT_AUTHOR_{field}": value for field, value in values.items()}


def author(repo: Repo) -> dict[str, str]:
    """The variables by which `git commit` tells its hooks."""
    code, out, _ = repo.run("var", "GIT_AUTHOR_IDENT")
    return {} if code else _author(out.decode("utf-8", "surrogateescape").strip())


def committer(repo: Repo) -> tuple[str, str]:
    """`name <address>`, or git's complaint where it does not know author or committer."""
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        code, out, told = repo.run("var", who)
        if code:
            fatal = [line for line in told.splitlines() if line.startswith("fatal: ")]
            return "", (fatal or ["it does not say why"])[0].removeprefix("fatal: ")
    return out.decode("utf-8", "surrogateescape").strip().rsplit(" ", 2)[0], ""


# ---------------------------------------------------------------- HEAD


def move_head(repo: Repo, new: str, old: str, why: str) -> None:
    """Compare and swap of the branch or the detached HEAD; no file is touched."""
    repo.git("update-ref", "-m", f"kern: {why}", "HEAD", new, old)


def switch_back(repo: Repo, head: Head) -> None:
    """HEAD names the branch again that it named; no file is touched."""
    if head.branch:
        repo.git("symbolic-ref", "-m", "kern: switch back", "HEAD", f"refs/heads/{head.branch}")
    else:
        repo.git("update-ref", "--no-deref", "-m", "kern: switch back", "HEAD", head.commit)


def restore_branch(repo: Repo, head: Head, commit: str) -> bool:
    """Make the branch again where it is gone; says whether it was."""
    ref = f"refs/heads/{head.branch}"
    if not head.branch or repo.run("show-ref", "--verify", "--quiet", ref)[0] == 0:
        return False
    repo.git("update-ref", "-m", "kern: branch back", ref, commit)
    return True


def _log(repo: Repo, *argv: str) -> list[Commit]:
    """What a person sets for their own eyes (signatures) stays out of it."""
    listed = repo.text("log", "--no-show-signature", "--format=%H", *argv)
    return [commit(repo, sha) for sha in listed.split()]
