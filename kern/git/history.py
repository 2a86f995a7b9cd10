"""HEAD: the commits since a base, what they changed, who made them; commits made and trees merged;
and what is under way.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from kern import plain
from kern.errors import KernError
from kern.git import environment
from kern.git.environment import GitFailed
from kern.git.repository import Repo
from kern.system import process, waits, workspace

_AUTHOR = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE")
_SIGNING_S = 60.0  # for one signature
_MOST_ASKED = 20  # names or commits; each may read all of the file's history


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    parents: tuple[str, ...]
    tree: str
    message: str
    seconds: int  # when it was committed, since the epoch

    @property
    def subject(self) -> str:
        return " ".join(re.split(r"\n\s*\n", self.message)[0].split())

    @property
    def trailer(self) -> str:
        """The text behind `Kern-Task:`, empty without. Read by kern itself: git's own reading obeys
        trailer.separators, core.commentChar and the like.
        """
        matches = re.findall(r"^Kern-Task:[ \t]*(.*)$", self.message, re.M)
        return matches[-1].strip() if matches else ""


def commit(repo: Repo, revision: str) -> Commit:
    sha = repo.commit_id(revision)
    raw = repo.data(sha, "commit").decode("utf-8", "surrogateescape")
    header, _, message = raw.partition("\n\n")
    fields = re.findall(r"^(\w+) (.*)$", header, re.M)
    parents = tuple(value for name, value in fields if name == "parent")
    seconds = re.search(r"> (\d{1,18}) ", dict(fields)["committer"])
    tree, text = dict(fields)["tree"], message.strip("\n")
    return Commit(sha, parents, tree, text, int(seconds[1]) if seconds else 0)


def recent(repo: Repo, count: int) -> list[Commit]:
    """The newest, at most ten, oldest first."""
    return _newest(repo, repo.head().commit)[-count:]


@lru_cache(4)
def _newest(repo: Repo, head: str) -> list[Commit]:
    return _log(repo, "-10", head)[::-1]


def since(repo: Repo, base: str, head: str) -> tuple[Commit, ...]:
    """The commits on top of base, oldest first; the tip alone where history was rewritten: whatever
    stands there is a person's.
    """
    if base == head:
        return ()
    tip = commit(repo, head)
    if tip.parents == (base,) or repo.run("merge-base", "--is-ancestor", base, head)[0]:
        return (tip,)
    return (*_log(repo, "--reverse", "--topo-order", f"{base}..{head}"),)


def finished(repo: Repo, file: str) -> Callable[[Sequence[str]], list[str]]:
    """Which of the tasks named so the file once showed ticked, in HEAD's history."""

    @cache
    def ticked(name: str) -> bool:
        # git's regular expressions depend on the locale: what is not plain may be anything
        words = "[[:space:]]+".join(re.sub(r"[^a-zA-Z0-9]+", ".+", word) for word in name.split())
        line = rf"^[[:space:]]*[-*+0-9.)]+[[:space:]]+\[[xX]\][[:space:]]+{words}[[:space:]]*$"
        how = ("--text", "--no-textconv", "--regexp-ignore-case", f"-G{line}")
        return bool(_log(repo, "-1", *how, "HEAD", "--", file))

    return lambda names: [name for name in names[:_MOST_ASKED] if ticked(name)]


def naming(repo: Repo, task: str) -> Commit | None:
    """The newest commit of HEAD whose trailer names the task."""
    words = f"--grep=Kern-Task: {task}"
    commits = _log(repo, f"-{_MOST_ASKED}", "--fixed-strings", words, "HEAD")
    return next((one for one in commits if one.trailer == task and len(one.parents) == 1), None)


def patch(repo: Repo, commit: str) -> str:
    """What it changes, the same after a rebase; empty where git has it no more."""
    if not repo.store.id(f"{commit}^{{commit}}"):
        return ""
    diff = repo.git("diff-tree", "--patch", "--no-ext-diff", "--no-textconv", commit)
    return repo.git("patch-id", "--stable", stdin=diff).decode().partition(" ")[0]


def moved(repo: Repo) -> set[str]:
    """The commits to which kern's children moved HEAD."""
    argv = ("--no-show-signature", "--walk-reflogs", "-200", "--format=%H %gs", "HEAD")
    moves = repo.run("log", *argv)[1].decode("utf-8", "replace")
    own = f"(?:stage 2|.*{process.BY_ITSELF})"  # "stage": of an older kern's
    return {*re.findall(rf"(?m)^([0-9a-f]+) kern [0-9a-f]+ {own}\b", moves)}


# ---------------------------------------------------------------- the person's commits


def signs(repo: Repo) -> bool:
    return repo.signs and repo.is_set("commit.gpgsign")


def create(repo: Repo, tree: str, parent: str, message: str | bytes, *, author: str = "") -> str:
    """The person's commit, signed where they sign; no ref names it yet. `author`: somebody else, as
    a commit has it. Raises KernError where git makes none, or their program that signs waits for
    somebody.
    """
    sign = "-S" if signs(repo) else "--no-gpg-sign"
    above = ("-p", parent) if parent else ()
    argv = ("-c", "i18n.commitEncoding=UTF-8", "commit-tree", sign, tree, *above)
    data = plain.encode(message) if isinstance(message, str) else message
    most = waits.scaled(_SIGNING_S)
    try:
        code, out, why = repo.run(*argv, stdin=data, env=_author(author), timeout=most)
    except TimeoutError:
        code, out = 1, b""
        why = f"the program that signs has not ended after {plain.span(most)}: does it ask?"
    if code:
        raise KernError(
            f"git commit failed: {plain.line(why, 400)}",
            hint=environment.lock_advice(why)
            or "fix it (identity, signing key, disk), then run kern again: it resumes here; with "
            "--no-sign its commits are not signed",
        )
    return out.decode().strip()


def transplanted(repo: Repo, commit: str, tree: str, parent: str) -> str:
    """One of kern's commits made anew with another tree on another parent: what it says and who
    wrote it stay. The person commits it now; no hook runs: the old commit's have.
    """
    raw = repo.data(repo.commit_id(commit), "commit").decode("utf-8", "surrogateescape")
    header, _, message = raw.partition("\n\n")
    author = re.findall(r"^author (.*)$", header, re.M)[0]
    return create(repo, tree, parent, message, author=author)


def _author(line: str) -> dict[str, str]:
    """The variables that say it, of a commit's `name <address> seconds zone`."""
    who, *date = line.rsplit(" ", 2)
    name, _, address = who.partition("<")
    values = (name.strip(), address.rstrip(">"), f"@{' '.join(date)}")
    return dict(zip(_AUTHOR, values, strict=True)) if line else {}


def author(repo: Repo) -> dict[str, str]:
    """The variables by which `git commit` tells its hooks."""
    return _author(
        repo.run("var", "GIT_AUTHOR_IDENT")[1].decode("utf-8", "surrogateescape").strip()
    )


def committer(repo: Repo) -> tuple[str, str]:
    """`name <address>`, or git's complaint where it does not know author or committer."""
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        code, out, answer = repo.run("var", who)
        if code:
            fatal = [line for line in answer.splitlines() if line.startswith("fatal: ")]
            return "", (fatal or ["it does not say why"])[0].removeprefix("fatal: ")
    return out.decode("utf-8", "surrogateescape").strip().rsplit(" ", 2)[0], ""


def _log(repo: Repo, *argv: str) -> list[Commit]:
    """What a person sets for their own eyes (signatures) stays out of it."""
    listed = repo.text("log", "--no-show-signature", "--format=%H", *argv)
    return [commit(repo, sha) for sha in listed.split()]


# ---------------------------------------------------------------- merges


def merge(repo: Repo, base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Three-way merge of trees, as git merges: the merged tree and the paths in conflict, where
    both sides stand between markers. The same whenever it is done again: the sides' commits, by
    whose ids git calls them there, have one date.
    """
    root = repo.commit_object(base, (), "base\n", when=0)
    sides = [repo.commit_object(tree, (root,), "side\n", when=0) for tree in (ours, theirs)]
    guesses = ("-c", "merge.directoryRenames=false")
    how = ("--write-tree", "-z", "--name-only", "--no-messages")
    code, out, err = repo.run(*guesses, "merge-tree", *how, *sides)
    if code not in (0, 1):
        raise GitFailed(("merge-tree",), code, err)
    tree, *paths = os.fsdecode(out).rstrip("\0").split("\0")
    return tree, sorted({*paths})


# ---------------------------------------------------------------- what is under way


_OPERATIONS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}


def begun(repo: Repo) -> str:
    """What git itself says is under way."""
    marks = (what for mark, what in _OPERATIONS.items() if (repo.git_dir / mark).exists())
    return next((f"{what} is under way" for what in marks), "")


def under_way(repo: Repo) -> str:
    """What kern may not work in the middle of; empty when there is nothing."""
    unmerged = "the index holds unmerged paths" if repo.git("ls-files", "--unmerged") else ""
    return begun(repo) or unmerged


def abort(repo: Repo) -> None:
    """Forget what `begun` names; HEAD, index and files stay."""
    for name in ("merge", "rebase"):  # what they have stashed by themselves stays a stash
        repo.run(name, "--quit")
    for name in (*_OPERATIONS, "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "sequencer"):
        place = repo.git_dir / name
        workspace.remove(place)  # where it is a folder
        place.unlink(missing_ok=True)


def refuse_push(repo: Repo) -> list[tuple[str, str]]:
    """Settings under which git cannot push to this repository's remotes, from a script either:
    what is pushed cannot be undone. A remote with a push URL of its own is not covered.
    """
    remotes = (one for one in repo.config.items() if re.fullmatch(r"remote\..*\.url", one[0]))
    return [("url.kern-refuses-push://.pushInsteadOf", url) for _, urls in remotes for url in urls]
