"""The index: only what changed is written anew, and one that cannot be used is worked around."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kern.memory.chunks import Chunk, Source
from kern.memory.index import FILE, Index, using


def source(path: str, *texts: str, kind: str = "file") -> Source:
    def pieces() -> Iterator[Chunk]:
        for line, text in enumerate(texts, 1):
            yield Chunk(path, kind, f"heading {line}", text, line, line, f"L{line}")

    return Source(path, "\n".join((kind, *texts)).encode("utf-8", "surrogateescape"), pieces)


def hits(base: Index, word: str, *kinds: str) -> list[str]:
    return [base.chunk(id).text for id, _ in base.matches([word], kinds, 10)]


def filled(base: Index) -> list[str]:
    base.refresh([source("a.md", "one apple", "two pears")], all_of_them=True)
    return hits(base, "pear")


def test_words_are_found_by_their_stems_and_nothing_else_is() -> None:
    def look(base: Index) -> None:
        base.refresh([source("a", "retrying uploads", "nothing")], all_of_them=True)
        assert hits(base, "retry") == hits(base, "upload") == ["retrying uploads"]
        assert hits(base, "download") == [] == base.matches([], (), 10)

    using(None, look)


def test_only_chunks_of_new_words_are_written_anew() -> None:
    def look(base: Index) -> None:
        assert base.refresh([source("a", "one", "two", "three")], all_of_them=True)
        before = {base.chunk(id).text: id for id in base.ids()}
        assert not base.refresh([source("a", "one", "two", "three")], all_of_them=True)
        assert base.refresh([source("a", "new", "two", "three", "four")], all_of_them=True)
        after = {base.chunk(id).text: id for id in base.ids()}
        assert after.keys() == {"new", "two", "three", "four"}
        assert (after["two"], after["three"]) == (before["two"], before["three"])
        assert not {after["new"], after["four"]} & {*before.values()}
        assert base.chunk(after["four"]).place == "a:4"

    using(None, look)


def test_no_id_is_given_twice_since_vectors_go_by_them() -> None:
    def look(base: Index) -> None:
        base.refresh([source("a", "one", "two")], all_of_them=True)
        old = base.extent()
        base.refresh([source("a", "one")], all_of_them=True)
        base.refresh([source("a", "one", "three")], all_of_them=True)
        assert base.extent() == (old[0], old[1] + 1)

    using(None, look)


def test_what_is_gone_goes_unless_only_a_part_was_named() -> None:
    def look(base: Index) -> None:
        base.refresh([source("a", "apple"), source("b", "pear")], all_of_them=True)
        base.refresh([source("a", "apple")], all_of_them=False)
        assert hits(base, "pear")
        base.refresh([source("a", "apple")], all_of_them=True)
        assert not hits(base, "pear") and hits(base, "apple")

    using(None, look)


def test_kinds_bound_what_is_found_and_neighbours_are_of_the_same_text() -> None:
    def look(base: Index) -> None:
        parts = [source("a", "x 1", "x 2", "x 3"), source("b", "x 4", kind="spec")]
        base.refresh(parts, all_of_them=True)
        assert hits(base, "x", "spec") == ["x 4"]
        assert len(hits(base, "x", "spec", "file")) == 4
        two = next(id for id in base.ids() if base.chunk(id).text == "x 2")
        assert [one.text if one else "" for one in base.neighbours(two)] == ["x 1", "x 3"]
        assert base.neighbours(base.ids()[-1]) == (None, None)

    using(None, look)


def test_bytes_that_are_no_text_are_searched_as_far_as_they_go() -> None:
    def look(base: Index) -> None:
        base.refresh([source("a\udcff", "apple \udcff\0 pear")], all_of_them=True)
        assert hits(base, "pear") == ["apple ?  pear"]

    using(None, look)


def test_it_lies_on_the_disk_and_is_not_read_by_others(tmp_path: Path) -> None:
    assert using(tmp_path / "kern", filled) == (["two pears"], "")
    place = tmp_path / "kern" / FILE
    assert place.stat().st_mode & 0o777 == 0o600
    assert using(tmp_path / "kern", lambda base: hits(base, "apple")) == (["one apple"], "")


def test_without_a_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert using(None, filled) == (["two pears"], "")
    assert not any((tmp_path / "here").iterdir())


@pytest.mark.parametrize("harm", ["junk", "torn", "foreign", "other version", "page"])
def test_a_damaged_one_is_made_again(tmp_path: Path, harm: str) -> None:
    using(tmp_path, filled)
    place = tmp_path / FILE
    data = place.read_bytes()
    if harm == "junk":
        place.write_bytes(os.urandom(40_000))
    elif harm == "torn":
        place.write_bytes(data[: len(data) // 2])
    elif harm == "page":
        place.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    else:
        place.unlink()
        with sqlite3.connect(place) as other:
            other.execute("CREATE TABLE x (y)")
            other.execute(f"PRAGMA user_version = {99 if harm == 'other version' else 0}")
        other.close()
    found, remark = using(tmp_path, filled)
    assert found == ["two pears"]
    assert remark == f"{place} was damaged, and was made again"
    assert using(tmp_path, filled) == (["two pears"], "")


@pytest.mark.parametrize(
    "harm", ["DELETE FROM chunk", "UPDATE chunk SET path = NULL", "UPDATE chunk SET first = x'00'"]
)
def test_one_that_holds_nonsense_is_made_again_too(tmp_path: Path, harm: str) -> None:
    using(tmp_path, filled)
    with sqlite3.connect(tmp_path / FILE) as base:
        base.execute("PRAGMA writable_schema = ON")
        base.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
        base.execute("PRAGMA writable_schema = RESET")
        base.execute(harm)
    base.close()

    def sound(base: Index) -> list[str]:
        base.refresh([source("a.md", "one apple", "two pears")], all_of_them=True)
        return [
            f"{base.chunk(id).first + 0} {base.chunk(id).path + ''}"
            for id, _ in base.matches(["pear"], (), 9)
        ]

    assert using(tmp_path, sound)[0] == ["2 a.md"]


def test_an_empty_file_and_a_link_are_no_index(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    assert using(tmp_path, filled) == (["two pears"], "")
    other = tmp_path / "theirs"
    shutil.move(tmp_path / FILE, other)
    before = other.read_bytes()
    (tmp_path / FILE).symlink_to(other)
    assert using(tmp_path, lambda base: base.refresh([], all_of_them=True))[1] == ""
    assert other.read_bytes() == before and not (tmp_path / FILE).is_symlink()


def test_a_locked_one_is_not_waited_for(tmp_path: Path) -> None:
    using(tmp_path, filled)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    found, remark = using(tmp_path, filled)
    other.execute("ROLLBACK")
    other.close()
    assert found == ["two pears"]
    assert remark.endswith("cannot be used (database is locked): searched without it")


def test_where_nothing_can_be_written_it_is_made_in_memory(tmp_path: Path) -> None:
    (tmp_path / "kern").write_text("a file where the folder should be")
    found, remark = using(tmp_path / "kern", filled)
    assert found == ["two pears"]
    assert "cannot be used" in remark


def test_a_read_only_one_is_still_of_use(tmp_path: Path) -> None:
    """Where nothing changed it is read; else it is made anew in memory."""
    using(tmp_path, filled)
    code = """
import sys
from pathlib import Path
from tests.memory.test_search_index import filled, hits, source, using

print(using(Path(sys.argv[1]), filled))
print(using(Path(sys.argv[1]), lambda b: b.refresh([source("b", "c")], all_of_them=True)))
"""
    bind = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    argv = ["unshare", "-m", "sh", "-c", f'{bind} && exec "$0" -c "$1" "$2"']
    done = subprocess.run(
        [*argv, sys.executable, code, str(tmp_path)], capture_output=True, text=True
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this machine mounts nothing")
    same, other = done.stdout.splitlines()
    assert same == "(['two pears'], '')"
    assert "readonly database): searched without it" in other
