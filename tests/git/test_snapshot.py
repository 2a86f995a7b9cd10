"""The snapshot against real repositories; what git itself says is the oracle."""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from kern.errors import KernError
from kern.git import filters, ignore, index, repository
from kern.git.faults import GitFailed
from kern.git.repository import Change, Entry
from kern.git.snapshot import Snapshots
from kern.pipeline.witness import Witness
from kern.system import process
from kern.system.workspace import Scope
from tests.conftest import Fake, Git, Inline

Disk = dict[bytes, tuple[str, bytes]]


def disk(root: Path) -> Disk:
    """Every file and link of the working tree as (mode, bytes), by path."""
    found: Disk = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*files, *folders]:
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            where = os.path.relpath(full, os.fsencode(root))
            if stat.S_ISLNK(mode):
                found[where] = ("120000", os.readlink(full))
            elif stat.S_ISREG(mode):
                bits = "100755" if mode & stat.S_IXUSR else "100644"
                found[where] = (bits, Path(os.fsdecode(full)).read_bytes())
    return found


def tree(root: Path, name: str) -> Disk:
    """The same of a tree, as the git command line reads it."""

    def git(*argv: str) -> bytes:
        return subprocess.run(["git", *argv], cwd=root, capture_output=True, check=True).stdout

    found: Disk = {}
    for record in git("ls-tree", "-r", "-z", "--full-tree", name).split(b"\0")[:-1]:
        meta, _, path = record.partition(b"\t")
        mode, kind, blob = meta.decode().split()
        found[path] = (mode, git("cat-file", "blob", blob) if kind == "blob" else b"")
    return found


def own(found: Disk) -> Disk:
    """Without what kern alone writes."""
    return {path: what for path, what in found.items() if path != b"SPEC.md"}


def snapshots(root: Path) -> Snapshots:
    return Snapshots(repository.open_at(root))


def restore(taken: Snapshots, before: str, after: str) -> None:
    """Put back what differs, as after a failed attempt."""
    change = taken.repo.changed(before, after)
    taken.put_back({path: old for path, (old, _) in change.items()})


def commit_all(git: Git) -> None:
    git("add", "--all")
    git("commit", "--quiet", "--message=more")


def write(root: Path, **files: str) -> None:
    """`a__b_txt` names a/b.txt."""
    for name, text in files.items():
        place = root / name.replace("__", "/").replace("_txt", ".txt")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())


# ---------------------------------------------------------------- what it covers


def test_the_tree_is_what_lies_on_the_disk(repo: Path) -> None:
    write(repo, new_txt="new\n", deep__er__file="x", own_txt="changed\n")
    (repo / "binary").write_bytes(bytes(range(256)) * 40)
    (repo / "empty").touch()
    (repo / "tool.sh").write_text("#!/bin/sh\n")
    (repo / "tool.sh").chmod(0o755)
    (repo / "a.txt").unlink()
    (repo / "link").symlink_to("own.txt")
    (repo / "dangling").symlink_to("nowhere/at all")
    (repo / "to-folder").symlink_to("deep")
    os.mkfifo(repo / "pipe")
    (repo / "LEARNINGS.md").write_text("kern's own\n")
    write(repo, _kern__x="kern's own")
    (repo / "_kern").rename(repo / ".kern")
    expected = own(disk(repo))
    del expected[b"LEARNINGS.md"], expected[b".kern/x"]
    assert tree(repo, snapshots(repo).take()) == expected


NOWHERE = Scope(Path("/nowhere"), "project", "main")
NAMES = [
    "with space ",
    "line\nbreak",
    "carriage\r",
    '"quoted"',
    'half"quoted',
    "'single'",
    "back\\slash",
    "tab\there",
    "-dash",
    "*glob?[x]",
    ":(top)magic",
    "#hash !bang",
    "\xfcml\xe4ut \u4e2d\u6587",
    os.fsdecode(b"latin-\xe4\xff"),
    "x" * 200,
]


def test_any_file_name_is_covered_and_put_back(repo: Path) -> None:
    for number, name in enumerate(NAMES):
        (repo / name).write_text(f"{number}\n")
        (repo / f"in {name[:90]}").mkdir()
        (repo / f"in {name[:90]}" / name).write_text(f"{number}\n")
        (repo / f"link {name[:90]}").symlink_to(name)
    before = disk(repo)
    taken = snapshots(repo)
    tree_before = taken.take()
    assert tree(repo, tree_before) == own(before)
    for number, name in enumerate(NAMES):
        (repo / name).unlink()
        if number % 2:
            (repo / f"in {name[:90]}" / name).write_text("other\n")
        else:
            shutil.rmtree(repo / f"in {name[:90]}")
            (repo / f"new {name[:90]}").write_text("new\n")
    restore(taken, tree_before, taken.take())
    assert disk(repo) == before


def nested(git: Git, place: Path) -> str:
    """A repository of its own, with one commit."""
    git("init", "--quiet", str(place))
    (place / "inner.txt").write_text("inner\n")
    git("add", "--all", cwd=place)
    git("commit", "--quiet", "--message=inner", cwd=place)
    return git("rev-parse", "HEAD", cwd=place)


def test_nested_repositories_are_left_out_and_of_a_submodule_its_commit_is_held(
    repo: Path, git: Git
) -> None:
    inner = nested(git, repo / "sub")
    nested(git, repo / "nested")
    git("update-index", "--add", "--cacheinfo", f"160000,{inner},sub")
    git("commit", "--quiet", "--message=submodule")
    taken = snapshots(repo)
    before = taken.take()
    assert {path: entry for path, entry in tree(repo, before).items() if b"." not in path} == {
        b"sub": ("160000", b"")
    }
    assert taken.repo.entries(before)["sub"] == Entry("160000", inner)
    write(repo, sub__inner_txt="changed\n", nested__new_txt="new\n", a_txt="changed\n")
    after = taken.take()
    assert taken.repo.changed(before, after).keys() == {"a.txt"}
    restore(taken, before, after)
    assert (repo / "sub" / "inner.txt").read_text() == "changed\n"
    assert (repo / "nested" / "new.txt").read_text() == "new\n"
    assert taken.repo.entries(index.tree(taken.repo))["sub"] == Entry("160000", inner)


@pytest.mark.parametrize("packed", [False, True])
def test_a_submodule_that_moved_is_a_change_as_git_sees_it(
    repo: Path, git: Git, *, packed: bool
) -> None:
    inner = nested(git, repo / "sub")
    git("update-index", "--add", "--cacheinfo", f"160000,{inner},sub")
    git("commit", "--quiet", "--message=submodule")
    taken = snapshots(repo)
    before = taken.take()
    git("commit", "--quiet", "--allow-empty", "--message=more", cwd=repo / "sub")
    if packed:
        git("pack-refs", "--all", cwd=repo / "sub")
    new = git("rev-parse", "HEAD", cwd=repo / "sub")
    assert taken.repo.changed(before, taken.take(before)) == {
        "sub": (Entry("160000", inner), Entry("160000", new))
    }
    shutil.rmtree(repo / "sub")
    assert taken.repo.changed(before, taken.take(before))["sub"][1] is None
    (repo / "sub").mkdir()  # as where it was never checked out: git sees no change either
    assert git("status", "--porcelain") == ""
    assert taken.take(before) == before


def test_sparse_checkout_does_not_read_as_deletion(repo: Path, git: Git) -> None:
    write(repo, here__x_txt="x\n", away__y_txt="y\n")
    commit_all(git)
    git("sparse-checkout", "set", "--cone", "here")
    assert not (repo / "away").exists()
    taken = snapshots(repo)
    before = taken.take()
    assert tree(repo, before) == own(tree(repo, "HEAD"))
    write(repo, here__x_txt="changed\n", away__y_txt="written all the same\n")
    (repo / "a.txt").unlink()
    after = taken.take()
    assert taken.repo.changed(before, after).keys() == {"here/x.txt", "away/y.txt", "a.txt"}
    restore(taken, before, after)
    assert git("status", "--porcelain") == ""


def test_index_bits_do_not_hide_what_is_on_the_disk(repo: Path, git: Git) -> None:
    write(repo, intended_txt="intended\n", assumed_txt="1\n", skipped_txt="1\n", staged_txt="1\n")
    git("add", "assumed.txt", "skipped.txt", "staged.txt")
    git("commit", "--quiet", "--message=more")
    git("add", "--intent-to-add", "intended.txt")
    git("update-index", "--assume-unchanged", "assumed.txt")
    git("update-index", "--skip-worktree", "skipped.txt")
    write(repo, staged_txt="2\n")
    git("add", "staged.txt")
    write(repo, assumed_txt="2\n", skipped_txt="2\n", staged_txt="3\n")
    assert tree(repo, snapshots(repo).take()) == own(disk(repo))


def test_a_path_behind_a_linked_folder_is_not_read_through_the_link(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    write(repo, d__x_txt="tracked\n")
    commit_all(git)
    write(tmp_path, outside__x_txt="not the repository's\n")
    shutil.rmtree(repo / "d")
    (repo / "d").symlink_to(tmp_path / "outside")
    found = tree(repo, snapshots(repo).take())
    assert found[b"d"] == ("120000", os.fsencode(tmp_path / "outside"))
    assert b"d/x.txt" not in found


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named_with_its_remedy(repo: Path) -> None:
    (repo / "locked").write_text("x")
    (repo / "locked").chmod(0)
    with pytest.raises(KernError, match=r"cannot read .*locked") as raised:
        snapshots(repo).take()
    assert "chmod +r 'locked'" in raised.value.hint


def nothing() -> None:
    pass


def racing(
    root: Path, act: Callable[[], None] = nothing, then: Callable[[], None] = nothing
) -> Snapshots:
    """Something happens right before or after git hashes files of the working tree."""
    found = repository.open_at(root)
    write = found.store.hash

    def hashed(places: Iterable[str]) -> list[str]:
        act()
        made = write(places)
        then()
        return made

    vars(found.store)["hash"] = hashed
    return Snapshots(found)


def test_a_file_that_vanishes_meanwhile_is_simply_not_there(repo: Path) -> None:
    write(repo, gone_txt="gone\n", stays_txt="stays\n")
    found = tree(repo, racing(repo, lambda: (repo / "gone.txt").unlink(missing_ok=True)).take())
    assert found == own(disk(repo))
    assert b"stays.txt" in found


def test_a_tree_that_never_comes_to_rest_is_said(repo: Path) -> None:
    count = iter(range(100))

    def churn() -> None:
        for old in repo.glob("tmp*"):
            old.unlink()
        (repo / f"tmp{next(count)}").touch()

    churn()
    with pytest.raises(KernError, match="changes faster than it can be read"):
        racing(repo, churn).take()


# ---------------------------------------------------------------- ignored files


def test_ignored_files_are_left_out_by_every_kind_of_rule(repo: Path, git: Git) -> None:
    write(repo, _gitignore="*.log\nbuild/\n", deep__rules="*.tmp\n!keep.tmp\n")
    (repo / "_gitignore").rename(repo / ".gitignore")
    (repo / "deep" / "rules").rename(repo / "deep" / ".gitignore")
    (repo / "home-rules").write_text("*.home\n")
    git("config", "core.excludesFile", str(repo / "home-rules"))
    (repo / ".git" / "info" / "exclude").write_text("*.info\n")
    for name in ("a.log", "b.home", "c.info", "deep/d.tmp", "build/e", "deep/keep.tmp", "f.txt"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("x")
    git("add", "--force", "a.log")
    taken = snapshots(repo)
    before = taken.take()
    assert tree(repo, before).keys() >= {b"a.log", b"deep/keep.tmp", b"f.txt"}
    hidden = {b"b.home", b"c.info", b"deep/d.tmp", b"build/e"}
    assert not tree(repo, before).keys() & hidden
    assert taken.take(before) == before


@pytest.mark.parametrize("where", ["", "deep/"])
def test_an_agent_cannot_hide_its_files_by_new_rules(repo: Path, git: Git, where: str) -> None:
    write(repo, deep__x_txt="x\n", **{f"{where.replace('/', '__')}mine": "mine\n"})
    git("add", "deep/x.txt")
    git("commit", "--quiet", "--message=more")
    taken = snapshots(repo)
    before = taken.take()
    (repo / where / ".gitignore").write_text("*\n")
    (repo / where / "mine").write_text("changed\n")
    (repo / where / "trash").write_text("agent's\n")
    names = {f"{where}{name}" for name in (".gitignore", "mine", "trash")}
    after = taken.take(before)
    assert taken.repo.changed(before, after).keys() == names
    restore(taken, before, after)
    assert taken.take() == before


def test_an_agent_cannot_pull_ignored_files_in_by_dropping_a_rule(repo: Path, git: Git) -> None:
    write(repo, _gitignore="secret\ncache/\n", secret="s", cache__big="b")
    (repo / "_gitignore").rename(repo / ".gitignore")
    commit_all(git)
    taken = snapshots(repo)
    before = taken.take()
    (repo / ".gitignore").unlink()
    (repo / "secret").write_text("changed by the agent")
    after = taken.take(before)
    assert taken.repo.changed(before, after).keys() == {".gitignore"}
    restore(taken, before, after)
    assert (repo / "secret").read_text() == "changed by the agent"
    assert git("status", "--porcelain") == ""


def test_what_a_dropped_rule_uncovers_is_not_stored_first(repo: Path, git: Git) -> None:
    write(repo, _gitignore="cache/\n", cache__big="what git ignored")
    (repo / "_gitignore").rename(repo / ".gitignore")
    commit_all(git)
    taken = snapshots(repo)
    before = taken.take()
    (repo / ".gitignore").write_text("")
    taken.take(before)
    with pytest.raises(subprocess.CalledProcessError):
        git("cat-file", "-e", git("hash-object", "cache/big"))


ODD = [":!notes", ":(x", ":(top)magic", ":/", ":", "-z", "*", "\\", "#x", "!x"]


@pytest.mark.parametrize("name", ODD)
def test_no_file_name_switches_off_what_is_ignored(repo: Path, git: Git, name: str) -> None:
    write(repo, _gitignore="*.log\n", secret="s")
    (repo / "_gitignore").rename(repo / ".gitignore")
    (repo / ".git" / "info" / "exclude").write_text("secret\n")
    commit_all(git)
    taken = snapshots(repo)
    before = taken.take()
    (repo / ".gitignore").write_text("*.tmp\n")
    if name.strip("/") != ":":
        (repo / name).write_text("mine\n")
    assert b"secret" not in tree(repo, taken.take(before))
    asked = [name, f"{name}/x.log", f"{name}.log", "secret"]
    assert taken.ignored_by(before, asked) == {*asked[1:]}


def test_where_git_cannot_say_what_it_ignores_nothing_goes_on(repo: Path, git: Git) -> None:
    inner = nested(git, repo / "sub")
    git("update-index", "--add", "--cacheinfo", f"160000,{inner},sub")
    with pytest.raises(GitFailed, match="check-ignore"):
        ignore.ignored(snapshots(repo).repo, "a.txt", "sub/inner.txt")


# ---------------------------------------------------------------- the person's index and stash


def test_index_stash_and_status_stay_as_they_were(repo: Path, git: Git) -> None:
    write(repo, a_txt="stashed\n")
    git("stash")
    write(repo, own_txt="staged\n", new_txt="staged\n")
    git("add", "own.txt", "new.txt")
    write(repo, own_txt="edited on top\n", loose_txt="untracked\n")
    staged = (repo / ".git" / "index").read_bytes()
    shown = git("status", "--porcelain"), git("stash", "list"), git("stash", "show", "-p")
    taken = snapshots(repo)
    before = taken.take()
    write(repo, a_txt="agent's\n", more_txt="agent's\n")
    (repo / "own.txt").unlink()
    restore(taken, before, taken.take(before))
    index.tree(taken.repo)
    assert (repo / ".git" / "index").read_bytes() == staged
    assert shown == (git("status", "--porcelain"), git("stash", "list"), git("stash", "show", "-p"))
    assert not list((repo / ".git" / "kern" / "scratch").iterdir())


def test_a_split_index_is_read_and_left_alone(repo: Path, git: Git) -> None:
    git("update-index", "--split-index")
    write(repo, own_txt="staged\n")
    git("add", "own.txt")
    write(repo, loose_txt="untracked\n")
    parts = [repo / ".git" / "index", *sorted((repo / ".git").glob("sharedindex.*"))]
    assert len(parts) > 1
    before = [part.read_bytes() for part in parts]
    taken = snapshots(repo)
    assert tree(repo, taken.take()) == own(disk(repo))
    assert tree(repo, index.tree(taken.repo))[b"own.txt"] == ("100644", b"staged\n")
    assert [part.read_bytes() for part in parts] == before
    assert git("status", "--porcelain") == "M  own.txt\n?? loose.txt"


# ---------------------------------------------------------------- putting back


def into_a_folder(root: Path) -> None:
    (root / "file").unlink()
    write(root, file__now__a_folder="x")


def into_a_file(root: Path) -> None:
    shutil.rmtree(root / "folder")
    (root / "folder").write_text("a file")


def into_links(root: Path) -> None:
    (root / "file").unlink()
    (root / "file").symlink_to("own.txt")
    shutil.rmtree(root / "folder")
    (root / "folder").symlink_to("../outside")


def out_of_links(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").write_text("a file")
    (root / "folder-link").unlink()
    write(root, folder_link__x="x")
    (root / "folder_link").rename(root / "folder-link")


def modes(root: Path) -> None:
    (root / "tool").chmod(0o644)
    (root / "file").chmod(0o755)


def everything_away(root: Path) -> None:
    for entry in root.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            if entry.name != ".git":
                shutil.rmtree(entry)
        elif entry.name != "SPEC.md":
            entry.unlink()


def deeper(root: Path) -> None:
    write(root, folder__new__deep__er_txt="x", other__a__b="y")
    (root / "folder" / "x").rename(root / "folder" / "renamed")


def through_a_hard_link(root: Path) -> None:
    os.link(root / "file", root / "second name")
    (root / "file").write_text("changed under both names")


@pytest.mark.parametrize(
    "mess",
    [
        into_a_folder,
        into_a_file,
        into_links,
        out_of_links,
        modes,
        everything_away,
        deeper,
        through_a_hard_link,
    ],
)
@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
def test_put_back_restores_every_byte_mode_and_link(
    repo: Path, git: Git, tmp_path: Path, mess: Callable[[Path], None], *, tracked: bool
) -> None:
    write(tmp_path, outside__x="outside\n", outside__sub__y="outside\n")
    write(repo, file="file\n", folder__x="x\n", folder__sub__y="y\n", tool="#!/bin/sh\n")
    (repo / "tool").chmod(0o755)
    (repo / "link").symlink_to("file")
    (repo / "folder-link").symlink_to("folder")
    if tracked:
        commit_all(git)
    before = disk(repo)
    taken = snapshots(repo)
    start = taken.take()
    mess(repo)
    after = taken.take(start)
    assert after != start
    restore(taken, start, after)
    assert disk(repo) == before
    assert disk(tmp_path / "outside") == {
        b"x": ("100644", b"outside\n"),
        b"sub/y": ("100644", b"outside\n"),
    }
    assert taken.take() == start


def test_what_git_ignores_in_the_way_stops_put_back_before_it_writes_through_it(
    repo: Path, git: Git, tmp_path: Path
) -> None:
    write(repo, d__x_txt="tracked\n")
    commit_all(git)
    (repo / ".git" / "info" / "exclude").write_text("d\n")
    write(tmp_path, outside__x_txt="not the repository's\n")
    taken = snapshots(repo)
    before = taken.take()
    shutil.rmtree(repo / "d")
    (repo / "d").symlink_to(tmp_path / "outside")
    with pytest.raises(KernError, match=r"cannot restore d/x\.txt") as raised:
        restore(taken, before, taken.take(before))
    assert str(repo / "d") in raised.value.hint
    assert (tmp_path / "outside" / "x.txt").read_text() == "not the repository's\n"
    (repo / "d").unlink()
    restore(taken, before, taken.take(before))
    assert (repo / "d" / "x.txt").read_text() == "tracked\n"


def test_ignored_files_survive_when_the_files_beside_them_are_put_back(
    repo: Path, git: Git
) -> None:
    (repo / ".git" / "info" / "exclude").write_text("*.o\n")
    taken = snapshots(repo)
    before = taken.take()
    write(repo, made__x_txt="agent's\n")
    (repo / "made" / "x.o").write_text("built")
    (repo / "own.txt").unlink()
    (repo / "own.txt").mkdir()
    (repo / "own.txt" / "y.o").write_text("built")
    with pytest.raises(KernError, match=r"cannot restore own\.txt"):
        restore(taken, before, taken.take(before))
    assert (repo / "made" / "x.o").exists()
    assert (repo / "own.txt" / "y.o").exists()
    shutil.rmtree(repo / "own.txt")
    restore(taken, before, taken.take(before))
    assert not (repo / "made" / "x.txt").exists()


def test_a_file_put_back_has_the_mode_of_the_umask(repo: Path) -> None:
    taken = snapshots(repo)
    before = taken.take()
    write(repo, a_txt="changed\n")
    old = os.umask(0o027)
    try:
        restore(taken, before, taken.take())
    finally:
        os.umask(old)
    assert stat.S_IMODE((repo / "a.txt").stat().st_mode) == 0o640


# ---------------------------------------------------------------- filters


def filtered(git: Git, root: Path, case: str) -> None:
    """A repository whose files git stores in another form than the disk's."""
    match case:
        case "autocrlf":
            git("config", "core.autocrlf", "true")
        case "eol":
            (root / ".gitattributes").write_text("*.txt text eol=crlf\n")
        case "auto":
            (root / ".gitattributes").write_text("* text=auto\n")
        case "filter" | "lfs":
            name = "shout" if case == "filter" else case
            (root / ".gitattributes").write_text(f"*.txt filter={name}\n")
            git("config", f"filter.{name}.clean", "tr a-z A-Z")
            git("config", f"filter.{name}.smudge", "tr A-Z a-z")
        case "ident":
            (root / ".gitattributes").write_text("*.txt ident\n")
        case "encoding":
            (root / ".gitattributes").write_text("[fn]*.txt working-tree-encoding=UTF-16LE\n")


LINES = {
    "autocrlf": b"one\r\ntwo\r\n",
    "eol": b"one\r\ntwo\r\n",
    "auto": b"one\r\ntwo\r\n",
    "filter": b"one\ntwo\n",
    "lfs": b"one\ntwo\n",
    "ident": b"one\n$Id: 1234 $\n",
    "encoding": "one\ntwo\n".encode("utf-16-le"),
}
MORE = {
    **dict.fromkeys(LINES, b"three\r\n"),
    "filter": b"three\n",
    "lfs": b"three\n",
    "ident": b"three\n",
    "encoding": "three\n".encode("utf-16-le"),
}


def stored(root: Path, name: str) -> bytes:
    """What `git add` makes of the file, asked in a clone of the index."""
    env = {**os.environ, "GIT_INDEX_FILE": str(root.parent / "oracle")}
    shutil.copy(root / ".git" / "index", env["GIT_INDEX_FILE"])
    subprocess.run(["git", "add", name], cwd=root, env=env, check=True, capture_output=True)
    asked = ["git", "cat-file", "blob", f":{name}"]
    return subprocess.run(asked, cwd=root, env=env, check=True, capture_output=True).stdout


def cleaned(taken: Snapshots, change: Mapping[str, Change], name: str) -> bytes:
    entry = filters.cleaned(taken.repo, change)[name][1]
    assert entry is not None
    return taken.repo.git("cat-file", "blob", entry.blob)


@pytest.mark.slow
@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("odd", [False, True], ids=["converted", "committed-as-is"])
def test_filters_touch_the_commit_and_never_the_disk(
    repo: Path, git: Git, case: str, *, odd: bool
) -> None:
    """`odd`: the file was committed before git was told to convert it, so HEAD holds other bytes
    than git would make of it now.
    """
    if not odd:
        filtered(git, repo, case)
    (repo / "f.txt").write_bytes(LINES[case])
    commit_all(git)
    if odd:
        filtered(git, repo, case)
    before = disk(repo)
    taken = snapshots(repo)
    start = taken.take()
    assert tree(repo, start)[b"f.txt"] == ("100644", LINES[case])
    (repo / "f.txt").write_bytes(LINES[case] + MORE[case])
    (repo / "new.txt").write_bytes(MORE[case])
    after = taken.take(start)
    change = taken.repo.changed(start, after)
    for name in ("f.txt", "new.txt"):
        assert cleaned(taken, change, name) == stored(repo, name)
    restore(taken, start, after)
    assert disk(repo) == before


@pytest.mark.parametrize("case", LINES)
def test_the_tree_to_commit_is_what_git_would_have_added(repo: Path, git: Git, case: str) -> None:
    filtered(git, repo, case)
    (repo / "f.txt").write_bytes(LINES[case])
    commit_all(git)
    taken = snapshots(repo)
    start = taken.take()
    (repo / "f.txt").write_bytes(LINES[case] + MORE[case])
    after = taken.take(start)
    merged, conflicts = Witness(taken.repo, taken, NOWHERE).expected(
        start, after, git("rev-parse", "HEAD")
    )
    assert conflicts == []
    git("add", "f.txt")
    assert merged == git("write-tree")


@pytest.mark.slow
def test_many_files_are_cleaned_by_few_processes_as_git_would_whatever_their_names(
    repo: Path, git: Git, trace: Path
) -> None:
    git("config", "core.safecrlf", "false")
    names = [f"d{n % 4}/{n}.txt" for n in range(40)]
    names += ["d1/as is.bin", 'd2/q"uote\n.txt', "d2/back\\slash.txt", "d3/\udcff.txt", "-dash.txt"]
    (repo / ".gitattributes").write_text("* text=auto\nd2/* ident\n")
    (repo / "d1").mkdir()
    (repo / "d1" / ".gitattributes").write_text("*.bin -text\n")
    for name in names:
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_bytes(b"one\r\n$Id$\r\n" if name != "d0/0.txt" else b"no\n")
    (repo / "d3" / "dos.txt").write_bytes(b"one\r\n")
    dos = git("hash-object", "-w", "--no-filters", "d3/dos.txt")
    git("add", "--all")
    git("update-index", "--add", "--cacheinfo", f"100644,{dos},d3/dos.txt")
    git("commit", "--quiet", "--message=many")
    taken = snapshots(repo)
    start = taken.take()
    for name in [*names, "d3/dos.txt"]:
        (repo / name).write_bytes(b"two\r\n$Id: 12 $\r\n")
    (repo / "d1" / ".gitattributes").write_bytes(b"*.bin -text\r\n*.none -text\r\n")
    change = taken.repo.changed(start, taken.take(start))
    assert len(change) == len(names) + 2
    trace.unlink()
    clean = filters.cleaned(taken.repo, change)
    assert 5 < git_processes(trace) < 30
    git("add", "--all")
    want = taken.repo.entries(git("write-tree"))
    assert {path: new for path, (_, new) in clean.items()} == {path: want[path] for path in change}
    head = taken.repo.entries("HEAD")
    assert {path: old for path, (old, _) in clean.items()} == {path: head[path] for path in change}


@pytest.mark.slow
def test_many_rule_files_are_read_by_one_process(repo: Path, git: Git, trace: Path) -> None:
    for n in range(30):
        (repo / f"p{n}").mkdir()
        (repo / f"p{n}" / ".gitignore").write_text(f"{n}\n")
    commit_all(git)
    (repo / ".venv").mkdir()
    (repo / ".venv" / ".gitignore").write_text("*\n")
    taken = snapshots(repo)
    trace.unlink()
    taken.take()
    assert 5 < git_processes(trace) < 20


def test_where_git_does_not_trust_the_disk_s_modes_neither_does_the_commit(
    repo: Path, git: Git
) -> None:
    """As on a mounted Windows disk, where every file looks executable."""
    (repo / "tool").write_text("#!/bin/sh\n")
    (repo / "tool").chmod(0o755)
    commit_all(git)
    git("config", "core.fileMode", "false")
    for name in ("a.txt", "own.txt", "tool"):
        (repo / name).chmod(0o777)
    taken = snapshots(repo)
    start = taken.take()
    for name in ("a.txt", "tool", "new.txt"):
        (repo / name).write_text("changed\n")
        (repo / name).chmod(0o777)
    merged, conflicts = Witness(taken.repo, taken, NOWHERE).expected(
        start, taken.take(start), git("rev-parse", "HEAD")
    )
    assert conflicts == []
    git("add", "a.txt", "tool", "new.txt")
    assert merged == git("write-tree")


def test_a_task_in_a_filtered_repository_ends_in_a_clean_status(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    filtered(git, repo, "filter")
    (repo / "f.txt").write_bytes(LINES["filter"])
    commit_all(git)
    step = {"run": ["printf 'three\\n' >> f.txt"], "result": "done\n\nSUCCESS"}
    fake.script(implement=[{**step, "run": ["echo bad > f.txt"], "result": "FAILED: no"}, step])
    ran = inline()
    assert ran.code == 0, ran.err
    assert git("show", "HEAD:f.txt") == "ONE\nTWO\nTHREE"
    assert (repo / "f.txt").read_bytes() == b"one\ntwo\nthree\n"
    assert git("status", "--porcelain") == ""


FORGED = ("config", "info/attributes", "info/exclude", "HEAD", "index", "commondir")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED)
def test_an_agent_cannot_say_what_kern_sees_of_the_disk(repo: Path, git: Git, name: str) -> None:
    """Nor by the times that git knows of files: an index tells them, with any content."""
    a_second_later(repo / "a.txt")
    taken = snapshots(repo)
    start = taken.take()
    place = repo / ".git" / "kern" / "mirror" / name
    known = (repo / "a.txt").stat()
    (repo / "a.txt").write_text("x" * known.st_size)
    (repo / "new.txt").write_text("new\n")
    git("add", "a.txt")
    had = place.read_bytes() if place.exists() else b""
    place.unlink(missing_ok=True)
    place.write_bytes(had + b"\n*\n")
    found = tree(repo, taken.take(start))
    assert found[b"a.txt"][1] == b"x" * known.st_size
    assert b"new.txt" in found


def a_second_later(place: Path) -> None:
    """From then on git trusts the time of the file."""
    while time.time() < place.stat().st_ctime // 1 + 1.1:
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("left", ["committed", "staged", "on-the-disk"])
@pytest.mark.parametrize("case", LINES)
def test_what_earlier_attributes_converted_comes_back_as_it_lay_there(
    repo: Path, git: Git, case: str, left: str
) -> None:
    """git takes such a file for unchanged: it looks at size and time, which are the disk's."""
    filtered(git, repo, case)
    (repo / "f.txt").write_bytes(LINES[case])
    a_second_later(repo / "f.txt")
    commit_all(git)
    git("config", "core.autocrlf", "false")
    if (repo / ".gitattributes").exists():
        (repo / ".gitattributes").unlink()
    if left != "on-the-disk":
        git("add", "--all")
    if left == "committed":
        git("commit", "--allow-empty", "--quiet", "--message=no attributes")
    git("status")
    before = disk(repo)
    taken = snapshots(repo)
    start = taken.take()
    assert tree(repo, start)[b"f.txt"] == ("100644", LINES[case])
    (repo / "f.txt").write_bytes(b"an agent's\n")
    restore(taken, start, taken.take(start))
    assert disk(repo) == before


@pytest.mark.slow
def test_a_new_file_that_attributes_of_head_alone_convert_is_stored_as_it_lies_there(
    repo: Path, git: Git
) -> None:
    git("config", "filter.up.clean", "tr a-z A-Z")
    (repo / ".gitattributes").write_text("*.up filter=up\n")
    commit_all(git)
    (repo / "new.up").write_text("abc\n")
    git("add", "new.up")
    time.sleep(3)  # before that kern trusts no time
    git("update-index", "--refresh")
    (repo / ".gitattributes").write_text("")
    assert tree(repo, snapshots(repo).take())[b"new.up"] == ("100644", b"abc\n")


def test_a_failed_attempt_brings_back_line_ends_that_no_attribute_asks_for_any_more(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    filtered(git, repo, "eol")
    (repo / "f.txt").write_bytes(LINES["eol"])
    commit_all(git)
    (repo / "f.txt").unlink()
    git("checkout", "f.txt")
    a_second_later(repo / "f.txt")
    write(repo, new_txt="more\r\n")
    commit_all(git)
    (repo / ".gitattributes").unlink()
    commit_all(git)
    fake.script(implement=[{"run": ["echo bad > f.txt"], "result": "FAILED: no"}] * 3)
    inline()
    assert (repo / "f.txt").read_bytes() == LINES["eol"]


@pytest.mark.slow
def test_a_large_file_is_never_in_memory_as_a_whole(repo: Path, git: Git) -> None:
    (repo / "large").write_bytes(os.urandom(1 << 20) * 40)
    whole = hashlib.sha256((repo / "large").read_bytes()).digest()
    taken = snapshots(repo)
    before = taken.take()
    (repo / "large").unlink()
    after = taken.take(before)
    tracemalloc.start()
    try:
        restore(taken, before, after)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    assert hashlib.sha256((repo / "large").read_bytes()).digest() == whole


def test_a_lacking_object_is_named(repo: Path) -> None:
    taken = snapshots(repo)
    lacking = Entry("100644", "1" * 40)
    with pytest.raises(KernError, match="git lacks an object: 1111"):
        taken.put_back({"new.txt": lacking})
    assert not (repo / "new.txt").exists()


@pytest.fixture
def other_disk() -> Iterator[Path]:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == Path("/tmp").stat().st_dev:
        pytest.skip("no other disk is known here")
    folder = Path(tempfile.mkdtemp(dir=shared))
    yield folder
    shutil.rmtree(folder)


def test_the_git_directory_may_lie_on_another_disk(repo: Path, git: Git, other_disk: Path) -> None:
    for name in ("link", "other"):
        (repo / name).symlink_to("a.txt")
    shutil.move(repo / ".git", other_disk / "git")
    (repo / ".git").write_text(f"gitdir: {other_disk / 'git'}\n")
    commit_all(git)
    before = disk(repo)
    taken = snapshots(repo)
    start = taken.take()
    (repo / "link").unlink()
    (repo / "link").write_text("a file now")
    (repo / "a.txt").unlink()
    (repo / "a.txt").symlink_to("own.txt")
    (repo / "other").unlink()
    os.mkfifo(repo / "other")
    restore(taken, start, taken.take(start))
    assert disk(repo) == before


# ---------------------------------------------------------------- cost and time stamps


@pytest.mark.slow
def test_a_change_within_one_tick_of_the_clock_is_seen(repo: Path) -> None:
    """Written again right after it was read, often with the time stamp that it had."""
    file = repo / "a.txt"
    for _ in range(10):
        taken = racing(repo, then=lambda: void(file.write_text("two\n")))
        file.write_text("one\n")
        taken.take()
        assert tree(repo, taken.take())[b"a.txt"][1] == b"two\n"


def test_what_was_seen_a_moment_ago_counts_until_something_ran_or_was_put_back(
    repo: Path, trace: Path
) -> None:
    taken = snapshots(repo)
    seen = taken.take()
    git_processes(trace)
    assert taken.latest() == seen
    assert git_processes(trace) == 0
    (repo / "a.txt").write_text("a child's\n")
    env, mark = dict(os.environ), ("KERN_TEST_MARK", str(repo))
    process.run(["true"], cwd=repo, env=env, stdin="", stdout=repo.parent / "out", mark=mark)
    after = taken.latest()
    assert after != seen
    assert taken.latest(seen) == after, "by other rules it is another look"
    (repo / "b.txt").write_text("new\n")
    taken.put_back({"a.txt": None})
    assert taken.latest(seen) not in (after, seen)


def void(_: object) -> None:
    pass


def test_a_change_whose_time_was_set_back_is_seen(repo: Path) -> None:
    taken = snapshots(repo)
    seen = set()
    for number in range(10):
        (repo / "a.txt").write_text(f"{number:04}\n")
        os.utime(repo / "a.txt", ns=(10**18, 10**18))
        time.sleep(0.01)  # a tick
        seen.add(taken.take())
    assert len(seen) == 10


def git_processes(trace: Path) -> int:
    """How many git commands have run since the file was emptied."""
    count = trace.read_text().count('"event":"start"') if trace.exists() else 0
    trace.unlink(missing_ok=True)
    return count


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(tmp_path / "trace"))
    return tmp_path / "trace"


def many(root: Path, numbers: Iterable[int], text: str = "") -> None:
    for number in numbers:
        (root / f"d{number % 40}").mkdir(exist_ok=True)
        (root / f"d{number % 40}" / f"{number}.txt").write_text(text or f"{number}\n")


@pytest.mark.slow
def test_a_second_snapshot_of_a_large_tree_is_cheap(repo: Path, git: Git, trace: Path) -> None:
    (repo / ".gitignore").write_text("*.log\n")
    many(repo, range(2000))
    commit_all(git)
    time.sleep(2.1)  # what changed a moment ago is looked at more than once
    taken = snapshots(repo)
    git_processes(trace)
    first = taken.take()
    assert git_processes(trace) <= 11
    many(repo, range(2000, 2005), "changed\n")
    second = taken.take(first)
    assert git_processes(trace) <= 2
    assert taken.take(first) == second
    assert git_processes(trace) <= 1


def test_a_snapshot_reads_only_what_changed(repo: Path, git: Git) -> None:
    many(repo, range(50))
    commit_all(git)
    for file in repo.rglob("*.txt"):
        os.utime(file, ns=(10**18, 10**18))
    asked: list[list[str]] = []
    found = repository.open_at(repo)
    write = found.store.hash

    def counted(places: Iterable[str]) -> list[str]:
        asked.append([*places])
        return write(asked[-1])

    vars(found.store)["hash"] = counted
    taken = Snapshots(found)
    taken.take()
    assert asked == []  # git knows them all
    changed = repo / "d3" / "3.txt"
    changed.write_text("changed\n")
    soon = time.time_ns() + 10**12  # too young to be sure of: read each time
    os.utime(changed, ns=(soon, soon))
    for _ in range(2):
        taken.take()
        assert asked.pop() == ["./d3/3.txt"]


@pytest.mark.slow
def test_links_do_not_cost_a_process_each(repo: Path, trace: Path) -> None:
    for number in range(60):
        (repo / f"link{number}").symlink_to(f"target{number}")
    taken = snapshots(repo)
    git_processes(trace)
    found = taken.take()
    assert git_processes(trace) < 20
    assert tree(repo, found)[b"link7"] == ("120000", b"target7")


@pytest.mark.slow
def test_putting_many_files_back_does_not_cost_a_process_each(
    repo: Path, git: Git, trace: Path
) -> None:
    many(repo, range(200))
    commit_all(git)
    taken = snapshots(repo)
    before = taken.take()
    many(repo, range(200), "formatted\n")
    after = taken.take(before)
    git_processes(trace)
    restore(taken, before, after)
    assert git_processes(trace) <= 6
    assert git("status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.parametrize("known", ["at-first", "looked-at-again"])
def test_a_change_within_one_second_with_the_time_put_back_is_seen(
    repo: Path, git: Git, known: str
) -> None:
    """git compares whole seconds, and what changed a moment ago has the same one."""
    place = repo / "f.txt"
    place.write_text("mine")
    commit_all(git)
    os.utime(place, (1e9, 1e9))
    if known == "looked-at-again":
        time.sleep(2.2)
    git("status")
    taken = snapshots(repo)
    if known == "looked-at-again":
        taken.take()
    while time.time() % 1 > 0.2:
        time.sleep(0.01)
    place.chmod(0o600)
    place.chmod(0o644)
    if known == "at-first":
        git("status")
    before = taken.take()
    place.write_text("evil")
    os.utime(place, (1e9, 1e9))
    after = taken.take()
    assert tree(repo, after)[b"f.txt"] == ("100644", b"evil")
    assert tree(repo, before)[b"f.txt"] == ("100644", b"mine")
