"""A commit of the history made anew: its words and author stay, the person commits it now."""

import subprocess
from pathlib import Path

from kern.git import history, repository
from kern.git.repository import Entry
from tests.conftest import Git

WHEN = "1500000000 +0200"


def test_words_and_author_stay_and_nobody_is_forged(repo: Path, git: Git) -> None:
    message = "Größe\n\n# no comment\n\nKern-Task: Größe\n".encode()
    env = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@x", "GIT_AUTHOR_DATE": WHEN}
    found = repository.open_at(repo)
    argv = ("commit-tree", "-p", "HEAD", "HEAD^{tree}")
    code, out, _ = found.run(*argv, stdin=message, env=env)
    assert not code
    old, head = out.decode().strip(), git("rev-parse", "HEAD")
    tree = found.tree_with(head, {"own.txt": None})
    new = history.transplanted(found, old, tree, head)
    raw = subprocess.run(["git", "cat-file", "commit", new], cwd=repo, capture_output=True).stdout
    lines = raw.partition(b"\n\n")[0].decode().splitlines()
    assert lines[:3] == [f"tree {tree}", f"parent {head}", f"author Ada <ada@x> {WHEN}"]
    assert lines[3].startswith("committer t <t@example.com> ")
    assert raw.partition(b"\n\n")[2] == message
    assert git("fsck", "--strict", "--no-dangling") == ""


def test_it_is_signed_as_the_person_signs(repo: Path, git: Git, tmp_path: Path) -> None:
    signer = tmp_path / "gpg"
    signer.write_text(
        "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nmine\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    signer.chmod(0o755)
    git("config", "gpg.program", str(signer))
    git("commit", "-q", "--allow-empty", "-S", "-m", "work")
    old, head = git("rev-parse", "HEAD"), git("rev-parse", "HEAD~1")
    found = repository.open_at(repo)
    plain = history.transplanted(found, old, found.tree(head), head)
    assert "gpgsig" not in git("cat-file", "commit", plain), "of another tree"
    git("config", "commit.gpgSign", "true")
    found = repository.open_at(repo)
    new = history.transplanted(found, old, found.tree(head), head)
    assert "mine" in git("cat-file", "commit", new)
    assert git("log", "-1", "--format=%s %an", new) == "work t"


def test_a_conflict_can_be_seen_with_both_sides(repo: Path, git: Git) -> None:
    found = repository.open_at(repo)
    base = git("rev-parse", "HEAD^{tree}")
    sides = []
    for word in ("OURS", "THEIRS"):
        (repo / "a.txt").write_text(f"{word}\ntwo\n")
        (repo / f"{word}.txt").write_text(word)
        git("add", "--all")
        sides.append(git("write-tree"))
        git("reset", "-q", "--hard")
    tree, conflicts = history.merge(found, base, *sides)
    assert conflicts == ["a.txt"]
    assert {"OURS.txt", "THEIRS.txt"} <= {*git("ls-tree", "--name-only", tree).split()}
    text = git("show", f"{tree}:a.txt")
    assert text.split("=======")[0].endswith("\nOURS\n") and "THEIRS\n>>>>>>> " in text
    side = text.partition("<<<<<<< ")[2].split()[0].partition(":")[0]
    assert git("show", "-s", "--format=%ct", side) == "0"  # the same whenever it is merged again


def test_a_submodule_in_conflict_is_named(repo: Path) -> None:
    found = repository.open_at(repo)
    one, two, three = (Entry("160000", digit * 40) for digit in "123")
    base, *sides = (found.tree_with("HEAD", {"sub": entry}) for entry in (one, two, three))
    tree, conflicts = history.merge(found, base, *sides)
    assert conflicts == ["sub"] and found.changed(base, tree)
