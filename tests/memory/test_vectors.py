"""Vectors with the extra: near in meaning without a word in common, and never from the network."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kern.memory import vectors
from kern.memory.chunks import Chunk, Source
from kern.memory.index import Index, using
from kern.memory.vectors import Model
from tests.bench.measuring import SOURCE

INSTALLED = importlib.util.find_spec("wordllama") is not None
TEXTS = (
    "The dog sleeps in its basket",
    "Passwords are hashed before they reach the database",
    "Bananas ripen faster beside apples",
)


def source(*texts: str) -> Source:
    def pieces() -> Iterator[Chunk]:
        for line, text in enumerate(texts, 1):
            yield Chunk("a.md", "file", "", text, line, line)

    return Source("a.md", "\n".join(texts).encode(), pieces)


@pytest.fixture(scope="module")
def model() -> Model:
    if not INSTALLED:
        pytest.skip("needs kern[semantic]")
    found = vectors.load()
    assert found is not None
    return found


def nearest(base: Index, model: Model, query: str) -> str:
    return base.chunk(next(iter(model.nearest(base, query, (), 1)))).text


def test_meaning_is_found_without_a_word_in_common(model: Model) -> None:
    def look(base: Index) -> None:
        base.refresh([source(*TEXTS)], all_of_them=True)
        assert nearest(base, model, "puppy taking a nap") == TEXTS[0]
        assert nearest(base, model, "credential storage security") == TEXTS[1]
        assert nearest(base, model, "fruit") == TEXTS[2]
        near = model.nearest(base, "fruit", (), 1, also=base.ids())
        assert len(near) == 3 and all(0 <= one <= 1 for one in near.values())
        assert model.nearest(base, "fruit", ("spec",), 3) == {}

    using(None, look)


def test_each_chunk_is_embedded_once(model: Model) -> None:
    def look(base: Index) -> None:
        base.refresh([source(*TEXTS)], all_of_them=True)
        ids, rows = model.update(base)
        base.refresh([source("Cats purr", *TEXTS[1:])], all_of_them=True)
        # A row that is not what the model would say stays as it is: it is not made again.
        base.keep(model.name, ids.tobytes(), bytes(len(rows.tobytes())))
        after, made = model.update(base)
        assert after.tolist() == base.ids()
        assert [bool(row.any()) for row in made] == [False, False, True]
        base.keep(model.name, ids.tobytes(), b"torn" * 64)
        assert model.update(base)[1].any(axis=1).all()
        base.keep("another", b"", b"")
        assert base.vectors(model.name) == (b"", b"")

    using(None, look)


def test_vectors_that_are_none_are_made_again(model: Model, tmp_path: Path) -> None:
    def look(base: Index) -> str:
        base.refresh([source(*TEXTS)], all_of_them=True)
        return nearest(base, model, "fruit")

    using(tmp_path, look)
    for ids, data in ((b"x", b""), (b"", b"x" * 255), (b"x" * 24, b"y" * 768)):
        using(tmp_path, partial(Index.keep, model=model.name, ids=ids, data=data))
        assert using(tmp_path, look)[0] == TEXTS[2]


def test_a_text_without_words_is_near_to_nothing(model: Model) -> None:
    def look(base: Index) -> None:
        base.refresh([source(*TEXTS)], all_of_them=True)
        assert model.nearest(base, "", (), 3) == {}

    using(None, look)


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs kern[semantic]")
def test_its_loading_runs_no_code_that_could_download() -> None:
    code = """
import sys, socket
def refuse(*args): raise AssertionError("the network")
socket.socket.connect = socket.getaddrinfo = refuse
from kern.memory import vectors
model = vectors.load()
assert model.embed(["a text"]).shape == (1, 256)
assert not {"wordllama", "requests", "huggingface_hub", "urllib3", "httpx"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], cwd=SOURCE, check=True, timeout=60)


def test_without_the_package_or_with_a_part_of_it_there_is_no_model() -> None:
    code = """
import sys, pathlib, tempfile
from kern.memory import vectors
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "wordllama").mkdir()
(folder / "wordllama/__init__.py").touch()
sys.path.insert(0, str(folder))
assert vectors.load() is None
sys.path[:] = [one for one in sys.path if "site-packages" not in one][1:]
sys.path_importer_cache.clear()
assert vectors.load() is None
"""
    subprocess.run([sys.executable, "-c", code], cwd=SOURCE, check=True, timeout=60)
