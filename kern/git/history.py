"""HEAD: the commits since a base, what they changed, who made them; and moving it back."""

import os
import re
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kern import plain
from kern.git import environment, faults
from kern.git.faults import GitFailed
from kern.git.repository import Change, Head, Repo

SIGNING_S = 60.0  # for one signature


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    parents: tuple[str, ...]
    tree: str
    subject: str
    trailer: str  # the text behind `Kern-Task:`, empty without
    seconds: int  # when it was committed, since the epoch


def subjects(repo: Repo, count: int) -> list[str]:
    """The newest commits as `<short hash> <subject>`, oldest first; of ten at most."""
    return [subject for subject, _ in _recent(repo)[-count:]]


def messages(repo: Repo, count: int) -> list[str]:
    """Of the newest commits, oldest first; of ten at most."""
    return [found for _, text in _recent(repo)[-count:] if (found := text.strip())]


def _recent(repo: Repo) -> list[tuple[str, str]]:
    """Asked once for each HEAD."""
    head = repo.head().commit

    def ask() -> list[tuple[str, str]]:
        fields = _text(repo, "-10", "-z", "--format=%h %s%x00%B", "--reverse", head).split("\0")
        return [*zip(fields[::2], fields[1::2], strict=False)]

    return repo.once("recent", head, ask)


def commit(repo: Repo, revision: str) -> Commit:
    return _plain(repo, revision) or _log(repo, "-1", revision)[0]


def _plain(repo: Repo, revision: str) -> Commit | None:
    """Of a commit in UTF-8; git translates the others."""
    sha = repo.store.id(f"{revision}^{{commit}}")
    raw = repo.store.read(sha, "commit") if sha else None
    head, _, message = (raw or b"").partition(b"\n\n")
    found = re.search(rb"^committer .*> (\d{1,18}) ", head, re.M)
    if found is None or re.search(rb"^encoding ", head, re.M):
        return None
    parents = re.findall(r"^parent (\w+)$", head.decode("utf-8", "replace"), re.M)
    text = message.decode("utf-8", "surrogateescape").lstrip("\n")
    subject, _, body = re.sub(r"[ \t]+$", "", text, flags=re.M).partition("\n\n")
    tree = head[5:].split(b"\n", 1)[0].decode()
    words = " ".join(subject.strip("\n").split("\n"))
    return Commit(sha, tuple(parents), tree, words, _trailer(body), int(found[1]))


def since(repo: Repo, base: str, head: str) -> tuple[Commit, ...] | None:
    """The commits on top of base, oldest first; None where base is not an ancestor."""
    if base == head:
        return ()
    tip = _plain(repo, head)
    if tip and tip.parents == (base,):
        return (tip,)
    if not is_within(repo, base, head):
        return None
    return _log(repo, "--reverse", "--topo-order", f"{base}..{head}")


def is_within(repo: Repo, base: str, head: str) -> bool:
    """Whether the commit is of that history."""
    return base == head or not repo.run("merge-base", "--is-ancestor", base, head)[0]


def newest(repo: Repo, base: str, head: str) -> tuple[Commit, ...]:
    """Some of the newest commits of head that base does not have."""
    tip = _plain(repo, head)
    if tip and tip.parents == (base,):
        return (tip,)
    return _log(repo, "-50", f"{base}..{head}")


def _log(repo: Repo, *argv: str) -> tuple[Commit, ...]:
    form = "%H%x00%P%x00%T%x00%s%x00%ct%x00%b%x00"
    out = _text(repo, "-z", f"--format={form}", *argv)
    fields = out.split("\0")
    rows = (fields[at : at + 6] for at in range(0, len(fields) - 5, 7))
    return tuple(
        Commit(sha.strip(), tuple(parents.split()), tree, subject, _trailer(body), int(seconds))
        for sha, parents, tree, subject, seconds, body in rows
    )


def _trailer(body: str) -> str:
    """Read by kern itself: git's own reading obeys trailer.separators, core.commentChar and the
    like.
    """
    found = re.findall(r"^Kern-Task:[ \t]*(.*)$", body, re.M)
    return found[-1].strip() if found else ""


_MOST_ASKED = 20  # names; each may read all of the file's history


def finished(repo: Repo, file: str) -> Callable[[Sequence[str]], list[str]]:
    """Which of the tasks named so the file once showed ticked, in HEAD's history."""

    @cache
    def ticked(name: str) -> bool:
        asked = ("-1", "--format=%H", *_ticked(name))
        code, out, _ = _git_log(repo, *asked, "HEAD", "--", file)
        return not code and bool(out.strip())

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


def message(repo: Repo) -> str:
    """HEAD's."""
    return _text(repo, "-1", "--format=%B")


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
    return frozenset(sha for sha, said in _moves(repo, "HEAD")[:50] if pattern.match(said))


def sealed(repo: Repo, sha: str, timeout: float) -> str:
    """The commit with the person's signature, where they sign and it has none; no ref names the new
    one yet. Raises KernError where that fails.
    """
    if not signs(repo):
        return sha
    header, _, message = repo.git("cat-file", "commit", sha).partition(b"\n\n")
    rows = [line.split(b" ", 1) for line in header.split(b"\n") if b" " in line]
    fields = {name: value for name, value in rows if name}
    if {b"gpgsig", b"gpgsig-sha256"} & fields.keys():
        return sha
    env = {**_who("AUTHOR", fields[b"author"]), **_who("COMMITTER", fields[b"committer"])}
    encoding = fields.get(b"encoding", b"UTF-8").decode("ascii", "replace")
    tree = fields[b"tree"].decode()
    parents = (f for name, value in rows if name == b"parent" for f in ("-p", value.decode()))
    return signed(repo, tree, *parents, encoding=encoding, given=message, env=env, timeout=timeout)


def signs(repo: Repo) -> bool:
    return repo.signs and repo.is_set("commit.gpgsign")


def signed(
    repo: Repo,
    tree: str,
    *parents: str,
    encoding: str = "UTF-8",
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
    timeout: float = 0,
) -> str:
    """A new commit with the person's signature. Raises KernError where their program makes none, or
    waits for somebody.
    """
    argv = ("-c", f"i18n.commitEncoding={encoding}", "commit-tree", "-S", tree, *parents)
    most = min(timeout or SIGNING_S, SIGNING_S)
    try:
        code, out, told = repo.run(*argv, given=given, env=env, timeout=most)
    except TimeoutError:
        told = f"the program that signs has not ended after {plain.span(most)}: does it ask?"
        raise faults.no_commit(told) from None
    if code:
        raise faults.no_commit(told)
    return out.decode().strip()


def _who(role: str, line: bytes) -> dict[str, str]:
    """The variables that say it, of a commit's `name <address> seconds zone`."""
    name, _, rest = line.decode("utf-8", "surrogateescape").partition(" <")
    address, _, date = rest.rpartition("> ")
    return {
        f"GIT_{role}_NAME": name,
        f"GIT_{role}_EMAIL": address,
        f"GIT_{role}_DATE": f"@{date}",
    }


def author(repo: Repo) -> dict[str, str]:
    """The variables by which `git commit` tells its hooks."""
    found = identity_now(repo)
    return _who("AUTHOR", found[0].encode("utf-8", "surrogateescape")) if found else {}


def create(repo: Repo, tree: str, parent: str, message: str, timeout: float) -> str:
    """The person's commit, signed where they sign; no ref names it yet. Raises KernError."""
    given = message.encode("utf-8", "surrogateescape")
    code, out, told = repo.run("commit-tree", tree, "-p", parent, given=given)
    if code:
        raise faults.no_commit(told)
    return sealed(repo, out.decode().strip(), timeout)


_KEPT_FIELDS = (b"author", b"encoding")


def transplanted(repo: Repo, commit: str, tree: str, parent: str, timeout: float = 0) -> str:
    """A commit made anew with another tree on another parent: what it says and who wrote it stay.
    The person commits it now, and signs it where they sign; no ref names it yet. A signature of the
    old one says nothing of it, and no hook runs: the old commit's have. Raises KernError where it
    cannot be signed.
    """
    raw = repo.store.read(commit, "commit")
    if raw is None:
        raise GitFailed(("cat-file", "commit"), 128, f"fatal: git lacks the commit {commit}")
    header, _, message = raw.partition(b"\n\n")
    rows = re.findall(rb"^(\w+) (.*)$", header, re.M)
    fields = {name: value for name, value in rows if name in _KEPT_FIELDS}
    _, now = identity_now(repo)
    lines = [b"tree %s" % tree.encode(), b"parent %s" % parent.encode()]
    lines += [b"author %s" % fields.pop(b"author")]
    lines += [b"committer %s" % now.encode("utf-8", "surrogateescape")]
    lines += [b"%s %s" % field for field in fields.items()]
    made = repo.store.write("commit", b"\n".join(lines) + b"\n\n" + message)
    return sealed(repo, made, timeout)


def _moves(repo: Repo, ref: str) -> list[tuple[str, str]]:
    """The reflog's lines, the newest first: the commit and what is said of the move."""

    def ask() -> list[tuple[str, str]]:
        if (plain_rows := _plain_moves(repo, ref)) is not None:
            return plain_rows
        code, out, _ = _git_log(repo, "--walk-reflogs", "-200", "--format=%H%x00%gs", ref)
        rows = (row.partition("\0") for row in out.decode("utf-8", "replace").splitlines())
        return [] if code else [(sha, said) for sha, _, said in rows]

    return repo.once(f"moves of {ref}", _stamp(repo, ref), ask)


_MOVE = re.compile(rb"\w+ (\w{40}|\w{64}) [^\t]*\t(.*)")
_END = 1 << 16  # bytes of a reflog: enough for 200 lines of the usual length


def _plain_moves(repo: Repo, ref: str) -> list[tuple[str, str]] | None:
    """As the file says it; None where git is to be asked: there is none, or a line is odd."""
    try:
        with _log_of(repo, ref).open("rb") as file:
            start = max(file.seek(0, os.SEEK_END) - _END, 0)
            file.seek(start)
            lines = file.read().splitlines()[1 if start else 0 :][-200:]
    except OSError:
        return None
    found = [_MOVE.fullmatch(line) for line in reversed(lines)]
    if None in found or (start and len(lines) < 200):
        return None
    return [(one[1].decode(), one[2].decode("utf-8", "replace")) for one in found if one]


def _log_of(repo: Repo, ref: str) -> Path:
    return (repo.git_dir if ref == "HEAD" else repo.common_dir) / "logs" / ref


def _stamp(repo: Repo, ref: str) -> Hashable:
    """Another one where the ref has another reflog; None where that is no file."""
    try:
        info = _log_of(repo, ref).stat()
    except OSError:
        return None
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, repo.plain_head()


def identity(repo: Repo) -> tuple[str, ...]:
    """Author and committer as git has them now, `name <address> seconds zone`; nothing where it
    does not know them.
    """
    told = [repo.run("var", name) for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")]
    if any(code for code, _, _ in told):
        return ()
    return tuple(out.decode("utf-8", "surrogateescape").strip() for _, out, _ in told)


def identity_now(repo: Repo) -> tuple[str, ...]:
    """The same, asked only where the configuration is another than when it was asked."""
    if not os.environ.keys().isdisjoint(environment.DATES):
        return identity(repo)
    config = [(name, *values) for name, values in repo.config().items()]
    found = repo.once("identity", (*config, time.strftime("%z")), lambda: identity(repo))
    return tuple(re.sub(r"> \d+ ", f"> {int(time.time())} ", one) for one in found)


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


def _git_log(repo: Repo, *argv: str) -> tuple[int, bytes, str]:
    """What a person sets for their own eyes (signatures, an encoding) stays out of it."""
    return repo.run("log", "--no-show-signature", "--encoding=UTF-8", *argv)


def _text(repo: Repo, *argv: str) -> str:
    code, out, err = _git_log(repo, *argv)
    if code:
        raise GitFailed(("log", *argv), code, err)
    return out.decode("utf-8", "surrogateescape").strip()
